//! `Serialize` of reports: structs of their public fields and results.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::cast::{CastLoss, CastReport, Number};
use crate::error::{Gap, InvalidMetadata, LoadReport, Misfit, MissingMetadata, MissingTensor, UnexpectedTensor};
use crate::stats::{Histogram, Stats};
use crate::tensor::{Layout, TensorInfo};
use crate::view::{ByteMap, Scalar};

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
        codes: |report| report.codes,
        wrong_shape: |report| report.wrong_shape,
        wrong_layout: |report| report.wrong_layout,
        gaps: |report| report.gaps,
        missing_metadata: |report| report.missing_metadata,
        invalid_metadata: |report| report.invalid_metadata,
        refused: |report| report.refused,
    }
    MissingTensor { name: |tensor| tensor.name, expected: |tensor| tensor.expected, near: |tensor| tensor.near }
    MissingMetadata {
        key: |missing| missing.key,
        expected: |missing| missing.expected,
        near: |missing| missing.near,
    }
    InvalidMetadata { key: |invalid| invalid.key, what: |invalid| invalid.what }
    UnexpectedTensor { name: |tensor| tensor.name, info: |tensor| Info(&tensor.info), near: |tensor| tensor.near }
    Misfit { name: |misfit| misfit.name, found: |misfit| Info(&misfit.found), expected: |misfit| misfit.expected }
    Gap { list: |gap| gap.list, start: |gap| gap.missing.start, end: |gap| gap.missing.end }
    CastReport {
        elements: |report| report.elements,
        rounded: |report| report.rounded,
        overflowed: |report| report.overflowed,
        underflowed: |report| report.underflowed,
        nan_to_zero: |report| report.nan_to_zero,
        first_loss: |report| report.first_loss,
    }
    CastLoss { element: |loss| loss.element, from: |loss| loss.from, to: |loss| loss.to }
    Histogram { edges: |histogram| histogram.edges(), counts: |histogram| histogram.counts() }
    Stats {
        dtype: |stats| stats.dtype().name(),
        count: |stats| stats.count(),
        min: |stats| stats.min(),
        max: |stats| stats.max(),
        mean: |stats| stats.mean(),
        std: |stats| stats.std(),
        nans: |stats| stats.nans(),
        first_nan: |stats| stats.first_nan(),
        positive_infinities: |stats| stats.positive_infinities(),
        negative_infinities: |stats| stats.negative_infinities(),
        first_infinity: |stats| stats.first_infinity(),
        zeros: |stats| stats.zeros(),
        quantiles: |stats| quantiles(stats),
    }
    ByteMap {
        payload: |map| map.payload,
        shared: |map| map.shared,
        before: |map| map.before,
        between: |map| map.between,
        gaps: |map| map.gaps,
        largest_gap: |map| map.largest_gap,
        after: |map| map.after,
        alignment: |map| map.alignment,
    }
}

/// Returns pairs of [`Stats::PARTS`] and quantiles.
fn quantiles(stats: &Stats) -> Option<Vec<(f64, f64)>> {
    Some(Stats::PARTS.into_iter().zip(stats.quantiles(&Stats::PARTS)?).collect())
}

/// A tensor's header: `{"dtype": "f32", "shape": [2, 3]}`, with a `layout` if it is not row-major.
struct Info<'a>(&'a TensorInfo);

impl Serialize for Info<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TensorInfo { dtype, shape, layout } = self.0;
        let layout = match layout {
            Layout::RowMajor => None,
            Layout::DimOrder(_) => Some("dim_order"),
            Layout::Coo { .. } => Some("coo"),
            Layout::Blob => Some("blob"),
            Layout::Unknown(_) => Some("unknown"),
        };
        let mut fields = serializer.serialize_struct("TensorInfo", 2 + usize::from(layout.is_some()))?;
        fields.serialize_field("dtype", self.0.unknown_dtype().unwrap_or_else(|| dtype.name()))?;
        fields.serialize_field("shape", shape.dims())?;
        match layout {
            Some(layout) => fields.serialize_field("layout", layout)?,
            None => fields.skip_field("layout")?,
        }
        fields.end()
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Float(float) => serializer.serialize_f64(float),
            // Many formats have no 128-bit integers, and no dtype needs them.
            Self::Integer(integer) => match (i64::try_from(integer), u64::try_from(integer)) {
                (Ok(integer), _) => serializer.serialize_i64(integer),
                (_, Ok(integer)) => serializer.serialize_u64(integer),
                _ => serializer.serialize_i128(integer),
            },
        }
    }
}

impl Serialize for Scalar {
    /// Serializes a bool or a number; NaN and infinities as the strings `NaN`, `Infinity` and `-Infinity`, as JSON has
    /// no numbers for them. A complex number is a list of two.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Bool(bool) => serializer.serialize_bool(bool),
            Self::Integer(integer) => Number::Integer(integer).serialize(serializer),
            Self::Float(float) => match float.value() {
                value if value.is_nan() => serializer.serialize_str("NaN"),
                f64::INFINITY => serializer.serialize_str("Infinity"),
                f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
                value => serializer.serialize_f64(value),
            },
            Self::Complex(real, imaginary) => [Self::Float(real), Self::Float(imaginary)].serialize(serializer),
        }
    }
}

#[cfg(feature = "digest")]
mod digest {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::{Serialize, Serializer};

    use crate::digest::Digest;

    impl Serialize for Digest {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Digest {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
        }
    }
}
