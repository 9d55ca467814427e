//! The kinds of errors: their data, messages and categories.

use std::{fmt, io};

use super::{InvalidCast, LoadReport, Short, Warning};
use crate::tensor::{Dtype, InvalidTensor, TensorInfo, sorted};

/// The cause of an error, in broad classes.
///
/// ```
/// use tensorfile::{Category, Error};
///
/// /// Returns whether it helps to try again.
/// fn may_pass(error: &Error) -> bool {
///     error.category() == Category::Io
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// The file is malformed.
    File,
    /// The file is well-formed, but does not match the requested type.
    Mismatch,
    /// The value or the call is not supported.
    Call,
    /// The file exceeds one of the [`Limits`](crate::Limits), or memory ran out.
    Limit,
    /// An I/O operation failed.
    Io,
}

/// The number bounded by [`Limits::memory`](crate::Limits::memory), in [`ErrorKind::Limit`].
pub(crate) const MEMORY: &str = "memory for tensors in bytes";

/// The number bounded by [`Limits::shared`](crate::Limits::shared), in [`ErrorKind::Limit`].
pub(crate) const PAYLOADS: &str = "sum of payloads in bytes";

/// The [limited number](ErrorKind::Limit) of bytes of a file from a server without ranges, if they are held.
pub(crate) const HELD: &str = "the length of a file from a server that has no ranges";

