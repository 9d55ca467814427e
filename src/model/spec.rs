//! The requirements of a type on a tensor: dtype, shape and layout, with the attributes of the field.

use std::fmt;

use crate::error::ErrorKind;
use crate::tensor::{Dtype, Layout, TensorInfo};

/// Field attributes that change how an array is read or written: `cast`, `dequantize`, `transpose`, `shape` and `tied`.
///
/// ```
/// use tensorfile::model::{FieldAttrs, TensorSpec};
/// use tensorfile::Dtype;
///
/// // What `#[tensor(transpose, shape = [3, _])]` asks for.
/// let attrs = FieldAttrs { transpose: true, shape: Some(&[Some(3), None]), ..FieldAttrs::NONE };
/// let spec = TensorSpec::with_rank(Dtype::F32, Some(2)).with_attrs(&attrs);
/// assert_eq!(spec.to_string(), "f32[_, 3]");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldAttrs {
    /// Read any numeric dtype by casting its elements.
    pub cast: bool,
    /// Decode a quantized weight.
    pub dequantize: bool,
    /// The file holds the array with its dims reversed.
    pub transpose: bool,
    /// The dims of the field, as far as they are known.
    pub shape: Option<&'static [Option<usize>]>,
    /// The full name of an equal tensor.
    pub tied: Option<&'static str>,
}

impl FieldAttrs {
    /// No attributes.
    pub const NONE: Self = Self { cast: false, dequantize: false, transpose: false, shape: None, tied: None };
}

/// An array, or an `Option`, list or pointer of arrays: types accepted by the field attributes `cast`, `dequantize`,
/// `transpose` and `shape`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an array",
    label = "`cast`, `dequantize`, `transpose` and `shape` need an array, or an `Option` or `Vec` of arrays"
)]
pub trait ArrayField {}

/// The dtype, dims and layout required of a tensor.
///
/// ```
/// use tensorfile::model::TensorSpec;
/// use tensorfile::{Dtype, TensorFile, TensorInfo};
///
/// let spec = TensorSpec::dense(Dtype::F32, Some(&[Some(3), None]));
/// assert_eq!(spec.to_string(), "f32[3, _]");
/// assert!(spec.accepts(&TensorInfo::new(Dtype::F32, [3, 5])));
/// assert!(!spec.accepts(&TensorInfo::new(Dtype::F64, [3, 5])));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorSpec {
    dtype: Option<Dtype>,
    dims: Option<&'static [Option<usize>]>,
    layout: LayoutSpec,
    attrs: FieldAttrs,
    /// The value copies the elements.
    copies: Copies,
}

/// Whether a value copies its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// It borrows what can be borrowed.
    None,
    /// Borrowed bytes are copied, once for all tensors sharing them.
    Shared,
    /// The value copies the payload.
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LayoutSpec {
    Any,
    Dense,
    Coo,
    Blob,
}

/// Dims of any size: as many as an array of static rank can have.
const ANY_DIMS: [Option<usize>; 6] = [None; 6];

impl TensorSpec {
    /// Any tensor.
    pub const ANY: Self =
        Self { dtype: None, dims: None, layout: LayoutSpec::Any, attrs: FieldAttrs::NONE, copies: Copies::None };

    /// A blob.
    pub const BLOB: Self = Self {
        dtype: Some(Dtype::U8),
        dims: Some(&[None]),
        layout: LayoutSpec::Blob,
        attrs: FieldAttrs::NONE,
        copies: Copies::None,
    };

    /// A dense tensor with the given dims; `None` for any rank, or for a dim of any size.
    #[must_use]
    pub const fn dense(dtype: Dtype, dims: Option<&'static [Option<usize>]>) -> Self {
        Self { dtype: Some(dtype), dims, layout: LayoutSpec::Dense, attrs: FieldAttrs::NONE, copies: Copies::None }
    }

    /// A dense tensor of the given rank; `None` for any rank.
    ///
    /// # Panics
    ///
    /// If the rank is above 6, the highest static rank of `ndarray`.
    #[must_use]
    pub const fn with_rank(dtype: Dtype, rank: Option<usize>) -> Self {
        match rank {
            Some(rank) => Self::dense(dtype, Some(ANY_DIMS.split_at(rank).0)),
            None => Self::dense(dtype, None),
        }
    }

    /// A sparse tensor in COO layout.
    #[must_use]
    pub const fn coo(dtype: Dtype) -> Self {
        Self { dtype: Some(dtype), dims: None, layout: LayoutSpec::Coo, attrs: FieldAttrs::NONE, copies: Copies::None }
    }

