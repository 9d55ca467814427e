use std::fmt;

use crate::tensor::Dtype;

/// The error for a number out of range for the target dtype.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::{ErrorKind, TensorFile, TensorMap, ten};
///
/// #[derive(TensorFile, Debug)]
/// struct Labels {
///     #[tensor(cast)]
///     labels: Array1<u8>,
/// }
///
/// let file = ten::to_vec(&TensorMap::from_iter([("labels", array![1_i64, 300])]))?;
/// let error = ten::from_slice::<Labels>(&file).unwrap_err();
/// let ErrorKind::Cast(cast) = error.kind() else { panic!("{error}") };
/// assert_eq!((cast.element, cast.value.as_str()), (1, "300"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCast {
    /// The index of the element.
    pub element: usize,
    /// The number.
    pub value: String,
    /// The target dtype.
    pub to: Dtype,
}

impl fmt::Display for InvalidCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element {} is {}, which {} cannot hold", self.element, self.value, self.to)
    }
}

impl std::error::Error for InvalidCast {}
