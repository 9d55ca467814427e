//! Names packed into one string.

use std::ops::Range;

use smallvec::SmallVec;

/// The names of tensors, concatenated: each takes its length and 8 bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct PackedNames {
    pub(super) text: String,
    /// The end of each name in `text`, doubled, plus one for an unnamed tensor. Unnamed tensors at the end are omitted.
    pub(super) ends: SmallVec<[usize; 2]>,
}

impl PackedNames {
    /// Sets the name of a tensor, after the names of all earlier tensors.
    #[inline]
    pub(super) fn set_last(&mut self, index: usize, name: &str) {
        if self.ends.len() < index {
            let unnamed = self.text.len() * 2 + 1;
            self.ends.resize(index, unnamed);
        }
        self.text.push_str(name);
        self.ends.push(self.text.len() * 2);
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Reserves room for more names, with `bytes` bytes in total.
    pub(super) fn reserve(&mut self, names: usize, bytes: usize) {
        self.ends.reserve_exact(names);
        self.text.reserve_exact(bytes);
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&str> {
        Some(&self.text[self.range(index)?])
    }

    /// Returns the bytes of a name. Unlike a slice of the text, they are not checked for the boundaries of characters.
    #[inline]
    pub(super) fn bytes(&self, index: usize) -> Option<&[u8]> {
        Some(&self.text.as_bytes()[self.range(index)?])
    }

    /// Returns whether a tensor has this name.
    #[inline]
    pub(super) fn is(&self, index: usize, name: &[u8]) -> bool {
        self.bytes(index).is_some_and(|own| are_equal(own, name))
    }

    /// Returns the place of a name in the text.
    #[inline]
    pub(super) fn range(&self, index: usize) -> Option<Range<usize>> {
        let ends = self.ends.as_slice();
        let end = ends.get(index).filter(|end| **end % 2 == 0)? / 2;
        let start = index.checked_sub(1).map_or(0, |before| ends[before] / 2);
        Some(start..end)
    }

    pub(super) fn shrink(&mut self) {
        self.text.shrink_to_fit();
    }
}

/// Compares names. Most are too short to be worth a call of `memcmp`.
#[inline]
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    fn ends<const N: usize>(bytes: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
        (bytes.first_chunk(), bytes.last_chunk())
    }
    one.len() == other.len()
        && match one.len() {
            4..8 => ends::<4>(one) == ends(other),
            8..=16 => ends::<8>(one) == ends(other),
            _ => one == other,
        }
}

/// The numbers from 0 on, as text.
#[derive(Debug, Clone)]
pub(super) struct Positions {
    /// The digits of all numbers, concatenated.
    digits: String,
}

impl Positions {
    /// The numbers below `end`.
    pub(super) fn new(end: usize) -> Self {
        let mut positions = Self { digits: String::new() };
        (0..end).for_each(|number| positions.push(number));
        positions
    }

    pub(super) fn push(&mut self, number: usize) {
        self.digits.push_str(itoa::Buffer::new().format(number));
    }

    pub(super) fn get(&self, number: usize) -> &str {
        // The numbers of fewer digits come before.
        let (mut first, mut len, mut start) = (0, 1, 0);
        let mut next = 10;
        while number >= next {
            start += (next - first) * len;
            (first, len) = (next, len + 1);
            next *= 10;
        }
        let start = start + (number - first) * len;
        &self.digits[start..start + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_numbers_in_decimal() {
        let positions = Positions::new(1201);
        (0..1201).for_each(|number| assert_eq!(positions.get(number), number.to_string()));
    }

    #[test]
    fn names_of_any_length_are_compared_whole() {
        for len in 0..40 {
            let name = vec![b'a'; len];
            assert!(are_equal(&name, &name.clone()) && !are_equal(&name, &vec![b'a'; len + 1]));
            for index in 0..len {
                let mut other = name.clone();
                other[index] = b'b';
                assert!(!are_equal(&name, &other), "{index} of {len}");
            }
        }
    }

    #[test]
    fn a_list_of_names_has_gaps() {
        let mut names = PackedNames::default();
        names.set_last(1, "a");
        names.set_last(2, "");
        names.set_last(5, "bc");
        let found: Vec<_> = (0..7).map(|index| names.get(index)).collect();
        assert_eq!(found, [None, Some("a"), Some(""), None, None, Some("bc"), None]);
    }
}
