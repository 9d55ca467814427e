use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use hashbrown::HashMap;

/// Which tensors are stored once under several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// No tensors share bytes.
    Never,
    /// Tensors that share memory, and tensors tied by their type.
    SameMemory,
    /// Tensors with equal bytes, and tensors tied by their type.
    EqualBytes,
}

/// 128 bits that differ if the bytes differ: two hashes with random keys.
pub(super) type KeyedDigest = [u64; 2];

/// Computes a [`KeyedDigest`], independent of how the bytes are split into writes.
#[derive(Clone)]
pub(super) struct Digester([DefaultHasher; 2]);

impl Digester {
    pub(super) fn write(&mut self, piece: &[u8]) {
        self.0.iter_mut().for_each(|hasher| hasher.write(piece));
    }

    pub(super) fn digest(&self) -> KeyedDigest {
        [self.0[0].finish(), self.0[1].finish()]
    }
}

/// The groups of tensors in a plan that share bytes.
pub(super) struct Shared {
    /// For each of them, the first with its bytes, and their digest.
    tensors: HashMap<usize, (usize, KeyedDigest)>,
    keys: [RandomState; 2],
}

impl Shared {
    pub(super) fn new(tensors: HashMap<usize, (usize, KeyedDigest)>, keys: [RandomState; 2]) -> Self {
        Self { tensors, keys }
    }

    pub(super) fn owner(&self, index: usize) -> usize {
        self.tensors.get(&index).map_or(index, |(owner, _)| *owner)
    }

    /// Returns the sharing among the tensors at `positions`, renumbered. Tensors that share bytes are given together.
    pub(super) fn subset(&self, positions: &[usize]) -> Self {
        let new: HashMap<usize, usize> = positions.iter().enumerate().map(|(new, &index)| (index, new)).collect();
        let tensor = |(index, &(owner, digest)): (&usize, &(usize, KeyedDigest))| {
            Some((*new.get(index)?, (*new.get(&owner)?, digest)))
        };
        Self { tensors: self.tensors.iter().filter_map(tensor).collect(), keys: self.keys.clone() }
    }

    pub(super) fn digest(&self, index: usize) -> Option<(KeyedDigest, Digester)> {
        let (_, digest) = self.tensors.get(&index)?;
        Some((*digest, digester(&self.keys)))
    }
}

pub(super) fn digester(keys: &[RandomState; 2]) -> Digester {
    Digester(keys.each_ref().map(BuildHasher::build_hasher))
}

impl io::Write for Digester {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_do_not_depend_on_pieces() {
        let keys = [RandomState::new(), RandomState::new()];
        let bytes: Vec<u8> = (0..=255).collect();
        let mut whole = digester(&keys);
        whole.write(&bytes);
        for len in [1, 3, 7, 8, 9, 100] {
            let mut pieces = digester(&keys);
            bytes.chunks(len).for_each(|piece| pieces.write(piece));
            assert_eq!(pieces.digest(), whole.digest(), "pieces of {len} bytes");
        }
    }
}
