//! The plan of a file: its tensors and their layout, made before anything is written.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Encode, FileLayout, NamePolicy, PlannedTensors, name_lists};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::model::{MetadataValue, TensorData, embedded_names};
use crate::tensor::{Dtype, Layout, TensorInfo};

/// The layout of a file to be written: every name, dtype, shape and offset.
///
/// Tensors are sent twice: to make the plan, and then to its [writer](Self::writer), which reports any difference as an
/// error. Planning reads payloads only in formats that store equal bytes once.
///
/// ```
/// use tensorfile::{TensorMap, ten};
///
/// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32, 2.0]), ("b", ndarray::array![3.0])]);
/// let plan = ten::Options::new().plan(&map)?;
/// println!("{} tensors in {} bytes", plan.len(), plan.file_bytes());
/// assert_eq!((plan.name(1), plan.payload_bytes(1)), ("b", 4));
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Plan {
    pub(super) tensors: PlannedTensors,
    pub(super) layout: FileLayout,
    pub(super) encode: Arc<dyn Encode>,
    /// Metadata of the value, in its order.
    pub(super) metadata: Vec<(String, MetadataValue)>,
    /// The payload of the last tensor, if it is the list of names.
    embedded: Option<Vec<u8>>,
    /// The tensor is a message of a stream with names, not a file.
    pub(super) is_message: bool,
    /// The last unnamed tensor that looks like the list of embedded names, if all tensors before it are unnamed too.
    last_list: Option<usize>,
    /// The number of leading tensors known to have no name.
    unnamed: usize,
}

impl Plan {
    /// An empty plan.
    pub(crate) fn empty(encode: Arc<dyn Encode>) -> Self {
        Self {
            tensors: PlannedTensors::new(encode.names() == NamePolicy::Stored),
            layout: FileLayout::default(),
            encode,
            metadata: Vec::new(),
            embedded: None,
            is_message: false,
            last_list: None,
            unnamed: 0,
        }
    }

    /// Asks the format for the layout.
    pub(crate) fn lay_out(&mut self) -> Result<()> {
        if self.encode.names() == NamePolicy::Embedded {
            self.embed_names()?;
        }
        self.layout = self.encode.lay_out(&self.tensors)?;
        self.refuse_names()?;
        self.check_layout()
    }

    /// Plans a file of the tensors at the given positions, in order. Tensors that share bytes are given together.
    pub(crate) fn subset(&self, positions: &[usize], encode: Arc<dyn Encode>) -> Result<Self> {
        let stores_names = encode.names() == NamePolicy::Stored;
        let tensors = self.tensors.subset(positions, stores_names)?;
        let mut plan = Self { tensors, ..Self::empty(encode) };
        // The format's options already have it.
        plan.metadata.clone_from(&self.metadata);
        plan.lay_out()?;
        Ok(plan)
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.layout.end_offset + self.layout.end.len() as u64
    }

    #[cfg(feature = "pytorch")]
    pub(crate) fn layout(&self) -> &FileLayout {
        &self.layout
    }

    pub(crate) fn encode(&self) -> &dyn Encode {
        &*self.encode
    }

    pub(crate) fn shared_encode(&self) -> Arc<dyn Encode> {
        Arc::clone(&self.encode)
    }

    /// Notes a tensor that looks like the list of embedded names, if no tensor so far has a name.
    #[inline(never)]
    pub(super) fn look_for_names(&mut self, index: usize, data: &dyn TensorData) {
        if self.is_vector_of_bytes(index) && self.has_no_names_up_to(index) && name_lists::begins_as_list(data) {
            self.last_list = Some(index);
        }
    }

    /// Returns whether the last tensor would be read as the list of names, if it begins as one.
    pub(crate) fn may_end_in_names(&mut self) -> bool {
        let omits = match self.encode.names() {
            NamePolicy::Embedded => false,
            NamePolicy::Omitted => true,
            NamePolicy::Stored => self.layout.omits_positions,
        };
        let Some(last) = self.len().checked_sub(1).filter(|_| omits && !self.is_message) else { return false };
        self.is_vector_of_bytes(last) && self.has_no_names_up_to(last) && self.encode.spec().embeds_names
    }

