//! Calls of functions in a pickle, and the values they return.

use super::header::{Function, Tag, TensorKind, UNKNOWN, layout};
use super::pickle::{Machine, index, malformed};
use super::value::{
    ByteString, Extra, HeapSpan, NumpyArray, NumpyDtype, NumpyScalar, PickleValue, PickledObject, PickledStorage,
    PickledTensor, TensorBits, UnreadTensor,
};
use crate::error::{ErrorKind, Result};

impl Machine {
    /// Returns the result of a function. For an unknown function, or unexpected arguments, it is an object.
    pub(super) fn call(&mut self, callee: PickleValue, args: u32) -> Result<PickleValue> {
        let global = match callee {
            PickleValue::Global(i) => i,
            PickleValue::Object(_) => return self.object_of(callee, &[PickleValue::Tuple(args)]),
            other => return Err(malformed(format!("the pickle calls {}, which cannot be called", other.kind()))),
        };
        let made = match self.heap.globals[global as usize].function {
            Some(function) => self.call_known(function, args)?,
            None => None,
        };
        match made {
            Some(value) => Ok(value),
            None => self.object(global, &[PickleValue::Tuple(args)]),
        }
    }

    /// Returns the result of a known function. `None` if its arguments differ from the ones in checkpoints.
    fn call_known(&mut self, function: Function, args: u32) -> Result<Option<PickleValue>> {
        let values = self.heap.values(args);
        let (first, count) = (values.first().copied(), values.len());
        Ok(match function {
            Function::Tensor { dtype, bits } => Some(self.tensor(args, dtype, bits)?),
            Function::Parameter | Function::ParameterWithState => {
                let state = values.get(3).copied().filter(|_| function == Function::ParameterWithState);
                match first {
                    Some(
                        tensor @ (PickleValue::Tensor(_)
                        | PickleValue::Other(_)
                        | PickleValue::NumpyArray(_)
                        | PickleValue::Object(_)),
                    ) => Some(self.with_extra(tensor, None, state)?),
                    other => return Err(malformed(format!("the pickle makes a parameter of {}", kind_of(other)))),
                }
            }
            Function::Converted => self.converted(args)?,
            Function::FromType => self.typed_tensor(args)?,
            Function::Other(kind) => Some(self.other(kind, args)?),
            Function::Dict if count <= 1 => Some(self.dict(first)?),
            Function::DefaultDict if count <= 2 => {
                let from = values.get(1).copied();
                Some(self.dict(from)?)
            }
            Function::Tuple | Function::Size | Function::List | Function::Set | Function::FrozenSet if count <= 1 => {
                self.sequence(function, first)?
            }
            Function::Bytes | Function::Bytearray => {
                let is_bytearray = function == Function::Bytearray;
                match *values {
                    [] => {
                        let span = self.store(&[])?;
                        Some(PickleValue::Bytes(ByteString { span, is_latin_1: false, is_bytearray }))
                    }
                    [PickleValue::Bytes(bytes)] => Some(PickleValue::Bytes(ByteString { is_bytearray, ..bytes })),
                    [PickleValue::Text(text), encoding] if self.is_latin_1(encoding) => {
                        Some(self.encode(text, is_bytearray)?)
                    }
                    _ => None,
                }
            }
            Function::Encode => match *values {
                [PickleValue::Text(text), encoding] if self.is_latin_1(encoding) => Some(self.encode(text, false)?),
                _ => None,
            },
            Function::Complex if matches!(values, [PickleValue::Float(_), PickleValue::Float(_)]) => {
                Some(PickleValue::Complex(args))
            }
            Function::Device
                if matches!(values, [PickleValue::Text(_)] | [PickleValue::Text(_), PickleValue::Int(_)]) =>
            {
                Some(PickleValue::Device(args))
            }
            Function::Layout => first.and_then(|name| self.layout(name)).map(PickleValue::Layout),
            Function::First => first,
            Function::Attribute => match *values {
                [PickleValue::Global(class), PickleValue::Text(name)] => {
                    let (class, name) = (self.heap.global_name(class), self.heap.text(name).to_owned());
                    let class = class.to_owned();
                    Some(self.add_global(&class, &name, None)?)
                }
                _ => None,
            },
            Function::New | Function::Reconstruct => match *values {
                [class @ PickleValue::Global(_), ..] => {
                    // The base class of `Reconstruct` is `object`, or the class of the next value.
                    let rest = values.get(if function == Function::New { 1 } else { 2 }..).unwrap_or(&[]).to_vec();
                    self.copy(rest.len().saturating_mul(size_of::<PickleValue>()))?;
                    // Classes with classes as arguments could recurse without end.
                    let is_known = !matches!(
                        self.heap.function(class),
                        None | Some(Function::New | Function::Reconstruct | Function::FromType)
                    );
                    let made = if function == Function::Reconstruct {
                        self.object_of(class, &rest)?
                    } else if is_known {
                        let args = self.container(&rest)?;
                        self.call(class, args)?
                    } else {
                        let args = self.container(&rest)?;
                        self.object_of(class, &[PickleValue::Tuple(args)])?
                    };
                    Some(made)
                }
                _ => None,
            },
            Function::NumpyDtype => match first {
                Some(PickleValue::Text(name)) => {
                    let i = index(self.heap.dtypes.len())?;
                    self.heap.dtypes.push(NumpyDtype { name, is_big_endian: false, is_structured: false });
                    Some(PickleValue::NumpyDtype(i))
                }
                _ => None,
            },
            Function::NumpyScalar => match *values {
                [PickleValue::NumpyDtype(dtype), data] => match self.bytes_of(data) {
                    Some(bytes) => {
                        let i = index(self.heap.scalars.len())?;
                        self.heap.scalars.push(NumpyScalar { dtype, bytes });
                        Some(PickleValue::NumpyScalar(i))
                    }
                    None => None,
                },
                _ => None,
            },
            Function::NumpyArray => match *values {
                [class, PickleValue::Tuple(shape), _] if self.heap.function(class) == Some(Function::Class) => {
                    let elements = PickleValue::None;
                    let array = NumpyArray { dtype: None, shape, is_column_major: false, elements, place: self.place };
                    Some(self.array(array)?)
                }
                _ => None,
            },
            Function::NumpyFromBuffer => match *values {
                [data, PickleValue::NumpyDtype(dtype), PickleValue::Tuple(shape), PickleValue::Text(order)]
                    if matches!(self.heap.text(order), "C" | "F") =>
                {
                    let is_column_major = self.heap.text(order) == "F";
                    let (dtype, elements) = (Some(dtype), self.bytes_of(data).map(PickleValue::Bytes));
                    match elements {
                        Some(elements) => {
                            let array = NumpyArray { dtype, shape, is_column_major, elements, place: self.place };
                            Some(self.array(array)?)
                        }
                        None => None,
                    }
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns an object of a class, which is a global or an object.
    pub(super) fn object_of(&mut self, class: PickleValue, parts: &[PickleValue]) -> Result<PickleValue> {
        match class {
            PickleValue::Global(class) => self.object(class, parts),
            PickleValue::Object(i) => {
                let parts: Vec<PickleValue> = std::iter::once(class).chain(parts.iter().copied()).collect();
                self.object(self.heap.objects[i as usize].class, &parts)
            }
            other => Err(malformed(format!("the pickle calls {}, which cannot be called", other.kind()))),
        }
    }

    /// Returns an object made of unnamed values.
    fn object(&mut self, class: u32, parts: &[PickleValue]) -> Result<PickleValue> {
        let parts: Vec<_> = parts.iter().flat_map(|part| [PickleValue::Unnamed, *part]).collect();
        let parts = self.container(&parts)?;
        let i = index(self.heap.objects.len())?;
        self.heap.objects.push(PickledObject { class, parts });
        Ok(PickleValue::Object(i))
    }

    /// Sets the state of a value, as `__setstate__` or attributes.
    pub(super) fn set_state(&mut self, target: PickleValue, state: PickleValue) -> Result<()> {
        match target {
            PickleValue::Object(i) => {
                let parts = self.heap.objects[i as usize].parts;
                self.heap.containers.extend(parts, &[PickleValue::Unnamed, state]);
                Ok(())
            }
            PickleValue::Tensor(_) | PickleValue::Other(_) => self.with_extra(target, None, Some(state)).map(drop),
            PickleValue::Dict(dict) => {
                // The versions of modules, present in every `state_dict()`.
                let versions = match state {
                    PickleValue::Dict(i) => match *self.heap.values(i) {
                        [PickleValue::Text(key), _] if self.heap.text(key) == "_metadata" => Some(i),
                        _ => None,
                    },
                    _ => None,
                };
                self.heap.dict_versions.extend(versions.map(|state| (dict, state)));
                if versions.is_none() {
                    let parts = self.container(&[PickleValue::Unnamed, state])?;
                    self.heap.dict_attributes.push((dict, parts));
                }
                Ok(())
            }
            PickleValue::NumpyDtype(i) => {
                self.set_dtype_state(i as usize, state);
                Ok(())
            }
            PickleValue::NumpyArray(i) => self.set_array_state(i as usize, state),
            other => Err(malformed(format!("the pickle sets attributes of {}", other.kind()))),
        }
    }

    /// Sets the byte order, and what else is known of a dtype: `(version, order, subarray, names, fields, …)`.
    fn set_dtype_state(&mut self, i: usize, state: PickleValue) {
        let values = state.tuple().map(|i| self.heap.values(i));
        let (order, is_structured) = match values {
            Some(&[_, PickleValue::Text(order), subarray, names, fields, ..]) => {
                let are_none = [subarray, names, fields].iter().all(|value| matches!(value, PickleValue::None));
                (self.heap.text(order), !are_none)
            }
            _ => ("", true),
        };
        let is_big_endian = order == ">";
        let dtype = &mut self.heap.dtypes[i];
        (dtype.is_big_endian, dtype.is_structured) = (is_big_endian, is_structured);
    }

    /// Sets dtype, shape and elements: `(version, shape, dtype, is_column_major, data)`.
    fn set_array_state(&mut self, i: usize, state: PickleValue) -> Result<()> {
        let values = state.tuple().map_or(&[][..], |i| self.heap.values(i));
        let (shape, dtype, is_column_major, data) = match *values {
            [_, PickleValue::Tuple(shape), PickleValue::NumpyDtype(dtype), PickleValue::Bool(order), data]
            | [PickleValue::Tuple(shape), PickleValue::NumpyDtype(dtype), PickleValue::Bool(order), data] => {
                (shape, dtype, order, data)
            }
            _ => return Err(malformed("the state of an array is not that of one of numpy")),
        };
        let elements = match data {
            PickleValue::List(_) => data,
            _ => match self.bytes_of(data) {
                Some(bytes) => PickleValue::Bytes(bytes),
                None => return Err(malformed(format!("the elements of an array are {}", data.kind()))),
            },
        };
        let array = &mut self.heap.arrays[i];
        (array.shape, array.dtype, array.is_column_major, array.elements) =
            (shape, Some(dtype), is_column_major, elements);
        Ok(())
    }

    fn array(&mut self, array: NumpyArray) -> Result<PickleValue> {
        let i = index(self.heap.arrays.len())?;
        self.heap.arrays.push(array);
        Ok(PickleValue::NumpyArray(i))
    }

    /// Returns bytes, which were strings in Python 2.
    fn bytes_of(&self, value: PickleValue) -> Option<ByteString> {
        match value {
            PickleValue::Bytes(bytes) => Some(bytes),
            PickleValue::Text(span) => Some(ByteString { span, is_latin_1: false, is_bytearray: false }),
            _ => None,
        }
    }

    fn is_latin_1(&self, encoding: PickleValue) -> bool {
        matches!(encoding, PickleValue::Text(span) if matches!(self.heap.text(span), "latin1" | "latin-1"))
    }

    fn encode(&mut self, span: HeapSpan, is_bytearray: bool) -> Result<PickleValue> {
        let is_latin_1 = self.heap.text(span).chars().all(|c| u32::from(c) <= 0xff);
        // A text can be encoded any number of times.
        self.copy(span.len as usize)?;
        if is_latin_1 {
            Ok(PickleValue::Bytes(ByteString { span, is_latin_1, is_bytearray }))
        } else {
            Err(malformed("the pickle makes bytes of a string that is not Latin-1"))
        }
    }

    /// Returns a copy of a sequence as another type. `None` if it is made of any other iterable.
    fn sequence(&mut self, function: Function, from: Option<PickleValue>) -> Result<Option<PickleValue>> {
        let values = match from {
            None => Vec::new(),
            // A tuple made of a tuple is the same one.
            Some(PickleValue::Tuple(i)) if matches!(function, Function::Tuple | Function::Size) => {
                let make = if function == Function::Tuple { PickleValue::Tuple } else { PickleValue::Size };
                return Ok(Some(make(i)));
            }
            Some(PickleValue::Object(_) | PickleValue::Text(_) | PickleValue::Bytes(_)) => return Ok(None),
            Some(value) => {
                let Some(i) = value.container() else {
                    return Err(malformed(format!("the pickle makes a container of {}", value.kind())));
                };
                let is_dict = matches!(value, PickleValue::Dict(_));
                self.copy(self.heap.values(i).len().saturating_mul(size_of::<PickleValue>()))?;
                let values = self.heap.values(i);
                if is_dict { values.iter().step_by(2).copied().collect() } else { values.to_vec() }
            }
        };
        let i = self.container(&values)?;
        Ok(Some(match function {
            Function::Tuple => PickleValue::Tuple(i),
            Function::Size => PickleValue::Size(i),
            Function::List => PickleValue::List(i),
            Function::FrozenSet => PickleValue::FrozenSet(i),
            _ => PickleValue::Set(i),
        }))
    }

    fn dict(&mut self, from: Option<PickleValue>) -> Result<PickleValue> {
        let pairs = match from {
            None => Vec::new(),
            Some(PickleValue::Dict(i)) => {
                self.copy(self.heap.values(i).len().saturating_mul(size_of::<PickleValue>()))?;
                self.heap.values(i).to_vec()
            }
            Some(PickleValue::List(i) | PickleValue::Tuple(i)) => {
                let len = self.heap.values(i).len();
                self.copy(len.saturating_mul(2 * size_of::<PickleValue>()))?;
                let mut pairs = Vec::with_capacity(2 * len);
                for item in self.heap.values(i) {
                    match item.container().map(|i| self.heap.values(i)) {
                        Some(&[key, value]) => pairs.extend([key, value]),
                        _ => return Err(malformed("the pickle makes a dict of items that are not pairs")),
                    }
                }
                pairs
            }
            other => return Err(malformed(format!("the pickle makes a dict of {}", kind_of(other)))),
        };
        self.container(&pairs).map(PickleValue::Dict)
    }

    /// Returns a storage, or the class of a module, which older versions save with its source.
    pub(super) fn persistent(&mut self, id: PickleValue) -> Result<PickleValue> {
        let values = id.container().map(|i| self.heap.values(i));
        match values {
            Some(&[PickleValue::Text(what), class @ PickleValue::Global(_), ..])
                if self.heap.text(what) == "module" =>
            {
                Ok(class)
            }
            _ => self.storage(id),
        }
    }

    /// Returns a storage: `("storage", type, key, location, length)`, and in the old form a part of it, or `None`.
    fn storage(&mut self, id: PickleValue) -> Result<PickleValue> {
        let values = id.container().map(|i| self.heap.values(i));
        let storage = match values {
            Some(
                &[
                    PickleValue::Text(what),
                    class,
                    PickleValue::Text(key),
                    location,
                    PickleValue::Int(len),
                    ref rest @ ..,
                ],
            ) if self.heap.text(what) == "storage" => {
                let (tag, class) = match class {
                    PickleValue::StorageType(tag) => (tag, None),
                    PickleValue::Global(class) => (&UNKNOWN, Some(class)),
                    other => return Err(malformed(format!("the type of a storage is {}", other.kind()))),
                };
                // Its name, its first element and its length.
                let view = match rest {
                    [] | [PickleValue::None] => None,
                    [view] => match view.tuple().map(|i| self.heap.values(i)) {
                        Some(&[PickleValue::Text(_), PickleValue::Int(start), PickleValue::Int(len)]) => {
                            Some((size("offset of a part of a storage", start)?, size("length of a storage", len)?))
                        }
                        _ => return Err(malformed("the pickle has a part of a storage without its offset and length")),
                    },
                    _ => return Err(malformed("the pickle refers to something that is not a storage")),
                };
                let len = size("length of a storage", len)?;
                let is_meta = matches!(location, PickleValue::Text(text) if self.heap.text(text) == "meta");
                PickledStorage { key, tag, class, len, view, is_meta, place: self.place }
            }
            _ => return Err(malformed("the pickle refers to something that is not a storage")),
        };
        let i = index(self.heap.storages.len())?;
        self.heap.storages.push(storage);
        Ok(PickleValue::Storage(i))
    }

    /// Returns a tensor: `(storage, offset, size, strides, …)`, of a dtype if the storage has none, and with bits
    /// perhaps.
    fn tensor(&mut self, args: u32, dtype: Option<u8>, bits: Option<u8>) -> Result<PickleValue> {
        let values = self.heap.values(args);
        let parts = match *values {
            [PickleValue::Storage(storage), PickleValue::Int(start), shape, strides, ..] => {
                shape.tuple().zip(strides.tuple()).map(|(shape, strides)| (storage, start, shape, strides))
            }
            _ => None,
        };
        let Some((storage, start, shape, strides)) = parts else {
            let kinds: Vec<&str> = values.iter().take(4).map(|value| value.kind()).collect();
            let found = kinds.join(", ");
            let expected = "a storage, an integer, a tuple, a tuple";
            return Err(malformed(format!("the pickle makes a tensor of {found}, but expected {expected}")));
        };
        let start = size("offset in the storage", start)?;
        let argument = |i: Option<u8>| i.and_then(|i| values.get(usize::from(i))).copied();
        let tag = match argument(dtype) {
            Some(PickleValue::Dtype(tag)) => Ok(tag),
            Some(PickleValue::Global(dtype)) => Err(dtype),
            Some(other) => return Err(malformed(format!("the dtype of a tensor is {}", other.kind()))),
            None => {
                let PickledStorage { tag, class, .. } = self.heap.storages[storage as usize];
                class.map_or(Ok(tag), Err)
            }
        };
        let tag = match tag {
            Ok(tag) => tag,
            Err(dtype) => {
                // Where a part of the storage is, is not known.
                let storage = Some(storage).filter(|_| start == 0 && self.is_row_major(shape, strides));
                let other = UnreadTensor { dtype: Some(dtype), shape: Some(shape), storage, ..self.unknown() };
                return self.add_unread(UnreadTensor { kind: TensorKind::OtherDtype, ..other });
            }
        };
        let bits = self.bits(argument(bits));
        let i = index(self.heap.tensors.len())?;
        let (extra, place) = (Extra::default(), self.place);
        let known = bits.unwrap_or_default();
        self.heap.tensors.push(PickledTensor { storage, tag, start, shape, strides, bits: known, extra, place });
        match bits {
            Some(_) => Ok(PickleValue::Tensor(i)),
            None => self.unread(TensorKind::Changed, Some(i)),
        }
    }

    /// Returns the bits of a tensor. `None` if any are unknown.
    fn bits(&self, metadata: Option<PickleValue>) -> Option<TensorBits> {
        let mut bits = TensorBits::default();
        match metadata {
            None | Some(PickleValue::None) => {}
            Some(PickleValue::Dict(i)) => {
                for pair in self.heap.values(i).chunks_exact(2) {
                    let (PickleValue::Text(key), PickleValue::Bool(is_set)) = (pair[0], pair[1]) else { return None };
                    match self.heap.text(key) {
                        "conj" => bits.conj = is_set,
                        "neg" => bits.neg = is_set,
                        _ => return None,
                    }
                }
            }
            Some(_) => return None,
        }
        Some(bits)
    }

    /// Returns whether the elements of a tensor are next to each other, the last dim innermost.
    fn is_row_major(&self, shape: u32, strides: u32) -> bool {
        let (shape, strides) = (self.heap.values(shape), self.heap.values(strides));
        let mut next = 1_i64;
        shape.len() == strides.len()
            && shape.iter().zip(strides).rev().all(|(dim, stride)| match (*dim, *stride) {
                (PickleValue::Int(1), _) => true,
                (PickleValue::Int(dim), PickleValue::Int(stride)) => {
                    let after = next.saturating_mul(dim);
                    stride == std::mem::replace(&mut next, after)
                }
                _ => false,
            })
    }

    /// Returns a tensor without any known property.
    fn unknown(&self) -> UnreadTensor {
        UnreadTensor {
            kind: TensorKind::Changed,
            tag: None,
            shape: None,
            dtype: None,
            storage: None,
            elements: None,
            parts: None,
            quantizer: None,
            extra: Extra::default(),
            place: self.place,
        }
    }

    /// Returns a tensor with unreadable elements, which has the bytes of another one.
    fn unread(&mut self, kind: TensorKind, elements: Option<u32>) -> Result<PickleValue> {
        let mut other = UnreadTensor { kind, ..self.unknown() };
        if let Some(i) = elements {
            other.set_elements(self.heap.tensors[i as usize], i);
        }
        self.add_unread(other)
    }

    fn add_unread(&mut self, other: UnreadTensor) -> Result<PickleValue> {
        let i = index(self.heap.others.len())?;
        self.heap.others.push(other);
        Ok(PickleValue::Other(i))
    }

    /// Adds a class and attributes to a tensor.
    fn with_extra(
        &mut self,
        tensor: PickleValue,
        class: Option<u32>,
        state: Option<PickleValue>,
    ) -> Result<PickleValue> {
        let old = match tensor {
            PickleValue::Tensor(i) => self.heap.tensors[i as usize].extra,
            PickleValue::Other(i) => self.heap.others[i as usize].extra,
            PickleValue::Object(_) => {
                state.map_or(Ok(()), |state| self.set_state(tensor, state))?;
                return Ok(tensor);
            }
            _ => return Ok(tensor),
        };
        let attributes = match (old.attributes, state) {
            (Some(i), Some(state)) => {
                self.heap.containers.extend(i, &[PickleValue::Unnamed, state]);
                Some(i)
            }
            (None, Some(state)) => Some(self.container(&[PickleValue::Unnamed, state])?),
            (old, None) => old,
        };
        let extra = Extra { class: class.or(old.class), attributes };
        match tensor {
            PickleValue::Tensor(i) => self.heap.tensors[i as usize].extra = extra,
            PickleValue::Other(i) => self.heap.others[i as usize].extra = extra,
            _ => {}
        }
        Ok(tensor)
    }

    /// Returns a tensor of a type: `(function, type, arguments, state)`.
    fn typed_tensor(&mut self, args: u32) -> Result<Option<PickleValue>> {
        let &[function, class, args, ref state @ ..] = self.heap.values(args) else { return Ok(None) };
        let state = state.first().copied();
        let Some(args) = args.tuple() else { return Err(malformed("the arguments of a call are not a tuple")) };
        let unknown = match class {
            PickleValue::Global(i) if self.heap.function(class).is_none() => Some(i),
            PickleValue::Object(i) => Some(self.heap.objects[i as usize].class),
            _ => None,
        };
        match self.heap.function(function) {
            Some(
                Function::Tensor { .. }
                | Function::Parameter
                | Function::ParameterWithState
                | Function::Converted
                | Function::Other(_),
            ) => {
                let made = self.call(function, args)?;
                let state = match self.heap.function(function) {
                    Some(Function::Other(TensorKind::Jagged)) => self.without_parts(state)?,
                    _ => state,
                };
                self.with_extra(made, unknown, state).map(Some)
            }
            // An unknown function makes the object. If it is given a class, the message names the class.
            _ => {
                let parts = std::iter::once(PickleValue::Tuple(args)).chain(state).collect::<Vec<_>>();
                match (unknown, function) {
                    (Some(class), _) => self.object(class, &parts).map(Some),
                    (None, PickleValue::Global(_) | PickleValue::Object(_)) => {
                        self.object_of(function, &parts).map(Some)
                    }
                    _ => Err(malformed("the pickle makes a tensor without a function for it")),
                }
            }
        }
    }

    /// Returns the attributes of a jagged tensor, except its parts.
    fn without_parts(&mut self, state: Option<PickleValue>) -> Result<Option<PickleValue>> {
        const PARTS: &[&str] =
            &["_values", "_offsets", "_lengths", "_ragged_idx", "_metadata_cache", "_size", "_strides"];
        let Some(PickleValue::Dict(i)) = state else { return Ok(state) };
        let pairs = self.heap.values(i).chunks_exact(2);
        let is_other =
            |pair: &&[PickleValue]| !matches!(pair[0], PickleValue::Text(key) if PARTS.contains(&self.heap.text(key)));
        let others: Vec<PickleValue> = pairs.filter(is_other).flatten().copied().collect();
        self.copy(others.len().saturating_mul(size_of::<PickleValue>()))?;
        self.container(&others).map(PickleValue::Dict).map(Some)
    }

    /// Returns a tensor or an array to be converted to a dtype on loading: `(data, dtype, device, …)`.
    fn converted(&mut self, args: u32) -> Result<Option<PickleValue>> {
        let (data, tag) = match *self.heap.values(args) {
            [data, PickleValue::Dtype(tag), ..] => (data, tag),
            _ => return Ok(None),
        };
        Ok(match data {
            PickleValue::Tensor(i) if self.tag_of(i) == tag => Some(data),
            PickleValue::Tensor(i) => Some(self.unread(TensorKind::Converted, Some(i))?),
            PickleValue::Other(_) => Some(data),
            PickleValue::NumpyArray(i) => {
                let dtype = self.heap.arrays[i as usize].dtype;
                let name = dtype.map(|i| self.heap.text(self.heap.dtypes[i as usize].name));
                let is_same = name.and_then(super::header::numpy_dtype).is_some_and(|known| Some(known) == tag.dtype);
                // Otherwise it is an object, and the array is read from it.
                is_same.then_some(data)
            }
            _ => None,
        })
    }

    /// Returns a tensor with unreadable elements. Properties missing from its arguments are unknown.
    fn other(&mut self, kind: TensorKind, args: u32) -> Result<PickleValue> {
        let PickleValue::Other(i) = self.unread(kind, None)? else { unreachable!("it is one") };
        let mut other = self.heap.others[i as usize];
        let mut parts: Vec<PickleValue> = Vec::new();
        match (kind, self.heap.values(args)) {
            (TensorKind::Quantized, values) => {
                let quantizer = values.get(4).and_then(|value| value.tuple());
                if let PickleValue::Tensor(i) = self.tensor(args, None, None)? {
                    other.set_elements(self.heap.tensors[i as usize], i);
                }
                other.quantizer = quantizer;
                if let Some(&[_, scales, zero_points, _]) = quantizer.map(|i| self.heap.values(i)) {
                    parts = self.named(&["scales", "zero_points"], &[scales, zero_points])?;
                }
            }
            (TensorKind::Sparse(_), &[of, data, ..]) => {
                if let Some(layout) = self.layout(of) {
                    other.kind = TensorKind::Sparse(layout);
                }
                let data = data.tuple().map_or(&[][..], |i| self.heap.values(i));
                // The size comes after the values.
                let found = data.windows(2).enumerate().find_map(|(i, pair)| match *pair {
                    [PickleValue::Tensor(values), size] => size.tuple().map(|size| (i, values, size)),
                    _ => None,
                });
                if let Some((last, values, size)) = found {
                    (other.tag, other.shape) = (Some(self.tag_of(values)), Some(size));
                    let data = data[..=last].to_vec();
                    let names: &[&str] = match (other.kind, last) {
                        (_, 1) => &["indices", "values"],
                        (TensorKind::Sparse(&"sparse_csc" | &"sparse_bsc"), 2) => {
                            &["ccol_indices", "row_indices", "values"]
                        }
                        (_, 2) => &["crow_indices", "col_indices", "values"],
                        _ => &[],
                    };
                    parts = self.named(names, &data)?;
                }
            }
            (TensorKind::Nested, &[PickleValue::Tensor(i), ref rest @ ..]) => {
                let rest = rest.to_vec();
                other.set_elements(self.heap.tensors[i as usize], i);
                parts = self.named(&["sizes", "strides", "storage_offsets"], &rest)?;
            }
            (TensorKind::Jagged, &[PickleValue::Dict(i), ..]) => {
                let is_values =
                    |key: &PickleValue| matches!(key, PickleValue::Text(span) if self.heap.text(*span) == "values");
                let pairs = self.heap.values(i);
                let mut elements = None;
                for pair in pairs.chunks_exact(2) {
                    match pair[1] {
                        PickleValue::Tensor(i) if is_values(&pair[0]) => elements = Some(i),
                        _ => parts.extend(pair),
                    }
                }
                self.copy(parts.len().saturating_mul(size_of::<PickleValue>()))?;
                if let Some(i) = elements {
                    other.set_elements(self.heap.tensors[i as usize], i);
                }
            }
            (TensorKind::Meta, &[PickleValue::Dtype(tag), size, ..])
            | (TensorKind::Wrapper, &[_, PickleValue::Dtype(tag), size, ..]) => {
                (other.tag, other.shape) = (Some(tag), size.tuple());
            }
            (TensorKind::Meta, &[PickleValue::Global(dtype), size, ..])
            | (TensorKind::Wrapper, &[_, PickleValue::Global(dtype), size, ..]) => {
                (other.dtype, other.shape) = (Some(dtype), size.tuple());
            }
            _ => {}
        }
        if !parts.is_empty() {
            other.parts = Some(self.container(&parts)?);
        }
        self.heap.others[i as usize] = other;
        Ok(PickleValue::Other(i))
    }

    /// Returns values with names before them.
    fn named(&mut self, names: &[&str], values: &[PickleValue]) -> Result<Vec<PickleValue>> {
        let mut pairs = Vec::with_capacity(2 * names.len());
        for (name, value) in names.iter().zip(values) {
            pairs.extend([PickleValue::Text(self.store(name.as_bytes())?), *value]);
        }
        Ok(pairs)
    }

    fn tag_of(&self, tensor: u32) -> &'static Tag {
        self.heap.tensors[tensor as usize].tag
    }

    /// Returns a layout, stored as text in newer files.
    fn layout(&self, value: PickleValue) -> Option<&'static &'static str> {
        match value {
            PickleValue::Layout(layout) => Some(layout),
            PickleValue::Text(span) => layout(self.heap.text(span).strip_prefix("torch.")?),
            _ => None,
        }
    }
}

impl UnreadTensor {
    /// Sets the tensor with the elements.
    fn set_elements(&mut self, tensor: PickledTensor, i: u32) {
        (self.tag, self.shape, self.elements) = (Some(tensor.tag), Some(tensor.shape), Some(i));
    }
}

/// Returns a length or an offset.
fn size(what: &'static str, found: i64) -> Result<u64> {
    u64::try_from(found)
        .map_err(|_| ErrorKind::BadNumber { what, found: found.into(), expected: "0 or more".to_owned() }.into())
}

fn kind_of(value: Option<PickleValue>) -> &'static str {
    value.map_or("nothing", PickleValue::kind)
}
