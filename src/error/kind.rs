use std::fmt;
use std::io;

use super::LoadReport;
use crate::tensor::{Dtype, InvalidCast, InvalidTensor, TensorInfo};

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// The file is malformed.
    File,
    /// The file is well-formed, but does not hold what the type wants.
    Mismatch,
    /// The value or the call asks for what cannot be.
    Call,
    /// A limit was passed.
    Limit,
    /// Reading or writing failed.
    Io,
}

/// What is wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file ends too early.
    Truncated {
        /// The bytes wanted at the offset.
        needed: u64,
        /// The bytes there.
        left: u64,
    },
    /// A file that is of no format that there is.
    UnknownFormat {
        /// The first bytes, up to eight.
        found: Vec<u8>,
        /// The formats that there are.
        formats: Vec<&'static str>,
    },
    /// A file that could be of several formats.
    AmbiguousFormat {
        /// These.
        formats: Vec<&'static str>,
    },
    /// The bytes that tell the format are not there.
    BadMagic {
        /// The bytes found.
        found: Vec<u8>,
        /// The bytes expected.
        expected: &'static [u8],
    },
    /// A dtype that the format's specification does not have.
    UnknownDtype {
        /// The number or text found.
        tag: String,
    },
    /// A layout that the format's specification does not have.
    UnknownLayout {
        /// The number found.
        tag: u64,
    },
    /// A number in the file that cannot be right.
    BadNumber {
        /// What the number is, such as `rank`.
        what: &'static str,
        /// The number found.
        found: i128,
        /// What would be right.
        expected: String,
    },
    /// Two tensors share bytes without being the same.
    Overlap {
        /// The other tensor.
        other: String,
        /// Where the other one begins and ends.
        range: std::ops::Range<u64>,
    },
    /// Dtype, shape, layout and bytes that do not fit each other.
    InvalidTensor(InvalidTensor),
    /// Two tensors of one name.
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Something else that the file's format forbids.
    Malformed {
        /// What was found, and what was expected.
        what: String,
    },

    /// The type wants a tensor that the file does not have.
    Missing {
        /// The tensor's name.
        name: String,
        /// Some names that the file has.
        found: Vec<String>,
        #[doc(hidden)]
        complete: bool,
    },
    /// The file has a tensor that the type does not want.
    Unexpected {
        /// The tensor's name.
        name: String,
        /// Some names that the type has.
        expected: Vec<String>,
        #[doc(hidden)]
        complete: bool,
    },
    /// A tensor of another dtype than the type wants.
    WrongDtype {
        /// The tensor in the file.
        found: TensorInfo,
        /// The dtype wanted.
        expected: Dtype,
    },
    /// A tensor of another rank or with other dims than the type wants.
    WrongShape {
        /// The tensor in the file.
        found: TensorInfo,
        /// What the type wants, such as `rank 2` or `[64, _]`.
        expected: String,
    },
    /// A tensor of another layout than the type wants.
    WrongLayout {
        /// The tensor in the file.
        found: TensorInfo,
        /// What the type wants.
        expected: &'static str,
    },
    /// Not as many tensors as the type wants.
    WrongCount {
        /// The tensors in the file.
        found: u64,
        /// What the type wants.
        expected: String,
    },
    /// A tensor of a file without names that does not fit the type where it stands.
    WrongSlot {
        /// The tensor in the file; `None` for its end.
        found: Option<TensorInfo>,
        /// What the type may have here, such as a name with `f32[_]`.
        expected: Vec<String>,
    },
    /// The file does not hold what the type wants; the report tells all of it.
    Load(Box<LoadReport>),
    /// The tensors of a file without names fit the type in more than one way.
    Ambiguous,
    /// A borrowed array of bytes that are not aligned for its elements.
    Misaligned {
        /// The element type.
        dtype: Dtype,
        /// The alignment in bytes that it takes.
        alignment: usize,
    },

    /// What the format, or the way it is read, cannot do.
    Unsupported {
        /// What cannot be done, such as "store bf16".
        what: String,
        /// What could.
        instead: String,
    },
    /// The value is no tensor and holds none.
    NotATensor {
        /// What it is.
        found: &'static str,
        /// What would do.
        instead: &'static str,
    },
    /// The value gave other tensors when it was written than when it was planned.
    Changed {
        /// What is different.
        what: String,
    },
    /// A number that the dtype it is cast to cannot hold.
    Cast(InvalidCast),

    /// A limit was passed.
    Limit {
        /// What is limited.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// Reading or writing failed.
    Io(io::Error),
    /// What a `Serialize` or `Deserialize` implementation said.
    Message(String),
}

