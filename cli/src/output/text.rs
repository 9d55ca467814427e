//! Text on its way to standard output.

use std::io::{self, Write};

use super::messages::is_control;

/// Escapes text from files, for every printer: characters that would control a terminal, change the direction of its
/// text or be invisible, and bytes that are not UTF-8. Line feeds pass, and the styles of this program if the output
/// shows styles.
///
/// Commands still [`escape`](super::escape) what they measure, so that columns have the width that is printed.
#[derive(Debug)]
pub struct TextFilter {
    shows_styles: bool,
    /// The beginning of a character or of a style, whose end is written later.
    pending: Vec<u8>,
}

/// The longest style, in bytes: one color of foreground and background each, and effects.
const LONGEST_STYLE: usize = 64;

impl TextFilter {
    pub fn new(shows_styles: bool) -> Self {
        Self { shows_styles, pending: Vec::new() }
    }

    /// Writes text to `out`, escaped.
    pub fn write(&mut self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        if self.pending.is_empty() {
            let rest = self.pass(text, out, false)?;
            self.pending.extend_from_slice(rest);
            return Ok(());
        }
        let mut joined = std::mem::take(&mut self.pending);
        joined.extend_from_slice(text);
        let rest = self.pass(&joined, out, false)?.len();
        self.pending.extend_from_slice(&joined[joined.len() - rest..]);
        Ok(())
    }

    /// Writes what waits for an end that does not come.
    pub fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.pass(&pending, out, true).map(drop)
    }

    /// Returns the rest of the text whose end is needed, if more may come.
    fn pass<'t>(&self, mut text: &'t [u8], out: &mut dyn Write, is_end: bool) -> io::Result<&'t [u8]> {
        loop {
            let plain = text.iter().position(|byte| !is_plain(*byte)).unwrap_or(text.len());
            let (now, rest) = text.split_at(plain);
            out.write_all(now)?;
            let Some(&first) = rest.first() else { return Ok(rest) };
            let len = match style_len(rest) {
                Some(len @ 1..) if self.shows_styles => {
                    out.write_all(&rest[..len])?;
                    len
                }
                None if self.shows_styles && !is_end && rest.len() < LONGEST_STYLE => return Ok(rest),
                _ => match first_char(rest) {
                    Ok(c) if is_control(c) => {
                        write!(out, "{}", c.escape_default())?;
                        c.len_utf8()
                    }
                    Ok(c) => {
                        out.write_all(&rest[..c.len_utf8()])?;
                        c.len_utf8()
                    }
                    Err(true) if !is_end => return Ok(rest),
                    Err(_) => {
                        write!(out, "\\x{first:02x}")?;
                        1
                    }
                },
            };
            text = &rest[len..];
        }
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n')
}

/// Returns the length of the style that a text begins with: `ESC [ numbers m`. It is 0 if the text begins otherwise,
/// and `None` if the text ends before the style does.
fn style_len(text: &[u8]) -> Option<usize> {
    let Some(rest) = text.strip_prefix(b"\x1b") else { return Some(0) };
    let (bracket, numbers) = rest.split_first()?;
    if *bracket != b'[' {
        return Some(0);
    }
    match numbers.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';'))? {
        end if numbers[end] == b'm' => Some(end + 3),
        _ => Some(0),
    }
}

/// Returns the first character of bytes; otherwise, whether more bytes could make them one.
fn first_char(bytes: &[u8]) -> Result<char, bool> {
    let first = &bytes[..bytes.len().min(4)];
    let valid = match str::from_utf8(first) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() == 0 => return Err(error.error_len().is_none()),
        Err(error) => str::from_utf8(&first[..error.valid_up_to()]).unwrap_or_default(),
    };
    valid.chars().next().ok_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(shows_styles: bool, pieces: &[&[u8]]) -> String {
        let (mut filter, mut out) = (TextFilter::new(shows_styles), Vec::new());
        pieces.iter().for_each(|piece| filter.write(piece, &mut out).unwrap());
        filter.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_is_escaped_in_any_pieces() {
        let text = "a\u{1b}[1mb\u{1b}[0m ä\u{202e}c\t\u{1b}]0;t\u{7}\n😀\u{e0041}\u{1b}[2J\u{9b}31m".as_bytes();
        let text = [text, b"\xff\xe2\x80z\xe2\x80"].concat();
        let end = " ä\\u{202e}c\\t\\u{1b}]0;t\\u{7}\n😀\\u{e0041}\\u{1b}[2J\\u{9b}31m\\xff\\xe2\\x80z\\xe2\\x80";
        for (shows_styles, begin) in [(false, "a\\u{1b}[1mb\\u{1b}[0m"), (true, "a\u{1b}[1mb\u{1b}[0m")] {
            let expected = format!("{begin}{end}");
            assert_eq!(filtered(shows_styles, &[&text]), expected);
            for len in [1, 2, 3, 5, 7] {
                assert_eq!(filtered(shows_styles, &text.chunks(len).collect::<Vec<_>>()), expected, "{len}");
            }
        }
        assert_eq!(filtered(true, &[b"\x1b", b"[1;"]), "\\u{1b}[1;");
        let long = format!("\u{1b}[{}", "1;".repeat(1000));
        assert_eq!(filtered(true, &[long.as_bytes()]), long.replace('\u{1b}', "\\u{1b}"));
    }
}
