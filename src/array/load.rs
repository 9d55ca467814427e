use ndarray::{ArcArray, Array, ArrayView, CowArray, Dimension};

use super::{array_too_large, strided};
use crate::error::Result;
use crate::model::{FieldAttrs, FromTensors, Loaded, Source, TensorSpec};
use crate::tensor::{Element, TensorInfo};

impl<'de, A: Element, D: Dimension> FromTensors<'de> for Array<A, D> {
    // Not inlined, so that the copies in `compiled` are used.
    #[inline(never)]
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        let array = owned_of(source.tensor(&spec::<A, D>(attrs).owned())?);
        // Most arrays are not transposed, and stay where they were made.
        if attrs.transpose { array.map(Self::reversed_axes) } else { array }
    }

    #[inline(never)]
    fn reload(&mut self, source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<()> {
        // The array as it is in the file.
        let mut stored = self.view_mut();
        if attrs.transpose {
            stored = stored.reversed_axes();
        }
        let dims = stored.raw_dim();
        if let Some(bytes) = stored.as_slice_mut().and_then(A::le_bytes_mut)
            && source.tensor_into(&spec::<A, D>(attrs), dims.slice(), bytes)?
        {
            return Ok(());
        }
        *self = Self::load(source, attrs)?;
        Ok(())
    }
}

/// Tensors with shared bytes in the file share memory.
impl<'de, A: Element, D: Dimension + 'static> FromTensors<'de> for ArcArray<A, D> {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        let tensor = source.tensor(&spec::<A, D>(attrs).owned())?;
        let info = tensor.info().clone();
        let array = match source.same_bytes().and_then(|arrays| arrays.get(&info)) {
            Some(array) => array,
            None => {
                let array: Self = owned_of(tensor)?.into_shared();
                if let Some(mut arrays) = source.same_bytes() {
                    arrays.insert(info, array.clone());
                }
                array
            }
        };
        Ok(if attrs.transpose { array.reversed_axes() } else { array })
    }
}

impl<'de: 'a, 'a, A: Element, D: Dimension> FromTensors<'de> for ArrayView<'a, A, D> {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        let array = match source.tensor(&spec::<A, D>(attrs)) {
            // Matched by reference, so that the tensor is not moved.
            Ok(ref tensor) => view(tensor.info(), tensor.as_slice_of_file()?),
            Err(error) => return Err(error),
        };
        if attrs.transpose { array.map(Self::reversed_axes) } else { array }
    }
}

impl<'de: 'a, 'a, A: Element, D: Dimension> FromTensors<'de> for CowArray<'a, A, D> {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        let tensor = source.tensor(&spec::<A, D>(attrs))?;
        let array = if tensor.can_be_borrowed_as::<A>() {
            Self::from(view(tensor.info(), tensor.as_slice_of_file()?)?)
        } else {
            Self::from(owned_of(tensor)?)
        };
        Ok(if attrs.transpose { array.reversed_axes() } else { array })
    }
}

fn spec<A: Element, D: Dimension>(attrs: &FieldAttrs) -> TensorSpec {
    TensorSpec::with_rank(A::DTYPE, D::NDIM).with_attrs(attrs)
}

fn owned_of<A: Element, D: Dimension>(tensor: Loaded<'_>) -> Result<Array<A, D>> {
    let (info, payload) = tensor.into_parts();
    owned(&info, payload.into_vec(info.dtype)?)
}

/// An array of owned elements.
pub(super) fn owned<A: Element, D: Dimension>(info: &TensorInfo, elements: Vec<A>) -> Result<Array<A, D>> {
    Array::from_shape_vec(strided(info), elements).map_err(|_| array_too_large(info))
}

/// An array of borrowed elements.
#[inline]
pub(super) fn view<'a, A: Element, D: Dimension>(info: &TensorInfo, elements: &'a [A]) -> Result<ArrayView<'a, A, D>> {
    ArrayView::from_shape(strided(info), elements).map_err(|_| array_too_large(info))
}
