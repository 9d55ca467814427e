//! Tensors in listings: labels, JSON rows and sums.

use anstyle::{AnsiColor, Style};
use serde::{Serialize, Serializer};
use tensorfile::file::FileTensor;
use tensorfile::quant::{Role, Scheme, Verdict};
use tensorfile::{Dtype, File, Layout, TensorInfo};

/// Returns the text of a dtype column.
pub fn dtype_label(info: &TensorInfo) -> &str {
    match &info.layout {
        Layout::Blob => "blob",
        Layout::Unknown(unknown) => unknown.tag(),
        _ => info.dtype.name(),
    }
}

/// Returns whether the dtype of a tensor is unknown, or the tensor is damaged, so that its elements cannot be read or
/// stored.
pub fn is_unknown(info: &TensorInfo) -> bool {
    info.unknown_dtype().is_some()
}

/// Returns whether a tensor has elements that are not in the place where its bytes would be, so that nothing can look
/// at them.
///
/// PyTorch's sparse tensors are listed with the tensors that they are made of, and those on the device `meta` have no
/// elements.
pub fn is_unseen(file: &File, tensor: FileTensor<'_>) -> bool {
    let Some(tag) = tensor.info().unknown_dtype() else { return false };
    tensor.payload_bytes() == 0
        && tensor.shape().elements() != Some(0)
        && !tag.ends_with("(meta)")
        && file.position(&format!("{}.values", tensor.name())).is_none()
}

/// Returns the index of an element, given its position in the payload; of a sparse tensor, its number among the stored
/// ones.
pub fn index_of(info: &TensorInfo, position: u64) -> Vec<u64> {
    let dims = info.shape.dims();
    match &info.layout {
        Layout::Coo { .. } => vec![position],
        Layout::DimOrder(order) => {
            let order: Vec<usize> = order.as_slice().iter().map(|dim| usize::from(*dim)).collect();
            let stored: Vec<usize> = order.iter().map(|dim| dims[*dim]).collect();
            let mut index = vec![0; dims.len()];
            order.iter().zip(row_major_index(position, &stored)).for_each(|(dim, i)| index[*dim] = i);
            index
        }
        _ => row_major_index(position, dims),
    }
}

/// Converts a position in row-major order to an index for each dim.
pub fn row_major_index(position: u64, shape: &[usize]) -> Vec<u64> {
    let mut left = position;
    let mut index: Vec<u64> = shape
        .iter()
        .rev()
        .map(|&dim| {
            let dim = (dim as u64).max(1);
            let i = left % dim;
            left /= dim;
            i
        })
        .collect();
    index.reverse();
    index
}

/// Returns the style of the label of a dtype, or of a dtype and a shape: one for floats, integers, bools and others.
pub fn dtype_style(label: &str) -> Style {
    let name = label.split(['[', CODES]).next().unwrap_or_default();
    let color = match name.parse::<Dtype>() {
        Ok(dtype) if dtype.is_float() => AnsiColor::Cyan,
        Ok(dtype) if dtype.is_integer() => AnsiColor::Green,
        Ok(Dtype::Bool) => AnsiColor::Magenta,
        _ if label.is_empty() => return Style::new(),
        _ => AnsiColor::Yellow,
    };
    color.on_default()
}

/// Returns the text of a shape column, with any layout but row-major.
pub fn shape_label(info: &TensorInfo) -> String {
    match &info.layout {
        Layout::DimOrder(order) => format!("{} in dim order {:?}", info.shape, order.as_slice()),
        Layout::Coo { entries } => format!("{} sparse, nnz {entries}", info.shape),
        Layout::Unknown(_) if info.is_damaged() => format!("{}, damaged", info.shape),
        Layout::Unknown(_) => format!("{} of unknown dtype", info.shape),
        _ => info.shape.to_string(),
    }
}

/// Returns dtype and shape: `f32[2, 3]`.
pub fn type_label(info: &TensorInfo) -> String {
    format!("{}{}", dtype_label(info), shape_label(info))
}

