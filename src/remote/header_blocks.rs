//! Bytes of an index that were read from a server, kept up to a number of bytes.

use std::collections::BTreeMap;

/// The most bytes to keep.
const MOST: usize = 64 << 20;

/// Blocks of bytes by their offset. They do not overlap. The least recently used are dropped.
#[derive(Default)]
pub(super) struct HeaderBlocks {
    blocks: BTreeMap<u64, Block>,
    bytes: usize,
    /// Counts uses.
    clock: u64,
}

struct Block {
    bytes: Vec<u8>,
    used: u64,
}

impl HeaderBlocks {
    /// Copies the bytes from `offset` on, as far as they are here, and returns their number.
    pub(super) fn copy(&mut self, offset: u64, bytes: &mut [u8]) -> usize {
        self.clock += 1;
        let mut copied = 0;
        while copied < bytes.len() {
            let next = offset.saturating_add(copied as u64);
            let Some((start, block)) = self.blocks.range_mut(..=next).next_back() else { break };
            let from = usize::try_from(next - start).unwrap_or(usize::MAX);
            let Some(found) = block.bytes.get(from..).filter(|found| !found.is_empty()) else { break };
            block.used = self.clock;
            let now = found.len().min(bytes.len() - copied);
            bytes[copied..copied + now].copy_from_slice(&found[..now]);
            copied += now;
        }
        copied
    }

    /// Returns the end of the last block that begins before `offset`, or `offset` if it lies inside.
    pub(super) fn end_before(&self, offset: u64) -> Option<u64> {
        let (start, block) = self.blocks.range(..=offset).next_back()?;
        Some((start + block.bytes.len() as u64).min(offset))
    }

    /// Returns the first offset from `offset` on that is not here.
    pub(super) fn missing_from(&self, mut offset: u64) -> u64 {
        while let Some((start, block)) = self.blocks.range(..=offset).next_back()
            && start + block.bytes.len() as u64 > offset
        {
            offset = start + block.bytes.len() as u64;
        }
        offset
    }

    /// Returns the start of the next block.
    pub(super) fn next_after(&self, offset: u64) -> Option<u64> {
        self.blocks.range(offset..).next().map(|(start, _)| *start)
    }

    /// Adds bytes, except those present already.
    pub(super) fn insert(&mut self, offset: u64, mut bytes: Vec<u8>) {
        let start = self.missing_from(offset);
        let known = usize::try_from(start - offset).unwrap_or(usize::MAX).min(bytes.len());
        bytes.drain(..known);
        if let Some(next) = self.next_after(start) {
            bytes.truncate(usize::try_from(next - start).unwrap_or(usize::MAX));
        }
        if bytes.is_empty() {
            return;
        }
        self.clock += 1;
        self.bytes += bytes.len();
        self.blocks.insert(start, Block { bytes, used: self.clock });
        while self.bytes > MOST
            && self.blocks.len() > 1
            && let Some((&oldest, _)) = self.blocks.iter().min_by_key(|(_, block)| block.used)
        {
            let dropped = self.blocks.remove(&oldest).expect("it was just found");
            self.bytes -= dropped.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes that are their offsets.
    fn bytes(range: std::ops::Range<u8>) -> Vec<u8> {
        range.collect()
    }

    #[test]
    fn blocks_are_joined_and_do_not_overlap() {
        let mut blocks = HeaderBlocks::default();
        blocks.insert(10, bytes(10..20));
        blocks.insert(30, bytes(30..40));
        blocks.insert(15, bytes(15..25));
        blocks.insert(22, bytes(22..35));
        blocks.insert(0, bytes(0..5));
        assert_eq!(blocks.bytes, 35);
        let mut found = [0; 50];
        assert_eq!(blocks.copy(10, &mut found), 30);
        assert_eq!(found[..30], bytes(10..40));
        assert_eq!((blocks.copy(5, &mut found), blocks.copy(40, &mut found)), (0, 0));
        assert_eq!((blocks.end_before(8), blocks.end_before(35), blocks.end_before(50)), (Some(5), Some(35), Some(40)));
        assert_eq!((blocks.missing_from(3), blocks.missing_from(12), blocks.missing_from(7)), (5, 40, 7));
    }

    #[test]
    fn the_least_recently_used_is_dropped() {
        let mut blocks = HeaderBlocks::default();
        let len = MOST / 4;
        for number in 0..4 {
            blocks.insert(number * len as u64, vec![0; len]);
        }
        blocks.copy(0, &mut [0]);
        blocks.insert(10 * len as u64, vec![0; 1]);
        let is_here =
            |blocks: &HeaderBlocks, number: u64| blocks.missing_from(number * len as u64) > number * len as u64;
        assert!(is_here(&blocks, 0) && !is_here(&blocks, 1) && is_here(&blocks, 10));
        assert!(blocks.bytes <= MOST);
    }
}
