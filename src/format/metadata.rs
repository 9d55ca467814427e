use indexmap::IndexMap;

/// What a file says besides its tensors, whatever its format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FileMetadata {
    /// The version of the format, where the file tells one.
    pub version: Option<String>,
    /// What the file says of its tensors as a whole, such as `model`. Another file can be asked to keep it, by
    /// [`WriteOptions::metadata`](super::WriteOptions::metadata).
    pub entries: IndexMap<String, String>,
    /// What is odd about the file, though it can be read: each a sentence.
    pub warnings: Vec<String>,
}
