//! Bytes held for tensors whose elements are stored in another order: reading a part of a block takes as long as all of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::error::Result;
use crate::tensor::try_zeros;

/// The most bytes that are held.
pub(super) const MOST_HELD: usize = 192 << 20;

/// What was read last for several tensors.
#[derive(Debug, Default)]
pub(crate) struct SharedBlocks {
    held: Mutex<Vec<HeldBytes>>,
    /// Memory that is not held any more: the first access to new memory takes as long as reading it.
    spare: Mutex<Vec<u8>>,
    /// The number of tensors.
    tensors: AtomicU64,
}

#[derive(Debug)]
struct HeldBytes {
    tensor: u64,
    what: BlockKey,
    len: usize,
    /// `None` until they are read.
    bytes: Arc<RwLock<Option<Vec<u8>>>>,
}

/// Which bytes of a tensor are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKey {
    /// A block of the tensor, given by its number.
    Block(u64),
    /// What is stored for a move of the tensor, in the order in which it is stored.
    Stored(usize),
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
                self.with_held(BlockKey::Block(number), len, &mut |memory| fill(start, memory), &mut |held| {
                    now.copy_from_slice(&held[skipped..skipped + now.len()]);
                })?;
            }
            (from, bytes) = (from + now.len() as u64, rest);
        }
        Ok(())
    }

    /// Calls `take` with bytes that are held, after filling them if they are not yet. Other threads wait for that instead of
    /// reading them too.
    pub(super) fn with_held(
        &self,
        what: BlockKey,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<()>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let held = self.place(what, len);
        if let Some(bytes) = &*held.read().unwrap_or_else(PoisonError::into_inner) {
            take(bytes);
            return Ok(());
        }
        let mut filled = held.write().unwrap_or_else(PoisonError::into_inner);
        if filled.is_none() {
            let mut memory = self.shared.memory(len)?;
            fill(&mut memory)?;
            *filled = Some(memory);
        }
        drop(filled);
        if let Some(bytes) = &*held.read().unwrap_or_else(PoisonError::into_inner) {
            take(bytes);
        }
        Ok(())
    }

    /// Returns the place of some bytes, and makes room for them.
    fn place(&self, what: BlockKey, len: usize) -> Arc<RwLock<Option<Vec<u8>>>> {
        let mut held = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = held.iter().find(|held| (held.tensor, held.what) == (self.tensor, what)) {
            return Arc::clone(&found.bytes);
        }
        while !held.is_empty() && held.iter().map(|held| held.len).sum::<usize>() + len > MOST_HELD {
            let first = held.remove(0).bytes;
            // Unless another thread still reads it.
            if let Some(Ok(Some(memory))) = Arc::into_inner(first).map(RwLock::into_inner) {
                *self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner) = memory;
            }
        }
        let bytes = Arc::default();
        held.push(HeldBytes { tensor: self.tensor, what, len, bytes: Arc::clone(&bytes) });
        bytes
    }
}

impl SharedBlocks {
    /// Returns memory with any bytes.
    fn memory(&self, len: usize) -> Result<Vec<u8>> {
        let mut memory = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
        // What is held is counted by its length.
        if !(len..=len + len / 8).contains(&memory.capacity()) {
            drop(memory);
            return Ok(try_zeros(len)?);
        }
        memory.resize(len, 0);
        Ok(memory)
    }
}
