//! Messages and progress on standard error.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Set if nobody reads messages.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Prints no messages from now on.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Prints a message to standard error.
pub fn note(message: impl fmt::Display) {
    print(Style::new().bold(), &message);
}

/// Prints a warning about a file to standard error, unless it was printed before.
pub fn warning(path: &Path, text: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    if IS_QUIET.load(Ordering::Relaxed) {
        return;
    }
    let style = AnsiColor::Yellow.on_default();
    let (path, text) = (path.display().to_string(), escape(text));
    let line = format!("{}: {style}warning:{style:#} {text}", escape(&path));
    if PRINTED.lock().is_ok_and(|mut printed| printed.insert(line.clone())) {
        print_line(Style::new().bold(), &line);
    }
}

/// Prints why a command fails to standard error.
pub fn error(message: impl fmt::Display) {
    print(AnsiColor::Red.on_default().bold(), &message);
}

/// Prints another line of a message to standard error.
pub fn detail(line: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        let _ = writeln!(anstream::stderr().lock(), "{}", escape(line));
    }
}

fn print(style: Style, message: &dyn fmt::Display) {
    if IS_QUIET.load(Ordering::Relaxed) {
        return;
    }
    print_line(style, &escape(&message.to_string()));
}

/// Prints text that is escaped.
fn print_line(style: Style, text: &str) {
    // If standard error is closed, there is no place for an error either.
    let _ = writeln!(anstream::stderr().lock(), "{style}tensorfile:{style:#} {text}");
}

/// Escapes the characters of a text from a file that would control a terminal, change the direction of its text or be
/// invisible.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_control(c) {
            write!(escaped, "{}", c.escape_default()).expect("writing to a `String` does not fail")
        } else {
            escaped.push(c)
        }
    }
    escaped.into()
}

/// Escapes as [`escape`] does, and escapes bytes other than UTF-8.
pub fn escape_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return escape(text);
    }
    let mut escaped = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        escaped += &escape(chunk.valid());
        for byte in chunk.invalid() {
            write!(escaped, "\\x{byte:02x}").expect("writing to a `String` does not fail");
        }
    }
    escaped.into()
}

/// Returns whether a character would control a terminal, change the direction of its text or be invisible.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Invisible by default in Unicode (`Default_Ignorable_Code_Point`): soft hyphen, fillers, variation
            // selectors, tags, and marks for the direction of text or without width.
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
            // Separators of lines, and annotations.
            | '\u{2028}'..='\u{2029}' | '\u{fff9}'..='\u{fffb}'
        )
}

/// A progress bar, shown if standard error is a terminal and the run takes longer than [`DELAY`].
///
/// It checks the clock at every step and redraws a few times a second, so steps may be of any size.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    hidden_since: Option<Instant>,
}

const DELAY: Duration = Duration::from_secs(1);

impl Progress {
    /// Starts a run over `total` bytes.
    pub fn bytes(total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, hidden_since: Some(Instant::now()) }
    }

    /// Starts a run over an unknown number of bytes.
    pub fn stream() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bytes} read, {binary_bytes_per_sec}") {
            bar.set_style(style);
        }
        Self { bar, hidden_since: Some(Instant::now()) }
    }

    /// Starts a run that prints results meanwhile. If the results go to a terminal, no bar is shown.
    pub fn beside_output(total: u64) -> Self {
        let mut progress = Self::bytes(total);
        if std::io::stdout().is_terminal() {
            progress.hidden_since = None;
        }
        progress
    }

    pub fn advance(&mut self, bytes: usize) {
        self.bar.inc(bytes as u64);
        if self.hidden_since.is_some_and(|start| start.elapsed() > DELAY) {
            self.hidden_since = None;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_control_characters() {
        assert!(matches!(escape("layers.0.gewicht_ä"), Cow::Borrowed(_)));
        assert_eq!(escape("a\u{1b}[2J\n\u{202e}b"), "a\\u{1b}[2J\\n\\u{202e}b");
        assert_eq!(escape("\u{ad}\u{61c}\u{fff9}\u{e0041}é"), "\\u{ad}\\u{61c}\\u{fff9}\\u{e0041}é");
        assert_eq!(escape("a\u{fe0f}b\u{e0100}"), "a\\u{fe0f}b\\u{e0100}");
    }
}
