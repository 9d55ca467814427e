use std::fmt::{Display, Write};

/// The name of the place in a value that serde is at: segments joined with dots.
#[derive(Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    /// Goes one segment down; [`truncate`](Self::truncate) with the returned length goes back up.
    pub(crate) fn push(&mut self, segment: &str) -> usize {
        let len = self.open();
        self.0.push_str(segment);
        len
    }

    /// [`push`](Self::push) of anything that prints itself.
    pub(crate) fn push_display(&mut self, segment: impl Display) -> Result<usize, std::fmt::Error> {
        let len = self.open();
        match write!(self.0, "{segment}") {
            Ok(()) => Ok(len),
            Err(error) => {
                self.truncate(len);
                Err(error)
            }
        }
    }

    pub(crate) fn push_index(&mut self, index: usize) -> usize {
        self.push(itoa::Buffer::new().format(index))
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the tensor here: a value that is one tensor and nothing more is the first of its file.
    pub(crate) fn name(&self) -> &str {
        if self.0.is_empty() { "0" } else { &self.0 }
    }

    fn open(&mut self) -> usize {
        let len = self.0.len();
        if len > 0 {
            self.0.push('.');
        }
        len
    }
}

/// What of `name` lies under `prefix`: all of it under the empty one, nothing of the prefix itself.
pub(crate) fn strip<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(prefix)?;
    if prefix.is_empty() || rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
}

/// Whether `name` is `prefix` or lies under it.
pub(crate) fn is_under(name: &str, prefix: &str) -> bool {
    strip(name, prefix).is_some()
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
            ("a", "", Some("a")),
            ("b", "a", None),
        ] {
            assert_eq!(strip(name, prefix), rest, "{name} under {prefix}");
        }
    }
}
