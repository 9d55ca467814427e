use std::fmt;

use crate::tensor::Dtype;

/// The error for a number that the dtype it is cast to cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCast {
    /// The index of the element.
    pub element: usize,
    /// The number.
    pub value: String,
    /// The dtype that cannot hold it.
    pub to: Dtype,
}

impl fmt::Display for InvalidCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element {} is {}, which {} cannot hold", self.element, self.value, self.to)
    }
}

impl std::error::Error for InvalidCast {}
