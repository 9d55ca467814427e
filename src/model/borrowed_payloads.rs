use std::borrow::Cow;
use std::fmt;

use crate::tensor::sorted;

/// Payloads borrowed from a value.
///
/// [`Store::store`](super::Store::store) lends a payload only during the call, because the payload may be temporary.
/// Here, a value adds its permanent payloads. A writer finds them by address, so neither order nor completeness
/// matters: missing payloads are copied.
///
/// ```
/// use tensorfile::model::{FieldAttrs, BorrowedPayloads, Node, Sink, Store};
/// use tensorfile::{Result, TensorFile, ten};
///
/// /// Bytes that are stored as a vector.
/// struct Bytes(Vec<u8>);
///
/// impl TensorFile for Bytes {
///     const NODE: Node = Vec::<u8>::NODE;
/// }
///
/// impl Store for Bytes {
///     fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
///         self.0.store(sink, attrs)
///     }
///
///     fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
///         payloads.bytes(self.0.as_slice().into());
///     }
/// }
///
/// let bytes = Bytes(vec![1; 100_000]);
/// assert!(ten::Options::new().to_io_slices(&bytes)?.copied_bytes() < 1000);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Default)]
pub struct BorrowedPayloads<'a> {
    /// Sorted by address by [`Self::sort`].
    runs: Vec<&'a [u8]>,
}

impl<'a> BorrowedPayloads<'a> {
    /// Adds the bytes of a payload, unless they are a copy.
    pub fn bytes(&mut self, bytes: Cow<'a, [u8]>) {
        if let Cow::Borrowed(bytes) = bytes
            && !bytes.is_empty()
        {
            self.runs.push(bytes);
        }
    }

    /// Prepares for [`Self::find`].
    pub(crate) fn sort(&mut self) {
        // Of runs at one address, the longest is found.
        let key = |run: &&[u8]| (run.as_ptr().addr(), run.len());
        self.runs = sorted::values(std::mem::take(&mut self.runs), &mut |one, other| key(one).cmp(&key(other)));
    }

    /// Returns the same bytes with the lifetime of the value, if they were added.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<&'a [u8]> {
        let address = bytes.as_ptr().addr();
        let before = self.runs.partition_point(|run| run.as_ptr().addr() <= address);
        let run = self.runs.get(before.checked_sub(1)?)?;
        // Borrowed memory does not change and is not reused, so equal addresses mean equal bytes.
        let start = address - run.as_ptr().addr();
        run.get(start..start.checked_add(bytes.len())?)
    }
}

impl fmt::Debug for BorrowedPayloads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BorrowedPayloads").field("runs", &self.runs.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_parts_of_what_is_lent() {
        let (one, other): ([u8; 8], [u8; 8]) = ([1; 8], [2; 8]);
        let mut payloads = BorrowedPayloads::default();
        [&one[..], &other, &one[..4], &[]].into_iter().for_each(|bytes| payloads.bytes(bytes.into()));
        payloads.bytes(vec![1; 8].into());
        payloads.sort();
        assert_eq!(payloads.runs.len(), 3);
        for bytes in [&one[..], &one[2..7], &other[7..], &other[..0]] {
            assert!(payloads.find(bytes).is_some_and(|found| std::ptr::eq(found, bytes)));
        }
        let elsewhere = [1; 8];
        assert!(payloads.find(&elsewhere).is_none());
    }
}