/// The kinds of errors.
///
/// ```
/// use tensorfile::{ErrorKind, TensorMap, ten};
///
/// let error = ten::from_slice::<Vec<TensorMap>>(b"~TenBin~").unwrap_err();
/// if let ErrorKind::Truncated { needed, left } = error.kind() {
///     eprintln!("the file is at least {} bytes too short", needed - left);
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file ends too early.
    Truncated {
        /// The number of bytes needed at the offset.
        needed: u64,
        /// The number of bytes between the offset and the end of the file.
        left: u64,
    },
    /// The file's format was not recognized.
    UnknownFormat {
        /// The first bytes, up to eight; empty for a file from a server.
        found: Vec<u8>,
        /// The formats tried; none for an empty file.
        formats: Vec<&'static str>,
    },
    /// The file was recognized as something else than tensors, such as a web page.
    NotTensors {
        /// The kind of the file, such as `a web page`.
        what: &'static str,
        /// The first bytes; empty if they say nothing, and for a file from a server.
        found: Vec<u8>,
    },
    /// The file could be of several formats.
    AmbiguousFormat {
        /// The candidates.
        formats: Vec<&'static str>,
    },
    /// The format is left out of this build.
    FeatureOff {
        /// The name of the format.
        format: &'static str,
        /// The missing Cargo feature.
        feature: &'static str,
    },
    /// The file does not have the magic bytes of its format.
    BadMagic {
        /// The bytes found; empty for a file from a server.
        found: Vec<u8>,
        /// The bytes expected.
        expected: &'static [u8],
    },
    /// A dtype is not in the format's specification.
    UnknownDtype {
        /// The number or text found.
        tag: String,
    },
    /// A layout is not in the format's specification.
    UnknownLayout {
        /// The number found.
        tag: u64,
    },
    /// A number in the file is invalid.
    BadNumber {
        /// The name of the number, such as `rank`.
        what: &'static str,
        /// The number found.
        found: i128,
        /// The valid numbers.
        expected: String,
    },
    /// Two tensors overlap without being the same bytes.
    Overlap {
        /// The second tensor.
        other: String,
        /// The bytes of the second tensor.
        range: std::ops::Range<u64>,
    },
    /// Dtype, shape, layout and payload do not fit together.
    InvalidTensor(InvalidTensor),
    /// Two tensors of a file have the same name.
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Two tensors of a stream have the same name, and the type or the call asks by name.
    AmbiguousName {
        /// The name.
        name: String,
    },
    /// Two tensors to be written have the same name.
    RepeatedName {
        /// The name.
        name: String,
    },
    /// The file has a tensor under two names of one field.
    RepeatedField {
        /// The field's first name.
        name: String,
    },
    /// The file has a warning denied by [`OpenOptions::deny_warnings`](crate::OpenOptions::deny_warnings).
    Warning {
        /// The first one.
        warning: Warning,
        /// The number of further denied warnings.
        others: usize,
    },
    /// The file breaks another rule of its format.
    Malformed {
        /// The rule and what was found.
        what: String,
    },

    /// The file does not have a tensor of the type.
    Missing {
        /// The tensor's name.
        name: String,
        /// Some names in the file.
        found: Vec<String>,
        /// The number of names in the file missing from `found`.
        others: usize,
        #[doc(hidden)]
        complete: bool,
    },
    /// The file has a tensor without a place in the type; or the type skips such tensors, and uses none of the file's.
    Unexpected {
        /// The tensor's name.
        name: String,
        /// Some names of the type.
        expected: Vec<String>,
        #[doc(hidden)]
        complete: bool,
    },
    /// A rule of [`RenameRules`](crate::view::RenameRules) renames no tensor.
    UnusedRename {
        /// The old name, pattern or position of the rule.
        old: String,
        /// The names of the tensors, the most similar first; none if the rule is shadowed.
        found: Vec<String>,
        /// Set if earlier rules rename all matching tensors.
        is_shadowed: bool,
    },
    /// A tensor has another dtype than the type.
    WrongDtype {
        /// The tensor in the file.
        found: TensorInfo,
        /// The dtype of the type.
        expected: Dtype,
    },
    /// A tensor has a different rank or different dims than the type.
    WrongShape {
        /// The tensor in the file.
        found: TensorInfo,
        /// The shape or rank of the type, such as `rank 2` or `[64, _]`.
        expected: String,
    },
    /// A tensor has another layout than the type.
    WrongLayout {
        /// The tensor in the file.
        found: TensorInfo,
        /// The layout of the type.
        expected: &'static str,
    },
    /// The file has more or fewer tensors than the type.
    WrongCount {
        /// The number of tensors in the file.
        found: u64,
        /// The number of tensors of the type.
        expected: String,
    },
    /// A tensor of a file without names does not match the type at its position.
    WrongPosition {
        /// The tensor in the file; `None` at its end.
        found: Option<TensorInfo>,
        /// The tensors possible at this position, such as a name with `f32[_]`.
        expected: Vec<String>,
    },
    /// The file does not have an entry of metadata of the type.
    MissingMetadata {
        /// The entry's key.
        key: String,
        /// The value of the type, such as `a u32`.
        expected: String,
        /// The keys in the file, the most similar first.
        found: Vec<String>,
    },
    /// A metadata entry has a value unsuitable for the type.
    InvalidMetadata {
        /// The entry's key.
        key: String,
        /// The value found and the values expected.
        what: String,
    },
    /// The file does not match the type; the report lists every mismatch.
    Load(Box<LoadReport>),
    /// The tensors of a file without names match the type in more than one way.
    Ambiguous,
    /// The tensors do not fit a [`LayoutMap`](crate::LayoutMap).
    Unmapped {
        /// The first misfit of each kind.
        misfits: Vec<String>,
        /// The number of all misfits.
        count: u64,
    },
    /// A borrowed array needs aligned bytes.
    Misaligned {
        /// The element type.
        dtype: Dtype,
        /// The alignment of the element type in bytes.
        alignment: usize,
    },

    /// The format or the operation does not support something.
    Unsupported {
        /// The unsupported action, such as "store bf16".
        what: String,
        /// Supported alternatives.
        instead: String,
    },
    /// The text of a [`LayoutMap`](crate::LayoutMap) is malformed.
    Map {
        /// What is wrong, and what was expected.
        what: String,
        /// The number of the line, from 1; 0 if it is about all of them.
        line: usize,
        /// The number of the character in the line, from 1.
        column: usize,
        /// The line.
        text: String,
    },
    /// A value has metadata that cannot be stored.
    UnsupportedMetadata {
        /// The key.
        key: String,
        /// The reason, and supported alternatives.
        what: String,
    },
    /// The value is not a tensor and holds none.
    NotATensor {
        /// The type of the value.
        found: &'static str,
        /// Supported alternatives.
        instead: &'static str,
    },
    /// The value serialized different tensors for writing than for planning.
    Changed {
        /// The difference.
        what: String,
    },
    /// A listener of [`progress`](crate::SaveOptions::progress) ended the call.
    Cancelled,
    /// A number cannot be cast to the dtype of the type.
    Cast(InvalidCast),
    /// A cast would take codes or scales of a quantized weight for numbers; see [`quant`](crate::quant).
    Codes {
        /// The tensor.
        name: String,
        /// What it holds, such as "holds fp8 codes; `up.weight_scale` has their scales".
        what: String,
        /// Whether the weight can be [decoded](crate::quant).
        can_be_decoded: bool,
    },

    /// The file exceeds a limit.
    Limit {
        /// The name of the limited number.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The largest number allowed.
        limit: u64,
    },
    /// There is not enough memory for a tensor or another part of the file.
    OutOfMemory {
        /// The number of bytes requested.
        bytes: u64,
    },
    /// A file changed while it was read from its server.
    SourceChanged {
        /// The difference.
        what: String,
    },
    /// An I/O operation failed.
    Io(io::Error),
    /// A message of a `Serialize` or `Deserialize` implementation.
    Message(String),
}

