//! Proves the names of most models unique without a hash table.

use std::ops::Range;

/// Tracks whether names follow the order in which a tree of structs, lists and maps writes them: names with a common
/// prefix of segments are contiguous.
///
/// No name repeats, and none is a prefix of another. The proof needs no table of all names: under one prefix, segments
/// differ if they ascend, such as list indices or map keys, or if they are few, such as the fields of a struct.
///
/// All names lie in one text, concatenated.
#[derive(Debug, Clone, Default)]
pub(super) struct TreeOrder {
    /// The place of the last name.
    last: Range<usize>,
    /// The parts of the last name.
    levels: Vec<Level>,
    /// The first few segments at each level, level by level, each with its prefix.
    siblings: Vec<Range<usize>>,
    is_broken: bool,
}

/// A segment of a name, and its earlier siblings.
#[derive(Debug, Clone)]
struct Level {
    /// The offset of the part in the name.
    start: usize,
    /// The position of its first sibling.
    first: usize,
    /// The number of parts, itself included.
    count: usize,
    /// Each part is longer than the one before, or as long and sorted after it.
    ascends_by_length: bool,
    /// Each part sorts after the one before.
    ascends: bool,
}

impl TreeOrder {
    /// The most segments compared with each other.
    const FEW: usize = 16;
    /// Names of more parts are not followed.
    const DEPTH: usize = 64;

    /// Returns whether all names so far are known to be in this order.
    #[inline]
    pub(super) fn is_kept(&self) -> bool {
        !self.is_broken
    }

    /// Records a missing or misplaced name.
    pub(super) fn give_up(&mut self) {
        self.is_broken = true;
    }

    /// Advances to the next name, which ends at `end`. Returns whether the order [is kept](Self::is_kept).
    #[inline]
    pub(super) fn go_on(&mut self, text: &[u8], end: usize) -> bool {
        let name = self.last.end..end;
        let last = std::mem::replace(&mut self.last, name.clone());
        self.is_broken = self.is_broken || !self.continues_with(text, last, name);
        !self.is_broken
    }

    #[inline]
    fn continues_with(&mut self, text: &[u8], last: Range<usize>, name: Range<usize>) -> bool {
        let (last, place, name) = (&text[last], name.start, &text[name]);
        let common = common_bytes(last, name);
        // The first level at which the names differ.
        let Some(depth) = self.levels.iter().rposition(|level| level.start <= common) else {
            return self.descend(place, name, 0);
        };
        let (level, deeper) = self.levels[depth..].split_first_mut().expect("it was found");
        let (last_end, end) = (deeper.first().map_or(last.len(), |deeper| deeper.start - 1), end_of_part(name, common));
        let siblings_end = deeper.first().map(|deeper| deeper.first);
        // Common bytes need no comparison.
        let sorts_after = common < end && (common == last_end || last[common] < name[common]);
        level.ascends &= sorts_after;
        level.ascends_by_length &= last_end < end || last_end == end && sorts_after;
        level.count += 1;
        let (first, count, is_sorted) = (level.first, level.count, level.ascends || level.ascends_by_length);
        if let Some(end) = siblings_end {
            self.siblings.truncate(end);
            self.levels.truncate(depth + 1);
        }
        if count <= Self::FEW {
            if !is_sorted && self.siblings[first..].iter().any(|sibling| text[sibling.clone()] == name[..end]) {
                return false;
            }
            self.siblings.push(place..place + end);
        } else if !is_sorted {
            return false;
        }
        end == name.len() || self.descend(place, name, end + 1)
    }

    /// Adds the levels of a name from an offset on. The name begins at `place` in the text.
    fn descend(&mut self, place: usize, name: &[u8], mut start: usize) -> bool {
        while self.levels.len() < Self::DEPTH {
            let end = end_of_part(name, start);
            let first = self.siblings.len();
            self.levels.push(Level { start, first, count: 1, ascends_by_length: true, ascends: true });
            self.siblings.push(place..place + end);
            if end == name.len() {
                return true;
            }
            start = end + 1;
        }
        false
    }
}

/// Returns the offset of the next dot in a name, or its end.
#[inline]
fn end_of_part(name: &[u8], start: usize) -> usize {
    name[start..].iter().position(|byte| *byte == b'.').map_or(name.len(), |dot| start + dot)
}

/// Returns the length of the common prefix of two names.
#[inline]
pub(super) fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    let (words, other_words) = (one.as_chunks::<8>().0, other.as_chunks::<8>().0);
    for (index, (one, other)) in words.iter().zip(other_words).enumerate() {
        let different = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if different != 0 {
            return index * 8 + different.trailing_zeros() as usize / 8;
        }
    }
    let start = words.len().min(other_words.len()) * 8;
    start + one[start..].iter().zip(&other[start..]).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_tree_order(list: &[&str]) -> bool {
        let (mut text, mut order) = (String::new(), TreeOrder::default());
        list.iter().all(|name| {
            text.push_str(name);
            order.go_on(text.as_bytes(), text.len())
        })
    }

    #[test]
    fn structs_lists_and_maps_write_names_in_the_order_of_a_tree() {
        let list: Vec<String> = (0..1200)
            .flat_map(|index| ["w", "b", "norm.scale", "norm.b"].map(|name| format!("l.{index}.{name}")))
            .collect();
        let mut sorted = list.clone();
        sorted.sort();
        for names in [list, sorted] {
            assert!(has_tree_order(&names.iter().map(String::as_str).collect::<Vec<_>>()));
        }
    }

    #[test]
    fn no_name_or_beginning_of_one_comes_again() {
        for names in [
            &["a", "a"][..],
            &["a", "b", "a"],
            &["a.x", "b.x", "a.y"],
            &["a", "a.x"],
            &["a.x", "a"],
            &["a.b.x", "a.y", "a.b"],
            &["a.b.x", "a.c", "b", "a.d"],
            &["", ""],
            &["a.", "a.x", "a."],
        ] {
            assert!(!has_tree_order(names), "{names:?}");
        }
        // Many unordered segments are not compared.
        let many: Vec<String> = (0..40).map(|index| ((index * 7) % 40).to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(has_tree_order(&many[..TreeOrder::FEW]) && !has_tree_order(&many));
    }

    #[test]
    fn is_right_about_all_short_lists_of_names() {
        let names = ["a", "b", "a.a", "a.b", "b.a", "a.b.a", "", ".", "a."];
        let starts_with = |name: &str, parts: &str| name.strip_prefix(parts).is_some_and(|rest| rest.starts_with('.'));
        for number in 0..names.len().pow(4) {
            let list: Vec<&str> = (0..4).map(|index| names[number / names.len().pow(index) % names.len()]).collect();
            let repeats = (0..4)
                .any(|index| list[..index].iter().any(|name| *name == list[index] || starts_with(list[index], name)));
            let contains = (0..4).any(|index| list[..index].iter().any(|name| starts_with(name, list[index])));
            // A prefix that returns after different ones.
            let returns = (2..4).any(|index| {
                let dots = list[index].match_indices('.').map(|(dot, _)| &list[index][..dot]);
                dots.into_iter().any(|parts| {
                    !starts_with(list[index - 1], parts) && list[..index].iter().any(|name| starts_with(name, parts))
                })
            });
            assert_eq!(has_tree_order(&list), !repeats && !contains && !returns, "{list:?}");
        }
    }
}
