use crate::error::ErrorKind;
use crate::tensor::{Element, Layout, TensorInfo, can_cast};

/// What the attributes of a field ask of its array: `cast`, `transpose`, `shape` and `tied`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adapt {
    /// Read another numeric dtype than the array's by casting its elements.
    pub cast: bool,
    /// The file holds the array with its dims reversed.
    pub transpose: bool,
    /// The dims that the field has, where they are known.
    pub shape: Option<&'static [Option<usize>]>,
    /// The absolute name of the tensor that the field is the same as.
    pub tied: Option<&'static str>,
}

impl Adapt {
    /// The array as it is.
    pub const NONE: Self = Self { cast: false, transpose: false, shape: None, tied: None };
}

/// An array, or an `Option`, list or pointer of arrays: what the field attributes `cast`, `transpose` and `shape` can
/// be put on.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an array",
    label = "`cast`, `transpose` and `shape` need an array, or an `Option` or `Vec` of arrays"
)]
pub trait Adaptable {}

/// The dims as an attribute spells them: `[64, _]`.
pub(crate) fn dims_text(dims: &[Option<usize>]) -> String {
    let dims: Vec<String> = dims.iter().map(|dim| dim.map_or("_".to_owned(), |dim| dim.to_string())).collect();
    format!("[{}]", dims.join(", "))
}

/// Refuses a tensor that an array of `A` with the given dims cannot hold; `None` stands for dims of any number.
pub(crate) fn accept<A: Element>(
    info: &TensorInfo,
    dims: Option<&[Option<usize>]>,
    adapt: &Adapt,
) -> Result<(), ErrorKind> {
    let expected = match info.layout {
        Layout::RowMajor | Layout::DimOrder(_) => None,
        Layout::Coo { .. } => Some("a dense tensor (`CooTensor` reads this one)"),
        Layout::Blob => Some("a tensor (`Blob` reads this)"),
    };
    if let Some(expected) = expected {
        return Err(ErrorKind::WrongLayout { found: info.clone(), expected });
    }
    if info.dtype != A::DTYPE && !(adapt.cast && can_cast(info.dtype, A::DTYPE)) {
        return Err(ErrorKind::WrongDtype { found: info.clone(), expected: A::DTYPE });
    }
    for dims in dims.into_iter().chain(adapt.shape) {
        let rank = info.shape.rank();
        // The dims of the field, where the file has them in reverse.
        let dim_of = |axis: usize| dims[if adapt.transpose { rank - 1 - axis } else { axis }];
        let fits = |axis: usize| dim_of(axis).is_none_or(|dim| dim == info.shape[axis]);
        if rank != dims.len() || !(0..rank).all(fits) {
            return Err(ErrorKind::WrongShape { found: info.clone(), expected: expected_dims(dims, adapt.transpose) });
        }
    }
    Ok(())
}

/// What a file should have for a field of the given dims.
fn expected_dims(dims: &[Option<usize>], transpose: bool) -> String {
    if dims.iter().all(Option::is_none) {
        return format!("rank {}", dims.len());
    }
    let mut dims = dims.to_vec();
    if transpose {
        dims.reverse();
    }
    dims_text(&dims)
}
