//! Finds the tensors of a checkpoint in the containers of its pickle, and makes metadata of what else is there.

use std::fmt::Write as _;
use std::num::NonZeroU8;
use std::ops::Range;

use hashbrown::HashMap;
use indexmap::IndexMap;

use super::header::{Tag, TensorKind};
use super::strides::{Placed, place};
use super::value::{Heap, PickleValue, PickledStorage, PickledTensor, UnreadTensor};
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::limits::Limits;
use crate::record::{Codec, Index, Strided};
use crate::tensor::{InvalidTensor, Shape, TensorInfo, UnknownDtype};

/// The bytes of storages.
pub(super) struct Storages {
    /// The ranges in the file, by name.
    pub(super) ranges: HashMap<String, Range<u64>>,
    pub(super) is_big_endian: bool,
}

/// The contents of a checkpoint.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    /// In the order of the pickle.
    pub(super) tensors: Index,
    pub(super) metadata: IndexMap<String, String>,
    pub(super) warnings: Vec<Warning>,
}

/// A tensor of a checkpoint.
struct FoundTensor {
    info: TensorInfo,
    range: Range<u64>,
    codec: Option<Codec>,
}

/// The memory in bytes, and the values, that any file may take if the limits allow it.
const LEAST: u64 = 1 << 20;

/// Returns what is in a value. `file_len` bounds the memory for it, with the limits.
pub(super) fn collect(
    value: PickleValue,
    heap: &Heap,
    storages: &Storages,
    file_len: u64,
    limits: &Limits,
) -> Result<Checkpoint> {
    // A few bytes of a pickle can name a container again.
    let memory = file_len.saturating_mul(64).saturating_add(LEAST).min(file_len.saturating_add(limits.shared));
    let steps = file_len.saturating_mul(16).saturating_add(LEAST).min(file_len.saturating_add(limits.shared / 64));
    let mut collector = CheckpointCollector {
        heap,
        storages,
        limits,
        memory,
        left: memory,
        steps_left: steps,
        path: String::new(),
        above: Vec::new(),
        contents: Checkpoint::default(),
    };
    collector.value(value)?;
    Ok(collector.contents)
}

struct CheckpointCollector<'a> {
    heap: &'a Heap,
    storages: &'a Storages,
    limits: &'a Limits,
    /// The memory for names, headers and metadata in bytes, and how much of it is left.
    memory: u64,
    left: u64,
    /// The number of values that may still be visited. Containers that are shared are visited once for each name.
    steps_left: u64,
    /// The name of the value.
    path: String,
    /// The containers that the value is in.
    above: Vec<u32>,
    contents: Checkpoint,
}

