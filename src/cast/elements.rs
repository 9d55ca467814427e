//! Payloads as whole elements and as chunks of typed elements.

use bytemuck::Pod;
use smallvec::SmallVec;

use crate::tensor::{Element, le_to_host};

/// The most elements in a chunk: few enough to stay in the processor's nearest cache.
pub(crate) const CHUNK: usize = 1024;

/// Calls `take` with the elements in little-endian `bytes`, a chunk at a time.
pub(crate) fn in_chunks<A: Element + Pod>(bytes: &[u8], mut take: impl FnMut(&[A])) {
    each_chunk(bytes, &mut take);
}

// Compiled once for each type of elements, and not for each of the hundred loops over them: one call for 1024 elements
// costs nothing.
fn each_chunk<A: Element + Pod>(bytes: &[u8], take: &mut dyn FnMut(&[A])) {
    let mut copy = [A::zeroed(); CHUNK];
    for bytes in bytes.chunks(CHUNK * size_of::<A>()) {
        if let Some(Ok(elements)) = A::view_le_bytes(bytes) {
            take(elements);
            continue;
        }
        let elements = &mut copy[..bytes.len() / size_of::<A>()];
        bytemuck::cast_slice_mut(elements).copy_from_slice(bytes);
        le_to_host(elements);
        take(elements);
    }
}

/// Appends up to a chunk of elements, filled by `fill` and initially zero, as little-endian bytes.
pub(super) fn append<A: Element + Pod, R>(out: &mut Vec<u8>, elements: usize, fill: impl FnOnce(&mut [A]) -> R) -> R {
    let (mut fill, mut result) = (Some(fill), None);
    append_chunk(out, elements, &mut |elements| result = fill.take().map(|fill| fill(elements)));
    result.expect("it is called once")
}

// As `each_chunk`.
fn append_chunk<A: Element + Pod>(out: &mut Vec<u8>, elements: usize, fill: &mut dyn FnMut(&mut [A])) {
    let start = out.len();
    out.resize(start + elements * size_of::<A>(), 0);
    let added = &mut out[start..];
    if let (Ok(elements), true) = (bytemuck::try_cast_slice_mut(added), cfg!(target_endian = "little")) {
        return fill(elements);
    }
    let mut room = [A::zeroed(); CHUNK];
    let room = &mut room[..elements];
    fill(room);
    added.copy_from_slice(&A::as_le_bytes(room));
}

/// Joins elements cut by the ends of pieces of a payload.
#[derive(Debug, Clone)]
pub(crate) struct WholeElements {
    element: usize,
    skip: usize,
    held: SmallVec<[u8; 8]>,
}

impl WholeElements {
    /// Expects elements of `element` bytes, after `skip` bytes of other data.
    pub(crate) fn new(element: usize, skip: usize) -> Self {
        Self { element, skip, held: SmallVec::new() }
    }

    /// Returns `true` if the next byte is the first of an element.
    pub(crate) fn is_between_elements(&self) -> bool {
        self.skip == 0 && self.held.is_empty()
    }

    /// Adds the next piece, and calls `take` with the complete elements.
    pub(crate) fn add(&mut self, piece: &[u8], mut take: impl FnMut(&[u8])) {
        let (skipped, mut piece) = piece.split_at(piece.len().min(self.skip));
        self.skip -= skipped.len();
        if !self.held.is_empty() {
            let (missing, rest) = piece.split_at(piece.len().min(self.element - self.held.len()));
            self.held.extend_from_slice(missing);
            piece = rest;
            if self.held.len() == self.element {
                take(&std::mem::take(&mut self.held));
            }
        }
        let (whole, cut) = piece.split_at(piece.len() - piece.len() % self.element);
        if !whole.is_empty() {
            take(whole);
        }
        self.held.extend_from_slice(cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_may_cut_elements() {
        let bytes: Vec<u8> = (0..23).collect();
        for piece in 1..=bytes.len() {
            let (mut elements, mut found) = (WholeElements::new(4, 3), Vec::new());
            for piece in bytes.chunks(piece) {
                elements.add(piece, |whole| {
                    assert_eq!(whole.len() % 4, 0);
                    found.extend_from_slice(whole);
                });
            }
            assert_eq!(found, bytes[3..], "pieces of {piece}");
        }
    }
}