impl ErrorKind {
    /// No tensor has this name. The message lists the most similar names first.
    pub(crate) fn missing(name: &str, found: Vec<String>, others: usize) -> Self {
        let found = Self::by_similarity(name, found);
        Self::Missing { name: name.to_owned(), found, others, complete: true }
    }

    /// No entry of metadata has this key. The message lists the most similar keys first.
    pub(crate) fn missing_metadata(key: &str, expected: String, found: Vec<String>) -> Self {
        Self::MissingMetadata { key: key.to_owned(), expected, found: Self::by_similarity(key, found) }
    }

    /// Returns the names in the order of their similarity to `name`.
    pub(crate) fn by_similarity(name: &str, found: Vec<String>) -> Vec<String> {
        /// The longest name to compare.
        const LONGEST: usize = 256;
        let distance = |other: &String| match name.len().max(other.len()) {
            ..=LONGEST => strsim::osa_distance(name, other),
            long => long,
        };
        let order = |other: &String| (!Self::is_part(other, name) && !Self::is_part(name, other), distance(other));
        let found = found.into_iter().map(|other| (order(&other), other)).collect();
        let found = sorted::values(found, &mut |(one, _), (other, _)| one.cmp(other));
        found.into_iter().map(|(_, other)| other).collect()
    }

    /// Returns whether `long` is `short` with more segments before or after it. Such a name is nearer than any other.
    pub(crate) fn is_part(long: &str, short: &str) -> bool {
        long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'))
            || long.strip_suffix(short).is_some_and(|rest| rest.ends_with('.'))
    }

