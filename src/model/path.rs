//! The name of the current place in a value, as segments with dots in between.

use crate::error::{ErrorKind, Result};

/// The name of a place in a value: segments joined with dots.
///
/// The root is not the same as a place with an empty name.
#[derive(Debug, Default)]
pub(crate) struct Path {
    text: String,
    depth: usize,
}

/// A place on a [`Path`] to return to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    len: usize,
    depth: usize,
}

impl Mark {
    /// Returns whether this is the root.
    pub(crate) fn is_root(self) -> bool {
        self.depth == 0
    }
}

impl Path {
    /// Goes down one segment, or several if it has dots. Pass the result to [`back_to`](Self::back_to) to go up again.
    pub(crate) fn push(&mut self, segment: &str) -> Mark {
        let mark = self.open();
        self.text.push_str(segment);
        mark
    }

    pub(crate) fn push_index(&mut self, index: usize) -> Mark {
        self.push(itoa::Buffer::new().format(index))
    }

    /// Goes to an item of the list at `list`, from the item before it. Returns the place of the item, and
    /// [`back_to`](Self::back_to) leaves the list after the last one.
    #[inline]
    pub(crate) fn go_to_item(&mut self, list: Mark, index: usize) -> Mark {
        match index % 10 {
            0 => {
                self.back_to(list);
                self.push_index(index);
            }
            // Only the last digit differs.
            digit => {
                self.text.pop();
                self.text.push(char::from(b"0123456789"[digit]));
            }
        }
        self.mark()
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

    /// Returns the number of segments.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Refuses names deeper than any type. A recursive type would follow them until the stack overflows.
    pub(crate) fn check_depth(&self) -> Result<()> {
        const LIMIT: usize = 128;
        if self.depth <= LIMIT {
            return Ok(());
        }
        let what = "number of segments in a name";
        Err(ErrorKind::Limit { what, found: self.depth as u64, limit: LIMIT as u64 }.into())
    }

    /// Returns the name of the tensor here. A value of a single tensor is the first one of its file.
    pub(crate) fn name(&self) -> &str {
        if self.is_root() { "0" } else { &self.text }
    }

    /// Returns the common beginning of all names below, without the dot; `None` at the root.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.prefix_at(self.mark())
    }

    /// Returns the [`prefix`](Self::prefix) at a place above.
    pub(crate) fn prefix_at(&self, mark: Mark) -> Option<&str> {
        (!mark.is_root()).then(|| &self.text[..mark.len])
    }

    /// Returns the segments pushed since the mark.
    pub(crate) fn since(&self, mark: Mark) -> &str {
        let dot = usize::from(!mark.is_root() && self.depth > mark.depth);
        &self.text[mark.len + dot..]
    }

    /// Returns the rest of `name` below this place: all of it at the root, and `""` if it is the name of this place.
    pub(crate) fn strip<'a>(&self, name: &'a str) -> Option<&'a str> {
        if self.is_root() { Some(name) } else { strip(name, &self.text) }
    }

    /// Returns whether `name` is the name of this place.
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

/// Returns the rest of `name` below `prefix`: `""` if it is the prefix itself.
pub(crate) fn strip<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(prefix)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
}

/// Returns the key of a map of structs, as part of a name.
pub(crate) fn first_segment(rest: &str) -> &str {
    rest.split_once('.').map_or(rest, |(key, _)| key)
}

/// Returns the key of a map of lists, as part of a name: the segments before an index, or the whole name of a tensor of
/// rank 1.
pub(crate) fn list_key(rest: &str) -> &str {
    match rest.split_once('.') {
        Some((key, below)) if is_index(first_segment(below)) => key,
        _ => rest,
    }
}

/// Returns whether a segment is a number as [`Path::push_index`] writes it.
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
    fn items_are_numbered_in_order() {
        let mut path = Path::default();
        for depth in 0..3 {
            let list = path.mark();
            for index in 0..=1200 {
                path.go_to_item(list, index);
                assert_eq!((path.since(list), path.depth()), (&*index.to_string(), depth + 1));
            }
        }
        assert_eq!(path.name(), "1200.1200.1200");
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
