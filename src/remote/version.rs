//! The version of a remote object, by which its answers are compared.

/// The headers that name a version of an object, as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ObjectVersion {
    /// The entity tag with its quotes.
    pub(super) tag: Option<Vec<u8>>,
    /// The time of the last change.
    pub(super) modified: Option<Vec<u8>>,
}

/// Ends of tags for which servers compressed the body, and forgot that they did not.
const COMPRESSED: [&[u8]; 5] = [b"-gzip", b";gzip", b"--gzip", b"-br", b"-zstd"];

impl ObjectVersion {
    /// Returns the entity tag, if equal tags mean equal bytes.
    pub(super) fn strong_tag(&self) -> Option<&[u8]> {
        self.tag.as_deref().filter(|tag| tag.len() > 2 && tag.starts_with(b"\"") && tag.ends_with(b"\""))
    }

    /// Returns the difference to another answer of the same length.
    ///
    /// What the first answer had must be in every answer. An entity tag decides; a time does if one of them has no tag.
    /// Weak tags need times that do not differ, and tags that differ in how the body was sent need equal ones.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        match (&self.tag, &other.tag) {
            (Some(one), Some(changed)) if one == changed => {
                return self
                    .difference_in_time(other)
                    .filter(|_| self.strong_tag().is_none() && other.modified.is_some());
            }
            (Some(one), Some(changed)) if self.modified != other.modified || core(one) != core(changed) => {
                return Some(format!("its entity tag was {}, and is {}", shown(one), shown(changed)));
            }
            (Some(_), Some(_)) => return None,
            (Some(one), None) if self.modified.is_none() => {
                return Some(format!("its entity tag was {}, and an answer has none", shown(one)));
            }
            _ => {}
        }
        self.difference_in_time(other)
    }

    fn difference_in_time(&self, other: &Self) -> Option<String> {
        let one = self.modified.as_ref()?;
        match &other.modified {
            Some(other) if one == other => None,
            Some(other) => Some(format!("it was modified at {}, and then at {}", shown(one), shown(other))),
            None => Some(format!("it was modified at {}, and an answer does not say when", shown(one))),
        }
    }
}

/// Returns a tag without what servers change for another form of the same bytes.
fn core(tag: &[u8]) -> &[u8] {
    let tag = tag.strip_prefix(b"W/").unwrap_or(tag);
    let Some(inner) = tag.strip_prefix(b"\"").and_then(|tag| tag.strip_suffix(b"\"")) else { return tag };
    COMPRESSED.into_iter().find_map(|end| inner.strip_suffix(end)).unwrap_or(inner)
}

/// Returns text of a server for a message.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 80;

    let mut text = String::from("`");
    for byte in bytes.iter().take(MOST) {
        match byte {
            b'`' => text.push('\''),
            b' '..=b'~' => text.push(char::from(*byte)),
            byte => text.push_str(&byte.escape_ascii().to_string()),
        }
    }
    text + if bytes.len() > MOST { "…`" } else { "`" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared() {
        let version = |(tag, modified): (&str, &str)| {
            let some = |text: &str| Some(text.as_bytes().to_vec()).filter(|text| !text.is_empty());
            ObjectVersion { tag: some(tag), modified: some(modified) }
        };
        for (one, other, expected) in [
            (("", ""), ("", ""), ""),
            // There is nothing to compare.
            (("", ""), ("\"a\"", "x"), ""),
            (("\"a\"", ""), ("\"a\"", ""), ""),
            // Servers of one object may have different times.
            (("\"a\"", "x"), ("\"a\"", "y"), ""),
            (("\"a\"", "x"), ("\"a\"", ""), ""),
            (("\"a\"", ""), ("\"b\"", ""), "its entity tag was `\"a\"`, and is `\"b\"`"),
            (("\"a\"", "x"), ("\"b\"", "x"), "its entity tag was `\"a\"`, and is `\"b\"`"),
            (("W/\"a\"", ""), ("W/\"b\"", ""), "its entity tag was `W/\"a\"`, and is `W/\"b\"`"),
            (("\"ä\"", ""), ("\"ö\"", ""), "its entity tag was `\"\\xc3\\xa4\"`, and is `\"\\xc3\\xb6\"`"),
            (("W/\"a\"", "x"), ("W/\"a\"", "x"), ""),
            (("W/\"a\"", "x"), ("W/\"a\"", ""), ""),
            (("W/\"a\"", "x"), ("W/\"a\"", "y"), "it was modified at `x`, and then at `y`"),
            // Other forms of the same bytes.
            (("\"a\"", ""), ("W/\"a\"", ""), ""),
            (("\"a\"", "x"), ("W/\"a-gzip\"", "x"), ""),
            (("\"a-gzip\"", ""), ("\"a\"", ""), ""),
            (("\"a\"", "x"), ("W/\"a\"", "y"), "its entity tag was `\"a\"`, and is `W/\"a\"`"),
            (("\"a\"", "x"), ("W/\"a\"", ""), "its entity tag was `\"a\"`, and is `W/\"a\"`"),
            (("\"a\"", ""), ("\"a-b\"", ""), "its entity tag was `\"a\"`, and is `\"a-b\"`"),
            // A tag that is not there any more.
            (("\"a\"", "x"), ("", "x"), ""),
            (("\"a\"", "x"), ("", "y"), "it was modified at `x`, and then at `y`"),
            (("\"a\"", "x"), ("", ""), "it was modified at `x`, and an answer does not say when"),
            (("\"a\"", ""), ("", "x"), "its entity tag was `\"a\"`, and an answer has none"),
            (("", "x"), ("\"a\"", "x"), ""),
            (("", "x"), ("\"a\"", "y"), "it was modified at `x`, and then at `y`"),
            (("", "x"), ("\"a\"", ""), "it was modified at `x`, and an answer does not say when"),
        ] {
            let found = version(one).difference(&version(other)).unwrap_or_default();
            assert_eq!(found, expected, "{one:?} and {other:?}");
        }
        for (tag, expected) in [("\"a\"", true), ("W/\"a\"", false), ("a", false), ("\"", false), ("", false)] {
            assert_eq!(version((tag, "")).strong_tag().is_some(), expected, "{tag}");
        }
    }

    #[test]
    fn text_of_servers_is_short_and_plain() {
        assert_eq!(shown(b"a`\x1b[31m\xe9\""), "`a'\\x1b[31m\\xe9\"`");
        assert_eq!(shown(&[b'a'; 100]), format!("`{}…`", "a".repeat(80)));
    }
}
