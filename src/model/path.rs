use std::fmt::{Display, Write};

use crate::error::{ErrorKind, Result};

/// The name of the place in a value that serde is at: segments joined with dots.
///
/// The root is another place than one of an empty name.
#[derive(Debug, Default)]
pub(crate) struct Path {
    text: String,
    depth: usize,
}

/// A place on a [`Path`] to go back to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    len: usize,
    depth: usize,
}

impl Mark {
    /// Whether this is the root.
    pub(crate) fn is_root(self) -> bool {
        self.depth == 0
    }
}

impl Path {
    /// Goes one segment down, or several if it holds dots; [`back_to`](Self::back_to) with what is returned goes back
    /// up.
    pub(crate) fn push(&mut self, segment: &str) -> Mark {
        let mark = self.open();
        self.text.push_str(segment);
        mark
    }

    /// [`push`](Self::push) of anything that prints itself.
    pub(crate) fn push_display(&mut self, segment: impl Display) -> Result<Mark, std::fmt::Error> {
        let mark = self.open();
        match write!(self.text, "{segment}") {
            Ok(()) => Ok(mark),
            Err(error) => {
                self.back_to(mark);
                Err(error)
            }
        }
    }

    pub(crate) fn push_index(&mut self, index: usize) -> Mark {
        self.push(itoa::Buffer::new().format(index))
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { len: self.text.len(), depth: self.depth }
    }

    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.text.truncate(mark.len);
        self.depth = mark.depth;
    }

    pub(crate) fn is_root(&self) -> bool {
        self.depth == 0
    }

    /// The number of segments.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Refuses names of more segments than any type has, which a type that contains itself would follow down to the end
    /// of the stack.
    pub(crate) fn check_depth(&self) -> Result<()> {
        const LIMIT: usize = 128;
        if self.depth <= LIMIT {
            return Ok(());
        }
        let what = "number of segments in a name";
        Err(ErrorKind::Limit { what, found: self.depth as u64, limit: LIMIT as u64 }.into())
    }

    /// The name of the tensor here: a value that is one tensor and nothing more is the first of its file.
    pub(crate) fn name(&self) -> &str {
        if self.is_root() { "0" } else { &self.text }
    }

    /// What all names below begin with, but for the dot; nothing at the root.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.prefix_at(self.mark())
    }

    /// The [`prefix`](Self::prefix) at a place above.
    pub(crate) fn prefix_at(&self, mark: Mark) -> Option<&str> {
        (!mark.is_root()).then(|| &self.text[..mark.len])
    }

    /// What was pushed since the mark.
    pub(crate) fn since(&self, mark: Mark) -> &str {
        let dot = usize::from(!mark.is_root() && self.depth > mark.depth);
        &self.text[mark.len + dot..]
    }

    /// What of `name` lies below: all of it at the root, nothing where it is the name of this place.
    pub(crate) fn strip<'a>(&self, name: &'a str) -> Option<&'a str> {
        match self.prefix() {
            Some(prefix) => strip(name, prefix),
            None => Some(name),
        }
    }

    /// Whether `name` is that of this place.
    pub(crate) fn is(&self, name: &str) -> bool {
        !self.is_root() && self.text == name
    }

    fn open(&mut self) -> Mark {
        let mark = self.mark();
        if self.depth > 0 {
            self.text.push('.');
        }
        self.depth += 1;
        mark
    }
}

/// What of `name` lies under `prefix`: nothing of the prefix itself.
pub(crate) fn strip<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(prefix)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
}

/// The part of a name that is the key of a map of structs.
pub(crate) fn first_segment(rest: &str) -> &str {
    rest.split_once('.').map_or(rest, |(key, _)| key)
}

/// The part of a name that is the key of a map of lists: one segment before an index, or all of a tensor of rank 1.
pub(crate) fn list_key(rest: &str) -> &str {
    match rest.split_once('.') {
        Some((key, below)) if is_index(first_segment(below)) => key,
        _ => rest,
    }
}

/// Whether a segment is a number as [`Path::push_index`] writes it.
pub(crate) fn is_index(segment: &str) -> bool {
    segment == "0" || (segment.starts_with(|first| matches!(first, '1'..='9')) && segment.parse::<usize>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_segments_lie_under_a_prefix() {
        for (name, prefix, rest) in [
            ("a.b", "a", Some("b")),
            ("a", "a", Some("")),
            ("ab", "a", None),
            ("a.b.c", "a.b", Some("c")),
            (".a", "", Some("a")),
            ("a", "", None),
            ("b", "a", None),
        ] {
            assert_eq!(strip(name, prefix), rest, "{name} under {prefix}");
        }
    }

    #[test]
    fn an_empty_segment_is_not_the_root() {
        let mut path = Path::default();
        assert_eq!((path.name(), path.strip("x")), ("0", Some("x")));
        let root = path.push("");
        assert_eq!((path.name(), path.strip("x"), path.since(root)), ("", None, ""));
        let empty = path.push("b");
        assert_eq!((path.name(), path.since(root), path.since(empty)), (".b", ".b", "b"));
        path.back_to(root);
        assert!(path.is_root());
    }
}
