//! The private names by which our types and our formats recognize each other across serde.
//!
//! serde has no tensor. A tensor crosses it as a struct named [`TENSOR`] with the fields of [`TENSOR_FIELDS`]. Our
//! serializer and deserializer recognize the name; any other serde format sees a struct of two strings, a list of
//! numbers and bytes. The remaining names carry knowledge of a derived struct for which serde has no word.

use crate::tensor::Dtype;

/// The struct for a tensor.
pub(crate) const TENSOR: &str = "$tensorfile::Tensor";

/// The fields of a tensor. All are always present, so that formats without field names can read it back.
pub(crate) const TENSOR_FIELDS: &[&str] = &[DTYPE, SHAPE, LAYOUT, DATA];
pub(crate) const DTYPE: &str = "dtype";
pub(crate) const SHAPE: &str = "shape";
pub(crate) const LAYOUT: &str = "layout";
pub(crate) const DATA: &str = "data";

/// The variants of the field `layout`.
pub(crate) const LAYOUTS: &[&str] = &[ROW_MAJOR, DIM_ORDER, COO, BLOB];
pub(crate) const ROW_MAJOR: &str = "row_major";
pub(crate) const DIM_ORDER: &str = "dim_order";
pub(crate) const COO: &str = "coo";
pub(crate) const BLOB: &str = "blob";

/// The newtype requested for a tensor, by a type that also takes a number or a list of numbers: serde keeps the values
/// of a flattened map as such, until their types ask for them.
pub(crate) const ANY_TENSOR: &str = "$tensorfile::AnyTensor";

/// The dtypes of serde's numbers.
pub(crate) const NUMBERS: &[Dtype] = &[
    Dtype::Bool,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
    Dtype::U8,
    Dtype::U16,
    Dtype::U32,
    Dtype::U64,
    Dtype::F32,
    Dtype::F64,
];

/// The newtype around a flattened field, whose tensors are named like fields of the enclosing struct.
pub(crate) const FLATTEN: &str = "$tensorfile::Flatten";

/// The newtype variant around a tied field. The variant is the name of its target.
pub(crate) const TIED: &str = "$tensorfile::Tied";

/// The struct requested by types with `#[derive(TensorFile)]`.
///
/// A string of its field list is the name, then any of `\0=alias` (another name to read the field by), `\0?` (the field
/// may be absent) and `\0*` (the field is flattened).
// NOTE: keep in step with `Field::spec` in `derive/src/model.rs`.
pub(crate) const DERIVED: &str = "$tensorfile::Struct";

/// The newtypes around the key of a map whose entries are more than tensors: see `KeyPart`.
pub(crate) const FIRST_SEGMENT: &str = "$tensorfile::FirstSegment";
pub(crate) const BEFORE_LAST: &str = "$tensorfile::BeforeLast";
pub(crate) const BEFORE_INDEX: &str = "$tensorfile::BeforeIndex";

/// The struct written by ndarray's own `Serialize`.
pub(crate) const NDARRAY: &str = "Array";
pub(crate) const NDARRAY_FIELDS: &[&str] = &["v", "dim", "data"];
