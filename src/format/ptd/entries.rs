//! Metadata as the entries that all formats share.

use indexmap::IndexMap;

use super::{Compatibility, FORMAT, Options, Version, de};
use crate::error::{ErrorKind, Result};
use crate::limits::Limits;
use crate::record::{FileMetadata, WriteOptions, trailing_bytes};
use crate::storage::ReadAt;

/// The keys of the fields of [`Compatibility`], in their order. A file written with any of them has the RFC's version 2,
/// the only generation with such fields.
const KEYS: [&str; 4] = ["ptd.model_name", "ptd.version", "ptd.quantization_scheme", "ptd.custom_description"];

pub(super) fn keeps(key: &str) -> bool {
    KEYS.contains(&key)
}

pub(super) fn options(write: &WriteOptions) -> Result<Options> {
    write.only_metadata(&FORMAT)?;
    let mut options = Options::new().keep_dim_order(write.keep_dim_order);
    if let Some(bytes) = write.alignment {
        options = options.alignment(u32::try_from(bytes).map_err(|_| ErrorKind::Unsupported {
            what: format!("align to {bytes} bytes"),
            instead: "ptd stores alignments below 4 GiB".to_owned(),
        })?);
    }
    if !write.metadata.is_empty() {
        let [model_name, version, quantization_scheme, custom_description] =
            KEYS.map(|key| write.metadata.get(key).cloned().unwrap_or_default());
        let compatibility = Compatibility { model_name, version, quantization_scheme, custom_description };
        options = options.version(Version::Dt01V2).compatibility(compatibility);
    }
    Ok(options)
}

pub(super) fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    let len = file.file_len();
    let de::Contents { metadata: found, entries: tensors, end } = de::read(file, limits)?;
    let version = match found.version {
        Version::Ft01 => "FT01",
        Version::EarlyFt01 => "FT01 of ExecuTorch 0.5 and 0.6",
        Version::Dt01V1 => "DT01, version 1",
        Version::Dt01V2 => "DT01, version 2",
    };
    let entries = found.compatibility.map(|compatibility| {
        let Compatibility { model_name, version, quantization_scheme, custom_description } = compatibility;
        let values = [model_name, version, quantization_scheme, custom_description];
        let entries = KEYS.into_iter().zip(values).filter(|(_, value)| !value.is_empty());
        entries.map(|(key, value)| (key.to_owned(), value)).collect::<IndexMap<_, _>>()
    });
    let mut warnings = Vec::new();
    if found.version != Version::Ft01 {
        warnings.push("today's ExecuTorch does not read this generation of the format".to_owned());
    }
    let nameless = tensors.iter().enumerate().map(|(at, tensor)| tensor.label(at)).find(|name| name.contains('\0'));
    if let Some(name) = nameless {
        warnings.push(format!("ExecuTorch's C++ cannot find `{}`, a name with NUL in it", name.escape_default()));
    }
    warnings.extend(trailing_bytes(end, len));
    Ok(FileMetadata {
        version: Some(version.to_owned()),
        entries: entries.unwrap_or_default(),
        warnings,
        ..FileMetadata::default()
    })
}
