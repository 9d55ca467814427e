//! Type, lifetime and const parameters, with bounds in every place.

use std::marker::PhantomData;

use ndarray::{Array, Array1, Array2, ArrayBase, ArrayView, CowArray, Data, Dimension, Ix1, Ix2, OwnedRepr};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tensorfile::model::FromTensors;
use tensorfile::{Element, TensorFile};

#[derive(TensorFile)]
struct Owned<A, D> {
    weight: Array<A, D>,
}

#[derive(TensorFile)]
struct View<'a, A, D> {
    weight: ArrayView<'a, A, D>,
}

#[derive(TensorFile)]
struct Plain<'x, 'y> {
    view: ArrayView<'x, f32, Ix1>,
    cow: CowArray<'y, f32, Ix1>,
}

#[derive(TensorFile)]
struct Cow<'x, 'y: 'x, A: Element>
where
    A: PartialOrd,
{
    short: CowArray<'x, A, Ix1>,
    long: CowArray<'y, A, Ix2>,
}

#[derive(TensorFile)]
struct Bounded<A: Element + Clone = f32, const N: usize = 2> {
    weights: [Array2<A>; N],
}

#[derive(TensorFile)]
struct Nested<T> {
    one: T,
    many: Vec<Owned<f64, Ix1>>,
    maybe: Option<Box<T>>,
}

#[derive(TensorFile)]
struct Unused<T, U: ?Sized> {
    weight: Array1<f32>,
    #[tensor(skip)]
    tag: (PhantomData<T>, PhantomData<U>),
}

trait Kind {
    type Weight;
}

#[derive(TensorFile)]
struct Projected<K: Kind> {
    weight: K::Weight,
    qualified: Vec<<K as Kind>::Weight>,
}

#[derive(TensorFile)]
#[tensor(write_only)]
struct Storage<S: Data<Elem = f32>, D: Dimension> {
    weight: ArrayBase<S, D>,
}

#[derive(TensorFile)]
struct Clashing<'de, S, T, D> {
    s: ArrayView<'de, S, Ix1>,
    t: Array1<T>,
    d: Array1<D>,
}

#[derive(TensorFile)]
#[tensor(prefix = "net")]
struct Prefixed<'a, A: Element, D: Dimension, const N: usize>
where
    Self: Sized,
{
    #[tensor(shape = [N, _], cast)]
    weight: Array2<A>,
    view: ArrayView<'a, A, D>,
    #[tensor(default)]
    numbers: Vec<A>,
}

#[derive(TensorFile)]
struct Adapted<T> {
    #[tensor(transpose)]
    weight: T,
}

struct Floats;

impl Kind for Floats {
    type Weight = Array1<f32>;
}

fn owned<T: TensorFile + Serialize + DeserializeOwned + for<'de> FromTensors<'de>>() {}
fn view<'de, T: TensorFile + Serialize + Deserialize<'de> + FromTensors<'de>>() {}
fn written<T: TensorFile + Serialize>() {}

fn all() {
    owned::<Owned<f32, Ix2>>();
    owned::<Bounded>();
    owned::<Nested<Owned<i64, Ix1>>>();
    owned::<Unused<String, dyn Send>>();
    owned::<Projected<Floats>>();
    owned::<Adapted<Option<Array1<u8>>>>();
    view::<View<'_, f64, Ix1>>();
    view::<Plain<'_, 'static>>();
    view::<Cow<'_, '_, f32>>();
    view::<Clashing<'_, u8, u16, u32>>();
    view::<Prefixed<'_, f32, Ix1, 4>>();
    written::<Storage<OwnedRepr<f32>, Ix1>>();
}

#[test]
fn derives_with_every_kind_of_parameter() {
    all();
}
