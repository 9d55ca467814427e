use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use anstyle::Style;
use serde::ser::{self, Serialize};
use serde_json::ser::{Formatter, Serializer};

use super::json::Escaping;
use super::messages::escape;
use super::text::TextFilter;
use crate::args::Unread;
use crate::exit::Failure;

/// The style of column titles and sums.
pub const HEADER: Style = Style::new().bold();
/// The style of captions and remarks.
pub const FAINT: Style = Style::new().dimmed();

/// The argument that widens tables.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Wide {
    /// Print whole names and all columns, even if they are wider than the terminal
    #[arg(long, short)]
    wide: bool,
}

impl Wide {
    /// Returns the maximum width of tables.
    pub fn width(self, out: &Stdout) -> Option<usize> {
        if self.wide { None } else { out.width() }
    }
}

/// Items serialized as a list, each when it is made.
#[derive(Debug)]
pub struct Each<I>(pub I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for Each<I> {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// Buffered standard output.
///
/// All text is escaped, whatever file it is from. JSON has escapes of its own, and [`raw`](Self::raw) takes other
/// bytes. Text has styles only if the output [shows them](Self::styled).
#[derive(Debug)]
pub struct Stdout {
    stdout: BufWriter<Destination>,
    text: TextFilter,
    color: bool,
    terminal: bool,
    expects_json: bool,
    has_json: bool,
}

#[derive(Debug)]
enum Destination {
    Process(StdoutLock<'static>),
    Memory(Vec<u8>),
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Process(stdout) => stdout.write(bytes),
            Self::Memory(memory) => memory.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Process(stdout) => stdout.flush(),
            Self::Memory(_) => Ok(()),
        }
    }
}

impl Stdout {
    pub fn new() -> Self {
        let stdout = io::stdout();
        let color = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let terminal = stdout.is_terminal();
        Self::of(BufWriter::with_capacity(1 << 16, Destination::Process(stdout.lock())), color, terminal)
    }

    /// An output in memory, without styles.
    pub fn to_memory() -> Self {
        Self::of(BufWriter::new(Destination::Memory(Vec::new())), false, false)
    }

    fn of(stdout: BufWriter<Destination>, color: bool, terminal: bool) -> Self {
        Self { stdout, text: TextFilter::new(color), color, terminal, expects_json: false, has_json: false }
    }

    /// Returns the output in memory.
    pub fn into_memory(mut self) -> Vec<u8> {
        // Memory takes everything.
        let _ = self.text.finish(&mut self.stdout);
        match self.stdout.into_inner() {
            Ok(Destination::Memory(memory)) => memory,
            _ => Vec::new(),
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns whether text is styled.
    pub fn has_color(&self) -> bool {
        self.color
    }

    /// Returns the width of the terminal in characters. Without a terminal, the environment variable `COLUMNS` may set
    /// a width.
    pub fn width(&self) -> Option<usize> {
        let of_terminal = self.terminal.then(terminal_width).flatten();
        let of_variable = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|width| *width > 0);
        of_terminal.or_else(of_variable).or(self.terminal.then_some(80))
    }

    /// Styles the text if the output shows styles.
    pub fn styled<'a>(&self, style: Style, text: &'a str) -> Cow<'a, str> {
        match self.color && !text.is_empty() {
            // A style in the text comes from a file.
            true => format!("{style}{}{style:#}", escape(text)).into(),
            false => text.into(),
        }
    }

    /// Returns the output for bytes other than text, such as a file.
    pub fn raw(&mut self) -> io::Result<&mut impl Write> {
        self.text.finish(&mut self.stdout)?;
        Ok(&mut self.stdout)
    }

    /// Writes the value as indented JSON, followed by a newline.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.has_json = true;
        self.text.finish(&mut self.stdout)?;
        super::json::write(&mut self.stdout, value)?;
        self.stdout.write_all(b"\n")
    }

    /// Writes a list as indented JSON, followed by a newline. `fill` pushes the items.
    pub fn json_list<T>(&mut self, fill: impl FnOnce(&mut JsonList<'_>) -> T) -> io::Result<T> {
        self.has_json = true;
        self.text.finish(&mut self.stdout)?;
        let mut list = JsonList { out: &mut self.stdout, formatter: Escaping::default(), is_first: true };
        list.formatter.begin_array(list.out)?;
        let filled = fill(&mut list);
        list.formatter.end_array(list.out)?;
        self.stdout.write_all(b"\n")?;
        Ok(filled)
    }

    /// Promises JSON: if the command fails before it writes any, [`fail`](Self::fail) does.
    pub fn expect_json(&mut self, json: bool) {
        self.expects_json = json;
    }

    /// Writes a failure as JSON, if JSON was promised and nothing was written.
    pub fn fail(&mut self, failure: &Failure) -> io::Result<()> {
        match failure.unlisted().filter(|_| self.expects_json && !self.has_json) {
            Some((file, error)) => self.json_list(|list| list.push(&Unread { file, error }))?,
            None => Ok(()),
        }
    }

    /// Flushes the buffer.
    pub fn finish(mut self) -> io::Result<()> {
        self.text.finish(&mut self.stdout)?;
        self.stdout.flush()?;
        // Its drop would flush again, and block forever without a reader.
        let (_, rest) = self.stdout.into_parts();
        drop(rest);
        Ok(())
    }
}

/// Returns the width of standard output, if it is a terminal with a width.
fn terminal_width() -> Option<usize> {
    // A terminal can have a width and no height. For `terminal_size` it then has no size.
    #[cfg(unix)]
    let width = rustix::termios::tcgetwinsize(io::stdout()).ok()?.ws_col;
    #[cfg(not(unix))]
    let width = terminal_size::terminal_size_of(io::stdout())?.0.0;
    Some(width.into()).filter(|width| *width > 0)
}

/// A list being written as JSON.
pub struct JsonList<'a> {
    out: &'a mut BufWriter<Destination>,
    formatter: Escaping,
    is_first: bool,
}

impl JsonList<'_> {
    /// Writes an item.
    pub fn push(&mut self, item: &impl Serialize) -> io::Result<()> {
        self.item(|out| {
            let mut formatter = Escaping::default();
            // It is indented as an item.
            formatter.begin_array(&mut io::sink())?;
            item.serialize(&mut Serializer::with_formatter(out, formatter))?;
            Ok(())
        })
    }

    /// Writes an item. `write` writes its text.
    pub fn item<E: From<io::Error>>(&mut self, write: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), E> {
        self.formatter.begin_array_value(self.out, std::mem::take(&mut self.is_first))?;
        write(self.out)?;
        Ok(self.formatter.end_array_value(self.out)?)
    }
}

impl Write for Stdout {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.write_all(text)?;
        Ok(text.len())
    }

    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        self.text.write(text, &mut self.stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}
