//! The commands of the program: run in this process, or as functions that return values.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensorfile::file::atomic::FileLock;
use tensorfile::file::{MetadataEdit, shown_url};
use tensorfile::model::{describes_dtypes, describes_layout};
use tensorfile::report::WarningKind;
use tensorfile::view::{CastView, RenameRules, Renamed, Subset, names_after_file};
use tensorfile::{
    Dequantize, Dtype, ErrorKind, File, Format, Layout, OpenOptions, SaveOptions, TensorInfo, Tensors, WriteOptions,
};
use tensorfile_cli::Filter;
use tensorfile_datasets::{ShardWriter, pack, unpack};

use crate::callbacks::{Callback, in_thread, waits};
use crate::errors::{shard_exception, to_exception};
use crate::file::open_path;
use crate::maps::map_of;
use crate::save::{cast_floats, file_format, float_named, in_format, is_folder};

/// Run the program with arguments, the first of which is its name, and return the exit code.
#[pyfunction]
pub fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| tensorfile_cli::main_with(args.into_iter()))
}

/// Run a command with its output in memory. Return the exit code, the output, and the message of a failure.
///
/// Ctrl-C ends the call at once. The command goes on in its thread, which does no harm because it only reads.
#[pyfunction]
pub fn run(py: Python<'_>, args: Vec<OsString>) -> PyResult<(u8, Bound<'_, PyBytes>, Option<String>)> {
    let run = in_thread(py, move || tensorfile_cli::run(&args))?;
    Ok((run.code, PyBytes::new(py, &run.output), run.message))
}

/// Convert a file to another format; `tensorfile.convert` prepares the arguments.
#[pyfunction]
#[pyo3(signature = (source, target, format, dtype, rename, filters, max_shard_bytes, ranks, lossy, dequantize, as_stored, map, config, progress))]
#[expect(clippy::too_many_arguments, reason = "it is called by `tensorfile.convert` only")]
pub fn convert(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    format: Option<&str>,
    dtype: Option<&str>,
    rename: Vec<String>,
    filters: Vec<String>,
    max_shard_bytes: Option<u64>,
    ranks: Option<usize>,
    lossy: bool,
    dequantize: bool,
    as_stored: bool,
    map: Option<&Bound<'_, PyAny>>,
    config: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let rules = RenameRules::parse(rename).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    let filter = Filter::parse(&filters).map_err(|error| PyValueError::new_err(error.to_string()))?;
    if format.is_none()
        && let Some(job) = ShardJob::of(&source, &target)
    {
        let has_others = dtype.is_some()
            || lossy
            || dequantize
            || as_stored
            || map.is_some()
            || config.is_some()
            || !rules.is_empty()
            || !filters.is_empty()
            || ranks.is_some()
            || progress.is_some();
        if has_others || job == ShardJob::Unpack && max_shard_bytes.is_some() {
            return Err(PyValueError::new_err(
                "WebDataset shards take `max_shard_bytes` only, and only to be written: their files are not changed",
            ));
        }
        return job.run(py, source, target, max_shard_bytes);
    }
    let saving = in_format(SaveOptions::new(), format, ranks)?;
    let is_folder = format.is_some_and(is_folder);
    let format = format.and_then(file_format);
    let keeps_values = is_folder && format.is_some_and(|format| format.has_values());
    let floats = dtype.map(float_named).transpose()?;
    let map = map.map(map_of).transpose()?;
    let callback = Callback::new(progress);
    let (told, waits, from) = (callback.clone(), waits(&source), source.clone());
    callback.detach(py, waits, Some(&from), move || {
        let mut opening = OpenOptions::new();
        if dequantize {
            opening = opening.dequantize(Dequantize::to(Dtype::F32));
        }
        if let Some(map) = &map {
            let map = if lossy { map.clone().lossy() } else { map.clone() };
            opening = opening.map(&map);
        }
        if let Some(config) = &config {
            opening = opening.config(config);
        }
        let file = open_path(&source, false, &opening)?;
        let written = format.or_else(|| Format::for_path(&target));
        let is_cast = file.tensors().any(|tensor| cast_floats(floats, tensor.info(), written) != tensor.dtype());
        let mut options = saving.write(kept(&file, written, (lossy, is_cast, keeps_values))?);
        options = options.progress(move |progress| told.tell(progress));
        if let Some(bytes) = max_shard_bytes {
            options = options.max_shard_bytes(bytes);
        }
        let names = names_after_file(&file);
        let nothing = |instead: &str| {
            let what = "convert nothing".to_owned();
            Err(ErrorKind::Unsupported { what, instead: instead.to_owned() }.into())
        };
        if names.is_empty() && file.warnings()?.iter().any(|warning| warning.kind == WarningKind::LeftOut) {
            return nothing("the file has no tensors");
        }
        // A misspelt filter would look like success.
        if !names.is_empty() && !names.iter().any(|name| filter.matches(name)) {
            return nothing("no tensor matches the filter");
        }
        // So would a copy without a cast.
        let takes_cast = |info: &TensorInfo| info.dtype.is_float() && info.unknown_dtype().is_none();
        let mut infos =
            file.tensors().zip(&names).filter(|(_, name)| filter.matches(name)).map(|(tensor, _)| tensor.info());
        if let Some(to) = floats.filter(|_| !lossy && !infos.any(takes_cast)) {
            let instead = "no tensor has floats; `lossy=True` converts them as they are".to_owned();
            return Err(ErrorKind::Unsupported { what: format!("cast to {to}"), instead }.into());
        }
        let is_dropped = |layout: &Layout| lossy && written.is_some_and(|format| !format.stores_opaque(layout));
        let chosen = names.iter().zip(file.tensors());
        let chosen = chosen.filter(|(name, tensor)| filter.matches(name) && !is_dropped(tensor.layout()));
        let (positions, chosen): (Vec<usize>, Vec<&str>) =
            chosen.map(|(name, tensor)| (tensor.position(), &**name)).unzip();
        rules.check(chosen)?;
        let named = Renamed::with_names(&file, names.clone());
        let subset = Subset::from_positions(&named, positions);
        let renamed = Renamed::by_rules(&subset, &rules);
        let cast = CastView::new(&renamed, |_, info| cast_floats(floats, info, written));
        let cast = if as_stored { cast.as_stored() } else { cast };
        options.save(&target, &cast as &dyn Tensors)
    })
}