    /// Returns the rank as one bit, if it is fixed; no static rank is above 63.
    pub(crate) const fn ranks(&self) -> u64 {
        match self.dims {
            Some(dims) if dims.len() < 64 => 1 << dims.len(),
            _ => 0,
        }
    }

    /// Returns the spec for a field with the given attributes. Only dense tensors are cast.
    #[must_use]
    pub const fn with_attrs(self, attrs: &FieldAttrs) -> Self {
        let cast = attrs.cast && matches!(self.layout, LayoutSpec::Dense);
        Self { attrs: FieldAttrs { cast, ..*attrs }, ..self }
    }

    /// Returns the spec for a value that copies its elements.
    pub(crate) const fn owned(self) -> Self {
        Self { copies: Copies::All, ..self }
    }

    /// Returns the spec for a value that copies payloads, but shares the ones shared in the file.
    pub(crate) const fn shared(self) -> Self {
        Self { copies: Copies::Shared, ..self }
    }

    /// Returns whether the value holds the bytes of any tensor, even with an unknown dtype.
    pub(crate) fn takes_bytes(&self) -> bool {
        self.layout == LayoutSpec::Any
    }

    /// Returns whether the value copies the payload of this tensor. Cast elements are read in place.
    pub(crate) fn copies(&self, info: &TensorInfo) -> Copies {
        match self.copies {
            Copies::All if self.dtype.is_some_and(|dtype| dtype != info.dtype) => Copies::Shared,
            copies => copies,
        }
    }

    /// Returns the required dtype; `None` for any.
    #[must_use]
    pub fn dtype(&self) -> Option<Dtype> {
        if self.attrs.cast { None } else { self.dtype }
    }

    /// Returns the required dims; `None` for any rank, or for a dim of any size.
    #[must_use]
    pub fn dims(&self) -> Option<Vec<Option<usize>>> {
        let mut dims = self.attrs.shape.or(self.dims)?.to_vec();
        if self.attrs.transpose {
            dims.reverse();
        }
        Some(dims)
    }

    /// Returns a placeholder header for a missing tensor.
    pub(crate) fn example(&self) -> TensorInfo {
        TensorInfo::new(self.dtype.unwrap_or(Dtype::U8), [0])
    }

    /// Returns whether a tensor has a suitable dtype and dims.
    #[must_use]
    pub fn accepts(&self, info: &TensorInfo) -> bool {
        let is_known = info.unknown_dtype().is_none();
        self.dtype().is_none_or(|dtype| dtype == info.dtype && is_known) && self.misfit(info).is_none()
    }

