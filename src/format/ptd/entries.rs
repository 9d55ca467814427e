//! Metadata as entries, the form common to all formats.

use super::metadata::KEYS;
use super::{Compatibility, FORMAT, Options, Version, de};
use crate::error::{ErrorKind, Result};
use crate::limits::Limits;
use crate::model::FileMetadata;
use crate::read::Index;
use crate::storage::ReadAt;
use crate::write::WriteOptions;

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
    Ok(de::read(file, limits, &mut Index::default())?.file_metadata(len))
}
