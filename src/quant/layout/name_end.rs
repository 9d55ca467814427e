//! Ends of names.

/// The end of a name that says what a tensor is.
pub(super) struct NameEnd {
    text: &'static str,
    /// A whole name below its module.
    is_leaf: bool,
}

impl NameEnd {
    /// An end. One that begins with a dot is a whole name below its module, which may be the root.
    pub(super) const fn new(end: &'static str) -> Self {
        match end.as_bytes() {
            [b'.', ..] => Self::leaf(end.split_at(1).1),
            _ => Self { text: end, is_leaf: false },
        }
    }

    /// A whole name below its module.
    pub(super) const fn leaf(text: &'static str) -> Self {
        Self { text, is_leaf: true }
    }

    /// Returns the last byte.
    pub(super) const fn last(&self) -> u8 {
        self.text.as_bytes()[self.text.len() - 1]
    }

    /// Returns a name without the end; but the dot stays.
    #[inline]
    pub(super) fn strip<'n>(&self, name: &'n str) -> Option<&'n str> {
        let start = name.len().checked_sub(self.text.len())?;
        // Few names pass, and to compare all bytes is a call.
        if name.as_bytes()[start] != self.text.as_bytes()[0] {
            return None;
        }
        let stem = name.strip_suffix(self.text)?;
        (!self.is_leaf || stem.is_empty() || stem.ends_with('.')).then_some(stem)
    }
}
