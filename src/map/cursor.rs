//! A line of a map, read from left to right.

use crate::error::{Error, ErrorKind, Result};

/// A place in a line of a map.
#[derive(Debug, Clone)]
pub(super) struct LineCursor<'t> {
    pub(super) line: &'t str,
    pub(super) number: usize,
    pub(super) at: usize,
}

impl<'t> LineCursor<'t> {
    pub(super) fn new(line: &'t str, number: usize) -> Self {
        let is_comment = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
        let end = line.match_indices('#').find(is_comment).map_or(line.len(), |(at, _)| at);
        Self { line: &line[..end], number, at: 0 }
    }

    pub(super) fn first_word(&self) -> &'t str {
        self.line.split_whitespace().next().unwrap_or_default()
    }

    /// Skips the first word.
    pub(super) fn word(&mut self) {
        self.blanks();
        self.at += self.first_word().len();
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.line[self.at..]
    }

    pub(super) fn take_rest(&mut self) -> &'t str {
        let rest = self.rest();
        self.at = self.line.len();
        rest
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn skip(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    /// Skips blanks, and returns the place after them.
    pub(super) fn blanks(&mut self) -> usize {
        self.at = self.line.len() - self.rest().trim_start().len();
        self.at
    }

    /// Skips a text, if it comes next.
    pub(super) fn takes(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    pub(super) fn expect(&mut self, text: &str) -> Result<()> {
        if self.takes(text) { Ok(()) } else { Err(self.here(format!("expected `{text}`"))) }
    }

    /// Returns the text before a letter, or the rest.
    pub(super) fn until(&mut self, end: char) -> &'t str {
        let text = self.rest().split(end).next().unwrap_or_default();
        self.at += text.len();
        text
    }

    /// Reads letters, digits and `_`.
    pub(super) fn name(&mut self, expected: &str) -> Result<&'t str> {
        let len = self.rest().find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest().len());
        let name = &self.rest()[..len];
        if name.is_empty() {
            return Err(self.here(format!("expected {expected}")));
        }
        self.at += len;
        Ok(name)
    }

    pub(super) fn number(&mut self, expected: &str) -> Result<u32> {
        let at = self.at;
        let digits = self.name(expected)?;
        digits.parse().map_err(|_| self.error(at, format!("expected {expected}")))
    }

    pub(super) fn end(&mut self) -> Result<()> {
        self.blanks();
        if self.rest().is_empty() { Ok(()) } else { Err(self.here("expected the end of the line".to_owned())) }
    }

    pub(super) fn here(&self, what: String) -> Error {
        self.error(self.at, what)
    }

    pub(super) fn error(&self, at: usize, what: String) -> Error {
        let column = self.line.get(..at).unwrap_or(self.line).chars().count() + 1;
        ErrorKind::Map { what, line: self.number, column, text: self.line.to_owned() }.into()
    }
}
