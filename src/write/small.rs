//! Files of a few small tensors, written in one pass.
//!
//! A message or a small struct is sent once: payloads are copied into the file as they come, each after its header if
//! the format has headers there, and the index is written at the end. There is no plan, no hash map and no allocation
//! per tensor.
//!
//! Everything else is sent twice, to make a [`Plan`](super::Plan) and to write it: larger values, values with unusual
//! features, and values with errors, which planning reports.

use smallvec::SmallVec;

use super::planned::{PlannedTensor, is_position};
use super::planner::check_stored_name;
use super::small_format::not_small;
use super::{Encode, NamePolicy, Sharing, SmallFile, SmallFormat, SmallTensors};
use crate::error::Result;
use crate::model::{MetadataValue, TensorRecord, TensorSink, Tensors, embedded_names};
use crate::tensor::{Dtype, Layout, TensorInfo};

/// The most tensors of a small file: each name is compared with all others.
const MOST_TENSORS: usize = 32;

/// The most payload bytes of a small file. They may be moved once, which takes up to a third of a microsecond.
const MOST_BYTES: usize = 64 << 10;

/// Writes the file of a few small tensors to an empty buffer. Returns whether it is one; otherwise the buffer is empty.
pub(super) fn write(tensors: &dyn Tensors, encode: &dyn Encode, file: &mut Vec<u8>) -> bool {
    let Some(format) = encode.small() else { return false };
    let Ok(alignment) = usize::try_from(format.alignment()) else { return false };
    let mut known = SmallTensors::default();
    let mut sink = SmallSink {
        encode,
        format,
        alignment,
        pads_last: format.pads_last(),
        names: encode.names(),
        shares: encode.sharing() != Sharing::Never,
        tensors: &mut known,
        storage: SmallVec::new(),
        file: SmallFile { bytes: file, front: 0 },
        expected: 1,
        implies_names: false,
        needs_names: false,
    };
    let is_written = tensors.send(&mut sink).is_ok() && sink.finish();
    if !is_written {
        file.clear();
    }
    is_written
}

/// Takes a value, until it turns out not to be a few small tensors.
struct SmallSink<'a> {
    encode: &'a dyn Encode,
    format: &'a dyn SmallFormat,
    /// The alignment of payloads.
    alignment: usize,
    /// There is padding after the last payload.
    pads_last: bool,
    names: NamePolicy,
    /// Tensors in the same memory are stored once.
    shares: bool,
    // Borrowed, as a move into this struct took 76 of 1,586 instructions for one array.
    tensors: &'a mut SmallTensors,
    /// The address of each payload, if tensors share memory.
    storage: SmallVec<[usize; 8]>,
    file: SmallFile<'a>,
    /// The expected number of tensors.
    expected: usize,
    /// A name equals its position, and was not stored.
    implies_names: bool,
    /// All names must be stored.
    needs_names: bool,
}

