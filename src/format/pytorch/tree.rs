//! Makes a tree of the value of a checkpoint: its containers, in which tensors are positions in the index.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::header::Function;
use super::value::{Heap, HeapSpan, NumpyDtype, PickleValue, TensorBits};
use crate::model::ValueNode;
use crate::read::Index;

/// The name for the value of a checkpoint, and whether its tree is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Root<'a> {
    Unnamed,
    Named(&'a str),
    Tree,
}

impl<'a> From<Option<&'a str>> for Root<'a> {
    fn from(name: Option<&'a str>) -> Self {
        name.map_or(Self::Unnamed, Self::Named)
    }
}

/// A value with tensors of its own in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    Tensor(u32),
    Storage(u32),
    Other(u32),
    Array(u32),
    Object(u32),
}

impl Holder {
    pub(super) fn of(value: PickleValue) -> Option<Self> {
        Some(match value {
            PickleValue::Tensor(index) => Self::Tensor(index),
            PickleValue::Storage(index) => Self::Storage(index),
            PickleValue::Other(index) => Self::Other(index),
            PickleValue::NumpyArray(index) => Self::Array(index),
            PickleValue::Object(index) => Self::Object(index),
            _ => return None,
        })
    }
}

/// A value that may be in several others, and takes more than a few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SharedValue {
    Container(u32),
    Holder(Holder),
    Global(u32),
    NumpyDtype(u32),
    NumpyScalar(u32),
}

impl SharedValue {
    fn of(value: PickleValue) -> Option<Self> {
        match value {
            PickleValue::Global(index) => Some(Self::Global(index)),
            PickleValue::NumpyDtype(index) => Some(Self::NumpyDtype(index)),
            PickleValue::NumpyScalar(index) => Some(Self::NumpyScalar(index)),
            value => Holder::of(value).map(Self::Holder),
        }
    }
}

/// Where the tensors of a value are in the index, and the length of the name of the value in theirs.
#[derive(Debug, Clone)]
pub(super) struct HolderPlace {
    pub(super) tensors: Range<usize>,
    pub(super) prefix: usize,
}

/// The places of values, the first one of those with several names.
pub(super) type Places = HashMap<Holder, HolderPlace>;

/// Returns the values of a checkpoint, each after those in it.
pub(super) fn tree(
    value: PickleValue,
    heap: &Heap,
    attributes: &HashMap<u32, u32>,
    places: &Places,
    tensors: &Index,
) -> Vec<ValueNode> {
    let mut builder = TreeBuilder {
        heap,
        attributes,
        versions: heap.dict_versions.iter().copied().collect(),
        places,
        tensors,
        nodes: Vec::new(),
        made: HashMap::new(),
        spans: HashMap::new(),
        decoded: HashMap::new(),
        above: HashSet::new(),
    };
    builder.node(value);
    builder.nodes
}

struct TreeBuilder<'a> {
    heap: &'a Heap,
    /// The attributes of dicts.
    attributes: &'a HashMap<u32, u32>,
    /// The attributes of dicts of modules.
    versions: HashMap<u32, u32>,
    places: &'a Places,
    tensors: &'a Index,
    nodes: Vec<ValueNode>,
    /// The nodes of values that may be in several others: a few bytes of a pickle name one again.
    made: HashMap<SharedValue, usize>,
    /// The bytes of texts, for the same reason.
    spans: HashMap<(u32, u32), Arc<[u8]>>,
    decoded: HashMap<u32, Arc<[u8]>>,
    /// The enclosing containers.
    above: HashSet<u32>,
}

