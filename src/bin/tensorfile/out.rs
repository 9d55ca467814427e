//! Standard output: where data goes, and how it looks there.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use anstyle::Style;

/// The line above a table, and the one that sums it up.
pub const HEADER: Style = Style::new().bold();
/// What is there to guide the eye.
pub const FAINT: Style = Style::new().dimmed();

/// Standard output, buffered.
///
/// Bytes pass through as they are, so styles are only written where they can be seen; see [`Out::styled`].
#[derive(Debug)]
pub struct Out {
    stdout: BufWriter<StdoutLock<'static>>,
    color: bool,
    terminal: bool,
}

impl Out {
    pub fn new() -> Self {
        let stdout = io::stdout();
        let color = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let terminal = stdout.is_terminal();
        Self { stdout: BufWriter::with_capacity(1 << 16, stdout.lock()), color, terminal }
    }

    /// Whether somebody reads along.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The columns of the terminal, if it is one.
    pub fn width(&self) -> Option<usize> {
        let (width, _) = self.terminal.then(terminal_size::terminal_size)??;
        Some(width.0.into())
    }

    /// The text in that style, where the output shows styles.
    pub fn styled<'a>(&self, style: Style, text: &'a str) -> Cow<'a, str> {
        match self.color && !text.is_empty() {
            true => format!("{style}{text}{style:#}").into(),
            false => text.into(),
        }
    }

    /// Writes the value as indented JSON and a line's end.
    pub fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.stdout, value)?;
        self.stdout.write_all(b"\n")
    }

    /// Writes what is still in memory.
    pub fn finish(mut self) -> io::Result<()> {
        self.stdout.flush()?;
        // Dropped, it would be flushed again and block forever on what cannot be written.
        let (_, rest) = self.stdout.into_parts();
        drop(rest);
        Ok(())
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stdout.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Says something on standard error that is no failure.
pub fn note(message: impl std::fmt::Display) {
    // Nobody is left to be told that standard error is closed.
    let _ = writeln!(anstream::stderr().lock(), "tensorfile: {}", plain(&message.to_string()));
}

/// Text from a file, such as a name, as it can be shown: what would steer a terminal, or turn its text around, is
/// written as an escape.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_unseen(c) {
            true => write!(shown, "{}", c.escape_default()).expect("a string can be written to"),
            false => shown.push(c),
        }
    }
    shown.into()
}

fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert!(matches!(plain("layers.0.gewicht_ä"), Cow::Borrowed(_)));
        assert_eq!(plain("a\u{1b}[2J\n\u{202e}b"), "a\\u{1b}[2J\\n\\u{202e}b");
    }
}
