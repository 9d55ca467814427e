//! Opens files with each backend.

use std::path::Path;

use tensorfile::file::{Backend, FileTensor};
use tensorfile::{Category, ErrorKind, File, OpenOptions, Result, Tensor, TensorMap};

use crate::budget::{bounded, limits};

/// Checks a tensor, and returns it and its elements as text.
pub type ShowTensor<'a> = &'a dyn Fn(&FileTensor<'_>, &Result<Tensor, String>) -> String;

/// Opens a path mapped and positioned, with memory for `len` bytes, and checks that both find the same. Returns the
/// mapped file.
pub fn open_both(path: &Path, len: usize, show: ShowTensor<'_>) -> Result<File> {
    let [mapped, positioned] = [Backend::Mapped, Backend::Positioned].map(|backend| open(path, backend, len));
    assert_eq!(contents(&mapped, len, show), contents(&positioned, len, show), "mapped, and positioned");
    mapped
}

/// Opens a path, and checks that an error blames the file.
pub fn open(path: &Path, backend: Backend, len: usize) -> Result<File> {
    let options = OpenOptions::new().limits(limits(len)).backend(backend);
    let file = bounded("opening", len, || options.open(path));
    if let Err(error) = &file {
        let is_of_file = matches!(error.category(), Category::File | Category::Limit | Category::Io);
        // Such as an old version of a format, TorchScript, or tensors in chunks whose elements share bytes.
        let is_unsupported = matches!(error.kind(), ErrorKind::Unsupported { .. });
        assert!(is_of_file || is_unsupported, "{error:?}");
    }
    file
}

/// Returns the whole content of a file as text, or its error.
pub fn contents(file: &Result<File>, len: usize, show: ShowTensor<'_>) -> Vec<String> {
    let file = match file {
        Ok(file) => file,
        Err(error) => return vec![error.to_string()],
    };
    let metadata = bounded("metadata", len, || file.metadata()).map_err(|error| error.to_string());
    let tensors = file.tensors().map(|tensor| {
        let read = bounded("reading a tensor", len, || tensor.read()).map_err(|error| error.to_string());
        show(&tensor, &read)
    });
    let all = tensors.chain([format!("{metadata:?} {:?}", file.shards())]).collect();
    let map = bounded("a map", len, || file.load::<TensorMap>());
    assert!(map.is_ok() || file.tensors().any(|tensor| tensor.read().is_err()), "{map:?}");
    let _ = bounded("checksums", len, || file.check_other_checksums());
    all
}
