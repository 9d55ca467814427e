//! Finds the tensors of a checkpoint in the containers of its pickle, and makes metadata of what else is there.

use hashbrown::{HashMap, HashSet};
use indexmap::IndexMap;

use super::header::{Function, TensorKind};
use super::json;
use super::storages::{FoundTensor, Storages, TensorFinder};
use super::tree::{Holder, HolderPlace, Places, Root, tree};
use super::value::{Extra, Heap, PickleValue, PickledObject, UnreadTensor};
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::limits::Limits;
use crate::model::ValueNode;
use crate::read::Index;
use crate::tensor::UnknownDtype;

/// The contents of a checkpoint.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    /// In the order of the pickle.
    pub(super) tensors: Index,
    pub(super) metadata: IndexMap<String, String>,
    pub(super) warnings: Vec<Warning>,
    /// The whole value, if it is wanted.
    pub(super) tree: Vec<ValueNode>,
}

/// Stands for a class in warnings.
const ATTRIBUTES: &str = "attributes";

/// The dicts in a module's state whose keys are names in its `state_dict()`.
const MODULE: [&str; 3] = ["_parameters", "_buffers", "_modules"];

/// The memory in bytes, and the number of values, for any file within the limits.
const LEAST: u64 = 1 << 20;

/// Returns what is in a value, which may have a name of its own. `file_len` bounds the memory for it, with the limits.
pub(super) fn collect(
    (value, root): (PickleValue, Root<'_>),
    heap: &Heap,
    storages: &Storages,
    file_len: u64,
    limits: &Limits,
) -> Result<Checkpoint> {
    // A few bytes of a pickle can name a container again.
    let memory = file_len.saturating_mul(64).saturating_add(LEAST).min(file_len.saturating_add(limits.headers()));
    let steps = file_len.saturating_mul(16).saturating_add(LEAST).min(file_len.saturating_add(limits.headers() / 64));
    let name = if let Root::Named(name) = root { Some(name) } else { None };
    let mut collector = CheckpointCollector {
        heap,
        finder: TensorFinder { heap, storages, limits },
        memory,
        left: memory,
        steps_left: steps,
        path: name.unwrap_or_default().to_owned(),
        named: usize::from(name.is_some()),
        above: Vec::new(),
        objects: 0,
        visits: HashMap::new(),
        dict_attributes: heap.dict_attributes.iter().copied().collect(),
        places: matches!(root, Root::Tree).then(Places::new),
        left_out: IndexMap::new(),
        more_left_out: 0,
        contents: Checkpoint::default(),
    };
    collector.value(value)?;
    collector.finish();
    if let Some(places) = &collector.places {
        let contents = &mut collector.contents;
        contents.tree = tree(value, heap, &collector.dict_attributes, places, &contents.tensors);
    }
    Ok(collector.contents)
}

/// What is left of a value of an unknown class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Left {
    Nothing,
    /// The tensors in it.
    Tensors,
    /// The value is a tensor.
    Tensor,
}

struct CheckpointCollector<'a> {
    heap: &'a Heap,
    finder: TensorFinder<'a>,
    /// The memory for names, headers and metadata in bytes, and how much of it is left.
    memory: u64,
    left: u64,
    /// The remaining number of visits. Shared containers are visited once for each name.
    steps_left: u64,
    /// The name of the value.
    path: String,
    /// The number of segments in the current name.
    named: usize,
    /// The enclosing containers.
    above: Vec<u32>,
    /// The number of enclosing objects, searched for tensors only, and the number of visits of containers in them.
    objects: usize,
    visits: HashMap<u32, u8>,
    /// The last attributes of dicts.
    dict_attributes: HashMap<u32, u32>,
    /// Where the tensors of values are, if the whole value is wanted.
    places: Option<Places>,
    /// What is left out: the class and whether it has tensors, with the first name and the number of values.
    left_out: IndexMap<(String, Left), (String, u64)>,
    more_left_out: u64,
    contents: Checkpoint,
}

