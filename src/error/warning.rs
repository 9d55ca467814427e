//! Warnings: oddities of readable files.

use std::fmt;
use std::str::FromStr;

/// An oddity of a readable file. [`FileMetadata::warnings`](crate::model::FileMetadata::warnings) lists the ones of a
/// file.
///
/// ```
/// use tensorfile::report::WarningKind;
/// use tensorfile::{File, TensorMap, btf};
///
/// let mut file = btf::to_vec(&TensorMap::from_iter([("0", ndarray::array![1.0_f32, 2.0])]))?;
/// file.push(0);
/// let warnings = File::from_bytes(file)?.metadata()?.warnings;
/// assert_eq!(warnings[0].kind, WarningKind::TrailingBytes);
/// assert_eq!(warnings[0].to_string(), "1 byte at the end, from byte 48 on, belong to no tensor");
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Warning {
    /// The class of the oddity.
    pub kind: WarningKind,
    /// The name of the tensor, or of the first of several. It is in the text too.
    pub tensor: Option<String>,
    /// The offset in the file, in bytes. It is in the text too.
    pub offset: Option<u64>,
    /// A sentence, without a full stop.
    pub text: String,
}

impl Warning {
    /// Creates a warning about the file as a whole.
    #[must_use]
    pub fn new(kind: WarningKind, text: impl Into<String>) -> Self {
        Self { kind, tensor: None, offset: None, text: text.into() }
    }

    /// Sets the tensor. The text should name it.
    #[must_use]
    pub fn in_tensor(mut self, name: impl Into<String>) -> Self {
        self.tensor = Some(name.into());
        self
    }

    /// Sets the offset. The text should have it.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Declares the kinds, with their names.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal),* $(,)?) => {
        /// The classes of [`Warning`]s.
        ///
        /// Each has a name, for programs to print and parse: `trailing-bytes` for `TrailingBytes`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum WarningKind {
            $($(#[$doc])* $kind),*
        }

        impl WarningKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Returns the name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),*
                }
            }
        }
    };
}

kinds! {
    /// The elements of a tensor are not aligned, so it cannot be borrowed. A [note](WarningKind::is_note).
    Alignment = "alignment",
    /// A tensor cannot be read, because the file is damaged or lacks bytes of it. The other tensors can be read.
    Damaged = "damaged",
    /// Several tensors have one name, or several members of an archive.
    DuplicateName = "duplicate-name",
    /// The extension belongs to another format.
    Extension = "extension",
    /// Bytes between payloads belong to nothing. A [note](WarningKind::is_note).
    Gap = "gap",
    /// The index of a checkpoint in several files disagrees with the files.
    Index = "index",
    /// An unreadable part of the file is left out.
    LeftOut = "left-out",
    /// A metadata entry violates the format, or contradicts another one.
    Metadata = "metadata",
    /// The format's own software cannot find a tensor by its name.
    Name = "name",
    /// The tensors are not in the order prescribed by the format. A [note](WarningKind::is_note).
    Order = "order",
    /// The file is a part of a model in several files, or lacks a part.
    Part = "part",
    /// Tensors look like codes and scales of a quantized weight, but fit no layout; see [`quant`](crate::quant).
    Quantization = "quantization",
    /// Bytes after the last tensor, or after the elements in the part of the file that a tensor has, belong to nothing.
    TrailingBytes = "trailing-bytes",
    /// A tensor cannot be read, because its dtype or its layout is unknown.
    UnknownDtype = "unknown-dtype",
    /// The format's own software does not read this version.
    Version = "version",
}

impl WarningKind {
    /// Returns whether warnings of this kind are about how the bytes are arranged: nothing is wrong with the file, but
    /// it may be slower to use.
    ///
    /// ```
    /// use tensorfile::report::WarningKind;
    ///
    /// assert!(WarningKind::Alignment.is_note());
    /// assert!(!WarningKind::Damaged.is_note());
    /// ```
    #[must_use]
    pub const fn is_note(self) -> bool {
        matches!(self, Self::Alignment | Self::Gap | Self::Order)
    }
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WarningKind {
    type Err = UnknownWarningKind;

    /// Finds a kind by its name.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or(UnknownWarningKind)
    }
}

/// The error for an unknown name of a [`WarningKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownWarningKind;

impl fmt::Display for UnknownWarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown kind of warning; expected ")?;
        for (index, kind) in WarningKind::ALL.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            f.write_str(kind.name())?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownWarningKind {}