    /// Checks a tensor's header before its payload is read.
    ///
    /// # Errors
    ///
    /// [`WrongLayout`](ErrorKind::WrongLayout), [`WrongDtype`](ErrorKind::WrongDtype),
    /// [`WrongShape`](ErrorKind::WrongShape).
    pub fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        let wrong_layout = |expected| Err(ErrorKind::WrongLayout { found: info.clone(), expected });
        match (self.layout, &info.layout) {
            (LayoutSpec::Any, _) | (LayoutSpec::Blob, Layout::Blob) => return Ok(()),
            (LayoutSpec::Blob, _) => return wrong_layout("a blob"),
            (LayoutSpec::Dense, Layout::Coo { .. }) => {
                return wrong_layout("a dense tensor (`CooTensor` reads this one)");
            }
            (LayoutSpec::Dense, Layout::Blob) => return wrong_layout("a tensor (`Blob` reads this)"),
            (LayoutSpec::Dense | LayoutSpec::Coo, _) => {}
        }
        let is_known = info.unknown_dtype().is_none();
        if let Some(expected) = self.dtype
            && !(is_known && info.dtype == expected || self.attrs.cast && info.can_cast_to(expected))
        {
            return Err(ErrorKind::WrongDtype { found: info.clone(), expected });
        }
        if self.layout == LayoutSpec::Coo && !matches!(info.layout, Layout::Coo { .. }) {
            return wrong_layout("COO layout");
        }
        match self.misfit(info) {
            None => Ok(()),
            Some(dims) => Err(ErrorKind::WrongShape { found: info.clone(), expected: self.expected(dims) }),
        }
    }

    /// Returns the required dtype if a tensor has another one, which could be cast to it.
    pub(crate) fn casts(&self, info: &TensorInfo) -> Option<Dtype> {
        self.dtype.filter(|dtype| info.dtype != *dtype && info.can_cast_to(*dtype))
    }

    /// Returns whether the elements are taken for numbers though they may be codes: they are cast, or the field asks for a
    /// weight.
    pub(crate) fn needs_numbers(&self, info: &TensorInfo) -> bool {
        let is_float = matches!(info.dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64);
        self.casts(info).is_some() || self.attrs.dequantize && !is_float
    }

    /// Returns whether the field has the attribute `dequantize`.
    pub(crate) fn is_dequantized(&self) -> bool {
        self.attrs.dequantize
    }

    /// Returns the dtype to decode a weight to: that of the field, if there is a decoder for it.
    pub(crate) fn decoded_dtype(&self) -> Dtype {
        self.dtype.filter(|dtype| matches!(dtype, Dtype::Bf16 | Dtype::F16)).unwrap_or(Dtype::F32)
    }

    /// As [`passes`](Self::passes), but not if the tensor needs to hold numbers: whether it does depends on the others.
    #[inline]
    pub(crate) fn passes_as_stored(&self, info: &TensorInfo) -> bool {
        matches!(info.layout, Layout::RowMajor) && self.takes_plain(info)
            || !self.needs_numbers(info) && self.check(info).is_ok()
    }

    /// Returns whether [`check`](Self::check) passes a tensor. Most are dense and in row-major order.
    #[inline]
    pub(crate) fn passes(&self, info: &TensorInfo) -> bool {
        matches!(info.layout, Layout::RowMajor) && self.takes_plain(info) || self.check(info).is_ok()
    }

    /// Returns whether [`check`](Self::check) passes a dense row-major tensor of the required dtype. A tensor to be
    /// cast may pass too, but none of a field that is dequantized.
    // Inlined into the check of each tensor that is read in one step.
    #[inline(always)]
    pub(crate) fn takes_plain(&self, info: &TensorInfo) -> bool {
        match self.layout {
            LayoutSpec::Any => !self.attrs.dequantize,
            LayoutSpec::Dense => {
                self.dtype == Some(info.dtype) && !self.attrs.dequantize && self.misfit(info).is_none()
            }
            LayoutSpec::Coo | LayoutSpec::Blob => false,
        }
    }

    /// Returns the unmatched dims: the dims of the type, or else of the field.
    #[inline]
    fn misfit(&self, info: &TensorInfo) -> Option<&'static [Option<usize>]> {
        let misfit = |dims: &&[Option<usize>]| !self.fits(dims, info);
        self.dims.filter(misfit).or_else(|| self.attrs.shape.filter(misfit))
    }

    /// Writes what is expected, for a message of serde.
    pub(crate) fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.layout, self.dtype, self.dims) {
            (LayoutSpec::Blob, ..) => f.write_str("a blob"),
            (LayoutSpec::Coo, Some(dtype), _) => write!(f, "a sparse {dtype} tensor"),
            (LayoutSpec::Dense, Some(dtype), Some(dims)) => write!(f, "an array of {dtype} and rank {}", dims.len()),
            (LayoutSpec::Dense, Some(dtype), None) => write!(f, "an array of {dtype}"),
            _ => f.write_str("a tensor"),
        }
    }

    /// Returns whether a tensor has the dims of the field, possibly reversed in the file.
    #[inline]
    fn fits(&self, dims: &[Option<usize>], info: &TensorInfo) -> bool {
        let found = info.shape.dims();
        let place = |index: usize| if self.attrs.transpose { dims.len() - 1 - index } else { index };
        let fits = |index: usize| dims[place(index)].is_none_or(|dim| dim == found[index]);
        dims.len() == found.len() && (0..dims.len()).all(fits)
    }

    /// Returns the required dims, for a message.
    fn expected(&self, dims: &[Option<usize>]) -> String {
        if dims.iter().all(Option::is_none) {
            return format!("rank {}", dims.len());
        }
        let mut dims = dims.to_vec();
        if self.attrs.transpose {
            dims.reverse();
        }
        dims_text(&dims)
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.dtype().map_or("any", Dtype::name))?;
        match self.dims() {
            Some(dims) => f.write_str(&dims_text(&dims)),
            None => f.write_str("[..]"),
        }
    }
}

/// Formats dims as an attribute spells them: `[64, _]`.
pub(crate) fn dims_text(dims: &[Option<usize>]) -> String {
    let dims: Vec<String> = dims.iter().map(|dim| dim.map_or("_".to_owned(), |dim| dim.to_string())).collect();
    format!("[{}]", dims.join(", "))
}
