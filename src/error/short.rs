//! Names in messages. They come from files, so they can be of any length.

use std::fmt::{self, Write as _};

/// The maximum number of characters shown of a name.
const LONGEST: usize = 256;

/// The number of characters shown of each end of a longer name. The rest is for the remark between them.
const EDGE: usize = 112;

/// Shows a name in a message: of a long one, both ends and the number of characters between them. Control characters
/// are escaped, because a name in a stranger's file could change the terminal of the reader.
pub(crate) struct Short<'a>(pub(crate) &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = *self;
        let ends = || {
            // The length in bytes is at least the length in characters.
            name.char_indices().nth(LONGEST)?;
            let (first, _) = name.char_indices().nth(EDGE)?;
            let (last, _) = name.char_indices().nth_back(EDGE - 1)?;
            Some((&name[..first], &name[first..last], &name[last..]))
        };
        match ends() {
            Some((first, between, last)) => {
                write_escaped(f, first)?;
                write!(f, "[… {} characters …]", between.chars().count())?;
                write_escaped(f, last)
            }
            None => write_escaped(f, name),
        }
    }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|letter| {
        if letter.is_control() { write!(f, "{}", letter.escape_default()) } else { f.write_char(letter) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(Short("a\0b\x1b[2J\nä\u{9b}\\").to_string(), r"a\u{0}b\u{1b}[2J\nä\u{9b}\");
        let name = "\x07".repeat(LONGEST + 1);
        let end = r"\u{7}".repeat(EDGE);
        assert_eq!(Short(&name).to_string(), format!("{end}[… {} characters …]{end}", LONGEST + 1 - 2 * EDGE));
    }

    #[test]
    fn long_names_are_cut_in_the_middle() {
        let shown = |name: &str| Short(name).to_string();
        assert_eq!(shown("encoder.0.weight"), "encoder.0.weight");
        let longest = "ä".repeat(LONGEST);
        assert_eq!(shown(&longest), longest);
        let name = format!("{}middle{}", "ä".repeat(200), "ü".repeat(51));
        let expected = format!("{}[… 33 characters …]{}", "ä".repeat(112), &name[name.len() - (51 * 2 + 6 + 55 * 2)..]);
        assert_eq!(shown(&name), expected);
        let shown = shown(&"a".repeat(usize::from(u16::MAX) << 8));
        assert_eq!(shown.chars().count(), 224 + "[… 16776736 characters …]".chars().count());
        assert!(shown.chars().count() <= LONGEST);
    }
}