    /// Returns the category.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::Truncated { .. }
            | Self::UnknownFormat { .. }
            | Self::NotTensors { .. }
            | Self::AmbiguousFormat { .. }
            | Self::BadMagic { .. }
            | Self::UnknownDtype { .. }
            | Self::UnknownLayout { .. }
            | Self::BadNumber { .. }
            | Self::Overlap { .. }
            | Self::InvalidTensor(_)
            | Self::DuplicateName { .. }
            | Self::Warning { .. }
            | Self::Malformed { .. } => Category::File,
            Self::AmbiguousName { .. }
            | Self::RepeatedField { .. }
            | Self::Missing { .. }
            | Self::Unexpected { .. }
            | Self::UnusedRename { .. }
            | Self::WrongDtype { .. }
            | Self::WrongShape { .. }
            | Self::WrongLayout { .. }
            | Self::WrongCount { .. }
            | Self::WrongPosition { .. }
            | Self::MissingMetadata { .. }
            | Self::InvalidMetadata { .. }
            | Self::Load(_)
            | Self::Ambiguous
            | Self::Misaligned { .. }
            | Self::Unmapped { .. }
            | Self::Cast(_) => Category::Mismatch,
            Self::Unsupported { .. }
            | Self::Map { .. }
            | Self::UnsupportedMetadata { .. }
            | Self::FeatureOff { .. }
            | Self::RepeatedName { .. }
            | Self::NotATensor { .. }
            | Self::Changed { .. }
            | Self::Codes { .. }
            | Self::Cancelled
            | Self::Message(_) => Category::Call,
            Self::Limit { .. } | Self::OutOfMemory { .. } => Category::Limit,
            Self::SourceChanged { .. } | Self::Io(_) => Category::Io,
        }
    }

    /// Returns the field of [`Limits`](crate::Limits) exceeded by a file, if it bounds bytes: `memory`, `shared` or
    /// `held`. The message names it, unless it is formatted with `{:#}`.
    #[must_use]
    pub fn limits_field(&self) -> Option<&'static str> {
        match self {
            Self::Limit { what, .. } if *what == MEMORY => Some("memory"),
            Self::Limit { what, .. } if *what == PAYLOADS => Some("shared"),
            Self::Limit { what, .. } if *what == HELD => Some("held"),
            _ => None,
        }
    }

    /// Returns `true` if the message does not name the tensor itself.
    pub(crate) fn is_about_one_tensor(&self) -> bool {
        !matches!(
            self,
            Self::Missing { .. }
                | Self::Unexpected { .. }
                | Self::DuplicateName { .. }
                | Self::RepeatedName { .. }
                | Self::RepeatedField { .. }
                | Self::AmbiguousName { .. }
                | Self::WrongCount { .. }
                | Self::MissingMetadata { .. }
                | Self::InvalidMetadata { .. }
                | Self::UnsupportedMetadata { .. }
                | Self::UnusedRename { .. }
                | Self::Codes { .. }
                | Self::Map { .. }
                | Self::Unmapped { .. }
                | Self::Cancelled
                | Self::Load(_)
        )
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, left } => {
                write!(f, "needs {needed} more bytes, but the file has {left} left")
            }
            Self::UnknownFormat { formats, .. } if formats.is_empty() => f.write_str("the file is empty"),
            Self::UnknownFormat { found, formats } if found.is_empty() => {
                write!(f, "the file's format was not recognized; the formats are {}", formats.join(", "))
            }
            Self::UnknownFormat { found, formats } => {
                let (found, formats) = (found.escape_ascii(), formats.join(", "));
                write!(f, "the file's format was not recognized: it begins with `{found}`; the formats are {formats}")
            }
            Self::NotTensors { what, found } if found.is_empty() => write!(f, "the file is {what}"),
            Self::NotTensors { what, found } => write!(f, "the file is {what}; it begins with `{}`", ShownBeginning(found)),
            Self::AmbiguousFormat { formats } => {
                write!(f, "the file could be {}; name its format", formats.join(" or "))
            }
            Self::FeatureOff { format, feature } => write!(f, "{format} files need the Cargo feature `{feature}`"),
            Self::BadMagic { found, expected } if found.is_empty() => {
                write!(f, "expected `{}`, which is not there", expected.escape_ascii())
            }
            Self::BadMagic { found, expected } => {
                write!(f, "found `{}`, but expected `{}`", found.escape_ascii(), expected.escape_ascii())
            }
            Self::UnknownDtype { tag } => write!(f, "unknown dtype tag {}", Short(tag)),
            Self::UnknownLayout { tag } => write!(f, "unknown layout tag {tag}"),
            Self::BadNumber { what, found, expected } => write!(f, "{what} is {found}, but expected {expected}"),
            Self::Overlap { other, range } => {
                let other = Short(other);
                write!(f, "overlaps tensor `{other}`, which takes bytes {} to {}", range.start, range.end)
            }
            Self::InvalidTensor(invalid) => invalid.fmt(f),
            Self::DuplicateName { name } | Self::RepeatedName { name } => {
                write!(f, "two tensors are named `{}`", Short(name))
            }
            Self::AmbiguousName { name } => write!(
                f,
                "two tensors are named `{}`; read them by position, as a list or a tuple, or as `#0`, `#1`, and so on",
                Short(name)
            ),
            Self::RepeatedField { name } => write!(f, "two tensors are for the field `{}`", Short(name)),
            Self::Warning { warning: Warning { kind, text, .. }, others } => {
                write!(f, "{text}; warnings of the kind {kind} are denied")?;
                match others {
                    0 => Ok(()),
                    1 => f.write_str(", and there is 1 more that is denied"),
                    others => write!(f, ", and there are {others} more that are denied"),
                }
            }
            Self::Malformed { what } => f.write_str(what),
            Self::Missing { name, found, others, .. } => {
                write!(f, "missing tensor `{}`", Short(name))?;
                let lead = if are_positions(found) { "; the file has no names, but " } else { "; the file has " };
                NameList { lead, names: found, others: *others }.fmt(f)
            }
            Self::Unexpected { name, expected, .. } => {
                write!(f, "unexpected tensor `{}`", Short(name))?;
                NameList { lead: "; expected ", names: expected, others: 0 }.fmt(f)
            }
            Self::UnusedRename { old, is_shadowed: true, .. } => {
                write!(f, "each tensor that matches `{}` is already renamed by an earlier rule", Short(old))
            }
            Self::UnusedRename { old, found, .. } => match old.strip_prefix('#').filter(|old| is_number(old)) {
                Some(position) => write!(f, "there is no tensor at position {position}; the file has {}", found.len()),
                None => {
                    write!(f, "no tensor matches `{}`", Short(old))?;
                    NameList { lead: "; the file has ", names: found, others: 0 }.fmt(f)
                }
            },
            Self::WrongDtype { found, expected } => {
                write!(f, "the file has {found}, but expected {expected}")?;
                if found.can_cast_to(*expected) { f.write_str("; `#[tensor(cast)]` converts it") } else { Ok(()) }
            }
            Self::WrongShape { found, expected } => write!(f, "the file has {found}, but expected {expected}"),
            Self::WrongLayout { found, expected } => write!(f, "the file has {found}, but expected {expected}"),
            Self::WrongCount { found, expected } => {
                write!(f, "the file has {found} tensor{}, but expected {expected}", if *found == 1 { "" } else { "s" })
            }
            Self::WrongPosition { found, expected } => {
                match found {
                    Some(found) => write!(f, "the file has {found}, but expected ")?,
                    None => f.write_str("the file ends, but expected ")?,
                }
                f.write_str(&expected.join(" or "))
            }
            Self::MissingMetadata { key, expected, found } => {
                write!(f, "missing metadata `{}`, which is {expected}", Short(key))?;
                NameList { lead: "; the file has ", names: found, others: 0 }.fmt(f)
            }
            Self::InvalidMetadata { key, what } => write!(f, "metadata `{}`: {what}", Short(key)),
            Self::UnsupportedMetadata { key, what } => write!(f, "cannot store the metadata `{}`; {what}", Short(key)),
            Self::Load(report) => report.fmt(f),
            Self::Ambiguous => f.write_str(
                "the file has no names, and its tensors fit the type in more than one way; `Options::embed_names` writes names",
            ),
            Self::Misaligned { dtype, alignment } => write!(
                f,
                "cannot borrow {dtype} from bytes that do not start at a multiple of {alignment}; a `CowArray` would copy them"
            ),
            Self::Unmapped { misfits, count } => {
                let many = if *count == 1 { "" } else { "s" };
                write!(f, "the map does not fit: {count} misfit{many}")?;
                misfits.iter().try_for_each(|misfit| write!(f, "\n  {}", Short(misfit)))
            }
            Self::Map { what, line: 0, .. } => f.write_str(what),
            Self::Map { what, line, column, text } => {
                /// The characters that are shown of a long line.
                const SHOWN: usize = 100;

                let before = column.saturating_sub(1);
                let skipped = if text.chars().count() > SHOWN { before.saturating_sub(SHOWN / 2) } else { 0 };
                let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
                let shown: String = text.chars().skip(skipped).take(SHOWN).map(plain).collect();
                let (shown, before) = (shown.trim_end(), before - skipped);
                write!(f, "line {line}, column {column}: {}\n  {shown}\n  {:before$}^", Short(what), "")
            }
            Self::Unsupported { what, instead } => write!(f, "cannot {what}; {instead}"),
            Self::NotATensor { found, instead } => write!(f, "{found} is not a tensor; {instead}"),
            Self::Changed { what } => write!(f, "the value changed between planning and writing: {what}"),
            Self::Cancelled => f.write_str("cancelled by the progress listener"),
            Self::Cast(cast) => cast.fmt(f),
            Self::Codes { name, what, can_be_decoded } => {
                let decode = if *can_be_decoded { "`OpenOptions::dequantize` decodes them, " } else { "" };
                write!(f, "`{}` {what}. {decode}`CastView::as_stored` casts the stored numbers", Short(name))
            }
            Self::Limit { what, found, limit } => {
                write!(f, "{what} is {found}, but the limit is {limit}")?;
                match self.limits_field() {
                    Some(field) if !f.alternate() => write!(f, "; `Limits::{field}` raises it"),
                    _ => Ok(()),
                }
            }
            Self::OutOfMemory { bytes } => write!(f, "there is not enough memory for {bytes} bytes"),
            Self::SourceChanged { what } => write!(f, "the file changed while it was read: {what}; open it again"),
            Self::Io(error) => error.fmt(f),
            Self::Message(message) => f.write_str(message),
        }
    }
}

