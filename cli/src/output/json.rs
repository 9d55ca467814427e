//! JSON for terminals.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::messages::is_control;

/// Writes a value as indented JSON.
///
/// JSON itself escapes only a part of the characters that control a terminal. The others are escaped too, which means
/// the same to a parser.
pub fn write(out: &mut dyn io::Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Escaping::default()))?;
    Ok(())
}

/// Writes a value as compact JSON that can be in a script element of HTML: nothing in a text ends it.
pub fn write_for_html(out: &mut dyn io::Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, ForHtml))?;
    Ok(())
}

struct ForHtml;

impl Formatter for ForHtml {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        write_escaped(out, fragment, |c| is_control(c) || matches!(c, '<' | '>' | '&'))
    }
}

/// Writes a part of a string, with some characters escaped.
fn write_escaped<W: ?Sized + io::Write>(out: &mut W, fragment: &str, escapes: fn(char) -> bool) -> io::Result<()> {
    let mut rest = fragment;
    while let Some(index) = rest.find(escapes) {
        let (before, after) = rest.split_at(index);
        let Some(c) = after.chars().next() else { break };
        out.write_all(before.as_bytes())?;
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(out, "\\u{unit:04x}")?;
        }
        rest = &after[c.len_utf8()..];
    }
    out.write_all(rest.as_bytes())
}

/// Writes indented JSON, and escapes the characters that control a terminal.
#[derive(Clone, Default)]
pub struct Escaping(PrettyFormatter<'static>);

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        write_escaped(out, fragment, is_control)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}
