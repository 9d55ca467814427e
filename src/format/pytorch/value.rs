//! The values described by a pickle.

use super::header::{Function, Tag, TensorKind};

/// A value. Values of any length are in a [`Heap`], so that this type is small, and containers can be shared.
#[derive(Debug, Clone, Copy)]
pub(super) enum PickleValue {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// An integer of more than 64 bits, as its little-endian bytes.
    Long(HeapSpan),
    /// An integer of more than 64 bits, as its decimal digits.
    Digits(HeapSpan),
    /// The container of the two parts of a complex number.
    Complex(u32),
    Text(HeapSpan),
    /// A string with lone surrogates. UTF-8 forbids them, but Python encodes them in the same way.
    Surrogates(HeapSpan),
    Bytes(ByteString),
    Tuple(u32),
    /// A `torch.Size`, stored as a tuple.
    Size(u32),
    List(u32),
    Set(u32),
    FrozenSet(u32),
    Dict(u32),
    Dtype(&'static Tag),
    StorageType(&'static Tag),
    /// The layout of a tensor, such as `sparse_coo`.
    Layout(&'static &'static str),
    /// The container of the arguments of a device: its type, and a number perhaps.
    Device(u32),
    /// A function, a class or a constant.
    Global(u32),
    NumpyDtype(u32),
    NumpyScalar(u32),
    NumpyArray(u32),
    Storage(u32),
    Tensor(u32),
    /// A tensor with unreadable elements.
    Other(u32),
    /// What an unknown function or class makes.
    Object(u32),
    /// The key of an unnamed part of an object, such as its state.
    Unnamed,
}

impl PickleValue {
    /// Returns the kind of value for messages.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::None | Self::Unnamed => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) | Self::Long(_) | Self::Digits(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Complex(_) => "a complex number",
            Self::Text(_) | Self::Surrogates(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Tuple(_) | Self::Size(_) => "a tuple",
            Self::List(_) => "a list",
            Self::Set(_) | Self::FrozenSet(_) => "a set",
            Self::Dict(_) => "a dict",
            Self::Dtype(_) | Self::NumpyDtype(_) => "a dtype",
            Self::StorageType(_) | Self::Global(_) => "a function",
            Self::Layout(_) => "a layout",
            Self::Device(_) => "a device",
            Self::NumpyScalar(_) => "a number",
            Self::NumpyArray(_) => "an array",
            Self::Storage(_) => "a storage",
            Self::Tensor(_) | Self::Other(_) => "a tensor",
            Self::Object(_) => "an object",
        }
    }

    /// Returns the container, if it is one.
    pub(super) fn container(self) -> Option<u32> {
        match self {
            Self::List(index) | Self::Set(index) | Self::FrozenSet(index) | Self::Dict(index) => Some(index),
            _ => self.tuple(),
        }
    }

    /// Returns the container of a tuple.
    pub(super) fn tuple(self) -> Option<u32> {
        match self {
            Self::Tuple(index) | Self::Size(index) => Some(index),
            _ => None,
        }
    }
}

/// A part of [`Heap::bytes`].
#[derive(Debug, Clone, Copy)]
pub(super) struct HeapSpan {
    pub(super) start: u32,
    pub(super) len: u32,
}

/// Bytes of Python.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteString {
    pub(super) span: HeapSpan,
    /// They are stored as UTF-8, each byte as the character of its number.
    pub(super) is_latin_1: bool,
    pub(super) is_bytearray: bool,
}

/// The values of any length.
#[derive(Debug, Default)]
pub(super) struct Heap {
    /// The bytes of strings, in UTF-8 or not.
    pub(super) bytes: Vec<u8>,
    /// The starts of byte strings stored in the file unchanged, and their offsets there.
    pub(super) places: Vec<(u32, u64)>,
    /// The values of containers. Dicts have keys and values in turn.
    pub(super) containers: Containers,
    pub(super) globals: Vec<PickledGlobal>,
    pub(super) storages: Vec<PickledStorage>,
    pub(super) tensors: Vec<PickledTensor>,
    pub(super) others: Vec<UnreadTensor>,
    pub(super) objects: Vec<PickledObject>,
    pub(super) dtypes: Vec<NumpyDtype>,
    pub(super) scalars: Vec<NumpyScalar>,
    pub(super) arrays: Vec<NumpyArray>,
    /// Dicts with attributes, and the containers of the attributes.
    pub(super) dict_attributes: Vec<(u32, u32)>,
    /// Dicts of modules, and the dicts with the versions of the modules.
    pub(super) dict_versions: Vec<(u32, u32)>,
}

