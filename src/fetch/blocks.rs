//! Blocks of tensors whose elements are stored in another order: reading a part of a block takes as long as all of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::tensor::try_zeros;

/// The most bytes of blocks that are held.
const MOST_HELD: usize = 128 << 20;

/// The blocks of several tensors that were read last.
#[derive(Debug, Default)]
pub(crate) struct SharedBlocks {
    held: Mutex<Vec<HeldBlock>>,
    /// The number of tensors.
    tensors: AtomicU64,
}

#[derive(Debug)]
struct HeldBlock {
    /// The tensor, and the number of the block in it.
    tensor: u64,
    number: u64,
    len: usize,
    /// `None` until it is read.
    bytes: Arc<Mutex<Option<Vec<u8>>>>,
}

/// Reads a tensor of `bytes` bytes in blocks.
#[derive(Debug)]
pub(super) struct BlockCache {
    block: usize,
    bytes: u64,
    tensor: u64,
    shared: Arc<SharedBlocks>,
}

/// Fills memory with the bytes of a tensor from an offset on.
type FillFrom<'f> = &'f mut dyn FnMut(u64, &mut [u8]) -> Result<()>;

impl BlockCache {
    pub(super) fn new(block: usize, bytes: u64, shared: &Arc<SharedBlocks>) -> Self {
        let tensor = shared.tensors.fetch_add(1, Ordering::Relaxed);
        Self { block, bytes, tensor, shared: Arc::clone(shared) }
    }

    /// Fills `bytes` with the bytes from an offset on. Whole blocks are not held.
    pub(super) fn read(&self, mut from: u64, mut bytes: &mut [u8], fill: FillFrom<'_>) -> Result<()> {
        let block = self.block as u64;
        while !bytes.is_empty() {
            let number = from / block;
            let start = number * block;
            let len = usize::try_from((self.bytes - start).min(block)).unwrap_or(self.block);
            let skipped = usize::try_from(from - start).unwrap_or(len);
            let count = bytes.len().min(len - skipped);
            let (now, rest) = bytes.split_at_mut(count);
            if now.len() == len {
                fill(start, now)?;
            } else {
                let held = self.held(number, len);
                // Other threads wait for the block instead of reading it too.
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                if held.is_none() {
                    let mut memory = try_zeros(len)?;
                    fill(start, &mut memory)?;
                    *held = Some(memory);
                }
                now.copy_from_slice(&held.as_ref().expect("it was read")[skipped..skipped + now.len()]);
            }
            (from, bytes) = (from + now.len() as u64, rest);
        }
        Ok(())
    }

    /// Returns the place of a block, and makes room for it.
    fn held(&self, number: u64, len: usize) -> Arc<Mutex<Option<Vec<u8>>>> {
        let mut held = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = held.iter().find(|held| (held.tensor, held.number) == (self.tensor, number)) {
            return Arc::clone(&found.bytes);
        }
        while !held.is_empty() && held.iter().map(|held| held.len).sum::<usize>() + len > MOST_HELD {
            held.remove(0);
        }
        let bytes = Arc::default();
        held.push(HeldBlock { tensor: self.tensor, number, len, bytes: Arc::clone(&bytes) });
        bytes
    }
}
