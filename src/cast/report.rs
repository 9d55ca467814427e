use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::kernels::Tally;

/// What a [`Caster`](super::Caster) changed.
///
/// No element is counted as two kinds of change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CastReport {
    /// All elements that were cast.
    pub elements: u64,
    /// Numbers that became another number, the nearest one.
    pub rounded: u64,
    /// Numbers, infinities among them, that lie beyond the largest of the new dtype: they became infinite, NaN where
    /// there is no infinity, or the largest or smallest integer.
    pub overflowed: u64,
    /// Numbers other than zero that became zero, the nearest number.
    pub underflowed: u64,
    /// NaN that became the integer 0.
    pub nan_to_zero: u64,
    /// The first element that overflowed, underflowed, or was NaN and became 0.
    pub first_loss: Option<CastLoss>,
}

impl CastReport {
    /// Whether every number is what it was.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.rounded == 0 && self.losses() == 0
    }

    /// The elements that more happened to than rounding.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.overflowed + self.underflowed + self.nan_to_zero
    }

    pub(super) fn add(&mut self, tally: &Tally) {
        self.rounded += tally.changed - tally.overflowed - tally.underflowed;
        self.overflowed += tally.overflowed;
        self.underflowed += tally.underflowed;
        self.nan_to_zero += tally.nan_to_zero;
    }
}

impl Serialize for CastReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("CastReport", 6)?;
        report.serialize_field("elements", &self.elements)?;
        report.serialize_field("rounded", &self.rounded)?;
        report.serialize_field("overflowed", &self.overflowed)?;
        report.serialize_field("underflowed", &self.underflowed)?;
        report.serialize_field("nan_to_zero", &self.nan_to_zero)?;
        report.serialize_field("first_loss", &self.first_loss)?;
        report.end()
    }
}

/// An element whose number was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CastLoss {
    /// Which element, of all that were cast.
    pub element: u64,
    /// The number it was.
    pub from: String,
    /// What it became.
    pub to: String,
}

impl CastLoss {
    /// The loss as one of a run of elements that comes after others.
    pub(super) fn after(self, elements: u64) -> Self {
        Self { element: self.element + elements, ..self }
    }
}

impl fmt::Display for CastLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element {} is {}, which became {}", self.element, self.from, self.to)
    }
}

impl Serialize for CastLoss {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut loss = serializer.serialize_struct("CastLoss", 3)?;
        loss.serialize_field("element", &self.element)?;
        loss.serialize_field("from", &self.from)?;
        loss.serialize_field("to", &self.to)?;
        loss.end()
    }
}
