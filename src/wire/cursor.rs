use std::marker::PhantomData;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::source::ByteSource;
use crate::tensor::{InvalidTensor, TensorInfo};

/// Reads numbers one after the other; what fails knows its offset.
pub(crate) struct Cursor<'a, 'de, B> {
    source: &'a mut B,
    offset: u64,
    file: PhantomData<&'de [u8]>,
}

impl<'a, 'de, B: ByteSource<'de>> Cursor<'a, 'de, B> {
    pub(crate) fn new(source: &'a mut B, offset: u64) -> Self {
        Self { source, offset, file: PhantomData }
    }

    /// Where the next byte is read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.source.read_at(self.offset, &mut bytes)?;
        self.offset += N as u64;
        Ok(bytes)
    }

    /// Adds `len` bytes to `bytes`, for which no memory is taken long before they are there.
    #[cfg(any(feature = "ptd", feature = "safetensors"))]
    pub(crate) fn append(&mut self, len: u64, bytes: &mut Vec<u8>) -> Result<()> {
        const AT_ONCE: usize = 1 << 20;
        let mut left = usize::try_from(len).unwrap_or(usize::MAX);
        while left > 0 {
            let now = left.min(AT_ONCE);
            let start = bytes.len();
            bytes.resize(start + now, 0);
            self.source.read_at(self.offset, &mut bytes[start..])?;
            self.offset += now as u64;
            left -= now;
        }
        Ok(())
    }

    /// Passes over a few bytes that may be anything, but must be there.
    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        let mut bytes = [0; 64];
        let bytes = usize::try_from(len).ok().and_then(|len| bytes.get_mut(..len)).expect("padding is short");
        self.source.read_at(self.offset, bytes)?;
        self.offset += len;
        Ok(())
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// `count` numbers. No more memory is taken than twice what has been read.
    pub(crate) fn u64s(&mut self, count: u64) -> Result<Vec<u64>> {
        const AT_ONCE: usize = 512;
        let mut numbers = Vec::new();
        let mut buffer = [0; AT_ONCE * size_of::<u64>()];
        let mut left = usize::try_from(count).unwrap_or(usize::MAX);
        while left > 0 {
            let now = left.min(AT_ONCE);
            let bytes = &mut buffer[..now * size_of::<u64>()];
            self.source.read_at(self.offset, bytes)?;
            self.offset += bytes.len() as u64;
            let chunks = bytes.chunks_exact(size_of::<u64>());
            numbers.extend(chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes"))));
            left -= now;
        }
        Ok(numbers)
    }

    /// The range of a payload that begins here, which must lie within the file.
    pub(crate) fn payload(&self, info: &TensorInfo) -> Result<Range<u64>> {
        let too_large = || InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() };
        let needed = info.payload_bytes().ok_or_else(|| Error::from(too_large()).at(self.offset))? as u64;
        match self.left() {
            Some(left) if left < needed => Err(Error::new(ErrorKind::Truncated { needed, left }).at(self.offset)),
            _ => {
                let end = self.offset.checked_add(needed).ok_or_else(|| Error::from(too_large()).at(self.offset))?;
                Ok(self.offset..end)
            }
        }
    }

    /// The bytes from here to the end of the file, where the length of the file is known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.source.len().map(|len| len.saturating_sub(self.offset))
    }
}