impl ErrorKind {
    /// Whose fault it is.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::Truncated { .. }
            | Self::UnknownFormat { .. }
            | Self::AmbiguousFormat { .. }
            | Self::BadMagic { .. }
            | Self::UnknownDtype { .. }
            | Self::UnknownLayout { .. }
            | Self::BadNumber { .. }
            | Self::Overlap { .. }
            | Self::InvalidTensor(_)
            | Self::DuplicateName { .. }
            | Self::Malformed { .. } => Category::File,
            Self::Missing { .. }
            | Self::Unexpected { .. }
            | Self::WrongDtype { .. }
            | Self::WrongShape { .. }
            | Self::WrongLayout { .. }
            | Self::WrongCount { .. }
            | Self::WrongSlot { .. }
            | Self::Load(_)
            | Self::Ambiguous
            | Self::Misaligned { .. }
            | Self::Cast(_) => Category::Mismatch,
            Self::Unsupported { .. } | Self::NotATensor { .. } | Self::Changed { .. } | Self::Message(_) => {
                Category::Call
            }
            Self::Limit { .. } => Category::Limit,
            Self::Io(_) => Category::Io,
        }
    }

    /// Whether a tensor's name before the message helps; some messages name their tensors themselves.
    pub(super) fn is_about_one_tensor(&self) -> bool {
        !matches!(
            self,
            Self::Missing { .. }
                | Self::Unexpected { .. }
                | Self::DuplicateName { .. }
                | Self::WrongCount { .. }
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
            Self::UnknownFormat { found, .. } if found.is_empty() => f.write_str("is empty, so its format cannot be told"),
            Self::UnknownFormat { found, formats } => {
                write!(f, "begins with `{}`, which is none of {}", found.escape_ascii(), formats.join(", "))
            }
            Self::AmbiguousFormat { formats } => {
                write!(f, "could be of the formats {}; say which one it is", formats.join(" and "))
            }
            Self::BadMagic { found, expected } => {
                write!(f, "found `{}`, but expected `{}`", found.escape_ascii(), expected.escape_ascii())
            }
            Self::UnknownDtype { tag } => write!(f, "unknown dtype tag {tag}"),
            Self::UnknownLayout { tag } => write!(f, "unknown layout tag {tag}"),
            Self::BadNumber { what, found, expected } => write!(f, "{what} is {found}, but expected {expected}"),
            Self::Overlap { other, range } => {
                write!(f, "overlaps tensor `{other}`, which takes bytes {} to {}", range.start, range.end)
            }
            Self::InvalidTensor(invalid) => invalid.fmt(f),
            Self::DuplicateName { name } => write!(f, "two tensors are named `{name}`"),
            Self::Malformed { what } => f.write_str(what),
            Self::Missing { name, found, .. } => {
                write!(f, "missing tensor `{name}`")?;
                list(f, "; the file has ", found)
            }
            Self::Unexpected { name, expected, .. } => {
                write!(f, "unexpected tensor `{name}`")?;
                list(f, "; expected ", expected)
            }
            Self::WrongDtype { found, expected } => write!(f, "the file has {found}, but expected {expected}"),
            Self::WrongShape { found, expected } => write!(f, "the file has {found}, but expected {expected}"),
            Self::WrongLayout { found, expected } => write!(f, "the file has {found}, but expected {expected}"),
            Self::WrongCount { found, expected } => {
                write!(f, "the file has {found} tensor{}, but expected {expected}", if *found == 1 { "" } else { "s" })
            }
            Self::WrongSlot { found, expected } => {
                match found {
                    Some(found) => write!(f, "the file has {found}, but expected ")?,
                    None => f.write_str("the file ends, but expected ")?,
                }
                f.write_str(&expected.join(" or "))
            }
            Self::Load(report) => report.fmt(f),
            Self::Ambiguous => f.write_str(
                "the file has no names, and its tensors fit the type in more than one way; `Options::embed_names` writes names",
            ),
            Self::Misaligned { dtype, alignment } => write!(
                f,
                "cannot borrow {dtype} from bytes that do not start at a multiple of {alignment}; a `CowArray` would copy them"
            ),
            Self::Unsupported { what, instead } => write!(f, "cannot {what}; {instead}"),
            Self::NotATensor { found, instead } => write!(f, "{found} is not a tensor; {instead}"),
            Self::Changed { what } => write!(f, "the value changed between planning and writing: {what}"),
            Self::Cast(cast) => cast.fmt(f),
            Self::Limit { what, found, limit } => write!(f, "{what} is {found}, but the limit is {limit}"),
            Self::Io(error) => error.fmt(f),
            Self::Message(message) => f.write_str(message),
        }
    }
}

/// A few names, and how many more there are.
fn list(f: &mut fmt::Formatter<'_>, lead: &str, names: &[String]) -> fmt::Result {
    const SHOWN: usize = 5;
    for (at, name) in names.iter().take(SHOWN).enumerate() {
        write!(f, "{}`{name}`", if at == 0 { lead } else { ", " })?;
    }
    if names.len() > SHOWN {
        write!(f, " and {} more", names.len() - SHOWN)?;
    }
    Ok(())
}
