//! The traits between values and files: a value stores itself in a sink and loads itself from a source.

use super::{
    ArraysOf, AskMetadata, BorrowedPayloads, FieldAttrs, KeyPart, Loaded, MetadataKind, MetadataValue, Node, Schema,
    StructDef, TensorData, TensorSpec,
};
use crate::error::{ErrorKind, Result};
use crate::tensor::TensorInfo;

/// A value that can be written as tensors.
///
/// The trait has no generic methods, so a value is compiled once and written through `&dyn Store` in every format.
/// Derived structs, arrays, numbers and containers implement it.
///
/// ```
/// use tensorfile::model::{FieldAttrs, Node, Sink, Store};
/// use tensorfile::{Result, TensorFile, TensorMap, ten};
///
/// /// An angle, stored as an `f32` in degrees.
/// struct Angle {
///     radians: f32,
/// }
///
/// impl TensorFile for Angle {
///     const NODE: Node = f32::NODE;
/// }
///
/// impl Store for Angle {
///     fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
///         self.radians.to_degrees().store(sink, attrs)
///     }
/// }
///
/// #[derive(TensorFile)]
/// #[tensor(write_only)]
/// struct Pose {
///     yaw: Angle,
/// }
///
/// let file = ten::to_vec(&Pose { yaw: Angle { radians: 0.0 } })?;
/// assert!(ten::from_slice::<TensorMap>(&file)?.contains("yaw"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub trait Store {
    /// Calls exactly one method of `sink`, once.
    ///
    /// `attrs` holds the attributes of the enclosing field. Types other than arrays ignore it, and containers pass it
    /// on.
    ///
    /// # Errors
    ///
    /// Errors of the sink, and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the value contradicts the
    /// attributes.
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()>;

    /// Adds payloads with the lifetime of the value, so that [`to_io_slices`](crate::format::Options::to_io_slices) can
    /// borrow them. All other payloads are copied; by default, these are all payloads.
    fn borrow_payloads<'a>(&'a self, _payloads: &mut BorrowedPayloads<'a>) {}

    /// Stores a list: numbered items, or one tensor of rank 1 if the items are numbers.
    #[doc(hidden)]
    fn store_list(list: &[Self], sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()>
    where
        Self: Sized,
    {
        sink.list(&list, attrs)
    }

    /// Stores a list split in two slices.
    #[doc(hidden)]
    fn store_halves(front: &[Self], back: &[Self], sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()>
    where
        Self: Sized,
    {
        sink.list(&Halves(front, back), attrs)
    }

    /// Stores an array of a length fixed by its type.
    #[doc(hidden)]
    fn store_array(array: &[Self], sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()>
    where
        Self: Sized,
    {
        sink.tuple(&array, attrs)
    }

    /// Adds the payloads of a list.
    #[doc(hidden)]
    fn borrow_list<'a>(list: &'a [Self], payloads: &mut BorrowedPayloads<'a>)
    where
        Self: Sized,
    {
        list.iter().for_each(|item| item.borrow_payloads(payloads));
    }
}

/// A value that maps to named tensors: an array, a container of such values, or a struct with `#[derive(TensorFile)]`.
///
/// The derive macro of the same name implements this trait, [`Store`] and [`FromTensors`], and serde's `Serialize` and
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
    note = "`#[tensor(skip)]` leaves a field out of the file, and `#[tensor(metadata)]` stores a string or another single value in the \
            file's metadata"
)]
pub trait TensorFile: Store {
    /// The names and types of the tensors, as static data.
    const NODE: Node;

    /// The dtype, if the type is a number. A list of numbers is one tensor of rank 1.
    #[doc(hidden)]
    const NUMBER: Option<crate::tensor::Dtype> = None;

    /// The type is a tensor, or an optional one, and cannot be flattened.
    ///
    /// A constant next to `NODE`, because functions in a node cannot be called before the program runs.
    #[doc(hidden)]
    const IS_TENSOR: bool = matches!(Self::NODE, Node::Tensor(_));

