//! `usize` and `isize` as 64-bit integers, so that files are portable.

use super::{Adapt, Adaptable, FromTensors, Node, Sink, Source, Store, TensorFile};
use crate::error::{ErrorKind, Result};

macro_rules! sizes {
    ($($size:ident as $stored:ident;)*) => {$(
        impl TensorFile for $size {
            const NODE: Node = <$stored>::NODE;
            const NUMBER: Option<crate::tensor::Dtype> = <$stored>::NUMBER;
        }

        impl Store for $size {
            fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
                (*self as $stored).store(sink, adapt)
            }

            fn store_list(list: &[Self], sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
                let list: Vec<$stored> = list.iter().map(|size| *size as $stored).collect();
                $stored::store_list(&list, sink, adapt)
            }

            fn store_array(array: &[Self], sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
                Self::store_list(array, sink, adapt)
            }

            fn store_halves(front: &[Self], back: &[Self], sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
                Self::store_list(&[front, back].concat(), sink, adapt)
            }

            fn lend_list<'a>(_: &'a [Self], _: &mut super::Lent<'a>) {}
        }

        /// # Errors
        ///
        /// [`ErrorKind::Unsupported`]: a number that does not fit the type on this machine.
        impl<'de> FromTensors<'de> for $size {
            fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
                fit($stored::load(source, adapt)?)
            }

            fn load_list(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Vec<Self>> {
                $stored::load_list(source, adapt)?.into_iter().map(fit).collect()
            }

            fn reload_list(list: &mut Vec<Self>, source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<()> {
                *list = Self::load_list(source, adapt)?;
                Ok(())
            }

            fn load_array(source: &mut dyn Source<'de>, node: Node, len: usize, adapt: &Adapt) -> Result<Vec<Self>> {
                $stored::load_array(source, node, len, adapt)?.into_iter().map(fit).collect()
            }
        }

        impl Adaptable for $size {}
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
