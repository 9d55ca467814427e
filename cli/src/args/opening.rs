//! Opening input files: formats, limits and warnings.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::builder::PossibleValuesParser;
use tensorfile::file::{Backend, is_saved_to, shown_url};
use tensorfile::format::READ_FORMATS;
use tensorfile::model::{TensorRecord, TensorSink};
use tensorfile::report::WarningKind;
use tensorfile::{Dequantize, FORMATS, File, Format, LayoutMap, Limits, OpenOptions};
use tensorfile_datasets::{TAR, is_shard_at, splits};

use super::standard_input::{is_stdin, is_stream, open_stdin, open_stream};
use crate::exit::{At, Failure, Outcome};
use crate::output::{note, warnings};

/// The most bytes of memory for tensors; 0 for the limit of the library.
static MAX_MEMORY: AtomicU64 = AtomicU64::new(0);

/// Sets the maximum memory for the tensors of a file in bytes, for all files opened from now on.
pub fn set_max_memory(bytes: Option<u64>) {
    MAX_MEMORY.store(bytes.unwrap_or(0), Ordering::Relaxed);
}

/// The configuration of the model, if the command line names one.
static CONFIG: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the configuration of the model, for all files opened from now on.
pub fn set_config(path: Option<PathBuf>) {
    *CONFIG.lock().unwrap_or_else(PoisonError::into_inner) = path;
}

/// The quantized weights that are decoded.
static DEQUANTIZE: Mutex<Option<Dequantize>> = Mutex::new(None);

/// Sets the quantized weights that are decoded, for all files opened from now on.
pub(super) fn set_dequantize(dequantize: Option<Dequantize>) {
    *DEQUANTIZE.lock().unwrap_or_else(PoisonError::into_inner) = dequantize;
}

/// The map that gives files another layout.
static MAP: Mutex<Option<LayoutMap>> = Mutex::new(None);

/// Sets the map for all files opened from now on.
pub fn set_map(map: Option<LayoutMap>) {
    *MAP.lock().unwrap_or_else(PoisonError::into_inner) = map;
}

fn map() -> Option<LayoutMap> {
    MAP.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn dequantize() -> Option<Dequantize> {
    DEQUANTIZE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns the options for opening all files.
pub(super) fn options() -> OpenOptions {
    // A mapped file could change while the program runs, and its pages would count as memory of the program.
    let mut options = OpenOptions::new().backend(Backend::Positioned).limits(limits());
    if let Some(dequantize) = dequantize() {
        options = options.dequantize(dequantize);
    }
    if let Some(map) = map() {
        options = options.map(&map);
    }
    match &*CONFIG.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(path) => options.config(path),
        None => options,
    }
}

/// Returns the limits for all files.
pub fn limits() -> Limits {
    match MAX_MEMORY.load(Ordering::Relaxed) {
        0 => Limits::new(),
        bytes => Limits::new().memory(bytes).held(bytes),
    }
}

/// Where a command reports the warnings of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warnings {
    /// They are printed when the file is opened, unless their kind does not affect its tensors.
    StandardError,
    /// The command lists all of them among its results.
    Results,
}

/// Opens a file, the checkpoint in a directory, or standard input, and reads its index. Streams are held.
pub fn open(path: &Path, from: Option<&str>) -> Outcome<File> {
    open_for(path, from, Warnings::StandardError, None)
}

/// Opens a file as [`open`] does. The tensors of a stream are sent to `sink` instead of being held, unless the file
/// cannot be read in order.
pub fn open_in_order(path: &Path, from: Option<&str>, warnings: Warnings, sink: &mut dyn TensorSink) -> Outcome<File> {
    open_for(path, from, warnings, Some(sink))
}

/// A sink for reading only the index.
pub(super) struct PassOver;

impl TensorSink for PassOver {
    fn tensor(&mut self, _: &TensorRecord<'_>) -> tensorfile::Result<()> {
        Ok(())
    }
}

