//! Names as a tree with a branch at each dot, and the sums of each branch.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use tensorfile::TensorInfo;

/// The maximum number of segments; further dots are text. It bounds the depth for hostile names.
const MAX_DEPTH: usize = 128;

/// A line of a tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The drawing of the tree before the label.
    pub branch: String,
    /// A segment of the names below, or several if nothing branches off between them.
    pub label: String,
    /// The tensor with this name.
    pub info: Option<&'a TensorInfo>,
    /// The number of tensors here and below.
    pub tensors: usize,
    /// The bytes of these tensors.
    pub bytes: u64,
}

/// Tensors listed as a tree.
///
/// There may be millions, so there are no nodes: tensors are grouped by segment after segment of their names.
pub struct Tree<'a, 't> {
    /// For each tensor the number of its group, as far as they are grouped, and its position.
    items: Vec<(u32, u32)>,
    tensor: &'t dyn Fn(usize) -> (&'a str, &'a TensorInfo, u64),
}

impl<'a, 't> Tree<'a, 't> {
    /// A tree of `len` tensors. `tensor` returns the name, info and bytes of each.
    pub fn new(len: usize, tensor: &'t dyn Fn(usize) -> (&'a str, &'a TensorInfo, u64)) -> Self {
        let len = u32::try_from(len).expect("the index of more tensors does not fit into memory");
        Self { items: (0..len).map(|index| (0, index)).collect(), tensor }
    }

    /// Calls `each` with each line, in the order of the tensors. The root has no line.
    pub fn lines<E>(&mut self, each: &mut dyn FnMut(Line<'a>) -> Result<(), E>) -> Result<(), E> {
        Branch { tensor: self.tensor, indent: "", start: 0, depth: 0 }.lines(&mut self.items, each)
    }
}

/// A prefix of names.
#[derive(Clone, Copy)]
struct Branch<'a, 't> {
    tensor: &'t dyn Fn(usize) -> (&'a str, &'a TensorInfo, u64),
    /// The text before the lines of the branch.
    indent: &'t str,
    /// The bytes of the prefix, with the dot after it.
    start: usize,
    /// The number of segments in the prefix.
    depth: usize,
}

impl<'a> Branch<'a, '_> {
    fn tensor(&self, item: (u32, u32)) -> (&'a str, &'a TensorInfo, u64) {
        (self.tensor)(item.1 as usize)
    }

