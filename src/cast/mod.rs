//! Conversions between numeric dtypes, and reports of the changes.

mod changes;
mod elements;
mod float8;
mod kernels;
mod nearest;
mod number;
mod report;
mod small_float;
mod strict;
mod vectors;
mod writer;

pub use number::Number;
pub use report::{CastLoss, CastReport};
pub use writer::CastWriter;

pub(crate) use elements::{CHUNK, WholeElements, in_chunks};
pub(crate) use kernels::{FloatChunks, float_chunks};
pub(crate) use strict::cast;
pub(crate) use vectors::widest;

use std::io;

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Dtype;
use kernels::Kernel;

/// Casts little-endian elements of one dtype to another, piece by piece, and counts changed numbers.
///
/// Every number becomes the nearest number of the target dtype, ties to even, and is rounded once. Numbers out of range
/// become infinity, NaN in floats without infinities such as [`Dtype::F8E4M3Fn`], or the largest or smallest integer.
/// NaN stays NaN, and becomes 0 as an integer.
///
/// ```
/// use half::f16;
/// use tensorfile::cast::Caster;
/// use tensorfile::{Dtype, Tensor};
///
/// let mut caster = Caster::new(Dtype::F32, Dtype::F16)?;
/// let weights = Tensor::from_slice(&[1.0_f32, 0.1, 65504.0, 65520.0], [4])?;
/// let mut bytes = Vec::new();
/// caster.cast(weights.as_bytes(), &mut bytes);
///
/// let halves = [f16::ONE, f16::from_f32(0.1), f16::MAX, f16::INFINITY];
/// assert_eq!(bytes, Tensor::from_slice(&halves, [4])?.as_bytes());
/// let report = caster.report();
/// assert_eq!((report.elements, report.rounded, report.overflowed), (4, 1, 1));
/// assert_eq!(report.first_loss.as_ref().map(ToString::to_string).as_deref(), Some("element 3 is 65520, which became inf"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Caster {
    from: Dtype,
    to: Dtype,
    kernel: Kernel,
    elements: WholeElements,
    report: CastReport,
}

impl Caster {
    /// Creates a caster between two floating-point dtypes or between two integer dtypes.
    ///
    /// ```
    /// use tensorfile::cast::Caster;
    /// use tensorfile::Dtype;
    ///
    /// assert!(Caster::new(Dtype::F32, Dtype::Bf16).is_ok());
    /// let error = Caster::new(Dtype::F32, Dtype::I8).unwrap_err();
    /// assert!(error.to_string().starts_with("cannot cast f32 to i8"));
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`]: one of the dtypes is neither, or one is a float and the other an integer.
    pub fn new(from: Dtype, to: Dtype) -> Result<Self> {
        let caster = Self::between_kinds(from, to)?;
        if from.is_float() != to.is_float() {
            let instead = "integers and floats are cast to each other only where that is asked for";
            return Err(unsupported(from, to, instead));
        }
        Ok(caster)
    }

    /// Creates a caster between any two integer or floating-point dtypes.
    ///
    /// ```
    /// use tensorfile::cast::Caster;
    /// use tensorfile::Dtype;
    ///
    /// let mut out = Vec::new();
    /// Caster::between_kinds(Dtype::F32, Dtype::I8)?.cast(&(-3.7_f32).to_le_bytes(), &mut out);
    /// assert_eq!(out, (-4_i8).to_le_bytes());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`]: one of the dtypes is neither, such as `bool`, complex and the quantized ones.
    pub fn between_kinds(from: Dtype, to: Dtype) -> Result<Self> {
        let Some(kernel) = Kernel::between(from, to) else {
            return Err(unsupported(from, to, "only integers and floats are cast"));
        };
        let elements = WholeElements::new(from.block_bytes(), 0);
        Ok(Self { from, to, kernel, elements, report: CastReport::default() })
    }

    /// Casts the next bytes, and appends the results to `out`.
    ///
    /// The piece may begin and end inside of an element; a split element is cast when its last byte arrives.
    ///
    /// ```
    /// use tensorfile::cast::Caster;
    /// use tensorfile::Dtype;
    ///
    /// let mut caster = Caster::new(Dtype::U16, Dtype::U8)?;
    /// let mut out = Vec::new();
    /// caster.cast(&[7], &mut out);            // the first half of an element
    /// caster.cast(&[0, 8, 0], &mut out);
    /// assert_eq!(out, [7, 8]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn cast(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let Self { from, to, kernel, elements, report } = self;
        out.reserve(piece.len() / from.block_bytes() * to.block_bytes());
        elements.add(piece, |elements| {
            let changes = kernel.cast(elements, out);
            report.add(kernel, elements, changes);
        });
    }

    /// Returns a writer that casts the bytes written to it, and writes the results to `out`.
    ///
    /// Memory is bounded: however much is written at once, it is cast in pieces of up to 64 KiB. Of large writes,
    /// several threads cast pieces of up to 2 MiB each, while this one writes to `out`; see
    /// [`set_max_threads`](crate::threads::set_max_threads).
    ///
    /// ```
    /// use std::io::Write;
    /// use tensorfile::cast::Caster;
    /// use tensorfile::{Dtype, Tensor};
    ///
    /// let tensor = Tensor::from_slice(&[1_i32, -2], [2])?;
    /// let mut caster = Caster::new(Dtype::I32, Dtype::I16)?;
    /// let mut out = Vec::new();
    /// caster.writer(&mut out).write_all(tensor.as_bytes())?;
    /// assert_eq!(out, Tensor::from_slice(&[1_i16, -2], [2])?.as_bytes());
    /// assert!(caster.report().is_exact());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn writer<W: io::Write>(&mut self, out: W) -> CastWriter<'_, W> {
        self.writer_after(0, out)
    }

    /// Returns a writer as [`writer`](Self::writer), which passes the first `skip` bytes on unchanged.
    pub(crate) fn writer_after<W: io::Write>(&mut self, skip: usize, out: W) -> CastWriter<'_, W> {
        CastWriter::new(self, skip, out)
    }

    /// Returns the counts of elements cast and changed so far.
    #[must_use]
    pub fn report(&self) -> &CastReport {
        &self.report
    }
}

fn unsupported(from: Dtype, to: Dtype, instead: &str) -> Error {
    ErrorKind::Unsupported { what: format!("cast {from} to {to}"), instead: instead.to_owned() }.into()
}
