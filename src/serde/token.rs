//! The private names by which our types and our formats recognize each other across serde.
//!
//! serde has no tensor. A tensor crosses it as a struct named [`TENSOR`] with the fields of [`TENSOR_FIELDS`]. Our
//! serializer and deserializer recognize the name; any other serde format sees a struct of two strings, a list of numbers
//! and bytes. Between our own types and formats the first three fields travel as the bytes of [`encode_header`], which is
//! faster. The other names carry what a derived struct knows and serde has no word for.

use smallvec::SmallVec;

use crate::tensor::{Dtype, Layout, Shape, TensorInfo};

/// The struct that is a tensor.
pub(crate) const TENSOR: &str = "$tensorfile::Tensor";

/// The fields of a tensor. All of them are always present, so that formats without field names can read it back.
pub(crate) const TENSOR_FIELDS: &[&str] = &[DTYPE, SHAPE, LAYOUT, DATA];
pub(crate) const DTYPE: &str = "dtype";
pub(crate) const SHAPE: &str = "shape";
pub(crate) const LAYOUT: &str = "layout";
pub(crate) const DATA: &str = "data";

/// The field that stands for dtype, shape and layout between our own types and formats.
pub(crate) const HEADER: &str = "$tensorfile::Header";

/// The variants of the field `layout`.
pub(crate) const LAYOUTS: &[&str] = &[ROW_MAJOR, DIM_ORDER, COO, BLOB];
pub(crate) const ROW_MAJOR: &str = "row_major";
pub(crate) const DIM_ORDER: &str = "dim_order";
pub(crate) const COO: &str = "coo";
pub(crate) const BLOB: &str = "blob";

/// The newtype around a flattened field, whose tensors are named as if they were fields of the struct around.
pub(crate) const FLATTEN: &str = "$tensorfile::Flatten";

/// The newtype variant around a tied field. The variant is the name of the tensor that it is tied to.
pub(crate) const TIED: &str = "$tensorfile::Tied";

/// The struct that types with `#[derive(TensorFile)]` ask for.
///
/// A string of its field list is the name, then any of `\0=alias` (another name to read the field by), `\0?` (the field
/// may be absent) and `\0*` (the field is flattened).
// NOTE: keep in step with `Field::spec` in `derive/src/model.rs`.
pub(crate) const DERIVED: &str = "$tensorfile::Struct";

/// The newtypes around the key of a map whose entries are more than tensors: see `KeyPart`.
pub(crate) const FIRST_SEGMENT: &str = "$tensorfile::FirstSegment";
pub(crate) const BEFORE_INDEX: &str = "$tensorfile::BeforeIndex";

/// The struct that ndarray's own `Serialize` writes.
pub(crate) const NDARRAY: &str = "Array";
pub(crate) const NDARRAY_FIELDS: &[&str] = &["v", "dim", "data"];

/// The bytes of a tensor's header: dtype, layout, rank, dims, and what the layout has besides.
pub(crate) fn encode_header(info: &TensorInfo) -> SmallVec<[u8; 64]> {
    let mut bytes = SmallVec::new();
    let (layout, entries) = match info.layout {
        Layout::RowMajor => (0, 0),
        Layout::DimOrder(_) => (1, 0),
        Layout::Coo { entries } => (2, entries),
        Layout::Blob => (3, 0),
    };
    bytes.extend_from_slice(&[info.dtype as u8, layout]);
    bytes.extend_from_slice(&entries.to_ne_bytes());
    bytes.extend_from_slice(&info.shape.rank().to_ne_bytes());
    for dim in info.shape.dims() {
        bytes.extend_from_slice(&dim.to_ne_bytes());
    }
    if let Layout::DimOrder(order) = &info.layout {
        bytes.extend_from_slice(order.as_slice());
    }
    bytes
}

/// Reads the bytes of [`encode_header`]. Bytes of anyone else may be anything.
pub(crate) fn decode_header(bytes: &[u8]) -> Option<TensorInfo> {
    const WORD: usize = size_of::<usize>();
    let (&[dtype, layout], rest) = bytes.split_first_chunk()?;
    let (entries, rest) = rest.split_first_chunk::<WORD>()?;
    let (rank, rest) = rest.split_first_chunk::<WORD>()?;
    let (dims, order) = rest.split_at_checked(usize::from_ne_bytes(*rank).checked_mul(WORD)?)?;
    let layout = match layout {
        0 => Layout::RowMajor,
        1 => Layout::from_dim_order(order).ok()?,
        2 => Layout::Coo { entries: usize::from_ne_bytes(*entries) },
        _ => Layout::Blob,
    };
    let dims = dims.chunks_exact(WORD).map(|dim| usize::from_ne_bytes(dim.try_into().expect("a word")));
    Some(TensorInfo { dtype: *Dtype::ALL.get(usize::from(dtype))?, shape: dims.collect::<Shape>(), layout })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let layouts = [
            (Layout::RowMajor, &[2, 3][..]),
            (Layout::from_dim_order(&[0, 2, 3, 1]).unwrap(), &[1, 2, 3, 4]),
            (Layout::Coo { entries: 7 }, &[]),
            (Layout::Blob, &[9]),
        ];
        for (layout, dims) in layouts {
            let info = TensorInfo { layout, ..TensorInfo::new(Dtype::Bits16, dims) };
            let bytes = encode_header(&info);
            assert_eq!(decode_header(&bytes), Some(info));
            (0..bytes.len() - 1).for_each(|len| drop(decode_header(&bytes[..len])));
        }
    }
}
