//! The array types of most models, compiled with this crate.
//!
//! rustc compiles a generic function in every crate that uses it, unless the function is `#[inline(never)]` and a crate
//! below has compiled it for the same types. So the functions that depend on an array's type are not inlined, and
//! programs take the instances of common types from this crate. `benches/compile` shows the savings.
#![expect(dead_code, reason = "rustc compiles what a static mentions")]

use half::{bf16, f16};
use ndarray::{Array1, Array2, Array3, Array4};

use crate::error::Result;
use crate::model::{BorrowedPayloads, FieldAttrs, FromTensors, Sink, Source, Store};
use crate::tensor::Element;

// Each type takes 0.05 s of a first build, and saves as much in each build of a program with an array of the type.
static F32: Ranks<f32> = ranks();
static F32_OF_CONVOLUTIONS: (Functions<Array3<f32>>, Functions<Array4<f32>>) = (Functions::ALL, Functions::ALL);
static F16: Ranks<f16> = ranks();
static BF16: Ranks<bf16> = ranks();
static I64: Ranks<i64> = ranks();

type Ranks<A> = (Functions<Array1<A>>, Functions<Array2<A>>);

struct Functions<T> {
    store: fn(&T, &mut dyn Sink, &FieldAttrs) -> Result<()>,
    borrow_payloads: for<'a> fn(&'a T, &mut BorrowedPayloads<'a>),
    load: fn(&mut dyn Source<'static>, &FieldAttrs) -> Result<T>,
}

impl<T: Store + FromTensors<'static>> Functions<T> {
    const ALL: Self = Self { store: T::store, borrow_payloads: T::borrow_payloads, load: T::load };
}

const fn ranks<A: Element>() -> Ranks<A> {
    (Functions::ALL, Functions::ALL)
}