    /// The ranks fixed by the type, for an array or all arrays in a container: bit 2 is set for an `Array2` and for a
    /// list of them.
    #[doc(hidden)]
    const RANKS: u64 = Self::NODE.ranks();

    /// Returns the names, dtypes and shapes of the tensors of this type, as far as the type determines them.
    #[must_use]
    fn schema() -> Schema {
        Schema::new(Self::NODE)
    }
}

/// Returns the node of a type. Field definitions point to this function, instead of a closure each.
#[must_use]
pub fn node_of<T: TensorFile + ?Sized>() -> Node {
    T::NODE
}

/// A [`TensorFile`] that can be read. It may borrow from the file.
///
/// ```
/// use tensorfile::model::{FieldAttrs, FromTensors, Node, Sink, Source, Store};
/// use tensorfile::{File, Result, TensorFile, TensorMap, ten};
///
/// /// A probability, which is checked when it is read.
/// struct Probability(f32);
///
/// impl TensorFile for Probability {
///     const NODE: Node = f32::NODE;
/// }
///
/// impl Store for Probability {
///     fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
///         self.0.store(sink, attrs)
///     }
/// }
///
/// impl<'de> FromTensors<'de> for Probability {
///     fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
///         match f32::load(source, attrs)? {
///             number @ 0.0..=1.0 => Ok(Self(number)),
///             number => Err(tensorfile::ErrorKind::Message(format!("{number} is not a probability")).into()),
///         }
///     }
/// }
///
/// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("p", ndarray::arr0(0.25_f32))]))?)?;
/// assert_eq!(file.get("p")?.load::<Probability>()?.0, 0.25);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor that can be read",
    label = "not a tensor that can be read",
    note = "a field may be an `ndarray` array of numbers, a number, `Tensor`, `TensorView`, `CooTensor`, `TensorMap`, \
            another struct with `#[derive(TensorFile)]`, or an `Option`, `Vec`, array, tuple, map, `Box`, `Rc` or `Arc` of these",
    note = "`#[tensor(skip)]` leaves a field out of the file, and `#[tensor(metadata)]` stores a string or another single value in the \
            file's metadata",
    note = "`ArrayViewMut` and references can be written but not read; `#[tensor(write_only)]` on the struct leaves reading out, and \
            `ArrayView`, `CowArray` and `Cow<[T]>` borrow from the file"
)]
pub trait FromTensors<'de>: TensorFile + Sized {
    /// Calls exactly one method of `source`, once, and makes the value of its result.
    ///
    /// # Errors
    ///
    /// Errors of the source, and a payload out of range for the type.
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self>;

    /// Loads a value into this one. Arrays of the same shape keep their memory; by default, all else is replaced. After
    /// an error, it is partly the old and partly the new one.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    fn reload(&mut self, source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<()> {
        *self = Self::load(source, attrs)?;
        Ok(())
    }

    /// Loads a list into this one, as [`reload`](Self::reload) does.
    #[doc(hidden)]
    fn reload_list(list: &mut Vec<Self>, source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<()> {
        let mut len = 0;
        source.list(&mut |index, source| {
            len = index + 1;
            match list.get_mut(index) {
                Some(item) => item.reload(source, attrs),
                None => {
                    list.push(Self::load(source, attrs)?);
                    Ok(())
                }
            }
        })?;
        list.truncate(len);
        Ok(())
    }

    /// Loads a list: numbered items, or one tensor of rank 1 if the items are numbers.
    #[doc(hidden)]
    fn load_list(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Vec<Self>> {
        let mut list = Vec::new();
        source.list(&mut |_, source| {
            list.push(Self::load(source, attrs)?);
            Ok(())
        })?;
        Ok(list)
    }

    /// Loads an array of `len` items, described by `node`.
    #[doc(hidden)]
    fn load_array(source: &mut dyn Source<'de>, _node: Node, len: usize, attrs: &FieldAttrs) -> Result<Vec<Self>> {
        let mut list = Vec::with_capacity(len);
        source.tuple(len, &mut |_, source| {
            list.push(Self::load(source, attrs)?);
            Ok(())
        })?;
        Ok(list)
    }
}

/// Loads a value into the place for it: a field, or the result.
pub fn put<'de, T: FromTensors<'de>>(
    place: &mut Option<T>,
    source: &mut (dyn Source<'de> + '_),
    attrs: &'static FieldAttrs,
) -> Result<()> {
    *place = Some(T::load(source, attrs)?);
    Ok(())
}

/// A closure that loads a value from a source.
pub(crate) type LoadFrom<'x, 'de> = &'x mut (dyn FnMut(&mut (dyn Source<'de> + '_)) -> Result<()> + 'x);

