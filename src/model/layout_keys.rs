//! The keys of metadata that describe how the file they are in is laid out. Of another file they are not true.

/// The offsets of the tensors of a process, in the files of `torch.distributed.checkpoint`.
pub(crate) const SHARDING_INFO: &str = "DCP_SHARDING_INFO";

/// The number of a file among the parts of a GGUF model, and the numbers of files and of tensors.
pub(crate) const PART_INDEX: &str = "split.no";
pub(crate) const PART_COUNT: &str = "split.count";
pub(crate) const PART_TENSORS: &str = "split.tensors.count";

/// The length of all tensors, in an index of shards.
pub(crate) const TOTAL: &str = "total_size";

/// A fact described by an entry that is not about the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Describes {
    /// Which tensors are in the file, and where: it is not copied.
    Layout,
    /// Their dtypes: it is not copied if tensors are cast.
    Dtypes,
}

/// All such keys.
const KEYS: &[(&str, Describes)] = &[
    (SHARDING_INFO, Describes::Layout),
    ("DCP_VERSION", Describes::Layout),
    (PART_INDEX, Describes::Layout),
    (PART_COUNT, Describes::Layout),
    (PART_TENSORS, Describes::Layout),
    (TOTAL, Describes::Layout),
    // The usual dtype of a GGUF file, as a number.
    ("general.file_type", Describes::Dtypes),
];

fn has(key: &str, describes: Describes) -> bool {
    KEYS.contains(&(key, describes))
}

/// Returns whether a metadata entry describes which tensors its file has, and where. Such an entry is not true of
/// another file, so that [`WriteOptions::keep_metadata`](crate::WriteOptions::keep_metadata) leaves it out.
///
/// ```
/// use tensorfile::model::describes_layout;
///
/// assert!(describes_layout("DCP_SHARDING_INFO") && describes_layout("split.count"));
/// assert!(!describes_layout("general.name"));
/// ```
#[must_use]
pub fn describes_layout(key: &str) -> bool {
    has(key, Describes::Layout)
}

/// Returns whether a metadata entry describes the dtypes of the tensors in its file. Such an entry is not true of a
/// copy with other dtypes.
///
/// ```
/// assert!(tensorfile::model::describes_dtypes("general.file_type"));
/// ```
#[must_use]
pub fn describes_dtypes(key: &str) -> bool {
    has(key, Describes::Dtypes)
}
