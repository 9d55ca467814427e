use std::collections::{TryReserveError, VecDeque};

/// The rest of a stream, held in blocks, each freed after it is read.
#[derive(Debug)]
pub(super) struct Rest {
    blocks: VecDeque<Vec<u8>>,
    /// The offset of the first block in the file. All blocks but the last are full.
    start: u64,
    len: u64,
}

const BLOCK: usize = 1 << 20;

impl Rest {
    /// An empty rest starting at `start`.
    pub(super) fn new(start: u64) -> Self {
        Self { blocks: VecDeque::new(), start, len: 0 }
    }

    /// Holds the next bytes, or fails if memory runs out.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TryReserveError> {
        while !bytes.is_empty() {
            if self.blocks.back().is_none_or(|block| block.len() == BLOCK) {
                self.blocks.push_back(Vec::new());
            }
            let block = self.blocks.back_mut().expect("one was just added");
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - block.len()));
            let needed = block.len() + now.len();
            if needed > block.capacity() {
                let capacity = block.capacity().saturating_mul(2).min(BLOCK).max(needed);
                block.try_reserve_exact(capacity - block.len())?;
            }
            block.extend_from_slice(now);
            self.len += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Returns the number of bytes held.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the offset of the end of the file.
    pub(super) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Returns whether bytes from `offset` on are held, as far as the file goes.
    pub(super) fn holds(&self, offset: u64) -> bool {
        offset >= self.start
    }

    /// Returns up to `most` contiguous bytes from `offset` on; none past the end.
    pub(super) fn piece(&self, offset: u64, most: u64) -> &[u8] {
        let index = offset.checked_sub(self.start).and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX);
        let block = self.blocks.get(index / BLOCK).map(Vec::as_slice).unwrap_or_default();
        let piece = block.get(index % BLOCK..).unwrap_or_default();
        &piece[..piece.len().min(usize::try_from(most).unwrap_or(usize::MAX))]
    }

    /// Frees the blocks before `offset`.
    pub(super) fn release(&mut self, offset: u64) {
        while let Some(first) = self.blocks.front()
            && self.start + first.len() as u64 <= offset
        {
            self.start += first.len() as u64;
            self.len -= first.len() as u64;
            self.blocks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_with_their_blocks_and_are_released_with_them() {
        let mut rest = Rest::new(10);
        rest.push(&vec![1; BLOCK + 5]).unwrap();
        rest.push(&[2, 3]).unwrap();
        let second = 10 + BLOCK as u64;
        assert_eq!((rest.len(), rest.end()), (BLOCK as u64 + 7, second + 7));
        assert_eq!(rest.piece(second - 2, 100), [1, 1]);
        assert_eq!(rest.piece(second + 5, 100), [2, 3]);
        assert_eq!(rest.piece(second + 5, 1), [2]);
        assert!(rest.piece(second + 7, 1).is_empty());
        rest.release(second - 1);
        assert!(rest.holds(10));
        rest.release(second);
        assert!(!rest.holds(second - 1));
        assert_eq!((rest.piece(second + 6, 9), rest.end()), (&[3][..], second + 7));
    }
}
