use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use serde::Serialize;

use super::{Encode, names};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Serializer, TensorSink};
use crate::tensor::{Dtype, InvalidTensor, TensorInfo};

/// The file that a value will be: every name, dtype and shape, and with them every length.
///
/// The first of the two passes over a value makes it, without a look at any payload. The second writes by it, and a value that then is not the same
/// is an error.
#[derive(Debug)]
pub struct Plan<E> {
    encode: E,
    /// All names, one after the other.
    names: String,
    slots: Vec<Slot>,
    /// The payload of the tensor that holds the names, which is the last slot.
    embedded: Option<Vec<u8>>,
    file_bytes: u64,
}

/// A tensor of a [`Plan`].
#[derive(Debug)]
struct Slot {
    name_end: usize,
    info: TensorInfo,
    payload: usize,
}

impl<E: Encode> Plan<E> {
    /// Plans the file of a value.
    pub(crate) fn of<T: Serialize + ?Sized>(value: &T, encode: E) -> Result<Self> {
        Self::under("", value, encode)
    }

    /// Plans the file of a value that lies under `name`.
    pub(crate) fn under<T: Serialize + ?Sized>(name: &str, value: &T, encode: E) -> Result<Self> {
        let plan = Self { encode, names: String::new(), slots: Vec::new(), embedded: None, file_bytes: 0 };
        let mut planner = Serializer::under(name, plan);
        value.serialize(&mut planner)?;
        let mut plan = planner.into_sink();
        if plan.slots.len() > 1 && (plan.encode.stores_names() || plan.encode.embeds_names()) {
            plan.check_names()?;
        }
        if plan.encode.embeds_names() {
            plan.embed_names()?;
        }
        plan.file_bytes = plan.measure()?;
        Ok(plan)
    }

    /// The length of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
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

    pub(crate) fn encode(&self) -> &E {
        &self.encode
    }

    pub(crate) fn infos(&self) -> impl Iterator<Item = &TensorInfo> {
        self.slots.iter().map(|slot| &slot.info)
    }

    pub(crate) fn name(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.slots[before].name_end);
        &self.names[start..self.slots[at].name_end]
    }

    pub(crate) fn info(&self, at: usize) -> &TensorInfo {
        &self.slots[at].info
    }

    pub(crate) fn payload_bytes(&self, at: usize) -> usize {
        self.slots[at].payload
    }

    /// The payload of the last slot, where that is the list of names.
    pub(crate) fn embedded(&self) -> Option<&[u8]> {
        self.embedded.as_deref()
    }

    fn push(&mut self, name: &str, info: TensorInfo) -> Result<()> {
        self.encode.check(name, &info)?;
        let payload = info
            .payload_bytes()
            .ok_or_else(|| Error::from(InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() }))?;
        self.names.push_str(name);
        self.slots.push(Slot { name_end: self.names.len(), info, payload });
        Ok(())
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

    fn measure(&self) -> Result<u64> {
        let mut bytes = self.encode.begin_bytes(self.slots.len());
        for at in 0..self.slots.len() {
            let info = self.info(at);
            let record = self.encode.record_bytes(info).and_then(|record| bytes.checked_add(record));
            bytes = record.ok_or_else(|| {
                let too_large = InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() };
                Error::from(too_large).in_tensor(self.name(at))
            })?;
        }
        Ok(bytes)
    }
}

impl<E: Encode> TensorSink for Plan<E> {
    fn tensor<P: Serialize + ?Sized>(&mut self, name: &str, info: TensorInfo, _: &P) -> Result<()> {
        self.push(name, info)
    }
}