impl Heap {
    pub(super) fn bytes(&self, span: HeapSpan) -> &[u8] {
        &self.bytes[span.start as usize..][..span.len as usize]
    }

    pub(super) fn text(&self, span: HeapSpan) -> &str {
        str::from_utf8(self.bytes(span)).expect("a text was checked")
    }

    pub(super) fn values(&self, container: u32) -> &[PickleValue] {
        self.containers.values(container)
    }

    /// Returns the offset of bytes in the file.
    pub(super) fn place(&self, span: HeapSpan) -> Option<u64> {
        let index = self.places.binary_search_by_key(&span.start, |(start, _)| *start).ok()?;
        Some(self.places[index].1)
    }

    /// Returns the full name of a global.
    pub(super) fn global_name(&self, index: u32) -> &str {
        self.text(self.globals[index as usize].name)
    }

    /// Returns the function of a global, if it is known.
    pub(super) fn function(&self, value: PickleValue) -> Option<Function> {
        match value {
            PickleValue::Global(index) => self.globals[index as usize].function,
            _ => None,
        }
    }

    /// Returns bytes as they are.
    pub(super) fn decoded(&self, bytes: ByteString) -> Vec<u8> {
        if bytes.is_latin_1 {
            // Each character was checked to be in the range of a byte.
            self.text(bytes.span).chars().map(|c| c as u8).collect()
        } else {
            self.bytes(bytes.span).to_vec()
        }
    }
}

/// The values of all containers, in one allocation: most have one to three values, and there are hundreds of thousands.
// With a vector for each tuple, malloc and free took a quarter of the instructions of reading a trainer's metadata.
#[derive(Debug, Default)]
pub(super) struct Containers {
    values: Vec<PickleValue>,
    places: Vec<ContainerPlace>,
}

/// Where the values of a container are.
#[derive(Debug)]
struct ContainerPlace {
    start: usize,
    len: usize,
    /// The number of values that fit there. The last container has room for any number.
    room: usize,
}

impl Containers {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn values(&self, container: u32) -> &[PickleValue] {
        let place = &self.places[container as usize];
        &self.values[place.start..][..place.len]
    }

    pub(super) fn push(&mut self, values: &[PickleValue]) {
        self.places.push(ContainerPlace { start: self.values.len(), len: values.len(), room: values.len() });
        self.values.extend_from_slice(values);
    }

    /// Adds values to a container. If others follow, the container moves to the end. A growing container doubles its
    /// room.
    pub(super) fn extend(&mut self, container: u32, more: &[PickleValue]) {
        let place = &mut self.places[container as usize];
        let len = place.len + more.len();
        if len <= place.room {
            self.values[place.start + place.len..][..more.len()].copy_from_slice(more);
        } else {
            if place.start + place.room < self.values.len() {
                let old = place.start..place.start + place.len;
                place.start = self.values.len();
                self.values.extend_from_within(old);
            }
            self.values.truncate(place.start + place.len);
            self.values.extend_from_slice(more);
            place.room = if place.len == 0 { len } else { 2 * len };
            self.values.resize(place.start + place.room, PickleValue::None);
        }
        place.len = len;
    }
}

/// Returns the surrogate at the start of `bytes`, and the remaining bytes.
pub(super) fn split_surrogate(bytes: &[u8]) -> Option<(u16, &[u8])> {
    match bytes {
        [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, after @ ..] => {
            Some((0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f), after))
        }
        _ => None,
    }
}

/// A global.
#[derive(Debug, Clone, Copy)]
pub(super) struct PickledGlobal {
    /// The module and the name.
    pub(super) name: HeapSpan,
    /// `None` if it is unknown.
    pub(super) function: Option<Function>,
}

/// A storage, possibly shared by tensors.
#[derive(Debug, Clone, Copy)]
pub(super) struct PickledStorage {
    /// The name.
    pub(super) key: HeapSpan,
    pub(super) tag: &'static Tag,
    /// The global of the storage's type, if we do not know it. The length in bytes then comes from the file.
    pub(super) class: Option<u32>,
    /// The number of elements.
    pub(super) len: u64,
    /// The first element and the number of elements, if it is a part of another storage.
    pub(super) view: Option<(u64, u64)>,
    /// It is on the device `meta`, and has no bytes.
    pub(super) is_meta: bool,
    /// The offset of the opcode in the file.
    pub(super) place: u64,
}

