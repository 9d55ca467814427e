//! Names as a tree that branches at dots, with the sums of each branch.

use indexmap::IndexMap;
use tensorfile::TensorInfo;

/// The maximum number of segments; further dots are text. It bounds the depth for hostile names.
const MAX_DEPTH: usize = 128;

/// A line of a tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The lines that draw the tree, before the label.
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

/// Names as a tree.
#[derive(Debug, Default)]
pub struct Tree<'a>(Node<'a>);

/// There may be millions, so a node without children is small.
#[derive(Debug, Default)]
struct Node<'a> {
    info: Option<&'a TensorInfo>,
    tensors: usize,
    bytes: u64,
    below: Option<Box<IndexMap<&'a str, Node<'a>>>>,
}

impl<'a> Tree<'a> {
    pub fn new(tensors: impl IntoIterator<Item = (&'a str, &'a TensorInfo, u64)>) -> Self {
        let mut root = Node::default();
        for (name, info, bytes) in tensors {
            let mut node = &mut root;
            for segment in name.splitn(MAX_DEPTH, '.') {
                node = node.below.get_or_insert_default().entry(segment).or_default();
                node.tensors += 1;
                node.bytes = node.bytes.saturating_add(bytes);
            }
            node.info = Some(info);
        }
        Self(root)
    }

    /// Calls `each` with each line, in the order of the tensors. The root has no line.
    pub fn lines<E>(&self, each: &mut dyn FnMut(Line<'a>) -> Result<(), E>) -> Result<(), E> {
        self.0.lines("", true, each)
    }
}

impl<'a> Node<'a> {
    fn lines<E>(&self, indent: &str, is_root: bool, each: &mut dyn FnMut(Line<'a>) -> Result<(), E>) -> Result<(), E> {
        let Some(children) = &self.below else { return Ok(()) };
        for (at, (segment, node)) in children.iter().enumerate() {
            let (node, label) = node.skip_single_children(segment);
            let (branch, below) = match (is_root, at + 1 == children.len()) {
                (true, _) => ("", ""),
                (false, false) => ("├── ", "│   "),
                (false, true) => ("└── ", "    "),
            };
            let branch = format!("{indent}{branch}");
            each(Line { branch, label, info: node.info, tensors: node.tensors, bytes: node.bytes })?;
            node.lines(&format!("{indent}{below}"), false, each)?;
        }
        Ok(())
    }

    /// Descends to the first node that is a tensor or has several children; returns it with the segments on the way.
    fn skip_single_children(&self, segment: &str) -> (&Self, String) {
        let (mut node, mut label) = (self, segment.to_owned());
        while let (None, Some(below)) = (node.info, &node.below)
            && let (1, Some((segment, only))) = (below.len(), below.first())
        {
            label.push('.');
            label.push_str(segment);
            node = only;
        }
        (node, label)
    }
}

#[cfg(test)]
mod tests {
    use tensorfile::Dtype;

    use super::*;

    fn drawn(names: &[&str]) -> Vec<String> {
        let info = TensorInfo::new(Dtype::F32, [2]);
        let tree = Tree::new(names.iter().map(|name| (*name, &info, 8)));
        let mut lines = Vec::new();
        let mut line = |line: Line<'_>| {
            let info = line.info.map(ToString::to_string).unwrap_or_default();
            let text = format!("{}{} {} {} {info}", line.branch, line.label, line.tensors, line.bytes);
            lines.push(text.trim_end().to_owned());
            Ok::<_, std::convert::Infallible>(())
        };
        tree.lines(&mut line).unwrap();
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
    fn bounds_the_depth() {
        let deep = ".a".repeat(100_000);
        let names: Vec<&str> = (0..deep.len()).step_by(1000).map(|end| &deep[..end]).collect();
        assert!(drawn(&names).len() <= names.len() + MAX_DEPTH);
    }
}
