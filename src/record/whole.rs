use std::sync::Arc;

use super::candidates::Candidates;
#[cfg(any(feature = "ptd", feature = "safetensors", feature = "tensorbuffers"))]
use super::plan::Planned;
use super::planner::Planner;
use super::{Encode, Names, Plan, names};
use crate::error::{ErrorKind, Result};
use crate::model::{MetadataValue, TensorRecord, TensorSink, Tensors};
use crate::tensor::{Dtype, Layout, TensorInfo};
use crate::threads;

/// A value that is one tensor in row-major order, whose bytes are in memory.
#[derive(Debug, Clone, Copy)]
pub struct WholeTensor<'a> {
    pub(crate) info: &'a TensorInfo,
    payload: &'a [u8],
    encode: &'a Arc<dyn Encode>,
}

impl WholeTensor<'_> {
    /// The name of a value that is one tensor.
    const NAME: &'static str = "0";

    /// Appends the payload, and zeros up to a multiple of `alignment` bytes of its length. Returns `false` if there is not
    /// enough memory.
    #[inline]
    pub(crate) fn append_to(&self, file: &mut Vec<u8>, alignment: u64) -> bool {
        let padded = (self.payload.len() as u64).checked_next_multiple_of(alignment);
        let Some(padded) = padded.and_then(|padded| usize::try_from(padded).ok()) else { return false };
        let has_room = file.try_reserve_exact(padded).is_ok();
        if has_room {
            let end = file.len() + padded;
            threads::extend(file, self.payload);
            file.resize(end, 0);
        }
        has_room
    }

    /// Returns the tensor as a plan has it.
    #[cfg(any(feature = "ptd", feature = "safetensors", feature = "tensorbuffers"))]
    pub(crate) fn planned(&self) -> Planned<'_> {
        Planned { name: Self::NAME, info: self.info, info_number: 0, payload_bytes: self.payload.len() }
    }

    /// Returns the length of the payload in bytes.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Writes the file to an empty buffer, if it needs no plan. Otherwise the buffer is empty again.
    fn write_to(&self, file: &mut Vec<u8>) -> bool {
        let encode = &**self.encode;
        let format = encode.format();
        let is_stored = match encode.names() {
            _ if encode.has_writer() => false,
            Names::Omitted => true,
            Names::Stored => format.check_stored_name(Self::NAME, encode).is_ok(),
            Names::Embedded => false,
        };
        // An error is that of planning.
        let can_store = is_stored
            && self.info.layout == Layout::RowMajor
            && self.info.payload_bytes() == Some(self.payload.len())
            && !(self.info.dtype == Dtype::U8 && self.payload.starts_with(&names::MAGIC))
            && format.check(self.info).is_ok()
            && encode.check(self.info).is_ok()
            && encode.check_name(Self::NAME, self.info).is_ok();
        // The front and the end of a file take some bytes too.
        let len = self.payload.len().saturating_add(96 + 2 * encode.expected_header_bytes());
        let is_written = can_store && file.try_reserve_exact(len).is_ok() && encode.write_whole(self, file);
        if !is_written {
            file.clear();
        }
        is_written
    }
}

/// Plans the file of a value, or writes it to an empty buffer: if the value is one tensor of up to `longest` bytes, and the
/// format needs no plan of it. `None` if it was written. A plan is in a box, as it is large, and room for it would be moved
/// even if there is none.
pub(super) fn write_or_plan(
    tensors: &dyn Tensors,
    encode: &Arc<dyn Encode>,
    file: &mut Vec<u8>,
    longest: usize,
) -> Result<Option<Box<Plan>>> {
    let names = encode.names();
    let mut sink = ValueSink { encode, as_dyn: &**encode, names, file, longest, is_written: false, planning: None };
    let mut sent = tensors.send(&mut sink);
    if sink.is_written && !sink.file.is_empty() && sent.is_ok() {
        return Ok(None);
    }
    let is_again = sink.is_written;
    let (mut plan, mut candidates) = sink.planning.unwrap_or_else(|| begin_plan(encode, file));
    if is_again {
        sent = tensors.send(&mut Planner { plan: &mut plan, candidates: &mut candidates, encode: &**encode, names });
    }
    let planned = sent.and_then(|()| plan.end(&candidates, tensors)).and_then(|()| plan.lay_out());
    if let Err(error) = planned {
        if file.capacity() == 0 {
            // Its memory was taken.
            *file = plan.kept.take_buffer();
        }
        return Err(error.in_format(encode.format().name));
    }
    Ok(Some(plan))
}

fn begin_plan(encode: &Arc<dyn Encode>, file: &mut Vec<u8>) -> (Box<Plan>, Candidates) {
    let plan = Plan::keeping_payloads(Arc::clone(encode), std::mem::take(file));
    (Box::new(plan), Candidates::new(encode.sharing()))
}

/// Takes a value: writes the file of one tensor, and begins a plan of anything else.
struct ValueSink<'a> {
    encode: &'a Arc<dyn Encode>,
    /// The same, for which no pointer is followed.
    as_dyn: &'a dyn Encode,
    names: Names,
    /// The file, or memory for payloads that are kept.
    file: &'a mut Vec<u8>,
    /// The length of the longest payload that is written.
    longest: usize,
    /// The value is one tensor, whose file was written. It is empty again if more came after it.
    is_written: bool,
    /// The plan, once something comes that needs it.
    planning: Option<(Box<Plan>, Candidates)>,
}

impl ValueSink<'_> {
    #[inline(always)]
    fn planner(&mut self) -> Result<Planner<'_>> {
        if self.planning.is_none() {
            self.begin_plan()?;
        }
        let (plan, candidates) = self.planning.as_mut().expect("it was begun");
        Ok(Planner { plan, candidates, encode: self.as_dyn, names: self.names })
    }

    #[cold]
    fn begin_plan(&mut self) -> Result<()> {
        if self.is_written {
            // That was not all, so the value is sent again. Nobody sees the error.
            self.file.clear();
            return Err(ErrorKind::Message("a value stored itself twice".to_owned()).into());
        }
        self.planning = Some(begin_plan(self.encode, self.file));
        Ok(())
    }
}

impl TensorSink for ValueSink<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.planner()?.tensor(tensor)
    }

    fn whole_tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        if let Some(payload) = tensor.data.as_bytes().filter(|payload| payload.len() <= self.longest)
            && tensor.tied.is_none()
            && !self.is_written
            && self.planning.is_none()
        {
            let whole = WholeTensor { info: tensor.info, payload, encode: self.encode };
            self.is_written = whole.write_to(self.file);
            if self.is_written {
                return Ok(());
            }
        }
        self.tensor(tensor)
    }

    fn expect_more(&mut self, tensors: usize, times: usize) {
        if let Some((plan, _)) = &mut self.planning {
            plan.expect_more(tensors, times);
        }
    }

    fn metadata(&mut self, key: &str, value: &MetadataValue) -> Result<()> {
        self.planner()?.metadata(key, value)
    }
}