/// The metadata of a source.
pub(crate) struct MetadataOf<'x, 'de>(pub(crate) &'x mut (dyn Source<'de> + 'x));

impl AskMetadata for MetadataOf<'_, '_> {
    fn option(&mut self, some: &mut dyn FnMut(&mut dyn AskMetadata) -> Result<()>) -> Result<()> {
        self.0.option(&mut |_, source| some(&mut MetadataOf(source)))
    }

    fn metadata(&mut self, kind: MetadataKind) -> Result<MetadataValue> {
        self.0.metadata(kind)
    }
}

/// A value on its own, from an `Option`.
impl Store for MetadataValue {
    fn store(&self, sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
        sink.metadata(self)
    }
}

/// Receives a value during writing: a tensor, or parts under names.
///
/// [`Serializer`](crate::format::Serializer) is the sink of tensor files. Any serde format is one too.
///
/// ```
/// use tensorfile::model::{FieldAttrs, Sink, Store};
/// use tensorfile::Result;
///
/// /// Stores the sum of two arrays.
/// fn store_sum(one: &ndarray::Array1<f32>, other: &ndarray::Array1<f32>, sink: &mut dyn Sink) -> Result<()> {
///     (one + other).store(sink, &FieldAttrs::NONE)
/// }
/// ```
pub trait Sink {
    /// Returns whether arrays may come in memory order, with their dim order as layout. Otherwise they come in
    /// row-major order.
    fn takes_dim_order(&self) -> bool {
        false
    }

    /// Takes a tensor.
    ///
    /// # Errors
    ///
    /// If the destination cannot store it. This holds for all methods.
    fn tensor(&mut self, info: &TensorInfo, data: &dyn TensorData) -> Result<()>;

    /// Takes a struct: one value for each field of `def`.
    fn fields(&mut self, def: &'static StructDef, values: &[&dyn Store]) -> Result<()>;

    /// Takes numbered items. The type does not determine their number.
    fn list(&mut self, items: &dyn List, attrs: &FieldAttrs) -> Result<()>;

    /// Takes numbered items, in a number fixed by the type.
    fn tuple(&mut self, items: &dyn List, attrs: &FieldAttrs) -> Result<()>;

    /// Takes entries, each under its key.
    fn map(&mut self, entries: &dyn Entries, attrs: &FieldAttrs) -> Result<()>;

    /// Takes a value, or none.
    fn option(&mut self, value: Option<&dyn Store>, attrs: &FieldAttrs) -> Result<()>;

    /// Returns whether a value without tensors leaves no trace, as in a tensor file. By default, it is `false`.
    #[doc(hidden)]
    fn drops_empty_values(&self) -> bool {
        false
    }

    /// Takes an entry of metadata. By default it is an error.
    fn metadata(&mut self, value: &MetadataValue) -> Result<()> {
        let what = format!("write the metadata `{value}`");
        Err(ErrorKind::Unsupported { what, instead: "the destination takes tensors only".to_owned() }.into())
    }
}

/// Numbered values.
pub trait List {
    /// Returns the number of items.
    fn len(&self) -> usize;

    /// Returns whether there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an item.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`len`](Self::len).
    fn item(&self, index: usize) -> &dyn Store;
}

/// A list split in two slices.
struct Halves<'a, T>(&'a [T], &'a [T]);

impl<T: Store> List for Halves<'_, T> {
    fn len(&self) -> usize {
        self.0.len() + self.1.len()
    }

    fn item(&self, index: usize) -> &dyn Store {
        match index.checked_sub(self.0.len()) {
            None => &self.0[index],
            Some(index) => &self.1[index],
        }
    }
}

impl<T: Store> List for &[T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    fn item(&self, index: usize) -> &dyn Store {
        &self[index]
    }
}

impl<const N: usize> List for [&dyn Store; N] {
    fn len(&self) -> usize {
        N
    }

    fn item(&self, index: usize) -> &dyn Store {
        self[index]
    }
}

/// Values by key.
pub trait Entries {
    /// Returns the number of entries.
    fn len(&self) -> usize;

    /// Returns whether there are no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` with each key and value, in the same order every time.
    ///
    /// # Errors
    ///
    /// Errors of `visit`, and [`ErrorKind::NotATensor`](crate::ErrorKind::NotATensor) if a key is not a string, a
    /// number or a unit variant.
    fn for_each(&self, visit: &mut dyn FnMut(&str, &dyn Store) -> Result<()>) -> Result<()>;
}

/// A closure called by a [`Source`] with the number of a part, and a source at the part.
pub type EachPart<'x, 'de> = &'x mut (dyn FnMut(usize, &mut (dyn Source<'de> + '_)) -> Result<()> + 'x);

