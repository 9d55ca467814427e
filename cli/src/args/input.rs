//! Input files: arguments, directories, checkpoints and pipes, and running a command on each file.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use clap::builder::PossibleValuesParser;
use hashbrown::HashSet;
use serde::Serialize;
use tensorfile::file::{Backend, FolderFiles, is_saved_to, shown_url};
use tensorfile::model::{TensorRecord, TensorSink};
use tensorfile::report::WarningKind;
use tensorfile::view::forward;
use tensorfile::{ErrorKind, FORMATS, File, Format, Limits, OpenOptions};
use tensorfile_datasets::{TAR, is_shard_at, locations, splits};

use super::SplitArgs;
use super::complete::{path_or_tensor_name, tensor_name};
use crate::exit::{At, Failure, Outcome, Verdict, for_each};
use crate::output::{HEADER, JsonList, Progress, Stdout, escape, note, warnings};

/// The argument of commands that read one file.
#[derive(Debug, Clone, clap::Args)]
pub struct Input {
    /// The file, or the directory of a checkpoint of Hugging Face; `-` for standard input
    file: PathBuf,
    /// Read the file as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
}

impl Input {
    /// Opens the file and reads its index.
    pub fn open(&self) -> Outcome<File> {
        open(&self.file, self.from.as_deref())
    }

    pub fn is_stdin(&self) -> bool {
        is_stdin(&self.file)
    }

    /// Returns whether the file is a WebDataset shard.
    pub fn is_shard(&self) -> bool {
        is_shard(&self.file, self.from.as_deref())
    }

    /// Returns the path or URL as it was given.
    pub fn location(&self) -> &Path {
        &self.file
    }

    /// Returns the path as messages show it.
    pub fn path(&self) -> &Path {
        display_name(&self.file)
    }
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

/// The argument of commands that read several files.
#[derive(Debug, Clone, clap::Args)]
pub struct Inputs {
    /// Files, directories or patterns such as 'train-{000..123}.tar'; a directory's tensor files are read in the order
    /// of their names, and shards count as one file; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read the files as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
}

impl Inputs {
    /// Runs a command on the index of each file.
    pub fn for_each_index(
        &self,
        warnings: Warnings,
        json: bool,
        out: &mut Stdout,
        run: &mut OnFile<'_, File>,
    ) -> Outcome {
        let mut open = |path: &Path| open_in_order(path, self.from.as_deref(), warnings, &mut PassOver);
        for_each_file(&self.files, SplitArgs::ALL, &mut open, None, json, out, run)
    }

    /// Runs a command on the index of each file, and prints files with a single tensor as one table.
    pub fn for_each_in_table(
        &self,
        table: &mut dyn FileTable<File>,
        out: &mut Stdout,
        run: &mut OnFile<'_, File>,
    ) -> Outcome {
        let mut open = |path: &Path| open_in_order(path, self.from.as_deref(), Warnings::StandardError, &mut PassOver);
        for_each_file(&self.files, SplitArgs::ALL, &mut open, Some(table), false, out, run)
    }
}

/// The arguments of commands that read tensors of several files.
#[derive(Debug, Clone, clap::Args)]
pub struct NamedInputs {
    /// A file, directory or pattern such as 'train-{000..123}.tar'; a directory's tensor files are read in the order of
    /// their names, and shards count as one file; `-` is standard input
    #[arg(value_name = "FILE")]
    first: PathBuf,
    /// More files, and the names of tensors, or their positions in the file, such as `#3`
    ///
    /// An argument is a file if it exists, is `-`, or ends in the extension of a format, unless the first file has a
    /// tensor of that name. An argument that begins with `./` or `/` is always a file. With --tensor, all arguments are
    /// files.
    #[arg(value_name = "FILE|NAME", add = path_or_tensor_name())]
    more: Vec<OsString>,
    /// The name of a tensor, or its position in the file, such as `#3`
    #[arg(long, short, value_name = "NAME", add = tensor_name())]
    tensor: Vec<String>,
    /// Read the files as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
    /// For each of `more`, whether it is a file.
    #[arg(skip)]
    are_files: OnceLock<Vec<bool>>,
}

impl NamedInputs {
    /// Returns the names of tensors.
    pub fn names(&self) -> Vec<String> {
        let names = self.more.iter().zip(self.are_files()).filter(|(_, is_file)| !**is_file);
        let names = names.map(|(name, _)| name.to_string_lossy().into_owned());
        names.chain(self.tensor.iter().cloned()).collect()
    }

