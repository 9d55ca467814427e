//! The digests of an opened file.

use std::path::Path;

use tensorfile::digest::{CollectionDigester, TensorDigester};
use tensorfile::{Digest, Error, File};

use crate::failure::{At, Outcome};
use crate::progress::Progress;

/// The digest of each tensor with its name, or its position where it has none.
pub fn of_tensors<'f>(file: &'f File, path: &Path) -> Outcome<Vec<(&'f str, Digest)>> {
    let mut progress = Progress::bytes(file.tensors().map(|tensor| tensor.payload_bytes()).sum());
    let mut digests = Vec::with_capacity(file.len());
    for tensor in file.tensors() {
        let mut digester = TensorDigester::new(tensor.info());
        let mut take = |bytes: &[u8]| {
            for piece in bytes.chunks(1 << 20) {
                digester.update(piece);
                progress.advance(piece.len());
            }
            Ok(())
        };
        tensor.pour(&mut take).at(path)?;
        digests.push((tensor.name(), digester.finish().map_err(Error::from).at(path)?));
    }
    Ok(digests)
}

/// The digest of all of them together.
pub fn of_all(tensors: &[(&str, Digest)]) -> Digest {
    tensors.iter().copied().collect::<CollectionDigester>().finish()
}