impl CheckpointCollector<'_> {
    /// The most containers in one another.
    const DEPTH: usize = 100;

    /// The longest name in bytes.
    const LONGEST: usize = u16::MAX as usize;

    /// The longest text of an entry of metadata in bytes. Longer ones are left out.
    const LONGEST_TEXT: usize = 64 << 10;

    /// The most warnings.
    const WARNINGS: usize = 16;

    fn value(&mut self, value: PickleValue) -> Result<()> {
        match value {
            PickleValue::Tensor(at) => {
                let tensor = self.heap.tensors[at as usize];
                let found = self.tensor(&tensor).map_err(|error| self.blame(error).at(tensor.place))?;
                self.push(found)
            }
            PickleValue::Storage(at) => {
                let storage = self.heap.storages[at as usize];
                let found = self.storage(&storage).map_err(|error| self.blame(error).at(storage.place))?;
                self.push(found)
            }
            PickleValue::Other(at) => {
                let other = self.heap.others[at as usize];
                let found = self.other(&other).map_err(|error| self.blame(error).at(other.place))?;
                self.push(found)
            }
            PickleValue::Dict(at) => self.enter(at, &mut |collector, at| collector.dict(at)),
            PickleValue::Tuple(at) | PickleValue::List(at) | PickleValue::Set(at) => {
                match self.is_list_of_scalars(at)? {
                    true => self.entry(value),
                    false => self.enter(at, &mut |collector, at| collector.list(at)),
                }
            }
            _ => self.entry(value),
        }
    }

    /// Visits a container, unless it contains itself.
    fn enter(&mut self, at: u32, visit: &mut dyn FnMut(&mut Self, u32) -> Result<()>) -> Result<()> {
        if self.above.contains(&at) {
            let what = format!("`{}` contains itself", Short(&self.path));
            return Err(ErrorKind::Malformed { what }.into());
        }
        if self.above.len() == Self::DEPTH {
            let (found, limit) = (Self::DEPTH as u64 + 1, Self::DEPTH as u64);
            return Err(ErrorKind::Limit { what: "number of containers in one another", found, limit }.into());
        }
        self.above.push(at);
        visit(self, at)?;
        self.above.pop();
        Ok(())
    }

    fn dict(&mut self, at: u32) -> Result<()> {
        let heap = self.heap;
        for pair in heap.values(at).chunks_exact(2) {
            let mut name = String::new();
            match pair[0] {
                PickleValue::Text(span) => self.within(heap.text(span), pair[1])?,
                key => {
                    match key {
                        PickleValue::Tuple(at) if self.is_list_of_scalars(at)? => {
                            self.write_container(key, at, &mut name)?
                        }
                        _ => self.write(key, &mut name)?,
                    }
                    self.within(&name, pair[1])?;
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, at: u32) -> Result<()> {
        let heap = self.heap;
        for (number, value) in heap.values(at).iter().enumerate() {
            self.within(itoa::Buffer::new().format(number), *value)?;
        }
        Ok(())
    }

    /// Visits a value that a container has under a name.
    fn within(&mut self, name: &str, value: PickleValue) -> Result<()> {
        self.steps(1)?;
        let before = self.path.len();
        let found = before + 1 + name.len();
        if found > Self::LONGEST {
            let (found, limit) = (found as u64, Self::LONGEST as u64);
            return Err(ErrorKind::Limit { what: "length of a name in bytes", found, limit }.into());
        }
        if self.above.len() > 1 {
            self.path.push('.');
        }
        self.path.push_str(name);
        self.value(value)?;
        self.path.truncate(before);
        Ok(())
    }

    fn steps(&mut self, count: usize) -> Result<()> {
        let left = self.steps_left.checked_sub(count as u64);
        self.steps_left = left.ok_or_else(|| {
            let what = "containers with several names have so many values that they take too long to read".to_owned();
            ErrorKind::Malformed { what }
        })?;
        Ok(())
    }

    /// Returns whether a container has values, all of which are of one line of text.
    fn is_list_of_scalars(&mut self, at: u32) -> Result<bool> {
        let values = self.heap.values(at);
        self.steps(values.len())?;
        let is_scalar = |value: &PickleValue| {
            value.container().is_none()
                && !matches!(value, PickleValue::Tensor(_) | PickleValue::Storage(_) | PickleValue::Other(_))
        };
        Ok(values.iter().all(is_scalar))
    }

    /// Adds a tensor. It has no name if it is the whole value.
    fn push(&mut self, tensor: FoundTensor) -> Result<()> {
        let (found, limit) = (self.contents.tensors.pushed() as u64 + 1, self.limits.tensors);
        if found > limit {
            return Err(ErrorKind::Limit { what: "number of tensors", found, limit }.into());
        }
        let FoundTensor { info, range, codec } = tensor;
        let rank = info.shape.rank();
        let unknown = info.unknown_dtype().map_or(0, |tag| size_of::<UnknownDtype>() + tag.len());
        // A tensor with gaps also has the numbers and steps of them.
        self.spend(size_of::<FoundTensor>() + self.path.len() + rank * 3 * size_of::<u64>() + unknown)?;
        let name = (!self.above.is_empty()).then_some(&*self.path);
        self.contents.tensors.push_coded(name, info, range, codec)
    }

    /// Counts memory of the result.
    fn spend(&mut self, bytes: usize) -> Result<()> {
        let left = self.left.checked_sub(bytes as u64);
        self.left = left.ok_or_else(|| {
            let (what, found) = ("memory for the heads in bytes", self.memory.saturating_add(1));
            ErrorKind::Limit { what, found, limit: self.memory }
        })?;
        Ok(())
    }

    fn name(&self) -> String {
        // A file of one tensor has no name for it.
        if self.above.is_empty() { "0".to_owned() } else { self.path.clone() }
    }

    fn blame(&self, error: impl Into<Error>) -> Error {
        error.into().in_tensor(self.name())
    }

    /// Adds an entry of metadata.
    fn entry(&mut self, value: PickleValue) -> Result<()> {
        let mut text = String::new();
        match value.container() {
            Some(at) => self.write_container(value, at, &mut text)?,
            None => self.write(value, &mut text)?,
        }
        if text.len() > Self::LONGEST_TEXT {
            if self.contents.warnings.len() < Self::WARNINGS {
                let name = self.name();
                let (name, most) = (Short(&name), Self::LONGEST_TEXT);
                let text = format!("`{name}` is left out, as its text has over {most} bytes");
                self.contents.warnings.push(Warning::new(WarningKind::LeftOut, text));
            }
            return Ok(());
        }
        // An entry of the map takes about so much memory besides its texts.
        const ENTRY: usize = 128;
        self.spend(ENTRY + self.path.len() + text.len())?;
        self.contents.metadata.insert(self.name(), text);
        Ok(())
    }

    /// Appends a container of scalars as Python prints it, or the beginning of one that is too long.
    fn write_container(&mut self, container: PickleValue, at: u32, text: &mut String) -> Result<()> {
        let heap = self.heap;
        let values = heap.values(at);
        let [open, close] = match container {
            PickleValue::Tuple(_) => ["(", ")"],
            PickleValue::List(_) => ["[", "]"],
            _ => ["{", "}"],
        };
        text.push_str(open);
        for (at, value) in values.iter().enumerate() {
            text.push_str(if at > 0 { ", " } else { "" });
            self.write_quoted(*value, text)?;
            if text.len() > Self::LONGEST_TEXT {
                break;
            }
        }
        text.push_str(if values.len() == 1 && open == "(" { "," } else { "" });
        text.push_str(close);
        Ok(())
    }

    /// Appends a scalar as Python prints it in a container.
    fn write_quoted(&mut self, value: PickleValue, text: &mut String) -> Result<()> {
        match value {
            PickleValue::Text(_) => {
                text.push('\'');
                self.write(value, text)?;
                text.push('\'');
                Ok(())
            }
            _ => self.write(value, text),
        }
    }

    /// Appends a scalar as Python prints it, or the beginning of one that is too long.
    fn write(&mut self, value: PickleValue, text: &mut String) -> Result<()> {
        let before = text.len();
        let written = match value {
            PickleValue::None => write!(text, "None"),
            PickleValue::Bool(value) => write!(text, "{}", if value { "True" } else { "False" }),
            PickleValue::Int(value) => write!(text, "{value}"),
            PickleValue::Float(value) => write!(text, "{value:?}"),
            PickleValue::Long(span) => write!(text, "{}", long(self.heap.bytes(span))),
            PickleValue::Text(span) => {
                let whole = self.heap.text(span);
                let end = cut(whole, Self::LONGEST_TEXT + 4);
                text.push_str(&whole[..end]);
                Ok(())
            }
            PickleValue::Bytes(span) => {
                let bytes = self.heap.bytes(span);
                write!(text, "b'{}'", bytes[..bytes.len().min(Self::LONGEST_TEXT)].escape_ascii())
            }
            PickleValue::Dtype(tag) => write!(text, "torch.{}", tag.name),
            PickleValue::StorageType(tag) => write!(text, "torch.{}", tag.storage),
            PickleValue::Layout(layout) => write!(text, "torch.{layout}"),
            PickleValue::Tuple(_) | PickleValue::List(_) | PickleValue::Set(_) | PickleValue::Dict(_) => {
                let what =
                    format!("a key of a dict is {}, but expected a string, a number or a tuple of them", value.kind());
                return Err(ErrorKind::Malformed { what }.into());
            }
            _ => write!(text, "{}", value.kind()),
        };
        written.expect("a String can be written to");
        // Values that are shared are printed once for each name.
        self.steps((text.len() - before) / 64)
    }

    /// Returns the range of a storage, which has to be as long as the pickle says.
    fn range(&self, storage: &PickledStorage) -> Result<Range<u64>> {
        let key = self.heap.text(storage.key);
        let Some(range) = self.storages.ranges.get(key) else {
            let what = format!("the file does not have the storage `{}`", Short(key));
            return Err(ErrorKind::Malformed { what }.into());
        };
        let found = range.end - range.start;
        if storage.len.checked_mul(storage.tag.bytes) != Some(found) {
            let (key, count, bytes) = (Short(key), storage.len, storage.tag.bytes);
            let what =
                format!("storage `{key}` is {found} bytes, but the pickle says {count} elements of {bytes} bytes");
            return Err(Error::new(ErrorKind::Malformed { what }).at(range.start));
        }
        Ok(range.clone())
    }

    /// Returns a storage as a tensor of rank 1.
    fn storage(&self, storage: &PickledStorage) -> Result<FoundTensor> {
        if storage.is_meta {
            let dims = dims(Some(storage.tag), None, &[storage.len])?;
            return Ok(self.without_elements(TensorKind::Meta, Some(storage.tag), dims, storage.place));
        }
        let range = self.range(storage)?;
        let shape = dims(Some(storage.tag), None, &[storage.len])?;
        self.located(shape, Placed::whole(range), storage.tag)
    }

    fn tensor(&self, tensor: &PickledTensor) -> Result<FoundTensor> {
        let storage = &self.heap.storages[tensor.storage as usize];
        let shape = self.numbers("dim", tensor.shape)?;
        let strides = self.numbers("stride", tensor.strides)?;
        if shape.len() != strides.len() {
            let what = format!("it has {} dims, but {} strides", shape.len(), strides.len());
            return Err(ErrorKind::Malformed { what }.into());
        }
        if storage.is_meta {
            let dims = dims(Some(tensor.tag), None, &shape)?;
            return Ok(self.without_elements(TensorKind::Meta, Some(tensor.tag), dims, tensor.place));
        }
        let (bytes, start) = (tensor.tag.bytes, tensor.start);
        let placed = place(self.range(storage)?, start, &shape, &strides, bytes)?;
        self.located(dims(Some(tensor.tag), None, &shape)?, placed, tensor.tag)
    }

    /// Returns a tensor whose elements cannot be read, with their bytes if they are in one place.
    fn other(&self, other: &UnreadTensor) -> Result<FoundTensor> {
        let shape = other.shape.map(|shape| self.numbers("dim", shape)).transpose()?.unwrap_or_default();
        let dims = dims(other.tag, Some(other.kind), &shape)?;
        let Some(elements) = other.elements.map(|at| self.heap.tensors[at as usize]) else {
            return Ok(self.without_elements(other.kind, other.tag, dims, other.place));
        };
        let bytes = self.tensor(&elements)?.range;
        Ok(self.located_as_bytes(dims, bytes, &tag_text(Some(elements.tag), Some(other.kind))))
    }

    fn without_elements(&self, kind: TensorKind, tag: Option<&Tag>, shape: Shape, place: u64) -> FoundTensor {
        self.located_as_bytes(shape, place..place, &tag_text(tag, Some(kind)))
    }

    fn located(&self, shape: Shape, placed: Placed, tag: &'static Tag) -> Result<FoundTensor> {
        let Some(dtype) = tag.dtype else {
            return Ok(self.located_as_bytes(shape, placed.range, &tag_text(Some(tag), None)));
        };
        let info = TensorInfo { dtype, shape, layout: placed.layout };
        if info.payload_bytes().is_none() {
            return Err(InvalidTensor::TooLarge { dtype, shape: info.shape }.into());
        }
        let size = u8::try_from(dtype.unit_bytes()).ok().and_then(NonZeroU8::new);
        let big_endian = size.filter(|size| self.storages.is_big_endian && size.get() > 1);
        let codec = match placed.strided {
            Some(strided) => Some(Codec::Strided(Box::new(Strided { big_endian, ..*strided }))),
            None => big_endian.map(Codec::BigEndian),
        };
        Ok(FoundTensor { info, range: placed.range, codec })
    }

    /// A tensor of an unknown dtype, which is as it is stored: from the first byte of an element to the last one, in the order
    /// of the file.
    fn located_as_bytes(&self, shape: Shape, range: Range<u64>, tag: &str) -> FoundTensor {
        let bytes = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        FoundTensor { info: TensorInfo::unknown(tag, shape, bytes), range, codec: None }
    }

    /// Returns the numbers in a tuple.
    fn numbers(&self, what: &'static str, tuple: u32) -> Result<Vec<u64>> {
        let values = self.heap.values(tuple);
        if values.len() as u64 > self.limits.rank {
            let (found, limit) = (values.len() as u64, self.limits.rank);
            return Err(ErrorKind::Limit { what: "rank", found, limit }.into());
        }
        let number = |value: &PickleValue| match *value {
            PickleValue::Int(number) => u64::try_from(number).map_err(|_| {
                Error::new(ErrorKind::BadNumber { what, found: number.into(), expected: "0 or more".to_owned() })
            }),
            other => {
                let found = format!("a {what} is {}, but expected an integer", other.kind());
                Err(ErrorKind::Malformed { what: found }.into())
            }
        };
        values.iter().map(number).collect()
    }
}

/// Returns the type and the kind of a tensor, as far as they are known, as PyTorch calls them.
fn tag_text(tag: Option<&Tag>, kind: Option<TensorKind>) -> String {
    match (tag, kind) {
        (Some(tag), Some(kind)) => format!("torch.{} ({})", tag.name, kind.name()),
        (Some(tag), None) => format!("torch.{}", tag.name),
        (None, Some(kind)) => kind.name().to_owned(),
        (None, None) => String::new(),
    }
}

/// Returns the dims of a tensor of that type and kind.
fn dims(tag: Option<&Tag>, kind: Option<TensorKind>, shape: &[u64]) -> Result<Shape> {
    let dims: Option<Shape> = shape.iter().map(|dim| usize::try_from(*dim).ok()).collect();
    dims.ok_or_else(|| {
        let what = format!("{}{shape:?} takes more bytes than can be addressed", tag_text(tag, kind));
        ErrorKind::Malformed { what }.into()
    })
}

/// Returns the beginning of an integer of any length in decimal, or in hexadecimal if it is longer than 128 bits.
fn long(bytes: &[u8]) -> String {
    let is_negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
    if bytes.len() <= size_of::<i128>() {
        let mut number = [if is_negative { 0xff } else { 0 }; size_of::<i128>()];
        number[..bytes.len()].copy_from_slice(bytes);
        return i128::from_le_bytes(number).to_string();
    }
    const SHOWN: usize = 64 << 10;
    let digits: String = bytes.iter().rev().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    match is_negative {
        // The bytes are those of the two's complement.
        true => format!("-(2**{} - 0x{digits})", bytes.len() * 8),
        false => format!("0x{}", digits.trim_start_matches('0')),
    }
}

/// Returns the last place of a text, up to `most`, at which it can be cut.
fn cut(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