/// Returns what a tensor is of a quantized weight. The warnings of the file say what cannot be found out.
pub fn verdict(tensor: FileTensor<'_>) -> Verdict<'_> {
    tensor.verdict().unwrap_or(Verdict::Plain)
}

/// Returns whether the elements are stored codes or scales, whose dtype does not say so: blocks of ggml have dtypes of their
/// own.
pub fn are_codes(verdict: Verdict<'_>) -> bool {
    match verdict {
        Verdict::Plain | Verdict::Decoded(_) => false,
        Verdict::Part(weight, role) => !(weight.scheme() == Scheme::Ggml && role == Role::Codes),
        _ => true,
    }
}

/// Returns what a tensor is of a quantized weight: `fp8 codes`, `fp8 scale`; empty for a plain one.
pub fn scheme_label(verdict: Verdict<'_>) -> String {
    match verdict {
        Verdict::Part(weight, role) if are_codes(verdict) => format!("{} {role}", weight.scheme()),
        Verdict::Unknown(_) => "unknown codes".to_owned(),
        _ => String::new(),
    }
}

/// The mark of a dtype whose elements are codes or scales, and what it means.
pub const CODES: char = '*';
pub const CODES_NOTE: &str = "* codes and scales of quantized weights, as stored: these are not the weights";

/// A tensor as a row of a listing.
#[derive(Debug, Clone, Copy)]
pub struct TensorRow<'f> {
    pub name: &'f str,
    pub info: &'f TensorInfo,
    pub offset: u64,
    pub bytes: u64,
    /// What it is of a quantized weight.
    pub verdict: Verdict<'f>,
}

impl<'f> From<FileTensor<'f>> for TensorRow<'f> {
    fn from(tensor: FileTensor<'f>) -> Self {
        let range = tensor.range();
        let verdict = verdict(tensor);
        Self { name: tensor.name(), info: tensor.info(), offset: range.start, bytes: range.end - range.start, verdict }
    }
}

impl Serialize for TensorRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            name: &'a str,
            dtype: &'a str,
            shape: &'a [usize],
            #[serde(flatten)]
            layout: LayoutRow<'a>,
            bytes: u64,
            offset: u64,
            /// The scheme of the quantized weight that it is a part of.
            #[serde(skip_serializing_if = "Option::is_none")]
            scheme: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            role: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            part_of: Option<&'a str>,
        }

        #[derive(Serialize)]
        #[serde(tag = "layout", rename_all = "snake_case")]
        enum LayoutRow<'a> {
            RowMajor,
            DimOrder {
                dim_order: &'a [u8],
            },
            Coo {
                entries: usize,
            },
            Blob,
            /// The dtype has the name that the file states.
            Unknown,
            Damaged,
            Other,
        }

        let Self { name, info, offset, bytes, verdict } = *self;
        let layout = match &info.layout {
            Layout::RowMajor => LayoutRow::RowMajor,
            Layout::DimOrder(order) => LayoutRow::DimOrder { dim_order: order.as_slice() },
            Layout::Coo { entries } => LayoutRow::Coo { entries: *entries },
            Layout::Blob => LayoutRow::Blob,
            Layout::Unknown(_) if info.is_damaged() => LayoutRow::Damaged,
            Layout::Unknown(_) => LayoutRow::Unknown,
            _ => LayoutRow::Other,
        };
        let dtype = info.unknown_dtype().unwrap_or_else(|| info.dtype.name());
        let (scheme, role, part_of) = match verdict {
            Verdict::Part(weight, role) => (Some(weight.scheme().name()), Some(role.name()), Some(weight.name())),
            Verdict::Unknown(weight) => (Some("unknown"), None, Some(weight.name())),
            _ => (None, None, None),
        };
        Row { name, dtype, shape: &info.shape, layout, bytes, offset, scheme, role, part_of }.serialize(serializer)
    }
}

/// The sums over several tensors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    pub tensors: usize,
    /// Stored elements, without elements of blobs and unknown dtypes.
    pub parameters: u64,
    pub bytes: u64,
}

impl Total {
    /// Returns the sums over `tensors`.
    pub fn of<'f>(tensors: impl IntoIterator<Item = TensorRow<'f>>) -> Self {
        let mut total = Self::default();
        tensors.into_iter().for_each(|tensor| total.add(&tensor));
        total
    }

    /// Adds other sums.
    pub fn join(&mut self, other: &Self) {
        self.tensors += other.tensors;
        self.parameters = self.parameters.saturating_add(other.parameters);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Adds a tensor.
    pub fn add(&mut self, tensor: &TensorRow<'_>) {
        let parameters = match tensor.info.layout {
            Layout::Blob | Layout::Unknown(_) => 0,
            Layout::Coo { entries } => entries,
            _ => tensor.info.shape.elements().unwrap_or(usize::MAX),
        };
        self.tensors += 1;
        self.parameters = self.parameters.saturating_add(parameters as u64);
        self.bytes = self.bytes.saturating_add(tensor.bytes);
    }
}
