use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use serde::Serialize;

use super::share::{Candidates, Digest, Digester, Shared};
use super::{Encode, FileLayout, Names, Sharing, names};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Payload, Serializer, TensorSink, is_index};
use crate::tensor::{Dtype, InvalidTensor, TensorInfo};

/// The file that a value will be: every name, dtype and shape, and with them where everything goes.
///
/// The first of the two passes over a value makes it, without a look at any payload. The second writes by it, and a
/// value that then is not the same is an error.
#[derive(Debug)]
pub struct Plan<E> {
    encode: E,
    /// All names, one after the other.
    names: String,
    slots: Vec<Slot>,
    /// Whether the value lies under a name that was given, which then is no position.
    is_named: bool,
    /// The payload of the tensor that holds the names, which is the last slot.
    embedded: Option<Vec<u8>>,
    /// The tensors that may share their bytes, while the value is planned by a format that lets them.
    candidates: Option<Box<Candidates>>,
    shared: Shared,
    layout: FileLayout,
}

/// A tensor of a [`Plan`].
#[derive(Debug)]
struct Slot {
    name_end: usize,
    info: TensorInfo,
    payload: usize,
}

/// What a plan tells of a tensor.
#[cfg(feature = "shards")]
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) name: String,
    /// The length of the payload.
    pub(crate) bytes: u64,
    /// The first tensor with the same bytes, which are stored with that one only; mostly itself.
    pub(crate) owner: usize,
}

impl<E: Encode> Plan<E> {
    /// The tensors of the value.
    #[cfg(feature = "shards")]
    pub(crate) fn outline(&self) -> Vec<Outline> {
        let tensors = self.len() - usize::from(self.embedded.is_some());
        let outline = |at| {
            let (name, bytes) = (self.name(at).to_owned(), self.payload_bytes(at) as u64);
            Outline { name, bytes, owner: self.owner(at) }
        };
        (0..tensors).map(outline).collect()
    }

    /// Plans the file of a value.
    pub(crate) fn of<T: Serialize + ?Sized>(value: &T, encode: E) -> Result<Self> {
        Self::under("", value, encode)
    }

    /// Plans the file of a value that lies under `name`.
    pub(crate) fn under<T: Serialize + ?Sized>(name: &str, value: &T, encode: E) -> Result<Self> {
        let mut plan = Self::without_layout(name, value, encode)?;
        plan.layout = plan.encode.lay_out(&plan)?;
        Ok(plan)
    }

    /// Plans what is in the file, not where: together it may be more than the format can address.
    pub(crate) fn without_layout<T: Serialize + ?Sized>(name: &str, value: &T, encode: E) -> Result<Self> {
        let candidates = (encode.sharing() != Sharing::Never).then(|| Box::new(Candidates::new(encode.sharing())));
        let empty = Self {
            encode,
            names: String::new(),
            slots: Vec::new(),
            is_named: !name.is_empty(),
            embedded: None,
            candidates,
            shared: Shared::default(),
            layout: FileLayout::default(),
        };
        let mut planner = Serializer::under(name, empty);
        value.serialize(&mut planner)?;
        let mut plan = planner.into_sink()?;
        if plan.slots.len() > 1 && plan.encode.names() != Names::Omitted {
            plan.check_names()?;
        }
        if let Some(candidates) = plan.candidates.take() {
            plan.shared = candidates.compare(&plan, name, value)?;
        }
        if plan.encode.names() == Names::Embedded {
            plan.embed_names()?;
        }
        Ok(plan)
    }

