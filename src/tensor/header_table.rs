//! A table of distinct tensor headers, with a guess at the next one: the layers of a model repeat.

use smallvec::SmallVec;

use crate::tensor::{Layout, TensorInfo};

/// Distinct tensor headers. Most tensors of a model share their header with other tensors.
#[derive(Debug, Clone)]
pub(crate) struct HeaderTable {
    all: SmallVec<[TensorInfo; 1]>,
    /// The number of the header added or found last.
    last: u32,
    /// A guess at the next header: `next[n % RECENT]` last followed header `n`. It is often right, because layers
    /// repeat.
    next: [u32; Self::RECENT],
    /// The numbers of headers added or found before, by a part of their hash.
    recent: [u32; Self::RECENT],
    /// The memory outside of `all`, in bytes.
    outside: usize,
    pub(crate) has_coo: bool,
}

impl Default for HeaderTable {
    // In its place: it is part of larger values, and would be copied into them.
    #[inline]
    fn default() -> Self {
        Self {
            all: SmallVec::new(),
            last: 0,
            next: [0; Self::RECENT],
            recent: [0; Self::RECENT],
            outside: 0,
            has_coo: false,
        }
    }
}

impl HeaderTable {
    const RECENT: usize = 16;
    /// The number of headers compared one by one.
    const NEWEST: usize = 8;

    pub(crate) fn clear(&mut self) {
        self.all.clear();
        (self.last, self.next, self.recent, self.outside, self.has_coo) = Default::default();
    }

    /// Adds a header, and returns its number. If one of the last ones is the same, it is its number.
    #[inline]
    pub(crate) fn add(&mut self, info: TensorInfo) -> u32 {
        match self.find(&info) {
            Some(number) => number,
            None => self.add_new(info),
        }
    }

    /// Returns the number of an equal header among the recent ones.
    // Inlined into the loops that fill an index or a plan.
    #[inline(always)]
    pub(crate) fn find(&mut self, info: &TensorInfo) -> Option<u32> {
        let next = self.next[self.last as usize % Self::RECENT];
        if self.is(next, info) {
            self.last = next;
            return Some(next);
        }
        let found = self.find_recent(info)?;
        self.set_last(found);
        Some(found)
    }

    fn find_recent(&self, info: &TensorInfo) -> Option<u32> {
        if self.all.is_empty() {
            return None;
        }
        let number = self.recent[recent_place(info)];
        if self.is(number, info) {
            return Some(number);
        }
        // Several headers used in turn may collide.
        let end = u32::try_from(self.all.len()).ok()?;
        (0..end).rev().take(Self::NEWEST).find(|number| self.is(*number, info))
    }

    fn set_last(&mut self, number: u32) {
        self.next[self.last as usize % Self::RECENT] = number;
        self.last = number;
    }

    /// Returns whether a header has this number.
    // Inlined into `find`, which compares recent headers with that of each tensor.
    #[inline(always)]
    fn is(&self, number: u32, info: &TensorInfo) -> bool {
        match self.as_slice().get(number as usize) {
            Some(known) => *known == *info,
            None => false,
        }
    }

    /// Adds a header not found by [`find`](Self::find), and returns its number.
    pub(crate) fn add_new(&mut self, info: TensorInfo) -> u32 {
        let number = u32::try_from(self.all.len()).expect("there are no more than tensors");
        let tag = if let Layout::Unknown(unknown) = &info.layout { unknown.text_bytes() } else { 0 };
        self.outside += size_of_val(info.shape.dims()) + tag;
        self.has_coo |= matches!(info.layout, Layout::Coo { .. });
        self.recent[recent_place(&info)] = number;
        self.set_last(number);
        self.all.push(info);
        number
    }

    /// Returns the headers, in the order of their numbers.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[TensorInfo] {
        &self.all
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &TensorInfo {
        &self.as_slice()[number as usize]
    }

    /// Returns the memory for all headers, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.all.len() * size_of::<TensorInfo>() + self.outside
    }

    pub(crate) fn shrink(&mut self) {
        self.all.shrink_to_fit();
    }
}

/// Returns the place of a header in [`HeaderTable::recent`].
#[inline]
fn recent_place(info: &TensorInfo) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let dims = info.shape.dims().iter();
    let mixed = dims.fold(info.dtype as u64, |mixed, dim| (mixed ^ *dim as u64).wrapping_mul(FACTOR));
    usize::try_from(mixed >> 60).expect("four bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Dtype;

    #[test]
    fn the_same_header_is_stored_once() {
        let mut infos = HeaderTable::default();
        let numbers: Vec<u32> = (0..100).map(|index| infos.add(TensorInfo::new(Dtype::F32, [index % 2, 64]))).collect();
        assert!(numbers.iter().zip(0..).all(|(number, index)| *number == index % 2));
        // Of all pairs, some collide.
        for (one, other) in (0..40).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let mut infos = HeaderTable::default();
            let turns = [one, other, one, other].map(|dim| infos.add(TensorInfo::new(Dtype::F32, [dim])));
            assert_eq!(turns, [0, 1, 0, 1], "{one} and {other}");
        }
        let others: Vec<u32> = (0..100).map(|index| infos.add(TensorInfo::new(Dtype::F32, [index, 1]))).collect();
        assert!(others.iter().zip(0..).all(|(number, index)| infos.get(*number).shape == [index, 1]));
    }
}
