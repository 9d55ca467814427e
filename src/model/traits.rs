use serde::de::Error as _;
use serde::ser::{SerializeSeq, SerializeTuple};
use serde::{Deserializer, Serializer};

use super::containers::{ListVisitor, Stored};
use super::{Adapt, Node, Schema};

/// A value that maps to named tensors: an array, a collection of such values, or a struct with `#[derive(TensorFile)]`.
///
/// The derive macro of the same name implements this trait and [`FromTensors`], and serde's `Serialize` and
/// `Deserialize` on top of them.
///
/// ```
/// use ndarray::{Array1, Array2};
/// use tensorfile::TensorFile;
///
/// #[derive(TensorFile)]
/// struct Linear {
///     weight: Array2<f32>,
///     bias: Option<Array1<f32>>,
/// }
///
/// let schema = Vec::<Linear>::schema();
/// assert_eq!(schema.to_string(), "*.weight: f32[_, _]\n*.bias: f32[_]?\n");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor and holds no named tensors",
    label = "not a tensor",
    note = "a field may be an `ndarray` array of numbers, a number, `Tensor`, `TensorView`, `CooTensor`, `TensorMap`, \
            another struct with `#[derive(TensorFile)]`, or an `Option`, `Vec`, array, tuple, map, `Box`, `Rc` or `Arc` of these",
    note = "`#[tensor(skip)]` leaves a field out of the file"
)]
pub trait TensorFile {
    /// The tree of names and types; see [`schema`](Self::schema).
    #[doc(hidden)]
    fn node() -> Node;

    /// The names, dtypes and shapes that values of this type have, as far as the type tells.
    #[must_use]
    fn schema() -> Schema {
        Schema::new(Self::node())
    }

    /// Serializes the tensors.
    #[doc(hidden)]
    fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error>;

    /// What a list of `Self` is: a list of tensors, or, of numbers, one tensor of rank 1.
    #[doc(hidden)]
    fn list_node() -> Node
    where
        Self: Sized,
    {
        Node::List(Box::new(Self::node()))
    }

    #[doc(hidden)]
    fn array_node(len: usize) -> Node
    where
        Self: Sized,
    {
        Node::Array(Box::new(Self::node()), len)
    }

    #[doc(hidden)]
    fn store_list<S: Serializer>(list: &[Self], serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error>
    where
        Self: Sized,
    {
        let mut seq = serializer.serialize_seq(Some(list.len()))?;
        for item in list {
            seq.serialize_element(&Stored { value: item, adapt })?;
        }
        seq.end()
    }

    /// Serializes an array of known length, whose type tells how many there are.
    #[doc(hidden)]
    fn store_array<S: Serializer>(array: &[Self], serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error>
    where
        Self: Sized,
    {
        let mut tuple = serializer.serialize_tuple(array.len())?;
        for item in array {
            tuple.serialize_element(&Stored { value: item, adapt })?;
        }
        tuple.end()
    }
}

/// A [`TensorFile`] that can be read, borrowing from the file where its type does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor that can be read",
    label = "not a tensor that can be read",
    note = "a field may be an `ndarray` array of numbers, a number, `Tensor`, `TensorView`, `CooTensor`, `TensorMap`, \
            another struct with `#[derive(TensorFile)]`, or an `Option`, `Vec`, array, tuple, map, `Box`, `Rc` or `Arc` of these",
    note = "`#[tensor(skip)]` leaves a field out of the file",
    note = "`ArrayViewMut` and references can be written but not read; `#[tensor(write_only)]` on the struct leaves reading out"
)]
pub trait FromTensors<'de>: TensorFile + Sized {
    /// Deserializes the tensors.
    #[doc(hidden)]
    fn load<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Self, D::Error>;

    #[doc(hidden)]
    fn load_list<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Vec<Self>, D::Error> {
        deserializer.deserialize_seq(ListVisitor::new(adapt))
    }

    /// Deserializes an array of `len` items.
    #[doc(hidden)]
    fn load_array<D: Deserializer<'de>>(deserializer: D, len: usize, adapt: &Adapt) -> Result<Vec<Self>, D::Error> {
        let list = deserializer.deserialize_tuple(len, ListVisitor::at_most(len, adapt))?;
        match list.len() {
            found if found == len => Ok(list),
            found => Err(D::Error::invalid_length(found, &format!("{len} items").as_str())),
        }
    }

    /// The value that stands for nothing in the file, where there is one: `None` of an `Option`.
    #[doc(hidden)]
    fn absent() -> Option<Self> {
        None
    }
}
