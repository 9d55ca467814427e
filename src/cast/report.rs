use std::fmt;

use super::Number;
use super::changes::Changes;
use super::kernels::Kernel;

/// Counts of the elements changed by a [`Caster`](super::Caster).
///
/// No element is counted as more than one kind of change.
///
/// ```
/// use tensorfile::cast::Caster;
/// use tensorfile::{Dtype, Tensor};
///
/// let mut caster = Caster::new(Dtype::F64, Dtype::F32)?;
/// caster.cast(Tensor::from_slice(&[0.1, 1.0, 1e300], [3])?.as_bytes(), &mut Vec::new());
/// let report = caster.report();
/// assert_eq!((report.elements, report.rounded, report.overflowed), (3, 1, 1));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CastReport {
    /// All elements.
    pub elements: u64,
    /// Numbers rounded to the nearest different number.
    pub rounded: u64,
    /// Numbers, including infinity, out of range of the new dtype: they became infinity, NaN without infinities, or the
    /// largest or smallest integer.
    pub overflowed: u64,
    /// Nonzero numbers rounded to zero.
    pub underflowed: u64,
    /// NaNs that became the integer 0.
    pub nan_to_zero: u64,
    /// The first element that overflowed, underflowed, or was NaN and became 0.
    pub first_loss: Option<CastLoss>,
}

impl CastReport {
    /// Returns `true` if no element changed.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.rounded == 0 && self.losses() == 0
    }

    /// Returns the number of elements that overflowed, underflowed, or were NaN and became 0.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.overflowed + self.underflowed + self.nan_to_zero
    }

    /// Adds the changes by a kernel in the next elements.
    pub(super) fn add(&mut self, kernel: &Kernel, elements: &[u8], changes: Changes) {
        if changes.losses() > 0 && self.first_loss.is_none() {
            let loss = kernel.first(elements, |changes| changes.losses() > 0);
            self.first_loss = loss.map(|(index, from, to)| CastLoss::new(self.elements + index as u64, from, to));
        }
        self.elements += kernel.count(elements) as u64;
        self.rounded += changes.changed - changes.overflowed - changes.underflowed;
        self.overflowed += changes.overflowed;
        self.underflowed += changes.underflowed;
        self.nan_to_zero += changes.nan_to_zero;
    }
}

/// An element whose number was lost in a cast.
///
/// ```
/// use tensorfile::cast::Caster;
/// use tensorfile::Dtype;
///
/// let mut caster = Caster::new(Dtype::I32, Dtype::I8)?;
/// caster.cast(&1000_i32.to_le_bytes(), &mut Vec::new());
/// let loss = caster.report().first_loss.clone().expect("1000 does not fit");
/// assert_eq!((loss.element, loss.from.as_str(), loss.to.as_str()), (0, "1000", "127"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CastLoss {
    /// The index among all elements cast.
    pub element: u64,
    /// The number before.
    pub from: String,
    /// The number after.
    pub to: String,
}

impl CastLoss {
    pub(super) fn new(element: u64, from: Number, to: Number) -> Self {
        Self { element, from: from.to_string(), to: to.to_string() }
    }
}

impl fmt::Display for CastLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element {} is {}, which became {}", self.element, self.from, self.to)
    }
}
