//! The dict in the header of an array: a Python literal of three keys.

use std::borrow::Cow;
use std::fmt;

use crate::error::{ErrorKind, Result};

/// The values of the dict.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dict {
    pub(super) descr: Descr,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

/// The type of the elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Descr {
    /// A string, a number or another scalar.
    Text(Vec<u8>),
    /// The source of another literal, such as the list of fields of a record.
    Other(Vec<u8>),
}

impl Descr {
    /// Returns the source of the literal. A string is in single quotes, if it has none.
    pub(super) fn source(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Text(text) => {
                let quote: &[u8] = if text.contains(&b'\'') { b"\"" } else { b"'" };
                [quote, text, quote].concat().into()
            }
            Self::Other(source) => source.into(),
        }
    }
}

impl fmt::Display for Descr {
    /// Writes the literal as Python 3 prints it: strings without `u` before them, and with letters for their escapes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source();
        let source = String::from_utf8_lossy(&source);
        let (mut rest, mut quote) = (&*source, None);
        while let Some(letter) = rest.chars().next() {
            let mut len = letter.len_utf8();
            match (quote, letter) {
                (None, 'u') if rest[len..].starts_with(['\'', '"']) => {}
                (Some(_), '\\') => match escape(&rest[len..]) {
                    Some((letter, escape)) => {
                        len += escape;
                        write!(f, "{letter}")?;
                    }
                    // The letter after the backslash ends no string.
                    None => {
                        len += rest[len..].chars().next().map_or(0, char::len_utf8);
                        f.write_str(&rest[..len])?;
                    }
                },
                _ => {
                    match quote {
                        None if matches!(letter, '\'' | '"') => quote = Some(letter),
                        Some(open) if open == letter => quote = None,
                        _ => {}
                    }
                    write!(f, "{letter}")?;
                }
            }
            rest = &rest[len..];
        }
        Ok(())
    }
}

/// Returns the letter of an escape of a code point, and the length of the escape without its backslash.
fn escape(text: &str) -> Option<(char, usize)> {
    let digits = match text.bytes().next()? {
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        _ => return None,
    };
    let code = u32::from_str_radix(text.get(1..=digits)?, 16).ok()?;
    let is_plain = |letter: &char| !letter.is_control() && !matches!(letter, '\'' | '"' | '\\');
    Some((char::from_u32(code).filter(is_plain)?, 1 + digits))
}