    /// Returns whether a single file is read.
    pub fn is_single(&self) -> bool {
        expand(&self.files()).len() == 1
    }

    /// Runs a command on each file, opened by `open` in the given format.
    pub fn for_each<O>(
        &self,
        open: impl Fn(&Path, Option<&str>) -> Outcome<O>,
        split: SplitArgs,
        json: bool,
        out: &mut Stdout,
        run: &mut OnFile<'_, O>,
    ) -> Outcome {
        for_each_file(&self.files(), split, &mut |path| open(path, self.from.as_deref()), None, json, out, run)
    }

    /// Runs a command on each file, and prints files with a single tensor as one table.
    pub fn for_each_in_table<O>(
        &self,
        open: impl Fn(&Path, Option<&str>) -> Outcome<O>,
        split: SplitArgs,
        table: &mut dyn FileTable<O>,
        out: &mut Stdout,
        run: &mut OnFile<'_, O>,
    ) -> Outcome {
        for_each_file(&self.files(), split, &mut |path| open(path, self.from.as_deref()), Some(table), false, out, run)
    }

    fn files(&self) -> Vec<PathBuf> {
        let more = self.more.iter().zip(self.are_files()).filter(|(_, is_file)| **is_file);
        std::iter::once(self.first.clone()).chain(more.map(|(path, _)| path.into())).collect()
    }

    fn are_files(&self) -> &[bool] {
        self.are_files.get_or_init(|| {
            // Opened only if a text may be both.
            let first = OnceCell::new();
            self.more.iter().map(|text| self.is_file(text, &first)).collect()
        })
    }

    fn is_file(&self, text: &OsStr, first: &OnceCell<Option<File>>) -> bool {
        let path = Path::new(text);
        if !self.tensor.is_empty() || is_stdin(path) || shown_url(path).is_some() {
            return true;
        }
        let (exists, is_named_so) = (path.exists(), has_extension(path));
        let is_relative = matches!(path.components().next(), Some(Component::Normal(_)));
        // Explicitly named files are the usual case.
        if exists == is_named_so || !is_relative {
            return exists;
        }
        // A pipe can be read once only.
        let is_repeatable = self.first.is_file() || self.first.is_dir() || shown_url(&self.first).is_some();
        let open = || if is_repeatable { options().open(&self.first).ok() } else { None };
        let Some(file) = first.get_or_init(open) else { return true };
        let text = text.to_string_lossy();
        if file.position(&text).is_none() {
            return true;
        }
        if exists {
            let first = display_name(&self.first).display();
            note(format_args!("`{text}` is a tensor of {first}; the file of that name is `./{text}`"));
        }
        false
    }
}

/// A command on one of several open files.
pub type OnFile<'a, O> = dyn FnMut(&Path, O, &mut Printer<'_, '_>) -> Outcome + 'a;

/// A table of files with one unnamed tensor each, such as numpy's `.npy` files. Each file is a row, under the name of
/// the file.
pub trait FileTable<O> {
    /// Adds a file, or returns it if it is not a row.
    fn add(&mut self, path: &Path, file: O) -> Outcome<Result<Verdict, O>>;

    /// Returns whether rows were added since the last ones were printed.
    fn has_rows(&self) -> bool;

