use std::io::{self, Write};

use super::FileTensor;
use crate::digest::{Digest, TensorDigester};
use crate::error::{Error, Result};
use crate::model::TensorData;
use crate::tensor::Layout;

impl FileTensor<'_> {
    /// Computes the digest of the tensor. A large tensor is hashed in several threads; see
    /// [`set_max_threads`](crate::threads::set_max_threads).
    ///
    /// In a file read at positions, each thread reads 256 KiB at a time and hashes it at once, which is faster than
    /// writing the tensor to a [`TensorDigester`]. Packed payloads and payloads with a checksum are read in order.
    /// Tensors with a dim order or in COO layout are read into memory.
    ///
    /// ```
    /// use tensorfile::digest::Digest;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32, 2.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// assert_eq!(file.get("a")?.digest()?, Digest::new(&map["a"].as_view()));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn digest(&self) -> Result<Digest> {
        self.digest_with(&mut |_| {})
    }

    /// Computes the digest of the tensor, and calls `progress` with the number of bytes whenever some were read.
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::Array1::<f32>::zeros(1000))]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let mut bytes = 0;
    /// let digest = file.get("a")?.digest_with(&mut |more| bytes += more)?;
    /// assert_eq!((digest, bytes), (file.get("a")?.digest()?, 4000));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn digest_with(&self, progress: &mut dyn FnMut(u64)) -> Result<Digest> {
        if !matches!(self.layout(), Layout::RowMajor | Layout::Blob | Layout::Unknown(_)) {
            self.check_memory(usize::try_from(self.payload_bytes()).unwrap_or(usize::MAX))?;
        }
        let mut digester = TensorDigester::new(self.info());
        let hashed = match self.hash_in_parts(&mut digester, progress) {
            Some(hashed) => hashed,
            None => self.write_to(&mut CountedDigester { digester: &mut digester, progress }).map_err(Error::from),
        };
        hashed.map_err(|error| self.locate(error))?;
        digester.finish().map_err(|invalid| self.locate(invalid))
    }

    /// Hashes the payload in parts, if it is stored unencoded, and neither in memory nor in a source.
    fn hash_in_parts(&self, digester: &mut TensorDigester, progress: &mut dyn FnMut(u64)) -> Option<Result<()>> {
        let (entry, storage) = (self.entry(), &self.file.storage);
        let is_source = storage.takes_requests(entry.start());
        if is_source || entry.has_codec() || entry.has_checksum() || self.bytes().is_some() {
            return None;
        }
        let len = usize::try_from(self.payload_bytes()).ok()?;
        digester.update_from(len, &|offset, bytes| entry.read_at(storage, offset as u64, bytes), progress)
    }
}

/// A digester with a byte count.
struct CountedDigester<'a> {
    digester: &'a mut TensorDigester,
    progress: &'a mut dyn FnMut(u64),
}

/// The most bytes between two calls of `progress`: enough for several threads.
const STEP: usize = 32 << 20;

impl Write for CountedDigester<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(STEP)];
        self.digester.update(piece);
        (self.progress)(piece.len() as u64);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