/// Packs a folder into WebDataset shards or unpacks a shard, as the program does.
#[derive(Clone, Copy, PartialEq)]
enum ShardJob {
    Pack,
    Unpack,
}

impl ShardJob {
    fn of(source: &Path, target: &Path) -> Option<Self> {
        if source.is_dir() && target.to_string_lossy().split_once('{').is_some_and(|(_, rest)| rest.contains("..}")) {
            return Some(Self::Pack);
        }
        let is_folder = target.is_dir() || target.extension().is_none();
        (is_folder && shown_url(target).is_none() && tensorfile_cli::is_shard(source)).then_some(Self::Unpack)
    }

    fn run(self, py: Python<'_>, source: PathBuf, target: PathBuf, max_bytes: Option<u64>) -> PyResult<()> {
        let done = in_thread(py, move || match self {
            Self::Pack => {
                let writer = ShardWriter::new(&target)?;
                let mut writer = writer.max_bytes(max_bytes.unwrap_or(u64::MAX)).max_samples(u64::MAX);
                let packed = pack(&source, &mut writer)?;
                writer.finish()?;
                Ok(packed.left_out.first().map(|first| (packed.left_out.len(), first.display().to_string())))
            }
            Self::Unpack => unpack(&source.to_string_lossy(), &target).map(|_| None),
        })?;
        if let Some((count, first)) = done.map_err(|error| shard_exception(&error))? {
            let text = format!("left out {count} files that belong to no sample, as {first} does not");
            py.import("warnings")?.call_method1("warn", (text,))?;
        }
        Ok(())
    }
}

/// Returns options that keep the metadata of a file.
///
/// If the format cannot store the metadata, that is an error, as in the program. Values of a PyTorch checkpoint are
/// left out without an error, and so is the entry `format` of safetensors, which is about the old file.
fn kept(
    file: &File,
    target: Option<&Format>,
    (lossy, is_cast, keeps_values): (bool, bool, bool),
) -> tensorfile::Result<WriteOptions> {
    let mut metadata = file.metadata()?;
    metadata.entries.retain(|key, _| !(describes_layout(key) || is_cast && describes_dtypes(key)));
    if keeps_values {
        // These are values of the folder, not text.
        let entries = std::mem::take(&mut metadata.entries);
        metadata.entries = entries.into_iter().filter(|(key, _)| !metadata.has_value(key)).collect();
    }
    if let Some(target) = target {
        let has_values = file.format().has_values() || file.format().read_only;
        let is_dropped = |key: &str| lossy || has_values || key == "format";
        metadata.entries.retain(|key, _| target.keeps_metadata(key) || !is_dropped(key));
    }
    Ok(WriteOptions::new().keep_metadata(&metadata))
}

/// Change the metadata of a file, and return it; `tensorfile.edit` prepares the arguments.
#[pyfunction]
pub fn edit(
    py: Python<'_>,
    path: PathBuf,
    set: IndexMap<String, String>,
    unset: Vec<String>,
    output: PathBuf,
) -> PyResult<IndexMap<String, String>> {
    let edit = set.into_iter().fold(MetadataEdit::new(), |edit, (key, value)| edit.set(key, value));
    let edit = unset.into_iter().fold(edit, MetadataEdit::unset);
    let edited = py.detach(|| {
        // Without the lock, two threads could read the same old file, and the second would undo the change of the
        // first.
        let _lock = (path == output).then(|| FileLock::acquire(&path)).transpose()?;
        let file = File::open(&path)?;
        let entries = edit.entries(&file)?;
        edit.save(&file, &output)?;
        Ok(entries)
    });
    edited.map_err(|error| to_exception(error, Some(&path)))
}
