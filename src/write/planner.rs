//! Plans a file: collects the tensors of a value, applies the name policy of the format, refuses tensors that it cannot
//! store, and lays out the rest.

use std::sync::Arc;

use hashbrown::HashSet;

use super::candidates::Candidates;
use super::row_major::RowMajor;
use super::{Encode, NamePolicy, Plan};
use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::model::{FormatSpec, MetadataValue, TensorRecord, TensorSink, Tensors};
use crate::tensor::Dtype;

impl Plan {
    /// Plans the file of some tensors.
    pub(crate) fn new(tensors: &dyn Tensors, encode: Arc<dyn Encode>) -> Result<Self> {
        let mut plan = Self::empty(encode);
        plan.fill(tensors)?;
        Ok(plan)
    }

    /// Plans a file of one tensor. Its name is stored even if it looks like a position.
    pub(crate) fn with_name(tensors: &dyn Tensors, encode: Arc<dyn Encode>) -> Result<Self> {
        let mut plan = Self::empty(encode);
        plan.tensors.is_named = true;
        plan.fill(tensors)?;
        Ok(plan)
    }

    /// Plans an unnamed tensor, to be written after named ones.
    pub(crate) fn from_message(tensors: &dyn Tensors, encode: Arc<dyn Encode>) -> Result<Self> {
        let mut plan = Self::empty(encode);
        plan.is_message = true;
        plan.fill(tensors)?;
        Ok(plan)
    }

    /// Plans the file of some tensors, in an empty plan. A plan is large, and to move it takes longer than to add a
    /// tensor.
    pub(crate) fn fill(&mut self, tensors: &dyn Tensors) -> Result<()> {
        let filled = self.add_all(tensors).and_then(|()| self.lay_out());
        filled.map_err(|error| error.in_format(self.encode().spec().name))
    }

    /// Adds some tensors, without a layout.
    pub(crate) fn add_all(&mut self, tensors: &dyn Tensors) -> Result<()> {
        let mut candidates = Candidates::new(self.encode().sharing());
        let names = self.encode().names();
        let encode = Arc::clone(&self.encode);
        tensors.send(&mut Planner { plan: self, candidates: &mut candidates, encode: &*encode, names })?;
        self.end(&candidates, tensors)
    }

    /// Checks all tensors together, after the last one.
    pub(super) fn end(&mut self, candidates: &Candidates, tensors: &dyn Tensors) -> Result<()> {
        if self.len() > 1 && self.encode().names() != NamePolicy::Omitted {
            self.check_names()?;
        }
        self.tensors.shared = candidates.compare(&self.tensors, &*self.encode, tensors)?;
        if !self.metadata.is_empty() {
            let mut keys = HashSet::with_capacity(self.metadata.len());
            if let Some((key, _)) = self.metadata.iter().find(|(key, _)| !keys.insert(key.as_str())) {
                let what = "two fields have this key".to_owned();
                return Err(ErrorKind::UnsupportedMetadata { key: key.clone(), what }.into());
            }
            self.encode = self.encode.with_metadata(&self.metadata)?;
        }
        Ok(())
    }
}

/// A sink that makes a plan of its tensors.
pub(super) struct Planner<'a> {
    pub(super) plan: &'a mut Plan,
    pub(super) candidates: &'a mut Candidates,
    pub(super) encode: &'a dyn Encode,
    pub(super) names: NamePolicy,
}

impl TensorSink for Planner<'_> {
    // Inlined: this is the planner's work for each tensor.
    #[inline(always)]
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        if RowMajor::is_needed(tensor, self.encode) {
            return self.add_in_row_major(tensor);
        }
        self.add(tensor)
    }

    fn expect(&mut self, tensors: usize) -> Result<()> {
        self.plan.tensors.expect(tensors);
        Ok(())
    }

    fn omits_names(&self) -> bool {
        self.names == NamePolicy::Omitted
    }

    fn needs_names(&mut self) {
        self.plan.tensors.is_named = true;
    }

    fn metadata(&mut self, key: &str, value: &MetadataValue) -> Result<()> {
        let plan = &mut *self.plan;
        let format = plan.encode().spec();
        if !format.keeps_metadata(key) {
            return Err(format.no_place_for_metadata(key).into());
        }
        plan.metadata.push((key.to_owned(), value.clone()));
        Ok(())
    }
}