    /// Prints the added rows.
    fn print(&mut self, out: &mut Stdout) -> Outcome<()>;
}

/// Returns whether a file has one tensor, and no name for it.
pub fn is_one_tensor(file: &File) -> bool {
    file.len() == 1 && file.tensors().all(|tensor| !tensor.has_name())
}

/// The output of a command on one of several files.
pub enum Printer<'a, 'o> {
    Text(&'a mut Stdout),
    /// A list with an item for each file.
    Json(&'a mut JsonList<'o>),
}

/// The item for an unreadable file.
#[derive(Serialize)]
pub struct Unread {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    pub error: String,
}

/// Opens each file, also inside directories, and runs a command on it. With several files, a line with the path
/// precedes the text of each, except for rows of the table.
fn for_each_file<O>(
    files: &[PathBuf],
    split: SplitArgs,
    open: &mut dyn FnMut(&Path) -> Outcome<O>,
    table: Option<&mut dyn FileTable<O>>,
    json: bool,
    out: &mut Stdout,
    run: &mut OnFile<'_, O>,
) -> Outcome {
    let paths = expand(files);
    let has_titles = paths.len() > 1 || files.len() > 1 || split.is_planned();
    out.expect_json(json);
    let paths = split.keep(paths)?;
    if json {
        return out.json_list(|list| {
            for_each(paths, |path| {
                let outcome = path.and_then(|path| {
                    run(display_name(&path), open(&path)?, &mut Printer::Json(list)).map_err(|error| error.or_in(&path))
                });
                if let Err(failure) = &outcome
                    && let Some((file, error)) = failure.unlisted()
                {
                    list.push(&Unread { file, error })?;
                }
                outcome
            })
        })?;
    }
    let mut is_first = true;
    let mut separate = |out: &mut Stdout| if std::mem::take(&mut is_first) { Ok(()) } else { writeln!(out) };
    let mut table = table.filter(|_| has_titles);
    let outcome = for_each(paths, |path| {
        let path = path?;
        // Earlier output appears before the messages of this file.
        out.flush()?;
        let mut file = open(&path)?;
        if let Some(table) = &mut table {
            file = match table.add(display_name(&path), file).map_err(|failure| failure.or_in(&path))? {
                Ok(verdict) => return Ok(verdict),
                Err(file) => file,
            };
            if table.has_rows() {
                separate(out)?;
                table.print(out)?;
            }
        }
        if has_titles {
            separate(out)?;
            let line = format!("{}:", escape(&display_name(&path).display().to_string()));
            writeln!(out, "{}", out.styled(HEADER, &line).into_owned())?;
        }
        let ran = run(display_name(&path), file, &mut Printer::Text(out));
        ran.map_err(|failure| if has_titles { failure.or_in(&path) } else { failure })
    });
    if let Some(table) = table.filter(|table| table.has_rows()) {
        separate(out)?;
        table.print(out)?;
    }
    outcome
}

/// Replaces patterns by the paths and URLs that they stand for, and directories by the tensor files in them, in the
/// order of their names.
pub fn expand(paths: &[PathBuf]) -> Vec<Outcome<PathBuf>> {
    let mut expanded = Vec::with_capacity(paths.len());
    let matches = paths.iter().flat_map(|path| match matching(path) {
        Ok(matches) => matches.into_iter().map(Ok).collect(),
        Err(failure) => vec![Err(failure)],
    });
    for path in matches {
        let path = match path {
            Ok(path) if path.is_dir() => path,
            other => {
                expanded.push(other);
                continue;
            }
        };
        match options().tensor_files(&path).at(&path) {
            // The library explains the contents.
            Ok(found) if found.files.is_empty() => expanded.push(Ok(path)),
            Ok(found) => {
                note_left_out(&path, &found);
                expanded.extend(found.files.into_iter().map(Ok));
            }
            Err(failure) => expanded.push(Err(failure)),
        }
    }
    if expanded.len() > 1 {
        let paths: Vec<PathBuf> = expanded.iter().flatten().cloned().collect();
        let others = other_parts(&paths);
        expanded.retain(|path| path.as_ref().map_or(true, |path| !others.contains(path)));
    }
    expanded
}

/// Returns the paths and URLs that a pattern stands for, such as `train-{000..123}.tar`, which a shell passes on where
/// it is quoted, or is none of Unix. A path that is not a pattern, or exists, stands for itself.
fn matching(path: &Path) -> Outcome<Vec<PathBuf>> {
    // Patterns are texts.
    let Some(pattern) = path.to_str() else { return Ok(vec![path.to_owned()]) };
    let found = locations(pattern).map_err(|error| Failure::from_shards(path, &error))?;
    Ok(found.into_iter().map(PathBuf::from).collect())
}

/// Prints which files of a directory are not read, and where the model is if they are not of one.
fn note_left_out(folder: &Path, found: &FolderFiles) {
    /// A command can look at its folders more than once.
    static NOTED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

    if !NOTED.lock().expect("no thread panics with it").insert(folder.to_owned()) {
        return;
    }
    let folder = folder.display();
    if let Some(model) = &found.model {
        note(format_args!("{folder}: the files in it are not the model, which is in {}", model.display()));
    }
    let [first, rest @ ..] = &found.left_out[..] else { return };
    let name = first.file_name().unwrap_or_default().display();
    let others = match rest.len() {
        0 => String::new(),
        1 => " and 1 other file".to_owned(),
        others => format!(" and {others} other files"),
    };
    note(format_args!("{folder}: left out `{name}`{others}, of other formats or without tensors"));
}

/// Replaces patterns and directories as [`expand`] does, but not a directory with a checkpoint in it.
pub fn expand_joined(paths: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    // A checkpoint that cannot be opened is not a folder of files.
    let is_one = |path: &Path| path.is_dir() && !options().open(path).is_err_and(|error| is_directory(&error));
    let expanded = paths.iter().map(|path| {
        if is_one(path) {
            Ok(vec![path.clone()])
        } else {
            expand(std::slice::from_ref(path)).into_iter().collect::<Outcome<Vec<_>>>()
        }
    });
    Ok(expanded.collect::<Outcome<Vec<_>>>()?.concat())
}

/// Returns the files opened together with the first part of their model, if it is among `paths` too.
pub fn other_parts(paths: &[PathBuf]) -> HashSet<PathBuf> {
    let is_first = |path: &&PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.contains("-00001-of-") && path.is_file()
    };
    let parts = paths.iter().filter(is_first).filter_map(|path| options().open(path).ok());
    parts.flat_map(|file| file.shards().iter().skip(1).cloned().collect::<Vec<_>>()).collect()
}

/// Returns whether the error of opening a folder is that no checkpoint is in it.
fn is_directory(error: &tensorfile::Error) -> bool {
    matches!(error.kind(), ErrorKind::Io(error) if error.kind() == io::ErrorKind::IsADirectory)
}

/// Returns whether a path has the extension of a format.
pub fn has_extension(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    FORMATS.iter().flat_map(|format| format.extensions).any(|own| extension.eq_ignore_ascii_case(own))
}

/// Returns a parser for the names of formats.
pub fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|format| format.name).chain([SHARD]))
}

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

