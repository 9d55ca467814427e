use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use anstyle::Style;

/// The style of column titles and sums.
pub const HEADER: Style = Style::new().bold();
/// The style of captions and remarks.
pub const FAINT: Style = Style::new().dimmed();

/// Buffered standard output.
///
/// Bytes pass through unchanged, so text is only styled if [`styled`](Self::styled) finds that the output shows styles.
#[derive(Debug)]
pub struct Stdout {
    stdout: BufWriter<StdoutLock<'static>>,
    color: bool,
    terminal: bool,
}

impl Stdout {
    pub fn new() -> Self {
        let stdout = io::stdout();
        let color = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let terminal = stdout.is_terminal();
        Self { stdout: BufWriter::with_capacity(1 << 16, stdout.lock()), color, terminal }
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the width of the terminal in characters, if the output is one.
    pub fn width(&self) -> Option<usize> {
        let (width, _) = self.terminal.then(terminal_size::terminal_size)??;
        Some(width.0.into())
    }

    /// Styles the text if the output shows styles.
    pub fn styled<'a>(&self, style: Style, text: &'a str) -> Cow<'a, str> {
        match self.color && !text.is_empty() {
            true => format!("{style}{text}{style:#}").into(),
            false => text.into(),
        }
    }

    /// Writes the value as indented JSON, followed by a newline.
    pub fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.stdout, value)?;
        self.stdout.write_all(b"\n")
    }

    /// Flushes the buffer.
    pub fn finish(mut self) -> io::Result<()> {
        self.stdout.flush()?;
        // When dropped, it would be flushed again, and block forever if nobody reads it.
        let (_, rest) = self.stdout.into_parts();
        drop(rest);
        Ok(())
    }
}

impl Write for Stdout {
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
