//! The report for programs. A tensor is `{"dtype": "f32", "shape": [2, 3]}`, with a `layout` where that is not the
//! order of rows.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::{Gap, LoadReport, Misfit, MissingTensor, UnexpectedTensor};
use crate::tensor::{Layout, TensorInfo};

macro_rules! structs {
    ($($type:ident { $($field:ident: |$this:ident| $value:expr),* $(,)? })*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut fields = serializer.serialize_struct(stringify!($type), [$(stringify!($field)),*].len())?;
                $({
                    let $this = self;
                    fields.serialize_field(stringify!($field), &$value)?;
                })*
                fields.end()
            }
        }
    )*};
}

structs! {
    LoadReport {
        ok: |report| report.is_ok(),
        tensors: |report| report.tensors,
        loaded: |report| report.loaded,
        loaded_bytes: |report| report.loaded_bytes,
        missing: |report| report.missing,
        unexpected: |report| report.unexpected,
        wrong_dtype: |report| report.wrong_dtype,
        wrong_shape: |report| report.wrong_shape,
        wrong_layout: |report| report.wrong_layout,
        gaps: |report| report.gaps,
        refused: |report| report.refused,
    }
    MissingTensor { name: |tensor| tensor.name, expected: |tensor| tensor.expected, near: |tensor| tensor.near }
    UnexpectedTensor { name: |tensor| tensor.name, info: |tensor| Info(&tensor.info), near: |tensor| tensor.near }
    Misfit { name: |misfit| misfit.name, found: |misfit| Info(&misfit.found), expected: |misfit| misfit.expected }
    Gap { list: |gap| gap.list, start: |gap| gap.missing.start, end: |gap| gap.missing.end }
}

struct Info<'a>(&'a TensorInfo);

impl Serialize for Info<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TensorInfo { dtype, shape, layout } = self.0;
        let layout = match layout {
            Layout::RowMajor => None,
            Layout::DimOrder(_) => Some("dim_order"),
            Layout::Coo { .. } => Some("coo"),
            Layout::Blob => Some("blob"),
        };
        let mut fields = serializer.serialize_struct("TensorInfo", 2 + usize::from(layout.is_some()))?;
        fields.serialize_field("dtype", dtype.name())?;
        fields.serialize_field("shape", shape.dims())?;
        match layout {
            Some(layout) => fields.serialize_field("layout", layout)?,
            None => fields.skip_field("layout")?,
        }
        fields.end()
    }
}
