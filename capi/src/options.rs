//! Options of C as options of the library.

use tensorfile::file::Backend;
use tensorfile::report::WarningKind;
use tensorfile::{Format, Limits, OpenOptions, SaveOptions, WriteOptions};

use crate::callbacks::listener;
use crate::{
    Failure, Result, TF_OPEN_POSITIONED, TF_SAVE_NO_REPLACE, TF_SAVE_NOT_DURABLE, TF_SAVE_WITHOUT_METADATA, dtype,
    tf_open_options, tf_save_options, tf_text,
};

pub fn open(from: &tf_open_options) -> Result<OpenOptions> {
    check_flags(from.flags, TF_OPEN_POSITIONED)?;
    let mut options = OpenOptions::new().limits(limits(from)).deny_warnings(&warnings(from.deny_warnings)?);
    if from.flags & TF_OPEN_POSITIONED != 0 {
        options = options.backend(Backend::Positioned);
    }
    if let Some(format) = format(from.format)? {
        options = options.format(format);
    }
    if let Some(listener) = listener(from.progress, from.progress_context) {
        options = options.progress(listener);
    }
    match dtype::from_number(from.dequantize)? {
        None => Ok(options),
        #[cfg(feature = "quant")]
        Some(dtype) => Ok(options.dequantize(tensorfile::Dequantize::to(dtype))),
        #[cfg(not(feature = "quant"))]
        Some(_) => Err(Failure::argument("this library was built without the feature `quant`, which decodes weights")),
    }
}

fn limits(from: &tf_open_options) -> Limits {
    let mut limits = Limits::new();
    if from.max_tensors > 0 {
        limits = limits.tensors(from.max_tensors);
    }
    if from.max_rank > 0 {
        limits = limits.rank(from.max_rank);
    }
    if from.max_shared > 0 {
        limits = limits.shared(from.max_shared);
    }
    if from.max_memory > 0 {
        limits = limits.memory(from.max_memory);
    }
    limits
}

fn warnings(kinds: tf_text) -> Result<Vec<WarningKind>> {
    let kind =
        |name: &str| name.trim().parse().map_err(|unknown| Failure::argument(format!("`{name}` is an {unknown}")));
    match kinds.non_empty()? {
        None => Ok(Vec::new()),
        Some("all") => Ok(WarningKind::ALL.to_vec()),
        Some(names) => names.split(',').map(kind).collect(),
    }
}

/// The options of a save, and those of what is written.
pub fn save(from: &tf_save_options, write: WriteOptions) -> Result<SaveOptions> {
    check_flags(from.flags, TF_SAVE_NOT_DURABLE | TF_SAVE_NO_REPLACE | TF_SAVE_WITHOUT_METADATA)?;
    let write = if from.alignment > 0 { write.alignment(from.alignment) } else { write };
    let mut options = SaveOptions::new()
        .write(write)
        .durable(from.flags & TF_SAVE_NOT_DURABLE == 0)
        .no_replace(from.flags & TF_SAVE_NO_REPLACE != 0);
    if let Some(format) = format(from.format)? {
        options = options.format(format);
    }
    if from.max_shard_bytes > 0 {
        options = options.max_shard_bytes(from.max_shard_bytes);
    }
    if let Some(listener) = listener(from.progress, from.progress_context) {
        options = options.progress(listener);
    }
    Ok(options)
}

fn format(name: tf_text) -> Result<Option<&'static Format>> {
    let Some(name) = name.non_empty()? else { return Ok(None) };
    let unknown = || {
        let names: Vec<_> = tensorfile::FORMATS.iter().map(|format| format.name).collect();
        Failure::argument(format!("unknown format `{name}`; the formats are {}", names.join(", ")))
    };
    Format::named(name).map(Some).ok_or_else(unknown)
}

fn check_flags(flags: u32, known: u32) -> Result<()> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(Failure::argument(format!("the flags have unknown bits {unknown:#x}"))),
    }
}
