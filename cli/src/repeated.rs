use indexmap::IndexSet;
use tensorfile::File;
use tensorfile::file::FileTensor;

/// Returns the names shared by several tensors of a file, as in some streams, in the order of the file.
pub fn names(file: &File) -> IndexSet<&str> {
    // A name leads to its first tensor. A set of all names would take more memory than the index.
    let is_first = |tensor: &FileTensor<'_>| file.position(tensor.name()) == Some(tensor.position());
    file.tensors().filter(|tensor| !is_first(tensor)).map(|tensor| tensor.name()).collect()
}