impl TreeBuilder<'_> {
    /// The most containers in one another, as in names.
    const DEPTH: usize = 100;

    fn push(&mut self, node: ValueNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Adds a value, after those in it, and returns its position.
    fn node(&mut self, value: PickleValue) -> usize {
        let container = match value {
            PickleValue::NumpyArray(index) => match self.heap.arrays[index as usize].elements {
                PickleValue::List(elements) => Some(elements),
                _ => None,
            },
            value => value.container(),
        };
        let shared = container.map(SharedValue::Container).or_else(|| SharedValue::of(value));
        if let Some(made) = shared.and_then(|shared| self.made.get(&shared)) {
            return *made;
        }
        let Some(index) = container else {
            let node = self.plain(value);
            let made = self.push(node);
            self.made.extend(shared.map(|shared| (shared, made)));
            return made;
        };
        if self.above.len() == Self::DEPTH || !self.above.insert(index) {
            return self.push(left_out("a container in itself, or in 100 others"));
        }
        let values: Vec<usize> = self.heap.values(index).iter().map(|value| self.node(*value)).collect();
        let node = match value {
            PickleValue::Tuple(_) => ValueNode::Tuple(values),
            PickleValue::Size(_) => ValueNode::Size(values),
            PickleValue::Set(_) => ValueNode::Set(values),
            PickleValue::FrozenSet(_) => ValueNode::FrozenSet(values),
            PickleValue::Dict(_) => {
                let attributes = match (self.versions.get(&index), self.attributes.get(&index)) {
                    (Some(versions), _) => Some(self.node(PickleValue::Dict(*versions))),
                    (None, parts) => parts.map(|parts| self.attributes_of(*parts)),
                };
                ValueNode::Dict(values.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(), attributes)
            }
            _ => ValueNode::List(values),
        };
        self.above.remove(&index);
        let made = self.push(node);
        self.made.insert(SharedValue::Container(index), made);
        made
    }

    /// Adds the attributes of a subclass of dicts: the parts of its state with names.
    fn attributes_of(&mut self, parts: u32) -> usize {
        let mut found = Vec::new();
        for pair in self.heap.values(parts).chunks_exact(2) {
            match (pair[0], pair[1]) {
                (PickleValue::Unnamed, PickleValue::Dict(state)) => {
                    for pair in self.heap.values(state).chunks_exact(2) {
                        found.push((self.node(pair[0]), self.node(pair[1])));
                    }
                }
                (PickleValue::Unnamed, _) => {}
                (key, value) => found.push((self.node(key), self.node(value))),
            }
        }
        self.push(ValueNode::Dict(found, None))
    }

    fn bytes(&mut self, span: HeapSpan) -> Arc<[u8]> {
        let heap = self.heap;
        Arc::clone(self.spans.entry((span.start, span.len)).or_insert_with(|| heap.bytes(span).into()))
    }

    /// Makes a value that is no container.
    fn plain(&mut self, value: PickleValue) -> ValueNode {
        let heap = self.heap;
        match value {
            PickleValue::None | PickleValue::Unnamed => ValueNode::None,
            PickleValue::Bool(value) => ValueNode::Bool(value),
            PickleValue::Int(value) => ValueNode::Int(value),
            PickleValue::Float(value) => ValueNode::Float(value),
            PickleValue::Long(span) => ValueNode::LongInt(self.bytes(span)),
            PickleValue::Digits(span) => ValueNode::Digits(self.bytes(span)),
            PickleValue::Complex(index) => match *heap.values(index) {
                [PickleValue::Float(re), PickleValue::Float(im)] => ValueNode::Complex(re, im),
                _ => left_out("a complex number"),
            },
            PickleValue::Text(span) | PickleValue::Surrogates(span) => ValueNode::Text(self.bytes(span)),
            PickleValue::Bytes(bytes) if bytes.is_latin_1 => {
                let decoded = self.decoded.entry(bytes.span.start).or_insert_with(|| heap.decoded(bytes).into());
                ValueNode::Bytes(Arc::clone(decoded), bytes.is_bytearray)
            }
            PickleValue::Bytes(bytes) => ValueNode::Bytes(self.bytes(bytes.span), bytes.is_bytearray),
            PickleValue::Dtype(tag) => ValueNode::Torch(tag.name.into()),
            PickleValue::Layout(layout) => ValueNode::Torch((*layout).into()),
            PickleValue::Global(index) if heap.function(value) == Some(Function::Constant) => {
                let name = heap.global_name(index);
                ValueNode::Torch(name.rsplit('.').next().unwrap_or(name).into())
            }
            PickleValue::Global(index) => left_out(heap.global_name(index)),
            PickleValue::Device(index) => {
                let values = heap.values(index).iter().map(|value| self.node(*value));
                ValueNode::Device(values.collect())
            }
            PickleValue::NumpyDtype(index) => match self.numpy_dtype(&heap.dtypes[index as usize]) {
                Some(dtype) => ValueNode::NumpyDtype(dtype),
                None => left_out("numpy.dtype"),
            },
            PickleValue::NumpyScalar(index) => {
                let scalar = heap.scalars[index as usize];
                match self.numpy_dtype(&heap.dtypes[scalar.dtype as usize]) {
                    Some(dtype) => ValueNode::NumpyScalar(dtype, heap.decoded(scalar.bytes).into()),
                    None => left_out("numpy.generic"),
                }
            }
            _ => self.with_tensors(value),
        }
    }

    fn numpy_dtype(&self, dtype: &NumpyDtype) -> Option<Arc<str>> {
        let order = if dtype.is_big_endian { '>' } else { '<' };
        (!dtype.is_structured).then(|| format!("{order}{}", self.heap.text(dtype.name)).into())
    }

    /// Makes a value that has tensors in the index.
    fn with_tensors(&self, value: PickleValue) -> ValueNode {
        let heap = self.heap;
        let place = Holder::of(value).and_then(|holder| self.places.get(&holder));
        if let PickleValue::Object(index) = value {
            let class = heap.global_name(heap.objects[index as usize].class);
            let place = place.cloned().unwrap_or(HolderPlace { tensors: 0..0, prefix: 0 });
            let named = |position| (self.tensors.name(position).get(place.prefix..).unwrap_or("").to_owned(), position);
            return ValueNode::Object(class.into(), place.tensors.map(named).collect());
        }
        let Some(position) = place.map(|place| place.tensors.clone()).and_then(|mut tensors| tensors.next()) else {
            return left_out(value.kind());
        };
        let strides = match value {
            PickleValue::Tensor(index) if heap.tensors[index as usize].bits == TensorBits::default() => {
                let steps = heap.values(heap.tensors[index as usize].strides).iter();
                let step = |step: &PickleValue| {
                    if let PickleValue::Int(step) = step { u64::try_from(*step).ok() } else { None }
                };
                steps.map(step).collect()
            }
            _ => None,
        };
        ValueNode::Tensor { position, strides, is_array: matches!(value, PickleValue::NumpyArray(_)) }
    }
}

fn left_out(what: &str) -> ValueNode {
    ValueNode::LeftOut(what.into())
}
