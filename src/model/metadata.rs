//! Metadata entries: typed values, their text, and the conversion between the two.

use std::fmt;

use crate::error::{ErrorKind, Result};

/// The value of a field with `#[tensor(metadata)]`.
///
/// `Display` gives the text stored by untyped formats: numbers in decimal, floats in the fewest digits to read back as
/// the same float, `true` and `false`, and strings unchanged.
///
/// ```
/// use tensorfile::model::MetadataValue;
///
/// assert_eq!(MetadataValue::F32(0.1).to_string(), "0.1");
/// assert_eq!(MetadataValue::F64(1e300).to_string(), "1e300");
/// assert_eq!(MetadataValue::Text("MiniLM".to_owned()).to_string(), "MiniLM");
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are called by their types")]
pub enum MetadataValue {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    I128(i128),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    U128(u128),
    F32(f32),
    F64(f64),
    Char(char),
    /// A string.
    Text(String),
    /// A variant without a value of an enum.
    Variant {
        /// The name of the enum.
        of: &'static str,
        /// The number of the variant.
        index: u32,
        /// The name of the variant.
        name: &'static str,
    },
}

/// The metadata type of a field with `#[tensor(metadata)]`.
///
/// Displayed, it is a description for messages.
///
/// ```
/// use tensorfile::model::MetadataKind;
///
/// assert_eq!(MetadataKind::U32.to_string(), "a u32");
/// assert_eq!(MetadataKind::Variant { of: "Mode", names: &["Fast", "Exact"] }.to_string(), "`Fast` or `Exact`");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are called by their types")]
pub enum MetadataKind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F32,
    F64,
    Char,
    /// A string.
    Text,
    /// Any value: text, if the source has no types.
    Any,
    /// A variant without a value of an enum.
    Variant {
        /// The name of the enum.
        of: &'static str,
        /// The names of its variants.
        names: &'static [&'static str],
    },
}

/// Gives one value of metadata.
pub trait AskMetadata {
    /// Calls `some` once if the value is here.
    fn option(&mut self, some: &mut dyn FnMut(&mut dyn AskMetadata) -> Result<()>) -> Result<()>;

    /// Returns the value.
    fn metadata(&mut self, kind: MetadataKind) -> Result<MetadataValue>;
}

/// Reads a value of a type and drops it, to find whether it can be read. A [`Node`](super::Node) of metadata holds it.
pub type TryMetadata = fn(&mut dyn AskMetadata) -> Result<()>;

impl fmt::Display for MetadataValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::I8(value) => value.fmt(f),
            Self::I16(value) => value.fmt(f),
            Self::I32(value) => value.fmt(f),
            Self::I64(value) => value.fmt(f),
            Self::I128(value) => value.fmt(f),
            Self::U8(value) => value.fmt(f),
            Self::U16(value) => value.fmt(f),
            Self::U32(value) => value.fmt(f),
            Self::U64(value) => value.fmt(f),
            Self::U128(value) => value.fmt(f),
            // In short: `Display` has all zeros of 1e300.
            Self::F32(value) => write!(f, "{value:?}"),
            Self::F64(value) => write!(f, "{value:?}"),
            Self::Char(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
            Self::Variant { name, .. } => name.fmt(f),
        }
    }
}

impl MetadataKind {
    /// Parses a value. The text of a variant stays text, and the enum looks it up.
    pub(crate) fn parse(self, text: &str) -> Option<MetadataValue> {
        Some(match self {
            // Programs in Python write the text of their own values.
            Self::Bool if text == "True" => MetadataValue::Bool(true),
            Self::Bool if text == "False" => MetadataValue::Bool(false),
            Self::Bool => MetadataValue::Bool(text.parse().ok()?),
            Self::I8 => MetadataValue::I8(text.parse().ok()?),
            Self::I16 => MetadataValue::I16(text.parse().ok()?),
            Self::I32 => MetadataValue::I32(text.parse().ok()?),
            Self::I64 => MetadataValue::I64(text.parse().ok()?),
            Self::I128 => MetadataValue::I128(text.parse().ok()?),
            Self::U8 => MetadataValue::U8(text.parse().ok()?),
            Self::U16 => MetadataValue::U16(text.parse().ok()?),
            Self::U32 => MetadataValue::U32(text.parse().ok()?),
            Self::U64 => MetadataValue::U64(text.parse().ok()?),
            Self::U128 => MetadataValue::U128(text.parse().ok()?),
            Self::F32 => MetadataValue::F32(text.parse().ok()?),
            Self::F64 => MetadataValue::F64(text.parse().ok()?),
            Self::Char => MetadataValue::Char(text.parse().ok()?),
            Self::Text | Self::Any | Self::Variant { .. } => MetadataValue::Text(text.to_owned()),
        })
    }
}