    /// The length of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.layout.end_offset + self.layout.end.len() as u64
    }

    /// The number of tensors, embedded names counted as one more.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no tensor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Puts the records of a format one after the other, the length of each payload padded to a multiple of
    /// `alignment`.
    ///
    /// `head` is the length of what stands before a payload. Returns where the payloads begin, and the end.
    pub(crate) fn stack(
        &self,
        start: u64,
        alignment: u64,
        head: impl Fn(&TensorInfo) -> u64,
    ) -> Result<(Vec<u64>, u64)> {
        let mut payloads = Vec::with_capacity(self.len());
        let mut end = start;
        for (at, slot) in self.slots.iter().enumerate() {
            let place = || {
                let payload = end.checked_add(head(&slot.info))?;
                let next = payload.checked_add((slot.payload as u64).checked_next_multiple_of(alignment)?)?;
                Some((payload, next))
            };
            let (payload, next) = place().ok_or_else(|| too_large(&slot.info).in_tensor(self.name(at)))?;
            payloads.push(payload);
            end = next;
        }
        Ok((payloads, end))
    }

    pub(crate) fn encode(&self) -> &E {
        &self.encode
    }

    pub(crate) fn layout(&self) -> &FileLayout {
        &self.layout
    }

    pub(crate) fn name(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.slots[before].name_end);
        &self.names[start..self.slots[at].name_end]
    }

    /// Whether the name of a tensor only says its position, and is not worth storing.
    pub(crate) fn implies_name(&self, at: usize) -> bool {
        !self.is_named && is_index(self.name(at)) && self.name(at).parse() == Ok(at)
    }

    pub(crate) fn info(&self, at: usize) -> &TensorInfo {
        &self.slots[at].info
    }

    pub(crate) fn payload_bytes(&self, at: usize) -> usize {
        self.slots[at].payload
    }

    /// The first tensor with the bytes of the one at `at`, which are stored with that one only; mostly itself.
    pub(crate) fn owner(&self, at: usize) -> usize {
        self.shared.owner(at)
    }

    /// What the bytes must come to, and how to tell, where they are stored for several tensors.
    pub(super) fn digest(&self, at: usize) -> Option<(Digest, Digester)> {
        self.shared.digest(at)
    }

    /// The payload of the last slot, where that is the list of names.
    pub(crate) fn embedded(&self) -> Option<&[u8]> {
        self.embedded.as_deref()
    }

    fn check_names(&self) -> Result<()> {
        let hasher = DefaultHashBuilder::default();
        let hash = |at: &usize| hasher.hash_one(self.name(*at));
        let mut seen = HashTable::with_capacity(self.slots.len());
        for at in 0..self.slots.len() {
            let same = |other: &usize| self.name(*other) == self.name(at);
            match seen.entry(hash(&at), same, hash) {
                hashbrown::hash_table::Entry::Vacant(vacant) => drop(vacant.insert(at)),
                hashbrown::hash_table::Entry::Occupied(_) => {
                    return Err(ErrorKind::DuplicateName { name: self.name(at).to_owned() }.into());
                }
            }
        }
        Ok(())
    }

    fn embed_names(&mut self) -> Result<()> {
        let payload = names::payload((0..self.slots.len()).map(|at| self.name(at)))?;
        let info = TensorInfo::new(Dtype::U8, [payload.len()]);
        self.slots.push(Slot { name_end: self.names.len(), info, payload: payload.len() });
        self.embedded = Some(payload);
        Ok(())
    }
}

fn too_large(info: &TensorInfo) -> Error {
    InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() }.into()
}

impl<E: Encode> TensorSink for Plan<E> {
    fn keeps_dim_order(&self) -> bool {
        self.encode.keeps_dim_order()
    }

    fn tensor<P: Serialize + ?Sized>(&mut self, name: &str, info: TensorInfo, tensor: Payload<'_, P>) -> Result<()> {
        self.encode.check(name, &info)?;
        let payload = info.payload_bytes().ok_or_else(|| too_large(&info))?;
        if let Some(candidates) = &mut self.candidates {
            candidates.add(self.slots.len(), payload, &tensor);
        }
        self.names.push_str(name);
        self.slots.push(Slot { name_end: self.names.len(), info, payload });
        Ok(())
    }
}