impl PickledStorage {
    /// Returns the number of elements, of the part if it is one.
    pub(super) fn count(&self) -> u64 {
        self.view.map_or(self.len, |(_, len)| len)
    }
}

/// A part of a storage as a tensor.
#[derive(Debug, Clone, Copy)]
pub(super) struct PickledTensor {
    pub(super) storage: u32,
    pub(super) tag: &'static Tag,
    /// The first element.
    pub(super) start: u64,
    /// The containers of the dims and of the strides in elements.
    pub(super) shape: u32,
    pub(super) strides: u32,
    pub(super) bits: TensorBits,
    pub(super) extra: Extra,
    /// The offset of the opcode in the file.
    pub(super) place: u64,
}

/// Changes to the elements of a tensor, made during reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TensorBits {
    /// Complex numbers are conjugated.
    pub(super) conj: bool,
    /// All numbers are negated.
    pub(super) neg: bool,
}

/// The parts of a Python tensor other than its elements.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extra {
    /// The class, if it is not one of PyTorch: a global.
    pub(super) class: Option<u32>,
    /// The container of the attributes: parts as in a [`PickledObject`].
    pub(super) attributes: Option<u32>,
}

/// A tensor with unreadable elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnreadTensor {
    pub(super) kind: TensorKind,
    /// The type of its elements, and the container of its dims, as far as they are known.
    pub(super) tag: Option<&'static Tag>,
    pub(super) shape: Option<u32>,
    /// The dtype, if it is unknown, or the type of the storage: a global. And the storage, if the tensor is all of it.
    pub(super) dtype: Option<u32>,
    pub(super) storage: Option<u32>,
    /// The tensor with the bytes of its elements, if any.
    pub(super) elements: Option<u32>,
    /// The container of what else it is made of: names and values in turn.
    pub(super) parts: Option<u32>,
    /// The container of the quantization method and its numbers.
    pub(super) quantizer: Option<u32>,
    pub(super) extra: Extra,
    /// The offset of the opcode in the file.
    pub(super) place: u64,
}

/// What an unknown function or class makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PickledObject {
    /// The function or class: a global.
    pub(super) class: u32,
    /// The container of its parts: keys and values in turn.
    pub(super) parts: u32,
}

/// A dtype of numpy.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumpyDtype {
    /// The name without byte order, such as `f8`.
    pub(super) name: HeapSpan,
    pub(super) is_big_endian: bool,
    /// It has fields, or arrays as elements.
    pub(super) is_structured: bool,
}

/// A scalar of numpy.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumpyScalar {
    pub(super) dtype: u32,
    pub(super) bytes: ByteString,
}

/// An array of numpy. It has no dtype before its state is set.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumpyArray {
    pub(super) dtype: Option<u32>,
    /// The container of the dims.
    pub(super) shape: u32,
    pub(super) is_column_major: bool,
    /// The elements: bytes, or a list of objects.
    pub(super) elements: PickleValue,
    /// The offset of the opcode in the file.
    pub(super) place: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_small() {
        // A byte of a pickle can make a value.
        assert_eq!(size_of::<PickleValue>(), 16);
    }

    #[test]
    fn containers_grow_among_others() {
        let number = |value: &PickleValue| if let PickleValue::Int(number) = value { *number } else { -1 };
        let mut containers = Containers::default();
        (0..3).for_each(|_| containers.push(&[]));
        for (i, container) in [0, 1, 1, 0, 2, 2, 2, 1, 0, 0, 1].into_iter().cycle().take(110).enumerate() {
            let i = i64::try_from(i).unwrap();
            containers.extend(container, &[PickleValue::Int(i), PickleValue::Int(-i)][..1 + usize::from(i % 3 == 0)]);
            containers.push(&[PickleValue::Int(i)]);
        }
        let found: Vec<Vec<i64>> = (0..3).map(|i| containers.values(i).iter().map(number).collect()).collect();
        let mut expected = vec![Vec::new(); 3];
        for (i, container) in (0..110).zip([0, 1, 1, 0, 2, 2, 2, 1, 0, 0, 1].into_iter().cycle()) {
            expected[container].extend([i, -i].into_iter().take(1 + usize::from(i % 3 == 0)));
        }
        assert_eq!(found, expected);
        assert!((3..113).all(|i| number(&containers.values(i)[0]) == i64::from(i) - 3));
        // No more than four times the values, including abandoned places.
        assert!(containers.values.len() <= 4 * (expected.concat().len() + 110));
    }
}