fn open_for(path: &Path, from: Option<&str>, warnings: Warnings, sink: Option<&mut dyn TensorSink>) -> Outcome<File> {
    // Codes that pass one by one cannot be decoded, and a map puts tensors together.
    let sink = sink.filter(|_| dequantize().is_none() && map().is_none());
    let mut options = options();
    if let Some(format) = from.and_then(Format::named) {
        options = options.format(format);
    }
    let file = match is_stdin(path) {
        _ if is_shard(path, from) => tensorfile_datasets::open(&location(path)?, &options, &limits()).at(path),
        true => open_stdin(&options, sink),
        false if is_stream(path) => open_stream(&mut fs::File::open(path).at(path)?, path, &options, sink),
        // For a directory, the path in the error is the path of a file in it.
        false => options.open(path).map_err(|error| {
            let index = error.path().unwrap_or(display_name(path)).to_owned();
            Failure::from_error(index.display(), &error)
        }),
    }?;
    note_sequential(path, &file);
    if warnings == Warnings::StandardError {
        let mut found = warnings::of_file(&file);
        // The command line states the format.
        found.retain(|warning| from.is_none() || warning.kind != WarningKind::Extension);
        let path = if is_stdin(path) { display_name(path) } else { file.path().unwrap_or(display_name(path)) };
        warnings::print(path, &found);
    }
    Ok(file)
}

/// Says that a file comes as a whole, unless it is so short that the first answer has all of it.
pub fn note_sequential(path: &Path, file: &File) {
    const SHORT: u64 = 64 << 10;

    if file.is_sequential() && file.file_bytes() > SHORT {
        let url = display_name(path).display();
        note(format_args!("{url}: the server has no ranges, so that the file is read as a stream, from its beginning"));
    }
}

/// Returns a path or a URL as text.
pub fn location(path: &Path) -> Outcome<String> {
    if is_stdin(path) {
        return Ok("-".to_owned());
    }
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage_at(path, "the path of a shard has to be UTF-8"))
}

/// Returns the path of the file to open in the directory of a checkpoint, or of the index of shards if there is no
/// single file; other paths unchanged.
pub fn file_at(path: &Path) -> Outcome<PathBuf> {
    let file = if shown_url(path).is_some() {
        // A copy in a cache is not the file.
        return Ok(path.to_owned());
    } else if path.is_dir() {
        open(path, None)?
    } else if path.exists() {
        return Ok(path.to_owned());
    } else if let Ok(file) = open(path, None) {
        file
    } else {
        // The caller reports a missing file.
        return Ok(path.to_owned());
    };
    Ok(file.path().unwrap_or(path).to_owned())
}

/// Returns a parser for the names of formats.
pub fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().chain(READ_FORMATS).map(|format| format.name).chain([SHARD]))
}

/// Returns a parser for the names of writable formats.
pub fn written_format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|format| format.name))
}

/// Returns a parser for the names of formats of files, and of folders.
pub fn written_kind_names() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|format| format.name).chain([DCP, HF_SHARDED]))
}

/// The formats of folders with a file for each process of a trainer: of `torch.distributed.checkpoint`, and as its
/// `HuggingFaceStorageWriter` writes them.
pub const DCP: &str = "dcp";
pub const HF_SHARDED: &str = "hf-sharded";

/// The format of WebDataset shards.
const SHARD: &str = TAR.spec().name;

/// Returns whether a path leads to a shard: a tar archive, compressed or not.
pub fn is_shard(path: &Path, from: Option<&str>) -> bool {
    if from.is_some() || shown_url(path).is_some() {
        return from == Some(SHARD) || from.is_none() && is_named_shard(path);
    }
    let mut begin = Vec::new();
    let read = |file: fs::File| file.take(512).read_to_end(&mut begin);
    let is_read = path.is_file() && fs::File::open(path).and_then(read).is_ok();
    is_read && is_shard_at(&path.to_string_lossy(), &begin)
}

/// Returns whether a path or a URL has the extension of a shard.
pub fn is_named_shard(path: &Path) -> bool {
    splits::is_shard(&path.to_string_lossy())
}

/// Returns the path as messages show it: a URL without its secrets.
pub fn display_name(path: &Path) -> &Path {
    /// The URLs of the command line. They are few, and stay for as long as the program runs.
    static SHOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

    if is_stdin(path) {
        return Path::new("standard input");
    }
    let Some(url) = shown_url(path) else { return path };
    let mut shown = SHOWN.lock().expect("no thread panics with it");
    if !shown.contains(&*url) {
        shown.insert(Box::leak(url.clone().into_boxed_str()));
    }
    Path::new(*shown.get(&*url).expect("it was just inserted"))
}

/// Fails if the path to write is a URL, unless it is an object in a store.
pub fn refuse_url(path: &Path) -> Outcome<()> {
    if shown_url(path).is_none() || is_saved_to(path) {
        return Ok(());
    }
    Err(Failure::usage_at(path, "cannot write to a URL; write a file, and upload it with the tools of its server"))
}