impl fmt::Display for MetadataKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "`true` or `false`",
            Self::I8 => "an i8",
            Self::I16 => "an i16",
            Self::I32 => "an i32",
            Self::I64 => "an i64",
            Self::I128 => "an i128",
            Self::U8 => "a u8",
            Self::U16 => "a u16",
            Self::U32 => "a u32",
            Self::U64 => "a u64",
            Self::U128 => "a u128",
            Self::F32 => "an f32",
            Self::F64 => "an f64",
            Self::Char => "one char",
            Self::Text => "a string",
            Self::Any => "any value",
            Self::Variant { names: [], .. } => "a variant",
            Self::Variant { names, .. } => return write!(f, "`{}`", names.join("` or `")),
        })
    }
}

/// The kind of value expected by a type, and whether it may be absent.
pub(crate) fn asked_for(metadata: TryMetadata) -> (Option<MetadataKind>, bool) {
    let mut probe = Probe { kind: None, optional: false };
    // It fails, because there is no value.
    let _ = metadata(&mut probe);
    (probe.kind, probe.optional)
}

/// A source without a value, which records the requested kind.
struct Probe {
    kind: Option<MetadataKind>,
    optional: bool,
}

impl AskMetadata for Probe {
    fn option(&mut self, some: &mut dyn FnMut(&mut dyn AskMetadata) -> Result<()>) -> Result<()> {
        self.optional = true;
        some(self)
    }

    fn metadata(&mut self, kind: MetadataKind) -> Result<MetadataValue> {
        self.kind = Some(kind);
        Err(ErrorKind::Message("there is no value".to_owned()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_back_as_the_same_value() {
        let text = |text: &str| MetadataValue::Text(text.to_owned());
        for (value, kind, expected) in [
            (MetadataValue::Bool(true), MetadataKind::Bool, "true"),
            (MetadataValue::I8(-128), MetadataKind::I8, "-128"),
            (MetadataValue::U64(u64::MAX), MetadataKind::U64, "18446744073709551615"),
            (MetadataValue::I128(i128::MIN), MetadataKind::I128, "-170141183460469231731687303715884105728"),
            (MetadataValue::F32(0.1), MetadataKind::F32, "0.1"),
            (MetadataValue::F64(0.1 + 0.2), MetadataKind::F64, "0.30000000000000004"),
            (MetadataValue::F64(1e300), MetadataKind::F64, "1e300"),
            (MetadataValue::F64(5e-324), MetadataKind::F64, "5e-324"),
            (MetadataValue::F64(-0.0), MetadataKind::F64, "-0.0"),
            (MetadataValue::F32(f32::NEG_INFINITY), MetadataKind::F32, "-inf"),
            (MetadataValue::Char('é'), MetadataKind::Char, "é"),
            (text(" "), MetadataKind::Text, " "),
            (text("b"), MetadataKind::Variant { of: "Letter", names: &["a", "b"] }, "b"),
        ] {
            assert_eq!(value.to_string(), expected);
            assert_eq!(kind.parse(expected), Some(value));
        }
        let nan = MetadataKind::F64.parse(&MetadataValue::F64(f64::NAN).to_string());
        assert!(matches!(nan, Some(MetadataValue::F64(value)) if value.is_nan()));
    }

    #[test]
    fn text_of_another_type_is_refused() {
        for (text, kind) in [
            ("", MetadataKind::U8),
            ("256", MetadataKind::U8),
            ("-1", MetadataKind::U64),
            ("1.0", MetadataKind::I32),
            ("yes", MetadataKind::Bool),
            ("ab", MetadataKind::Char),
            ("one", MetadataKind::F64),
        ] {
            assert_eq!(kind.parse(text), None, "{text}");
        }
    }
}
