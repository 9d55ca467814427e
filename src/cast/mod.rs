//! Casting the elements of a tensor to another dtype, and telling what that changes.

mod kernels;
mod report;

use kernels::Kernel;
pub use report::{CastLoss, CastReport};

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Dtype, Pieces};

/// Casts little-endian elements of one dtype to another, piece by piece, and counts what the new one cannot hold.
///
/// Every number becomes the nearest of the other dtype, ties to even, and is rounded once. What lies beyond the largest
/// becomes infinite, or NaN in a float without infinities, as [`Dtype::F8E4M3Fn`] is; as an integer it becomes the
/// largest or the smallest one. NaN stays NaN, and becomes 0 as an integer.
///
/// ```
/// use half::f16;
/// use tensorfile::{Caster, Dtype, Tensor};
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
    pieces: Pieces,
    report: CastReport,
}

impl Caster {
    /// A caster between two floating-point dtypes, or between two integer dtypes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] where one of the dtypes is neither, or one is a float and the other an integer.
    pub fn new(from: Dtype, to: Dtype) -> Result<Self> {
        let caster = Self::between_kinds(from, to)?;
        if from.is_float() != to.is_float() {
            let instead = "integers and floats are cast to each other only where that is asked for";
            return Err(unsupported(from, to, instead));
        }
        Ok(caster)
    }

    /// A caster between any two integer or floating-point dtypes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] where one of the dtypes is neither, as `bool` and the quantised ones are.
    pub fn between_kinds(from: Dtype, to: Dtype) -> Result<Self> {
        let Some(kernel) = Kernel::between(from, to) else {
            return Err(unsupported(from, to, "only integers and floats are cast"));
        };
        Ok(Self { from, to, kernel, pieces: Pieces::new(from.block_bytes(), 0), report: CastReport::default() })
    }

    /// Casts the next bytes, and adds the new ones to `out`.
    ///
    /// An element that the piece cuts in two is cast once the rest has come.
    pub fn cast(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let Self { from, to, kernel, pieces, report } = self;
        out.reserve(piece.len() / from.block_bytes() * to.block_bytes());
        pieces.add(piece, |elements| {
            let tally = kernel.cast(elements, out);
            if tally.losses() > 0 && report.first_loss.is_none() {
                report.first_loss = kernel.first_loss(elements).map(|loss| loss.after(report.elements));
            }
            report.elements += (elements.len() / from.block_bytes()) as u64;
            report.add(&tally);
        });
    }

    /// What was cast so far, and what changed by it.
    #[must_use]
    pub fn report(&self) -> &CastReport {
        &self.report
    }
}

fn unsupported(from: Dtype, to: Dtype, instead: &str) -> Error {
    ErrorKind::Unsupported { what: format!("cast {from} to {to}"), instead: instead.to_owned() }.into()
}
