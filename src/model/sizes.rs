//! `usize` and `isize` as 64-bit integers, so that files are portable.

use super::{ArrayField, FieldAttrs, FromTensors, Node, Sink, Source, Store, TensorFile};
use crate::error::{ErrorKind, Result};

macro_rules! sizes {
    ($($size:ident as $stored:ident;)*) => {$(
        impl TensorFile for $size {
            const NODE: Node = <$stored>::NODE;
            const NUMBER: Option<crate::tensor::Dtype> = <$stored>::NUMBER;
        }

        impl Store for $size {
            fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
                (*self as $stored).store(sink, attrs)
            }

            fn store_list(list: &[Self], sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
                let list: Vec<$stored> = list.iter().map(|size| *size as $stored).collect();
                $stored::store_list(&list, sink, attrs)
            }

            fn store_array(array: &[Self], sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
                Self::store_list(array, sink, attrs)
            }

            fn store_halves(front: &[Self], back: &[Self], sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
                Self::store_list(&[front, back].concat(), sink, attrs)
            }

            fn borrow_list<'a>(_: &'a [Self], _: &mut super::BorrowedPayloads<'a>) {}
        }

        /// # Errors
        ///
        /// [`ErrorKind::Unsupported`]: a number that does not fit the type on this machine.
        impl<'de> FromTensors<'de> for $size {
            fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
                fit($stored::load(source, attrs)?)
            }

            fn load_list(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Vec<Self>> {
                $stored::load_list(source, attrs)?.into_iter().map(fit).collect()
            }

            fn reload_list(list: &mut Vec<Self>, source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<()> {
                *list = Self::load_list(source, attrs)?;
                Ok(())
            }

            fn load_array(source: &mut dyn Source<'de>, node: Node, len: usize, attrs: &FieldAttrs) -> Result<Vec<Self>> {
                $stored::load_array(source, node, len, attrs)?.into_iter().map(fit).collect()
            }
        }

        impl ArrayField for $size {}
    )*};
}

sizes! {
    usize as u64;
    isize as i64;
}

fn fit<S: Copy + std::fmt::Display, T: TryFrom<S>>(number: S) -> Result<T> {
    T::try_from(number).map_err(|_| {
        let what = format!("hold the number {number} in {} bits", 8 * size_of::<T>());
        ErrorKind::Unsupported { what, instead: "read it as a number of 64 bits".to_owned() }.into()
    })
}