impl CheckpointCollector<'_> {
    /// The most containers in one another.
    const DEPTH: usize = 100;

    /// The longest name in bytes.
    const LONGEST: usize = u16::MAX as usize;

    /// The most warnings.
    const WARNINGS: usize = 16;

    fn value(&mut self, value: PickleValue) -> Result<()> {
        let holder = Holder::of(value).filter(|_| self.places.is_some() && !self.is_in_object());
        let before = self.contents.tensors.pushed();
        self.visit(value)?;
        if let Some((holder, places)) = holder.zip(self.places.as_mut()) {
            let prefix = self.path.len() + usize::from(self.named > 0);
            places.entry(holder).or_insert(HolderPlace { tensors: before..self.contents.tensors.pushed(), prefix });
        }
        Ok(())
    }

    fn visit(&mut self, value: PickleValue) -> Result<()> {
        let heap = self.heap;
        match value {
            PickleValue::Tensor(index) => {
                let tensor = &heap.tensors[index as usize];
                let found = self.finder.tensor(tensor).map_err(|error| self.blame(error).at(tensor.place))?;
                self.push(found)?;
                self.extra(tensor.extra)
            }
            PickleValue::Storage(index) => {
                let storage = &heap.storages[index as usize];
                let found = self.finder.storage(storage).map_err(|error| self.blame(error).at(storage.place))?;
                self.push(found)
            }
            PickleValue::Other(index) => self.other(&heap.others[index as usize]),
            PickleValue::NumpyArray(index) => {
                let array = &heap.arrays[index as usize];
                if let PickleValue::List(elements) = array.elements {
                    return self.enter(elements, &mut |collector, index| collector.list(index));
                }
                if let PickleValue::Bytes(bytes) = array.elements {
                    // They are counted if they are characters.
                    self.steps(bytes.span.len as usize / 64)?;
                }
                let found = self.finder.array(array).map_err(|error| self.blame(error).at(array.place))?;
                match found {
                    Some(found) => self.push(found),
                    None => self.leave_out("numpy.ndarray", Left::Nothing),
                }
            }
            PickleValue::Object(index) => self.object(heap.objects[index as usize]),
            PickleValue::Dict(index) => {
                self.enter(index, &mut |collector, index| collector.dict(index))?;
                let parts = self.dict_attributes.get(&index).copied();
                parts.map_or(Ok(()), |parts| self.attributes(parts))
            }
            PickleValue::Tuple(index)
            | PickleValue::Size(index)
            | PickleValue::List(index)
            | PickleValue::Set(index)
            | PickleValue::FrozenSet(index) => {
                if !self.is_in_object() && self.is_list_of_scalars(index)? {
                    self.entry(value)
                } else {
                    self.enter(index, &mut |collector, index| collector.list(index))
                }
            }
            _ if self.is_in_object() => Ok(()),
            PickleValue::Global(index) if heap.function(value) != Some(Function::Constant) => {
                self.leave_out(heap.global_name(index), Left::Nothing)
            }
            PickleValue::StorageType(tag) => self.leave_out(&format!("torch.{}", tag.storage), Left::Nothing),
            PickleValue::NumpyScalar(index) if !json::is_number(index, heap) => {
                self.leave_out("numpy.generic", Left::Nothing)
            }
            _ => self.entry(value),
        }
    }

    fn is_in_object(&self) -> bool {
        self.objects > 0
    }

    /// Visits a container, unless it contains itself.
    fn enter(&mut self, index: u32, visit: &mut dyn FnMut(&mut Self, u32) -> Result<()>) -> Result<()> {
        if self.above.contains(&index) {
            // Objects often contain one.
            return if self.is_in_object() {
                Ok(())
            } else {
                self.leave_out("a container that contains itself", Left::Nothing)
            };
        }
        if self.is_in_object() {
            // Objects can be reached in many ways.
            const MOST: u8 = 16;
            let visits = self.visits.entry(index).or_default();
            if *visits == MOST {
                return Ok(());
            }
            *visits += 1;
        }
        if self.above.len() == Self::DEPTH {
            let what = if self.is_in_object() { "an object" } else { "a container" };
            return self.leave_out(&format!("{what} that is in {} others", Self::DEPTH), Left::Nothing);
        }
        self.above.push(index);
        visit(self, index)?;
        self.above.pop();
        Ok(())
    }

    fn dict(&mut self, index: u32) -> Result<()> {
        let heap = self.heap;
        let pairs = heap.values(index);
        let replaced = self.replaced(pairs);
        for (number, pair) in pairs.chunks_exact(2).enumerate() {
            if replaced.contains(&number) {
                self.steps(1)?;
                continue;
            }
            match pair[0] {
                PickleValue::Text(span) => self.within(heap.text(span), pair[1])?,
                key => {
                    let name = self.text(key)?;
                    self.within(&name, pair[1])?;
                }
            }
        }
        Ok(())
    }

    /// Returns the positions of pairs in a dict replaced by a later pair with the same key.
    fn replaced(&self, pairs: &[PickleValue]) -> HashSet<usize> {
        let mut last: HashMap<&str, usize> = HashMap::with_capacity(pairs.len() / 2);
        let mut replaced = HashSet::new();
        for (number, pair) in pairs.chunks_exact(2).enumerate() {
            if let PickleValue::Text(span) = pair[0]
                && let Some(before) = last.insert(self.heap.text(span), number)
            {
                replaced.insert(before);
            }
        }
        replaced
    }

    fn list(&mut self, index: u32) -> Result<()> {
        let heap = self.heap;
        for (number, value) in heap.values(index).iter().enumerate() {
            self.within(itoa::Buffer::new().format(number), *value)?;
        }
        Ok(())
    }

    /// Visits the tensors in what an unknown function or class makes. All else of it is left out.
    fn object(&mut self, object: PickledObject) -> Result<()> {
        let before = self.contents.tensors.pushed();
        self.objects += 1;
        self.enter(object.parts, &mut |collector, index| collector.parts(index))?;
        self.objects -= 1;
        let left = if self.contents.tensors.pushed() > before { Left::Tensors } else { Left::Nothing };
        if self.is_in_object() { Ok(()) } else { self.leave_out(self.heap.global_name(object.class), left) }
    }

    /// Visits the parts of an object. Unnamed parts, such as its state, have the name of the object.
    fn parts(&mut self, index: u32) -> Result<()> {
        let heap = self.heap;
        for pair in heap.values(index).chunks_exact(2) {
            match pair[0] {
                PickleValue::Unnamed => {
                    self.steps(1)?;
                    match pair[1] {
                        PickleValue::Dict(state) if self.is_module(state) => {
                            self.enter(state, &mut |collector, index| collector.module(index))?;
                        }
                        value => self.value(value)?,
                    }
                }
                PickleValue::Text(span) => self.within(heap.text(span), pair[1])?,
                key => {
                    let name = self.text(key)?;
                    self.within(&name, pair[1])?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether a dict is the state of a `torch.nn.Module`.
    fn is_module(&self, index: u32) -> bool {
        let has = |name: &str| {
            let mut keys = self.heap.values(index).iter().step_by(2);
            keys.any(|key| matches!(key, PickleValue::Text(span) if self.heap.text(*span) == name))
        };
        MODULE.iter().all(|name| has(name))
    }

    /// Visits the state of a module. Its tensors have their names in `state_dict()`.
    fn module(&mut self, index: u32) -> Result<()> {
        let heap = self.heap;
        for pair in heap.values(index).chunks_exact(2) {
            let PickleValue::Text(span) = pair[0] else { continue };
            let name = heap.text(span);
            if MODULE.contains(&name) {
                self.steps(1)?;
                self.value(pair[1])?;
            } else {
                self.within(name, pair[1])?;
            }
        }
        Ok(())
    }

    /// Visits the tensors in the attributes of a tensor or a dict, and notes the attributes.
    fn attributes(&mut self, parts: u32) -> Result<()> {
        let heap = self.heap;
        // `None`, `{}` and `({}, None)`, or the flags of a parameter of PyTorch before 0.4.
        let is_nothing = |value: &PickleValue| match value {
            PickleValue::None => true,
            value => value.container().is_some_and(|index| heap.values(index).is_empty()),
        };
        let is_empty = |value: &PickleValue| match value {
            PickleValue::Tuple(index) => {
                heap.values(*index).iter().all(|value| matches!(value, PickleValue::Bool(_)) || is_nothing(value))
            }
            value => is_nothing(value),
        };
        if heap.values(parts).iter().skip(1).step_by(2).all(is_empty) {
            return Ok(());
        }
        let before = self.contents.tensors.pushed();
        self.objects += 1;
        self.enter(parts, &mut |collector, index| collector.parts(index))?;
        self.objects -= 1;
        let left = if self.contents.tensors.pushed() > before { Left::Tensors } else { Left::Nothing };
        if self.is_in_object() { Ok(()) } else { self.leave_out(ATTRIBUTES, left) }
    }

    /// Visits a tensor with unreadable elements, and its parts.
    fn other(&mut self, other: &UnreadTensor) -> Result<()> {
        let found = self.finder.unread(other).map_err(|error| self.blame(error).at(other.place))?;
        self.push(found)?;
        if matches!(other.kind, TensorKind::Converted | TensorKind::Changed)
            && self.contents.warnings.len() < Self::WARNINGS
        {
            let (name, kind) = (self.name(), other.kind.name());
            let text = format!("`{}` is not read, as it is {kind}", Short(&name));
            self.contents.warnings.push(Warning::new(WarningKind::UnknownDtype, text).in_tensor(name));
        }
        let before = self.contents.tensors.pushed();
        if let Some(parts) = other.parts {
            self.enter(parts, &mut |collector, index| collector.dict(index))?;
        }
        let Extra { class, attributes } = other.extra;
        attributes.map_or(Ok(()), |parts| self.attributes(parts))?;
        let Some(class) = class.filter(|_| !self.is_in_object()) else { return Ok(()) };
        let left = if self.contents.tensors.pushed() > before { Left::Tensors } else { Left::Nothing };
        self.leave_out(self.heap.global_name(class), left)
    }

    /// Visits the attributes of a tensor, and notes its class.
    fn extra(&mut self, extra: Extra) -> Result<()> {
        if let Some(class) = extra.class
            && !self.is_in_object()
        {
            self.leave_out(self.heap.global_name(class), Left::Tensor)?;
        }
        extra.attributes.map_or(Ok(()), |parts| self.attributes(parts))
    }

    /// Records that the value is left out, or only its tensors are read.
    fn leave_out(&mut self, class: &str, left: Left) -> Result<()> {
        let key = (class.to_owned(), left);
        if !self.left_out.contains_key(&key) && self.left_out.len() == Self::WARNINGS {
            self.more_left_out += 1;
            return Ok(());
        }
        let name = self.name();
        self.left_out.entry(key).or_insert((name, 0)).1 += 1;
        Ok(())
    }

    /// Records that a value in the current container is left out, because its name would be too long.
    fn leave_out_long(&mut self, name: &str) -> Result<()> {
        let (before, named) = (self.path.len(), self.named);
        let separator = if named > 0 { "." } else { "" };
        let shown = format!("{separator}{}", Short(name));
        if before + shown.len() <= Self::LONGEST {
            self.path.push_str(&shown);
            self.named += 1;
        }
        let left = self.leave_out(&format!("a name of more than {} bytes", Self::LONGEST), Left::Nothing);
        self.path.truncate(before);
        self.named = named;
        left
    }

    /// Adds the warnings about what is left out.
    fn finish(&mut self) {
        let warnings = &mut self.contents.warnings;
        for ((class, left), (name, count)) in std::mem::take(&mut self.left_out) {
            let others = match count {
                0 | 1 => String::new(),
                2 => " and 1 other value".to_owned(),
                _ => format!(" and {} other values", count - 1),
            };
            let is_one = count == 1;
            let (are, class, short) = (if is_one { "is" } else { "are" }, Short(&class).to_string(), Short(&name));
            let text = match left {
                Left::Nothing if class == ATTRIBUTES => format!("attributes of `{short}`{others} are left out"),
                Left::Nothing => format!("`{short}`{others} {are} left out: `{class}`"),
                Left::Tensors if class == ATTRIBUTES => {
                    format!("of the attributes of `{short}`{others}, only the tensors are read")
                }
                Left::Tensors if class.ends_with(".DTensor") => {
                    format!("of `{short}`{others}, only the part of one process is read: `{class}`")
                }
                Left::Tensors => format!("of `{short}`{others}, only the tensors are read: `{class}`"),
                Left::Tensor if is_one => format!("`{short}` is taken for a plain tensor: `{class}`"),
                Left::Tensor => format!("`{short}`{others} are taken for plain tensors: `{class}`"),
            };
            warnings.push(Warning::new(WarningKind::LeftOut, text).in_tensor(name));
        }
        if self.more_left_out > 0 {
            let text = format!("{} more values are left out, or only their tensors are read", self.more_left_out);
            warnings.push(Warning::new(WarningKind::LeftOut, text));
        }
    }

    /// Visits a named value in a container.
    fn within(&mut self, name: &str, value: PickleValue) -> Result<()> {
        self.steps(1)?;
        let before = self.path.len();
        if before + 1 + name.len() > Self::LONGEST {
            return self.leave_out_long(name);
        }
        if self.named > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        self.named += 1;
        self.value(value)?;
        self.named -= 1;
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

    /// Returns whether a container is non-empty and all its values fit on one line of text.
    fn is_list_of_scalars(&mut self, index: u32) -> Result<bool> {
        let values = self.heap.values(index);
        self.steps(values.len())?;
        let is_scalar = |value: &PickleValue| {
            let is_left_out = match *value {
                PickleValue::Tensor(_)
                | PickleValue::Storage(_)
                | PickleValue::Other(_)
                | PickleValue::NumpyArray(_)
                | PickleValue::StorageType(_)
                | PickleValue::Object(_) => true,
                PickleValue::Global(_) => self.heap.function(*value) != Some(Function::Constant),
                PickleValue::NumpyScalar(index) => !json::is_number(index, self.heap),
                _ => false,
            };
            !is_left_out && value.container().is_none()
        };
        Ok(values.iter().all(is_scalar))
    }

    /// Adds a tensor. It has no name if it is the whole value.
    fn push(&mut self, tensor: FoundTensor) -> Result<()> {
        let (found, limit) = (self.contents.tensors.pushed() as u64 + 1, self.finder.limits.tensors);
        if found > limit {
            return Err(ErrorKind::Limit { what: "number of tensors", found, limit }.into());
        }
        let FoundTensor { info, range, codec } = tensor;
        let rank = info.shape.rank();
        let unknown = info.unknown_dtype().map_or(0, |tag| size_of::<UnknownDtype>() + tag.len());
        // A tensor with gaps also has the numbers and steps of them.
        self.spend(size_of::<FoundTensor>() + self.path.len() + rank * 3 * size_of::<u64>() + unknown)?;
        let name = (self.named > 0).then_some(&*self.path);
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
        if self.named == 0 { "0".to_owned() } else { self.path.clone() }
    }

    fn blame(&self, error: impl Into<Error>) -> Error {
        error.into().in_tensor(self.name())
    }

    /// Returns a value as text, and counts the time for it. Shared values are printed once for each name.
    fn text(&mut self, value: PickleValue) -> Result<String> {
        if let PickleValue::Long(span) = value {
            self.steps(span.len as usize)?;
        }
        let text = json::text(value, self.heap);
        self.steps(text.len() / 16)?;
        Ok(text)
    }

    fn entry(&mut self, value: PickleValue) -> Result<()> {
        let text = self.text(value)?;
        if text.len() > json::LONGEST {
            if self.contents.warnings.len() < Self::WARNINGS {
                let name = self.name();
                let (short, most) = (Short(&name), json::LONGEST);
                let text = format!("`{short}` is left out, as its text has over {most} bytes");
                self.contents.warnings.push(Warning::new(WarningKind::LeftOut, text).in_tensor(name));
            }
            return Ok(());
        }
        // An entry of the map takes about so much memory besides its texts.
        const ENTRY: usize = 128;
        self.spend(ENTRY + self.path.len() + text.len())?;
        let name = self.name();
        if self.contents.metadata.insert(name.clone(), text).is_some() && self.contents.warnings.len() < Self::WARNINGS
        {
            let text = format!("two values are named `{}`; the last one is kept", Short(&name));
            self.contents.warnings.push(Warning::new(WarningKind::Metadata, text).in_tensor(name));
        }
        Ok(())
    }
}