    /// Refuses a last tensor that would be read as the list of names.
    fn refuse_names(&mut self) -> Result<()> {
        if self.last_list.is_some_and(|index| index + 1 == self.len()) && self.may_end_in_names() {
            return Err(Error::new(name_lists::reads_as_names()).in_tensor(self.name(self.len() - 1)));
        }
        Ok(())
    }

    fn is_vector_of_bytes(&self, index: usize) -> bool {
        let info = self.info(index);
        info.dtype == Dtype::U8
            && info.shape.rank() == 1
            && info.layout == Layout::RowMajor
            && self.payload_bytes(index) >= embedded_names::MAGIC.len()
    }

    /// Returns whether no tensor up to one has a name, or the format stores none.
    fn has_no_names_up_to(&mut self, index: usize) -> bool {
        if self.encode.names() != NamePolicy::Stored {
            return self.encode.names() == NamePolicy::Omitted;
        }
        // Each name is looked at only once.
        while self.unnamed <= index
            && (self.name(self.unnamed).is_empty() || self.is_implied(self.name(self.unnamed), self.unnamed))
        {
            self.unnamed += 1;
        }
        self.unnamed > index
    }

    /// Returns the payload of the last tensor, if it is the list of names.
    pub(crate) fn embedded(&self) -> Option<&[u8]> {
        self.embedded.as_deref()
    }

    /// Checks that nothing overlaps in the layout of a format, and that it is in writing order.
    fn check_layout(&self) -> Result<()> {
        let layout = &self.layout;
        let (payloads, tensors) = (layout.payloads().len(), self.len());
        if payloads != tensors {
            return Err(bad_layout(format!("{payloads} payloads"), format!("there are {tensors} tensors")));
        }
        let mut end = layout.begin.len() as u64;
        for index in (0..tensors).map(|place| layout.tensor_at(place)) {
            let (header, payload) = (layout.header(index), layout.payload(index));
            let payload_bytes = self.payload_bytes(index);
            let in_tensor = |error: Error| error.in_tensor(self.name(index));
            let place = || format!("a payload at byte {payload}");
            let owner = self.owner(index);
            if owner < index {
                let shared = layout.payload(owner);
                if payload != shared {
                    let instead = format!("it shares its bytes with `{}`, at byte {shared}", Short(self.name(owner)));
                    return Err(in_tensor(bad_layout(place(), instead)));
                }
                continue;
            }
            let header_end = end.saturating_add(header.len() as u64);
            if payload < header_end {
                let instead = format!("the bytes before it, with its header, end at byte {header_end}");
                return Err(in_tensor(bad_layout(place(), instead)));
            }
            let next = payload.checked_add(payload_bytes as u64);
            end = next.ok_or_else(|| in_tensor(bad_layout(place(), "it ends past 2^64".to_owned())))?;
        }
        let end_offset = layout.end_offset;
        if end_offset < end {
            let instead = format!("the payloads before it end at byte {end}");
            return Err(bad_layout(format!("the end at byte {end_offset}"), instead));
        }
        match end_offset.checked_add(layout.end.len() as u64) {
            Some(_) => Ok(()),
            None => Err(bad_layout(format!("the end at byte {end_offset}"), "it ends past 2^64".to_owned())),
        }
    }

    fn embed_names(&mut self) -> Result<()> {
        let payload =
            embedded_names::payload(self.tensors.iter().all_names(), self.tensors.iter().map(|tensor| tensor.name))?;
        let info = TensorInfo::new(Dtype::U8, [payload.len()]);
        let number = self.tensors.add_info(&info)?;
        self.tensors.push("", number);
        self.embedded = Some(payload);
        Ok(())
    }
}

fn bad_layout(what: String, instead: String) -> Error {
    ErrorKind::Unsupported { what: format!("lay out {what}"), instead }.into()
}

impl Deref for Plan {
    type Target = PlannedTensors;

    fn deref(&self) -> &PlannedTensors {
        &self.tensors
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("encode", &self.encode)
            .field("tensors", &self.tensors.len())
            .field("file_bytes", &self.file_bytes())
            .finish_non_exhaustive()
    }
}