/// Returns a parser for the names of writable formats.
pub fn written_format_names() -> PossibleValuesParser {
    let written = FORMATS.iter().filter(|format| !format.read_only);
    PossibleValuesParser::new(written.map(|format| format.name))
}

/// The most bytes of memory for tensors; 0 for the limit of the library.
static MAX_MEMORY: AtomicU64 = AtomicU64::new(0);

/// Sets the maximum memory for the tensors of a file in bytes, for all files opened from now on.
pub fn set_max_memory(bytes: Option<u64>) {
    MAX_MEMORY.store(bytes.unwrap_or(0), Ordering::Relaxed);
}

/// Returns the options for opening all files.
fn options() -> OpenOptions {
    // A mapped file could change while the program runs, and its pages would count as memory of the program.
    OpenOptions::new().backend(Backend::Positioned).limits(limits())
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
struct PassOver;

impl TensorSink for PassOver {
    fn tensor(&mut self, _: &TensorRecord<'_>) -> tensorfile::Result<()> {
        Ok(())
    }
}

fn open_for(path: &Path, from: Option<&str>, warnings: Warnings, sink: Option<&mut dyn TensorSink>) -> Outcome<File> {
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

/// Opens standard input, and reads its index. A regular file is read like any other.
fn open_stdin(options: &OpenOptions, sink: Option<&mut dyn TensorSink>) -> Outcome<File> {
    let name = display_name(Path::new("-"));
    let mut stdin = io::stdin().lock();
    #[cfg(unix)]
    if is_file_from_start(&stdin) {
        return options.open("/dev/stdin").at(name);
    }
    open_stream(&mut stdin, name, options, sink)
}

/// Returns whether a path leads to a pipe, such as from the shell's `<(command)`, or to a device.
pub fn is_stream(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;

        path.metadata()
            .map(|metadata| metadata.file_type())
            .is_ok_and(|kind| kind.is_fifo() || kind.is_char_device() || kind.is_block_device())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Reads a stream, and sends its tensors to `sink`. Without a `sink`, or if the tensors are not in order, the stream is held.
fn open_stream(
    stream: &mut dyn Read,
    name: &Path,
    options: &OpenOptions,
    sink: Option<&mut dyn TensorSink>,
) -> Outcome<File> {
    let stream: &mut dyn Read = &mut WatchedReader { reader: stream, progress: Progress::stream() };
    let (is_held, is_in_order) = (sink.is_none(), Cell::new(false));
    let mut repeatable = Repeatable { reader: &mut *stream, begin: Held::default(), is_in_order: &is_in_order };
    // What does not begin as a file is refused before much of it is held: it may be endless.
    let mut pass_over = PassOver;
    let mut note = |tensor: &TensorRecord<'_>, next: &mut dyn TensorSink| {
        is_in_order.set(!is_held);
        next.tensor(tensor)
    };
    match options.read_in_order(&mut repeatable, &mut forward(sink.unwrap_or(&mut pass_over), &mut note)) {
        Ok(_) if is_held => repeatable.begin.hold(stream, name, options),
        // The index is at the end, the tensors are not in order, or one reaches to the end of the file.
        Err(error)
            if !is_in_order.get()
                && matches!(error.kind(), ErrorKind::Unsupported { .. } | ErrorKind::UnknownDtype { .. }) =>
        {
            repeatable.begin.hold(stream, name, options)
        }
        opened => opened.at(name),
    }
}

/// Returns whether standard input is a file at its start.
#[cfg(unix)]
fn is_file_from_start(stdin: &io::StdinLock<'_>) -> bool {
    use std::io::Seek;
    use std::os::fd::AsFd;

    // The position is shared by the whole process, and by other processes with the same open file, so it is only
    // queried.
    stdin.as_fd().try_clone_to_owned().map(fs::File::from).is_ok_and(|mut file| {
        file.metadata().is_ok_and(|metadata| metadata.is_file())
            && file.stream_position().is_ok_and(|position| position == 0)
            // This user may not be allowed to open the file again.
            && fs::File::open("/dev/stdin").is_ok()
    })
}

/// A reader that advances a progress bar.
struct WatchedReader<'r> {
    reader: &'r mut dyn Read,
    progress: Progress,
}

impl Read for WatchedReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes)?;
        self.progress.advance(read);
        Ok(read)
    }
}