/// A closure called by a [`Source`] with the key of an entry, and a source at its value.
pub type EachEntry<'x, 'de> = &'x mut (dyn FnMut(&str, &mut (dyn Source<'de> + '_)) -> Result<()> + 'x);

/// Gives a value during reading: a tensor, or parts under names.
///
/// The source decides on the order of the parts, so streams and sequences need no buffer.
/// [`Deserializer`](crate::format::Deserializer) is the source of tensor files. Any serde format is one too.
pub trait Source<'de> {
    /// Returns the tensor here. Its header is checked against `spec` before its payload is read.
    ///
    /// # Errors
    ///
    /// By [`category`](crate::Error::category): `Mismatch` if there is no such tensor, `File` or `Io` if it cannot be
    /// read. This holds for all methods.
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>>;

    /// Reads the elements of the tensor here into memory, if it has this shape and its stored bytes need no conversion.
    /// If it returns `false`, the tensor is still unread.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor).
    fn tensor_into(&mut self, _spec: &TensorSpec, _shape: &[usize], _bytes: &mut [u8]) -> Result<bool> {
        Ok(false)
    }

    /// Returns the arrays made of the same bytes as the last tensor, if tensors can share bytes.
    #[doc(hidden)]
    fn same_bytes(&mut self) -> Option<ArraysOf<'_>> {
        None
    }

    /// Calls `each` with the number of each field, in the order of the source.
    ///
    /// Missing required fields are included, with an empty source: `Option`s and lists are empty there, and anything
    /// else is an error.
    fn fields(&mut self, def: &'static StructDef, each: EachPart<'_, 'de>) -> Result<()>;

    /// Calls `each` with each item.
    fn list(&mut self, each: EachPart<'_, 'de>) -> Result<()>;

    /// Calls `each` with each of `len` items.
    fn tuple(&mut self, len: usize, each: EachPart<'_, 'de>) -> Result<()>;

    /// Returns the likely number of entries in a map, at its first entry. By default, 0.
    #[doc(hidden)]
    fn expected_entries(&self) -> usize {
        0
    }

    /// Calls `each` with each entry. `key` says how much of a tensor's name is the key.
    fn map(&mut self, key: KeyPart, each: EachEntry<'_, 'de>) -> Result<()>;

    /// Calls `some` once if a value is here.
    fn option(&mut self, some: EachPart<'_, 'de>) -> Result<()>;

    /// Returns the metadata entry here, as a value of this kind. By default it is an error.
    fn metadata(&mut self, kind: MetadataKind) -> Result<MetadataValue> {
        let what = format!("read {kind} from metadata");
        Err(ErrorKind::Unsupported { what, instead: "the source has tensors only".to_owned() }.into())
    }
}