/// The beginning of a file: as text, if it is text up to a truncated character.
struct ShownBeginning<'a>(&'a [u8]);

impl fmt::Display for ShownBeginning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text) if !text.contains('\0') => Short(text).fmt(f),
            Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
                Self(&self.0[..error.valid_up_to()]).fmt(f)
            }
            _ => self.0.escape_ascii().fmt(f),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether all names are positions, as in a file without names.
fn are_positions(names: &[String]) -> bool {
    let is_position = |name: &String| name.strip_prefix('#').is_some_and(|digits| digits.parse::<usize>().is_ok());
    names.iter().all(is_position)
}

/// Some of the names, and the number of the rest. Prints nothing if there are no names.
pub(crate) struct NameList<'a> {
    pub(crate) lead: &'a str,
    pub(crate) names: &'a [String],
    /// The number of names missing from `names`.
    pub(crate) others: usize,
}

impl fmt::Display for NameList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let Self { lead, names, others } = *self;
        for (index, name) in names.iter().take(SHOWN).enumerate() {
            write!(f, "{}`{}`", if index == 0 { lead } else { ", " }, Short(name))?;
        }
        let more = names.len().saturating_sub(SHOWN) + others;
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        Ok(())
    }
}

/// The error for a tensor unsupported by a format: `what` it is, and what to do `instead`.
pub fn cannot_store(what: impl Into<String>, instead: impl Into<String>) -> ErrorKind {
    ErrorKind::Unsupported { what: format!("store {}", what.into()), instead: instead.into() }
}