/// Checks, as planning does, that a format can store a tensor.
pub(crate) fn check_tensor(tensor: &TensorRecord<'_>, encode: &dyn Encode) -> Result<()> {
    if RowMajor::is_needed(tensor, encode) {
        return check_tensor(&RowMajor::new(tensor).record(), encode);
    }
    check_info(tensor, encode).and_then(|()| check_name(tensor, encode, encode.names()))?;
    Ok(())
}

#[inline]
fn check_info(tensor: &TensorRecord<'_>, encode: &dyn Encode) -> Result<(), ErrorKind> {
    tensor.info.check_order().map_err(ErrorKind::InvalidTensor)?;
    encode.spec().check(tensor.info)?;
    encode.check(tensor.info)
}

// Inlined into the work for each tensor. What is rare in it has functions of its own, which are not.
#[inline(always)]
fn check_name(tensor: &TensorRecord<'_>, encode: &dyn Encode, names: NamePolicy) -> Result<(), ErrorKind> {
    if names == NamePolicy::Stored {
        check_stored_name(tensor.name, encode)?;
    }
    encode.check_name(tensor.name, tensor.info)
}

/// Refuses a name if the format cannot store it.
#[inline]
pub(crate) fn check_stored_name(name: &str, encode: &dyn Encode) -> Result<(), ErrorKind> {
    let spec = encode.spec();
    if let Some(most) = spec.max_name.filter(|most| name.len() > *most) {
        let (bytes, longest) = (encode.name_bytes(name), encode.longest_name().unwrap_or(most));
        if bytes > longest {
            return Err(name_too_long(spec, bytes, longest, encode.longer_names()));
        }
    }
    (spec.check_name)(name)
}

#[cold]
fn name_too_long(spec: &FormatSpec, bytes: usize, most: usize, longer: Option<usize>) -> ErrorKind {
    let way_out = match longer.filter(|longer| bytes <= *longer) {
        Some(longer) => format!(", or allow long names, of up to {longer}"),
        // The list of embedded names is a tensor of `u8`.
        None if spec.dtypes.contains(&Dtype::U8) => ", or embed the names".to_owned(),
        None => String::new(),
    };
    let instead = format!("{} stores up to {most}; rename the tensor{way_out}", spec.name);
    cannot_store(format!("a name of {bytes} bytes"), instead)
}

impl Planner<'_> {
    // A separate function, because a recursive one is never inlined.
    #[inline(never)]
    fn add_in_row_major(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        tensor.info.check_order().map_err(|invalid| Error::from(invalid).in_tensor(tensor.name))?;
        self.add(&RowMajor::new(tensor).record())
    }

    // Inlined. Tensors in another order call this once more, so that `tensor` does not call itself: a function that
    // does is not inlined.
    #[inline(always)]
    fn add(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.try_add(tensor).map_err(|error| error.in_tensor(tensor.name))
    }

    // Inlined into `add`: the result of a call would pass through memory for each tensor.
    #[inline(always)]
    fn try_add(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let plan = &mut *self.plan;
        let info = match plan.tensors.find_info(tensor.info) {
            Some(known) => known,
            None => {
                check_info(tensor, self.encode)?;
                plan.tensors.add_info(tensor.info)?
            }
        };
        let encode = self.encode;
        check_name(tensor, encode, self.names)?;
        let (index, payload_bytes) = (plan.len(), plan.tensors.push(tensor.name, info));
        self.candidates.add(index, payload_bytes, tensor);
        if tensor.info.dtype == Dtype::U8 {
            plan.look_for_names(index, tensor.data);
        }
        Ok(())
    }
}
