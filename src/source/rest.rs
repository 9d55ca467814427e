use std::collections::VecDeque;

/// The bytes in a block, but for the last one.
const BLOCK: usize = 256 * 1024;

/// All of a stream from an offset on, in blocks: none is ever moved, and each can be let go of when nobody will ask for it again.
#[derive(Debug)]
pub(super) struct Rest {
    start: u64,
    len: u64,
    blocks: VecDeque<Vec<u8>>,
    /// The blocks that are gone.
    gone: usize,
}

impl Rest {
    pub(super) fn new(start: u64) -> Self {
        Self { start, len: 0, blocks: VecDeque::new(), gone: 0 }
    }

    /// Where it begins, counted from the start of the stream.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Where it ends.
    pub(super) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// The number of bytes, also of those that are gone.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.blocks.back().is_none_or(|block| block.len() == BLOCK) {
                self.blocks.push_back(Vec::new());
            }
            let block = self.blocks.back_mut().expect("one was added if there was none");
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - block.len()));
            super::stream::grow(block, now.len(), BLOCK);
            block.extend_from_slice(now);
            bytes = later;
        }
    }

    /// The bytes from an offset on as far as they lie in one piece, at most `len`; none at the end, and none that are gone.
    pub(super) fn piece(&self, offset: u64, len: u64) -> &[u8] {
        let Some(at) = offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok()) else { return &[] };
        let block = (at / BLOCK).checked_sub(self.gone).and_then(|block| self.blocks.get(block));
        let piece = block.and_then(|block| block.get(at % BLOCK..)).unwrap_or_default();
        &piece[..piece.len().min(usize::try_from(len).unwrap_or(usize::MAX))]
    }

    /// Lets go of the blocks that lie before an offset.
    pub(super) fn release(&mut self, offset: u64) {
        let before = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX) / BLOCK;
        while self.gone < before && self.blocks.pop_front().is_some() {
            self.gone += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_until_they_are_let_go_of() {
        let bytes: Vec<u8> = (0..251).cycle().take(3 * BLOCK + 5).collect();
        let mut rest = Rest::new(7);
        bytes.chunks(1001).for_each(|piece| rest.push(piece));
        assert_eq!((rest.start(), rest.len(), rest.end()), (7, bytes.len() as u64, 7 + bytes.len() as u64));
        let mut found = Vec::new();
        while found.len() < bytes.len() {
            found.extend_from_slice(rest.piece(7 + found.len() as u64, 300_000));
        }
        assert_eq!(found, bytes);
        assert_eq!(rest.piece(rest.end(), 1), []);
        assert_eq!(rest.piece(6, 1), []);

        let second = 7 + BLOCK as u64;
        rest.release(second - 1);
        assert_eq!(rest.piece(7, 2), [0, 1]);
        rest.release(second);
        assert_eq!(rest.piece(7, 2), []);
        assert_eq!(rest.piece(second, 1), [bytes[BLOCK]]);
        rest.release(u64::MAX);
        assert_eq!(rest.piece(second, 1), []);
    }
}
