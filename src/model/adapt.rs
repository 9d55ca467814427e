use crate::error::ErrorKind;
use crate::tensor::{Element, Layout, TensorInfo, can_cast};

/// What the attributes of a field ask of its array: `cast`, `transpose` and `shape`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adapt {
    /// Read another numeric dtype than the array's by casting its elements.
    pub cast: bool,
    /// The file holds the array with its dims reversed.
    pub transpose: bool,
    /// The dims that the field has, where they are known.
    pub shape: Option<&'static [Option<usize>]>,
}

impl Adapt {
    /// The array as it is.
    pub const NONE: Self = Self { cast: false, transpose: false, shape: None };
}

/// An array, or an `Option`, list or pointer of arrays: what the field attributes `cast`, `transpose` and `shape` can be put on.
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
        let fits = |found: &[usize]| {
            found.len() == dims.len() && found.iter().zip(dims).all(|(f, d)| d.is_none_or(|d| d == *f))
        };
        let found: Vec<usize> = match adapt.transpose {
            true => info.shape.iter().rev().copied().collect(),
            false => info.shape.to_vec(),
        };
        if !fits(&found) {
            let mut dims = dims.to_vec();
            if adapt.transpose {
                dims.reverse();
            }
            let expected =
                if dims.iter().all(Option::is_none) { format!("rank {}", dims.len()) } else { dims_text(&dims) };
            return Err(ErrorKind::WrongShape { found: info.clone(), expected });
        }
    }
    Ok(())
}