    /// Returns the segment of a name after the prefix.
    fn segment(&self, item: (u32, u32)) -> &'a str {
        let rest = &self.tensor(item).0[self.start..];
        let end = rest.find('.').filter(|_| self.depth + 1 < MAX_DEPTH);
        &rest[..end.unwrap_or(rest.len())]
    }

    /// Returns whether a name ends with the segment after the prefix.
    fn ends(&self, item: (u32, u32)) -> bool {
        self.tensor(item).0.len() == self.start + self.segment(item).len()
    }

    /// Calls `each` with the lines of these tensors. All have the prefix.
    fn lines<E>(self, items: &mut [(u32, u32)], each: &mut dyn FnMut(Line<'a>) -> Result<(), E>) -> Result<(), E> {
        self.group(items);
        let mut left = items;
        while let Some(&(number, _)) = left.first() {
            let len = left.partition_point(|item| item.0 == number);
            let (group, others) = left.split_at_mut(len);
            left = others;
            self.line(group, left.is_empty(), each)?;
        }
        Ok(())
    }

    /// Brings tensors with the same segment together, in the order of the first ones.
    fn group(&self, items: &mut [(u32, u32)]) {
        let hasher = DefaultHashBuilder::default();
        let mut groups: HashTable<(u32, u32)> = HashTable::new();
        for item in &mut *items {
            let segment = self.segment(*item);
            let hash = |item: &(u32, u32)| hasher.hash_one(self.segment(*item));
            let number = u32::try_from(groups.len()).expect("there are no more groups than tensors");
            let found = groups.entry(hasher.hash_one(segment), |first| self.segment(*first) == segment, hash);
            item.0 = found.or_insert((number, item.1)).get().0;
        }
        drop(groups);
        // Tensors are in the order of their positions, unless they were brought together before.
        if !items.is_sorted_by_key(|item| item.0) {
            items.sort_unstable();
        }
    }

    /// Calls `each` with the line of tensors with a common segment, and with the lines below it.
    fn line<E>(
        mut self,
        group: &mut [(u32, u32)],
        is_last: bool,
        each: &mut dyn FnMut(Line<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_root = self.depth == 0;
        let mut label = self.segment(group[0]).to_owned();
        let bytes = group.iter().fold(0_u64, |sum, item| sum.saturating_add(self.tensor(*item).2));
        let tensors = group.len();
        // A segment shares a line with the next one, if it is not a tensor and has no other branch.
        while !group.iter().any(|item| self.ends(*item)) {
            let below = Self { start: self.start + self.segment(group[0]).len() + 1, depth: self.depth + 1, ..self };
            let next = below.segment(group[0]);
            if group.iter().any(|item| below.segment(*item) != next) {
                break;
            }
            label.push('.');
            label.push_str(next);
            self = below;
        }
        let end = group.iter().rfind(|item| self.ends(**item));
        let info = end.map(|item| self.tensor(*item).1);
        let (branch, below) = match (is_root, is_last) {
            (true, _) => ("", ""),
            (false, false) => ("├── ", "│   "),
            (false, true) => ("└── ", "    "),
        };
        let (branch, indent) = (format!("{}{branch}", self.indent), format!("{}{below}", self.indent));
        let start = self.start + self.segment(group[0]).len() + 1;
        each(Line { branch, label, info, tensors, bytes })?;
        // Tensors with the name itself come first, in their order.
        if !group.is_sorted_by_key(|item| !self.ends(*item)) {
            group.sort_by_key(|item| !self.ends(*item));
        }
        let ends = group.partition_point(|item| self.ends(*item));
        Branch { tensor: self.tensor, indent: &indent, start, depth: self.depth + 1 }.lines(&mut group[ends..], each)
    }
}

#[cfg(test)]
mod tests {
    use tensorfile::Dtype;

    use super::*;

    fn drawn(names: &[&str]) -> Vec<String> {
        let info = TensorInfo::new(Dtype::F32, [2]);
        let tensor = |index: usize| (names[index], &info, 8);
        let mut tree = Tree::new(names.len(), &tensor);
        let mut lines = Vec::new();
        let line = |line: Line<'_>, lines: &mut Vec<String>| {
            let info = line.info.map(ToString::to_string).unwrap_or_default();
            let text = format!("{}{} {} {} {info}", line.branch, line.label, line.tensors, line.bytes);
            lines.push(text.trim_end().to_owned());
            Ok::<_, std::convert::Infallible>(())
        };
        let mut again = Vec::new();
        tree.lines(&mut |each| line(each, &mut lines)).unwrap();
        tree.lines(&mut |each| line(each, &mut again)).unwrap();
        assert_eq!(lines, again, "the second time");
        lines
    }

    #[test]
    fn branches_have_sums() {
        let names = ["enc.l.0.w", "enc.l.0.b", "enc.l.1.w", "enc.norm", "head.w", "x"];
        let expected = [
            "enc 4 32",
            "├── l 3 24",
            "│   ├── 0 2 16",
            "│   │   ├── w 1 8 f32[2]",
            "│   │   └── b 1 8 f32[2]",
            "│   └── 1.w 1 8 f32[2]",
            "└── norm 1 8 f32[2]",
            "head.w 1 8 f32[2]",
            "x 1 8 f32[2]",
        ];
        assert_eq!(drawn(&names), expected);
    }

    #[test]
    fn tensors_can_be_branches() {
        assert_eq!(drawn(&["a.b", "a", "a.b.c"]), ["a 3 24 f32[2]", "└── b 2 16 f32[2]", "    └── c 1 8 f32[2]"]);
        assert_eq!(drawn(&["", ".", "a."]), [" 2 16 f32[2]", "└──  1 8 f32[2]", "a. 1 8 f32[2]"]);
    }

    #[test]
    fn branches_are_in_the_order_of_their_first_tensors() {
        let names = ["b.y", "a.x", "b.x.1", "c", "a.w", "b.y.2", "b.x", "b.y"];
        let expected = [
            "b 5 40",
            "├── y 3 24 f32[2]",
            "│   └── 2 1 8 f32[2]",
            "└── x 2 16 f32[2]",
            "    └── 1 1 8 f32[2]",
            "a 2 16",
            "├── x 1 8 f32[2]",
            "└── w 1 8 f32[2]",
            "c 1 8 f32[2]",
        ];
        assert_eq!(drawn(&names), expected);
    }

    #[test]
    fn bounds_the_depth() {
        let deep = ".a".repeat(100_000);
        let names: Vec<&str> = (0..deep.len()).step_by(1000).map(|end| &deep[..end]).collect();
        assert!(drawn(&names).len() <= names.len() + MAX_DEPTH);
    }
}