/// A reader that holds its beginning for a second read, until the tensors are known to come in order.
struct Repeatable<'a> {
    reader: &'a mut dyn Read,
    begin: Held,
    is_in_order: &'a Cell<bool>,
}

impl Read for Repeatable<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes)?;
        match self.is_in_order.get() {
            true => self.begin = Held::default(),
            // The error names the folder of the temporary file.
            false => self.begin.write(&bytes[..read]).map_err(io::Error::other)?,
        }
        Ok(read)
    }
}

/// The bytes of a stream: in memory, or in a temporary file without a name if they are many.
#[derive(Default)]
struct Held {
    memory: Vec<u8>,
    file: Option<fs::File>,
}

impl Held {
    /// The maximum bytes held in memory. Where an unnamed file cannot be opened again, there is no other place.
    const IN_MEMORY: usize = if cfg!(unix) { 64 << 20 } else { usize::MAX };

    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() <= Self::IN_MEMORY {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        let folder = std::env::temp_dir();
        if self.file.is_none() {
            let mut file = unnamed_file(&folder).at(&folder)?;
            file.write_all(&std::mem::take(&mut self.memory)).at(&folder)?;
            self.file = Some(file);
        }
        self.file.as_mut().expect("it was just made").write_all(bytes).at(&folder)
    }

    /// Holds the rest of a stream, and opens all of it.
    fn hold(mut self, stream: &mut dyn Read, name: &Path, options: &OpenOptions) -> Outcome<File> {
        let mut piece = vec![0; 256 << 10];
        loop {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => self.write(&piece[..len])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).at(name),
            }
        }
        self.open(name, options)
    }

    fn open(self, name: &Path, options: &OpenOptions) -> Outcome<File> {
        #[cfg(unix)]
        if let Some(file) = self.file {
            use std::os::fd::AsRawFd;

            return options.open(format!("/dev/fd/{}", file.as_raw_fd())).at(name);
        }
        options.from_bytes(self.memory).at(name)
    }
}

/// Creates an unnamed file, so that nothing is left of it however the program ends.
fn unnamed_file(folder: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    for attempt in 0_u32.. {
        let path = folder.join(format!(".tensorfile.{}.{attempt}.tmp", std::process::id()));
        match options.open(&path) {
            Ok(file) => return fs::remove_file(&path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Calls a function with each line of a file or of standard input, without the line feed. A line of more than 16 MiB is
/// an error: it is not one of a list.
pub fn read_lines(path: &Path, line: &mut dyn FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
    const LONGEST: u64 = 16 << 20;

    let name = display_name(path);
    let mut lines: Box<dyn BufRead> = if is_stdin(path) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(io::BufReader::new(fs::File::open(path).at(path)?))
    };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        (&mut *lines).take(LONGEST).read_until(b'\n', &mut bytes).at(name)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() as u64 == LONGEST {
            return Err(Failure::malformed(name, "a line is longer than 16 MiB"));
        }
        line(bytes.strip_suffix(b"\n").unwrap_or(&bytes))?;
    }
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

/// Returns whether the path is `-`, or another name of standard input.
pub fn is_stdin(path: &Path) -> bool {
    const NAMES: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

    NAMES.iter().any(|name| path == Path::new(name))
}
