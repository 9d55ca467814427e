use std::io::{self, Write};
use std::ops::Range;

use super::sharing::{Digester, KeyedDigest};
use crate::error::{Error, ErrorKind};
use crate::model::TensorData;

/// A payload that is compared with the plan during writing.
pub(super) struct Checked<'a> {
    pub(super) data: &'a dyn TensorData,
    pub(super) planned: usize,
    pub(super) digest: Option<(KeyedDigest, Digester)>,
}

impl TensorData for Checked<'_> {
    fn as_bytes(&self) -> Option<&[u8]> {
        // Bytes of the planned length need no further check, unless they have a digest.
        self.data.as_bytes().filter(|bytes| self.digest.is_none() && bytes.len() == self.planned)
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.check(out, &|out| self.data.write_to(out))
    }

    fn copy_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.check(out, &|out| self.data.copy_to(out))
    }

    /// Compares only the number of bytes, because digests are of all of them.
    fn copy_range_to(&self, range: Range<u64>, out: &mut dyn Write) -> io::Result<()> {
        let planned = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let part = Checked { data: self.data, planned, digest: None };
        part.check(out, &|out| self.data.copy_range_to(range.clone(), out))
    }
}

impl Checked<'_> {
    /// Writes to `out`, and compares what was written with the plan.
    fn check(&self, out: &mut dyn Write, write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let (digest, digester) = self.digest.clone().unzip();
        let mut counter = Counter { out, planned: self.planned, left: self.planned, digester };
        write(&mut counter)?;
        let Counter { left, digester, .. } = counter;
        if left > 0 {
            return Err(changed(format!("{} bytes instead of {}", self.planned - left, self.planned)).into());
        }
        if digest != digester.map(|digester| digester.digest()) {
            return Err(changed("the bytes it shares with other tensors changed".to_owned()).into());
        }
        Ok(())
    }
}

/// Passes on the planned number of bytes. Any more bytes are an error.
struct Counter<'a> {
    out: &'a mut dyn Write,
    planned: usize,
    left: usize,
    digester: Option<Digester>,
}

impl Write for Counter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.left.checked_sub(bytes.len());
        self.left = left.ok_or_else(|| io::Error::from(changed(format!("more than {} bytes", self.planned))))?;
        if let Some(digester) = &mut self.digester {
            digester.write(bytes);
        }
        self.out.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The error for tensors that differ from the plan.
pub(super) fn changed(what: String) -> Error {
    ErrorKind::Changed { what }.into()
}