impl SmallSink<'_> {
    /// Adds a tensor. Returns whether the file is still a small one.
    #[inline]
    fn add(&mut self, tensor: &TensorRecord<'_>) -> Option<()> {
        let payload = tensor.data.as_bytes()?;
        let index = self.tensors.len();
        let is_small = index < MOST_TENSORS
            && payload.len() + self.file.bytes.len() <= MOST_BYTES
            && tensor.info.layout == Layout::RowMajor
            && tensor.tied.is_none()
            // It may be read as the list of names.
            && !(tensor.info.dtype == Dtype::U8 && payload.starts_with(&embedded_names::MAGIC));
        if !is_small || self.shares && self.is_shared(payload) {
            return None;
        }
        let info = match self.tensors.find_info(tensor.info) {
            Some(info) => info,
            None => self.add_info(tensor.info)?,
        };
        if self.tensors.payload_bytes[info] != payload.len() {
            return None;
        }
        let mut stored_name = "";
        if self.names != NamePolicy::Omitted {
            self.add_name(tensor, index)?;
            if self.names == NamePolicy::Stored {
                if is_position(tensor.name, index) {
                    self.implies_names = true;
                } else {
                    stored_name = tensor.name;
                }
            }
        }
        let name_end = self.tensors.names.len();
        self.tensors.tensors.push(PlannedTensor { name_end, info: u32::try_from(info).ok()? });
        self.copy(stored_name, tensor.info, payload)
    }

    fn is_shared(&mut self, payload: &[u8]) -> bool {
        let address = payload.as_ptr().addr();
        let is_shared = !payload.is_empty() && self.storage.contains(&address);
        self.storage.push(address);
        is_shared
    }

    fn add_info(&mut self, info: &TensorInfo) -> Option<usize> {
        let can_store = self.encode.spec().check(info).is_ok() && self.encode.check(info).is_ok();
        let payload_bytes = info.payload_bytes().filter(|_| can_store)?;
        self.tensors.infos.push(info.clone());
        self.tensors.payload_bytes.push(payload_bytes);
        Some(self.tensors.infos.len() - 1)
    }

    fn add_name(&mut self, tensor: &TensorRecord<'_>, index: usize) -> Option<()> {
        let (encode, name) = (self.encode, tensor.name);
        let can_store = (self.names == NamePolicy::Embedded || check_stored_name(name, encode).is_ok())
            && encode.check_name(name, tensor.info).is_ok()
            && (index == 0 || !self.tensors.has_name(name));
        if can_store {
            self.tensors.names.extend_from_slice(name.as_bytes());
        }
        can_store.then_some(())
    }

    /// Appends a tensor to the file.
    fn copy(&mut self, name: &str, info: &TensorInfo, payload: &[u8]) -> Option<()> {
        /// The estimated length of a header.
        const HEADER: usize = 104;

        let (alignment, pads_last, file) = (self.alignment, self.pads_last, &mut *self.file.bytes);
        if self.tensors.len() == 1 {
            let front = self.format.front_bytes(self.expected);
            let record = HEADER + payload.len() + padding(payload.len(), alignment);
            file.try_reserve_exact(front + record.max(MOST_BYTES.min(self.expected * record))).ok()?;
            file.resize(front, 0);
            self.file.front = front;
        } else if !pads_last {
            pad(file, file.len() - self.file.front, alignment);
        }
        self.format.write_header(name, info, payload.len(), file);
        file.extend_from_slice(payload);
        if pads_last {
            pad(file, payload.len(), alignment);
        }
        Some(())
    }

    /// Returns whether the file is complete.
    fn finish(&mut self) -> bool {
        let has_names = !(self.needs_names && self.implies_names)
            && (self.names != NamePolicy::Embedded || self.embed_names().is_some());
        self.tensors.len() > 0 && has_names && self.format.finish(self.tensors, &mut self.file).is_ok()
    }

    /// Appends the tensor with the names of the others.
    fn embed_names(&mut self) -> Option<()> {
        let names = self.tensors.iter();
        let payload = embedded_names::payload(names.all_names(), names.map(|tensor| tensor.name)).ok()?;
        if payload.len() + self.file.bytes.len() > MOST_BYTES {
            return None;
        }
        let info = TensorInfo::new(Dtype::U8, [payload.len()]);
        let number = self.add_info(&info)?;
        let name_end = self.tensors.names.len();
        self.tensors.tensors.push(PlannedTensor { name_end, info: u32::try_from(number).ok()? });
        self.copy("", &info, &payload)
    }
}

/// Returns the number of bytes up to a multiple of `alignment`, a power of two.
#[inline]
fn padding(len: usize, alignment: usize) -> usize {
    len.wrapping_neg() & (alignment - 1)
}

/// Pads `len` bytes with zeros.
#[inline]
fn pad(file: &mut Vec<u8>, len: usize, alignment: usize) {
    let padding = padding(len, alignment);
    if padding > 0 {
        file.resize(file.len() + padding, 0);
    }
}

impl TensorSink for SmallSink<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.add(tensor).ok_or_else(not_small)
    }

    fn expect(&mut self, tensors: usize) -> Result<()> {
        if tensors > MOST_TENSORS {
            return Err(not_small());
        }
        self.expected = tensors.max(self.expected);
        Ok(())
    }

    fn omits_names(&self) -> bool {
        self.names == NamePolicy::Omitted
    }

    fn needs_names(&mut self) {
        self.needs_names = true;
    }

    fn metadata(&mut self, _: &str, _: &MetadataValue) -> Result<()> {
        Err(not_small())
    }
}
