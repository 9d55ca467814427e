use std::convert::Infallible;
use std::io;

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use super::Digest;
use crate::pipeline::in_order;

/// The bytes below one node of the tree that BLAKE3 hashes, which a thread hashes at once. A power of two.
const PART: usize = 256 << 10;

/// BLAKE3 of bytes that come in pieces. Large pieces are hashed with several threads.
///
/// The `blake3` crate does this with its feature `rayon`, in a pool of threads that [`set_max_threads`] does not bound.
///
/// [`set_max_threads`]: crate::set_max_threads
#[derive(Debug, Clone)]
pub(super) struct TreeHasher {
    /// The parts before the last, joined to subtrees that are as large as possible.
    subtrees: Vec<ChainingValue>,
    /// The number of parts in the subtrees.
    parts: u64,
    /// The last part, which is not empty unless it is the first.
    last: Hasher,
}

impl TreeHasher {
    pub(super) fn new() -> Self {
        Self { subtrees: Vec::new(), parts: 0, last: Hasher::new() }
    }

    /// Adds the next bytes.
    pub(super) fn update(&mut self, piece: &[u8]) -> &mut Self {
        let room = PART - usize::try_from(self.last.count()).expect("a part is not that large");
        let (now, later) = piece.split_at(piece.len().min(room));
        self.last.update(now);
        if !later.is_empty() {
            self.add(&self.last.finalize_non_root());
            // A part is the root if it turns out to be the only one, so that the last one is left.
            let whole = (later.len() - 1) / PART;
            let (parts, last) = later.split_at(whole * PART);
            let first = self.parts;
            let hash = |part: usize, hash: &mut ChainingValue| {
                let bytes = &parts[part * PART..][..PART];
                *hash = hasher_of(first + part as u64).update(bytes).finalize_non_root();
            };
            let Ok(()) = in_order(&mut Vec::new(), whole, parts.len(), &hash, &mut |hash| {
                self.add(hash);
                Ok::<(), Infallible>(())
            });
            self.last = hasher_of(self.parts);
            self.last.update(last);
        }
        self
    }

    /// Adds a part that is not the last one.
    fn add(&mut self, part: &ChainingValue) {
        self.parts += 1;
        let mut subtree = *part;
        // Two subtrees of one size are joined. As more bytes follow, the result is not the root.
        for _ in 0..self.parts.trailing_zeros() {
            let left = self.subtrees.pop().expect("there is a subtree for each bit of the number of parts");
            subtree = merge_subtrees_non_root(&left, &subtree, Mode::Hash);
        }
        self.subtrees.push(subtree);
    }

    pub(super) fn finish(&self) -> Digest {
        let Some((first, others)) = self.subtrees.split_first() else { return self.last.finalize().into() };
        let last = self.last.finalize_non_root();
        let right = others.iter().rev().fold(last, |right, left| merge_subtrees_non_root(left, &right, Mode::Hash));
        merge_subtrees_root(first, &right, Mode::Hash).into()
    }
}

/// Returns a hasher of the part with this number.
fn hasher_of(part: u64) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(part * PART as u64);
    hasher
}

impl io::Write for TreeHasher {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.update(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_hasher_without_threads() {
        let bytes: Vec<u8> = (0..=250).cycle().take(11 * PART + 5).collect();
        for parts in 0..=11 {
            for len in [parts * PART, parts * PART + 1, (parts * PART).saturating_sub(1)] {
                for piece in [1000, PART, PART + 1, 3 * PART - 7, bytes.len()] {
                    let mut hasher = TreeHasher::new();
                    bytes[..len].chunks(piece).for_each(|piece| {
                        hasher.update(piece);
                    });
                    assert_eq!(hasher.finish(), blake3::hash(&bytes[..len]).into(), "{len} bytes, pieces of {piece}");
                }
            }
        }
    }
}
