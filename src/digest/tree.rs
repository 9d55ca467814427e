use std::convert::Infallible;
use std::io;
use std::sync::Mutex;

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use super::Digest;
use crate::threads::in_order;

/// The number of bytes below one node of BLAKE3's tree, hashed at once by a thread. It must be a power of two.
// A part stays in the cache of the thread that read it. Chunks of 8 MiB were read by all threads and then hashed by
// all: these waited for each other twice in a chunk.
const PART: usize = 256 << 10;

/// A function that fills memory with the bytes from an offset on.
pub(crate) type ReadPart<'r, E> = &'r (dyn Fn(usize, &mut [u8]) -> Result<(), E> + Sync);

/// A function that adds the bytes of a part, given its offset and length, to the hasher of the part.
type HashPart<'h, E> = &'h (dyn Fn(usize, usize, &mut Hasher) -> Result<(), E> + Sync);

/// BLAKE3 of bytes in pieces. Large pieces are hashed by several threads.
///
/// The `blake3` crate does this with its feature `rayon`, in a pool of threads not bounded by [`set_max_threads`].
///
/// [`set_max_threads`]: crate::threads::set_max_threads
#[derive(Debug, Clone)]
pub(super) struct TreeHasher {
    /// The parts before the last, joined to subtrees of maximal size.
    subtrees: Vec<ChainingValue>,
    /// The number of parts in the subtrees.
    parts: u64,
    /// The last part, non-empty unless it is the first.
    last: Hasher,
}

impl TreeHasher {
    pub(super) fn new() -> Self {
        Self { subtrees: Vec::new(), parts: 0, last: Hasher::new() }
    }

    /// Adds the next bytes.
    pub(super) fn update(&mut self, piece: &[u8]) -> &mut Self {
        let hash = |start: usize, len: usize, hasher: &mut Hasher| {
            hasher.update(&piece[start..start + len]);
            Ok(())
        };
        let Ok(()) = self.update_parts::<Infallible>(piece.len(), &hash, &mut |_| {});
        self
    }

    /// Adds the next `len` bytes. `read` fills memory with the bytes from an offset on. Calls `progress` with the
    /// number of bytes of each part.
    ///
    /// # Errors
    ///
    /// The error of the first unreadable part. Some bytes may have been added.
    pub(super) fn update_from<E: Send>(
        &mut self,
        len: usize,
        read: ReadPart<'_, E>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), E> {
        // The bytes of a part stay in the caches of one processor from reading to hashing. A thread takes the buffer
        // returned last, most often its own.
        let buffers = Mutex::new(Vec::<Vec<u8>>::new());
        let lock = || buffers.lock().expect("no thread panics with the lock");
        let hash = |start: usize, len: usize, hasher: &mut Hasher| {
            let mut buffer = lock().pop().unwrap_or_default();
            buffer.resize(len.max(buffer.len()), 0);
            read(start, &mut buffer[..len])?;
            hasher.update(&buffer[..len]);
            lock().push(buffer);
            Ok(())
        };
        self.update_parts(len, &hash, progress)
    }

    /// Adds the next `len` bytes, part by part.
    fn update_parts<E: Send>(
        &mut self,
        len: usize,
        hash: HashPart<'_, E>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), E> {
        let room = PART - usize::try_from(self.last.count()).expect("a part is not that large");
        if len <= room {
            hash(0, len, &mut self.last)?;
            progress(len as u64);
            return Ok(());
        }
        let (begun, before) = (self.last.clone(), self.parts);
        let parts = 1 + (len - room).div_ceil(PART);
        let start = |part: usize| if part == 0 { 0 } else { room + (part - 1) * PART };
        let end = |part: usize| if part + 1 == parts { len } else { start(part + 1) };
        let work = |part: usize, result: &mut Option<Result<Hasher, E>>| {
            let mut hasher = if part == 0 { begun.clone() } else { hasher_of(before + part as u64) };
            let hashed = hash(start(part), end(part) - start(part), &mut hasher);
            *result = Some(hashed.map(|()| hasher));
        };
        let mut part = 0;
        in_order(&mut Vec::new(), parts, len, &work, &mut |result| {
            let hasher = result.take().expect("the part was hashed")?;
            // The last part may be the root, so it is not added.
            if part > 0 {
                self.add(&self.last.finalize_non_root());
            }
            self.last = hasher;
            progress((end(part) - start(part)) as u64);
            part += 1;
            Ok(())
        })
    }

    /// Adds a part before the last one.
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
        let read = |start: usize, part: &mut [u8]| {
            part.copy_from_slice(&bytes[start..start + part.len()]);
            Ok::<(), Infallible>(())
        };
        for parts in 0..=11 {
            for len in [parts * PART, parts * PART + 1, (parts * PART).saturating_sub(1)] {
                let expected = Digest::from(blake3::hash(&bytes[..len]));
                for piece in [1000, PART, PART + 1, 3 * PART - 7, bytes.len()] {
                    let mut hasher = TreeHasher::new();
                    bytes[..len].chunks(piece).for_each(|piece| {
                        hasher.update(piece);
                    });
                    assert_eq!(hasher.finish(), expected, "{len} bytes, pieces of {piece}");
                }
                for before in [0, 40, len] {
                    let (mut hasher, mut counted) = (TreeHasher::new(), 0);
                    let before = before.min(len);
                    let read = |start: usize, part: &mut [u8]| read(before + start, part);
                    hasher.update(&bytes[..before]);
                    let Ok(()) = hasher.update_from(len - before, &read, &mut |bytes| counted += bytes);
                    assert_eq!(hasher.finish(), expected, "{len} bytes, of which {before} are not read");
                    assert_eq!(counted, (len - before) as u64);
                }
            }
        }
    }

    #[test]
    fn the_error_is_that_of_the_first_part_that_cannot_be_read() {
        for len in [PART, 11 * PART] {
            let mut hasher = TreeHasher::new();
            hasher.update(&[7; 40]);
            let fail = |start: usize, _: &mut [u8]| Err(start);
            assert_eq!(hasher.update_from(len, &fail, &mut |_| {}), Err(0));
            let fail_later = |start: usize, _: &mut [u8]| if start > 3 * PART { Err(start) } else { Ok(()) };
            let read = hasher.update_from(len, &fail_later, &mut |_| {});
            assert_eq!(read, if len == PART { Ok(()) } else { Err(4 * PART - 40) });
        }
    }
}
