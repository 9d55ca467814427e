use smallvec::SmallVec;

use super::groups::common_bytes;
use super::names::PackedNames;

/// Whether names are in the order in which a tree of structs, lists and maps writes them: names with the same parts before a
/// dot follow one another.
///
/// No two of these names are the same, and none consists of the first parts of another. To know this takes no table of all
/// names: under the same parts, the next parts differ if they ascend, as the numbers of a list or the keys of a map do, or
/// if they are few, as the fields of a struct are.
#[derive(Debug, Clone, Default)]
pub(super) struct TreeOrder {
    /// The parts of the last name.
    levels: SmallVec<[Level; 4]>,
    /// The first few parts at each level, one level after the other.
    siblings: Vec<Part>,
    is_broken: bool,
}

/// One part of a name, and those that came before it under the same parts.
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

/// A part of the name of a tensor.
#[derive(Debug, Clone, Copy)]
struct Part {
    tensor: u32,
    end: usize,
}

impl TreeOrder {
    /// So many parts are compared with each other.
    const FEW: usize = 16;
    /// Names of more parts are not followed.
    const DEPTH: usize = 64;

    /// Returns whether all names so far are known to be in this order.
    #[inline]
    pub(super) fn is_kept(&self) -> bool {
        !self.is_broken
    }

    /// Goes on to the name of the tensor `at`. Returns whether the order [is kept](Self::is_kept).
    #[inline]
    pub(super) fn go_on(&mut self, names: &PackedNames, at: usize) -> bool {
        self.is_broken = self.is_broken || !self.continues_with(names, at);
        !self.is_broken
    }

    #[inline]
    fn continues_with(&mut self, names: &PackedNames, at: usize) -> bool {
        let Some(name) = names.bytes(at) else { return false };
        let Some(last) = at.checked_sub(1) else { return self.descend(name, at, 0) };
        let Some(last) = names.bytes(last) else { return false };
        let common = common_bytes(last, name);
        // The first level at which the names differ.
        let Some(depth) = self.levels.iter().rposition(|level| level.start <= common) else { return false };
        let mut last_end = last.len();
        if let Some(deeper) = self.levels.get(depth + 1) {
            last_end = deeper.start - 1;
            self.siblings.truncate(deeper.first);
            self.levels.truncate(depth + 1);
        }
        let level = &mut self.levels[depth];
        let end = end_of_part(name, common);
        let (before, part) = (&last[..last_end], &name[..end]);
        // What they have in common needs no comparison.
        let sorts_after = before.get(common) < part.get(common);
        level.ascends &= sorts_after;
        level.ascends_by_length &= last_end < end || last_end == end && sorts_after;
        let siblings = &self.siblings[level.first..];
        if !level.ascends && !level.ascends_by_length {
            // Under the same parts, the whole beginnings of names can be compared.
            let is_part =
                |other: &Part| names.bytes(other.tensor as usize).is_some_and(|name| &name[..other.end] == part);
            if level.count > Self::FEW || siblings.iter().any(is_part) {
                return false;
            }
        }
        if level.count <= Self::FEW {
            let Ok(tensor) = u32::try_from(at) else { return false };
            self.siblings.push(Part { tensor, end });
        }
        level.count += 1;
        end == name.len() || self.descend(name, at, end + 1)
    }

    /// Adds the levels of a name from an offset on.
    fn descend(&mut self, name: &[u8], at: usize, mut start: usize) -> bool {
        let Ok(tensor) = u32::try_from(at) else { return false };
        while self.levels.len() < Self::DEPTH {
            let end = end_of_part(name, start);
            let first = self.siblings.len();
            self.levels.push(Level { start, first, count: 1, ascends_by_length: true, ascends: true });
            self.siblings.push(Part { tensor, end });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn has_tree_order(list: &[&str]) -> bool {
        let (mut names, mut order) = (PackedNames::default(), TreeOrder::default());
        list.iter().enumerate().for_each(|(at, name)| names.set_last(at, name));
        (0..list.len()).all(|at| order.go_on(&names, at))
    }

    #[test]
    fn structs_lists_and_maps_write_names_in_the_order_of_a_tree() {
        let list: Vec<String> =
            (0..1200).flat_map(|at| ["w", "b", "norm.scale", "norm.b"].map(|name| format!("l.{at}.{name}"))).collect();
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
        // Many parts that do not ascend are not compared.
        let many: Vec<String> = (0..40).map(|at| format!("{}", (at * 7) % 40)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(has_tree_order(&many[..TreeOrder::FEW]) && !has_tree_order(&many));
    }

    #[test]
    fn is_right_about_all_short_lists_of_names() {
        let names = ["a", "b", "a.a", "a.b", "b.a", "a.b.a", "", ".", "a."];
        let starts_with = |name: &str, parts: &str| name.strip_prefix(parts).is_some_and(|rest| rest.starts_with('.'));
        for number in 0..names.len().pow(4) {
            let list: Vec<&str> = (0..4).map(|at| names[number / names.len().pow(at) % names.len()]).collect();
            let repeats =
                (0..4).any(|at| list[..at].iter().any(|name| *name == list[at] || starts_with(list[at], name)));
            let contains = (0..4).any(|at| list[..at].iter().any(|name| starts_with(name, list[at])));
            // The first parts of a name that come again after other ones.
            let returns = (2..4).any(|at| {
                let dots = list[at].match_indices('.').map(|(dot, _)| &list[at][..dot]);
                dots.into_iter().any(|parts| {
                    !starts_with(list[at - 1], parts) && list[..at].iter().any(|name| starts_with(name, parts))
                })
            });
            assert_eq!(has_tree_order(&list), !repeats && !contains && !returns, "{list:?}");
        }
    }
}
