use std::fmt;
use std::ops::{Deref, DerefMut};

/// Owned bytes that start at a multiple of 8, so that every element type can be viewed in them.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Buffer {
    words: Vec<u64>,
    len: usize,
}

impl Buffer {
    /// `len` zero bytes.
    pub(crate) fn zeroed(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(8)], len }
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Self {
        let mut buffer = match bytemuck::try_cast_slice::<u8, u64>(bytes) {
            Ok(words) => return Self { words: words.to_vec(), len: bytes.len() },
            Err(_) => Self::zeroed(bytes.len()),
        };
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// The first `len` bytes of `words`, without a copy.
    pub(crate) fn from_words(words: Vec<u64>, len: usize) -> Self {
        debug_assert_eq!(words.len(), len.div_ceil(8));
        Self { words, len }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// Makes room for `more` items of the `expected` ones: by doubling, as `Vec` does, but not past what is expected.
///
/// What a file only promises is not allocated: the memory is never more than twice what has come.
pub(crate) fn grow<T>(items: &mut Vec<T>, more: usize, expected: usize) {
    let needed = items.len() + more;
    if needed > items.capacity() {
        let capacity = items.capacity().saturating_mul(2).min(expected).max(needed);
        items.reserve_exact(capacity - items.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_any_number_of_bytes() {
        for len in 0..20_u8 {
            let bytes: Vec<u8> = (0..len).collect();
            assert_eq!(*Buffer::from_slice(&bytes), *bytes);
        }
    }
}