/// Parses the text of a header: a dict with each of its keys once, and blanks.
///
/// Keys and dtype names have no escapes, and integers may end with `L`, as in Python 2. numpy ends the text with a
/// newline, some writers do not. The time is linear in the length.
pub(super) fn parse(text: &[u8]) -> Result<Dict, ErrorKind> {
    let mut parser = Parser { rest: text };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    parser.expect(b'{')?;
    while !parser.take(b'}') {
        let key = parser.string().ok_or_else(no_dict)?;
        parser.expect(b':')?;
        match key {
            b"descr" => set("descr", &mut descr, parser.descr())?,
            b"fortran_order" => set("fortran_order", &mut fortran_order, parser.bool())?,
            b"shape" => set("shape", &mut shape, parser.tuple())?,
            _ => return Err(not_a_dict("has another key")),
        }
        if !parser.take(b',') {
            parser.expect(b'}')?;
            break;
        }
    }
    parser.skip_blanks();
    if !parser.rest.is_empty() {
        return Err(no_dict());
    }
    let missing = |key: &str| malformed(format!("missing key: {key}"));
    Ok(Dict {
        descr: descr.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

fn set<T>(key: &str, value: &mut Option<T>, parsed: Option<T>) -> Result<(), ErrorKind> {
    if value.is_some() {
        return Err(not_a_dict(&format!("has {key} twice")));
    }
    *value = parsed;
    if value.is_none() {
        return Err(not_a_dict(&format!("has a wrong value for {key}")));
    }
    Ok(())
}

fn no_dict() -> ErrorKind {
    not_a_dict("is not a dict")
}

fn not_a_dict(why: &str) -> ErrorKind {
    malformed(format!("the header {why}, but expected a dict of descr, fortran_order and shape"))
}

fn malformed(what: String) -> ErrorKind {
    ErrorKind::Malformed { what }
}

/// Parses literals. Each method skips blanks before its literal.
struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.rest.first().copied()
    }

    /// Takes a byte if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.rest = &self.rest[usize::from(found)..];
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), ErrorKind> {
        if self.take(byte) { Ok(()) } else { Err(no_dict()) }
    }

    /// Takes bytes as long as they match.
    fn take_while(&mut self, matches: &dyn Fn(&u8) -> bool) -> &'a [u8] {
        let len = self.rest.iter().position(|byte| !matches(byte)).unwrap_or(self.rest.len());
        let (found, rest) = self.rest.split_at(len);
        self.rest = rest;
        found
    }

    /// Parses a string in single or double quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"'))?;
        self.rest = &self.rest[1..];
        let string = self.take_while(&|byte| *byte != quote && *byte != b'\\');
        self.take(quote).then_some(string)
    }

    fn bool(&mut self) -> Option<bool> {
        self.skip_blanks();
        match self.take_while(&u8::is_ascii_alphanumeric) {
            b"True" => Some(true),
            b"False" => Some(false),
            _ => None,
        }
    }

    /// Parses a tuple of integers.
    fn tuple(&mut self) -> Option<Vec<usize>> {
        let mut items = Vec::new();
        if !self.take(b'(') {
            return None;
        }
        while !self.take(b')') {
            items.push(self.integer()?);
            if !self.take(b',') {
                // Python reads `(2)` as an integer.
                return (self.take(b')') && items.len() > 1).then_some(items);
            }
        }
        Some(items)
    }

    fn integer(&mut self) -> Option<usize> {
        self.skip_blanks();
        let digits = self.take_while(&u8::is_ascii_digit);
        self.rest = self.rest.strip_prefix(b"L").unwrap_or(self.rest);
        match digits {
            // Python refuses leading zeros.
            [b'0', _, ..] => None,
            _ => str::from_utf8(digits).ok()?.parse().ok(),
        }
    }

    fn descr(&mut self) -> Option<Descr> {
        if let Some(b'\'' | b'"') = self.peek() {
            return self.string().map(|text| Descr::Text(text.to_vec()));
        }
        let source = self.literal()?.trim_ascii_end();
        Some(Descr::Other(source.to_vec()))
    }

    /// Takes any literal: everything up to a comma or the end of the dict.
    fn literal(&mut self) -> Option<&'a [u8]> {
        self.skip_blanks();
        let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
        let len = self.rest.iter().position(|byte| {
            match (quote, *byte) {
                (Some(_), _) if is_escaped => is_escaped = false,
                (Some(_), b'\\') => is_escaped = true,
                (Some(open), byte) if open == byte => quote = None,
                (Some(_), _) => {}
                (None, open @ (b'\'' | b'"')) => quote = Some(open),
                (None, b'[' | b'(' | b'{') => depth += 1,
                (None, b',' | b']' | b')' | b'}') if depth == 0 => return true,
                (None, b']' | b')' | b'}') => depth -= 1,
                (None, _) => {}
            }
            false
        })?;
        let (found, rest) = self.rest.split_at(len);
        self.rest = rest;
        (!found.is_empty()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(shape: &str) -> Result<Vec<usize>, ErrorKind> {
        parse(format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n").as_bytes())
            .map(|dict| dict.shape)
    }

    #[test]
    fn parses_tuples_as_python_does() {
        for (text, expected) in [
            ("()", &[][..]),
            ("( )", &[]),
            ("(2,)", &[2]),
            ("(2, 3)", &[2, 3]),
            ("(2,3 , )", &[2, 3]),
            ("(0, 10L, 3L)", &[0, 10, 3]),
        ] {
            assert_eq!(shape(text).unwrap(), expected, "{text}");
        }
        for text in [
            "(2)",
            "(,)",
            "(2,,)",
            "(02,)",
            "(+2,)",
            "(-2,)",
            "(2.0,)",
            "(1_0,)",
            "(0x1,)",
            "(99999999999999999999,)",
            "[2]",
            "2",
            "(2",
            "",
        ] {
            shape(text).expect_err(text);
        }
    }

    #[test]
    fn literals_of_python_2_are_printed_as_those_of_python_3() {
        for (source, expected) in [
            (r"[(u'caf\xe9', '<f4'), ('b', '<i4')]", "[('café', '<f4'), ('b', '<i4')]"),
            (r"[(u'\u6f22\U0001f600', '|u1')]", "[('漢😀', '|u1')]"),
            (r"[(u'\x27\x5c\u0022', '|u1')]", r"[('\x27\x5c\u0022', '|u1')]"),
            (r"[('it\'s u', '<f4'), ('\x00\n\xz', '<u2')]", r"[('it\'s u', '<f4'), ('\x00\n\xz', '<u2')]"),
        ] {
            assert_eq!(Descr::Other(source.into()).to_string(), expected);
        }
    }

    #[test]
    fn keys_come_once_in_any_order_with_any_quotes() {
        let dict =
            parse(b" { \"shape\" :(3,),'fortran_order':True,\t'descr':[('a', '},'), ('b', '<i4', (2,))] , } \r\n")
                .unwrap();
        let descr = Descr::Other(b"[('a', '},'), ('b', '<i4', (2,))]".to_vec());
        assert_eq!(dict, Dict { descr, fortran_order: true, shape: vec![3] });
        for text in [
            &b"{'shape': (), 'shape': (), 'descr': '', 'fortran_order': False}\n"[..],
            b"{'shape': (), 'descr': '', 'fortran_order': False} {}\n",
            b"{'shape': () 'descr': '', 'fortran_order': False}\n",
            b"{'shape': (), 'descr': '\", 'fortran_order': False}\n",
            br"{'shape': (), 'descr': '\x3cf4', 'fortran_order': False}",
            br"{'shape': (), 'descr': [('\', '<f4')], 'fortran_order': False}",
            b"{'shape': (), 'descr': , 'fortran_order': False}\n",
            b"{'shape': (), 'descr': ('', 'fortran_order': False}\n",
            b"{'shape': (), 'descr': '', 'fortran_order': Falsehood}\n",
            b"{,}\n",
            b"{}\n",
            b"\n",
        ] {
            parse(text).expect_err(&String::from_utf8_lossy(text));
        }
    }
}
