//! What the index of a file tells of a tensor, as it is listed.

use serde::{Serialize, Serializer};
use tensorfile::{FileTensor, Layout, TensorInfo};

/// A tensor of a file.
#[derive(Debug, Clone, Copy)]
pub struct Listed<'f> {
    pub name: &'f str,
    pub info: &'f TensorInfo,
    pub offset: u64,
    pub bytes: u64,
}

impl<'f> From<FileTensor<'f>> for Listed<'f> {
    fn from(tensor: FileTensor<'f>) -> Self {
        let range = tensor.range();
        Self { name: tensor.name(), info: tensor.info(), offset: range.start, bytes: range.end - range.start }
    }
}

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            name: &'a str,
            dtype: &'static str,
            shape: &'a [usize],
            #[serde(flatten)]
            layout: LayoutRow<'a>,
            bytes: u64,
            offset: u64,
        }

        #[derive(Serialize)]
        #[serde(tag = "layout", rename_all = "snake_case")]
        enum LayoutRow<'a> {
            RowMajor,
            DimOrder { dim_order: &'a [u8] },
            Coo { entries: usize },
            Blob,
            Other,
        }

        let Self { name, info, offset, bytes } = *self;
        let layout = match &info.layout {
            Layout::RowMajor => LayoutRow::RowMajor,
            Layout::DimOrder(order) => LayoutRow::DimOrder { dim_order: order.as_slice() },
            Layout::Coo { entries } => LayoutRow::Coo { entries: *entries },
            Layout::Blob => LayoutRow::Blob,
            _ => LayoutRow::Other,
        };
        Row { name, dtype: info.dtype.name(), shape: &info.shape, layout, bytes, offset }.serialize(serializer)
    }
}

/// What stands in the column of dtypes.
pub fn dtype(info: &TensorInfo) -> &'static str {
    match info.layout {
        Layout::Blob => "blob",
        _ => info.dtype.name(),
    }
}

/// What stands in the column of shapes: with the layout, where it is not row-major.
pub fn shape(info: &TensorInfo) -> String {
    match &info.layout {
        Layout::DimOrder(order) => format!("{} in order {:?}", info.shape, order.as_slice()),
        Layout::Coo { entries } => format!("{} sparse, {entries} stored", info.shape),
        _ => info.shape.to_string(),
    }
}

/// Dtype and shape in one word.
pub fn kind(info: &TensorInfo) -> String {
    format!("{}{}", dtype(info), shape(info))
}

/// The numbers that a tensor stores; those of a blob are none.
pub fn parameters(info: &TensorInfo) -> u64 {
    let elements = match info.layout {
        Layout::Blob => 0,
        Layout::Coo { entries } => entries,
        _ => info.shape.elements().unwrap_or(usize::MAX),
    };
    elements as u64
}

/// What tensors add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    pub tensors: usize,
    pub parameters: u64,
    pub bytes: u64,
}

impl Total {
    /// Counts a tensor.
    pub fn add(&mut self, info: &TensorInfo, bytes: u64) {
        self.tensors += 1;
        self.parameters = self.parameters.saturating_add(parameters(info));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The sum of the tensors.
    pub fn of<'f>(tensors: impl IntoIterator<Item = &'f Listed<'f>>) -> Self {
        let mut total = Self::default();
        for tensor in tensors {
            total.add(tensor.info, tensor.bytes);
        }
        total
    }
}
