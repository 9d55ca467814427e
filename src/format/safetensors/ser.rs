use std::cmp::Reverse;
use std::sync::Arc;

use indexmap::IndexMap;

use super::header::{Writer, rank};
use crate::error::{ErrorKind, Result, cannot_store};
use crate::model::{FormatSpec, MetadataValue};
use crate::tensor::{TensorInfo, sorted};
use crate::write;
use crate::write::{FileLayout, NamePolicy, PlannedIter, PlannedTensors, SmallFile, SmallFormat, SmallTensors};

/// Writes the header, then the tensors without gaps.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) metadata: IndexMap<String, String>,
    /// Write tensors of several dtypes in the order of the value.
    pub(super) keep_order: bool,
    /// State that there is no metadata.
    pub(super) empty_metadata: bool,
}

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        &super::FORMAT
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        // The crate multiplies all dims, even if one of them is zero.
        let bits = 8 * info.dtype.block_bytes() / info.dtype.block_elements();
        match info.shape.iter().try_fold(bits, |bits, dim| bits.checked_mul(*dim)) {
            Some(_) => Ok(()),
            None => Err(cannot_store(info.to_string(), "readers of safetensors count its bits, which are too many")),
        }
    }

    fn with_metadata(&self, entries: &[(String, MetadataValue)]) -> Result<Arc<dyn write::Encode>> {
        let mut metadata = self.metadata.clone();
        metadata.extend(entries.iter().map(|(key, value)| (key.clone(), value.to_string())));
        Ok(Arc::new(Self { metadata, ..*self }))
    }

    fn small(&self) -> Option<&dyn SmallFormat> {
        Some(self)
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        let order = self.order(plan.iter());
        let mut layout = plan.stack_payloads(0, 1)?;
        layout.put_before(self.header(plan.iter(), order.as_deref())?)?;
        if let Some(order) = order {
            layout.reorder(order, &mut |index| plan.payload_bytes(index));
        }
        Ok(layout)
    }
}

impl Encode {
    /// Returns the header of a file of these tensors.
    fn header(&self, tensors: PlannedIter<'_>, order: Option<&[usize]>) -> Result<Vec<u8>> {
        let mut header =
            Writer::new(Vec::with_capacity(Writer::expected_bytes(tensors.len())), &self.metadata, self.empty_metadata);
        header.tensors(tensors, order);
        header.finish()
    }

    /// Returns the order of the file, unless it is the order of the value. Tensors of several dtypes are sorted, so
    /// that each is aligned.
    #[inline]
    fn order(&self, tensors: PlannedIter<'_>) -> Option<Vec<usize>> {
        let infos = tensors.infos();
        let has_one_dtype = infos.len() < 2 || infos.iter().all(|info| info.dtype == infos[0].dtype);
        if self.keep_order || has_one_dtype { None } else { order_of_several(tensors) }
    }
}

/// Returns the order of tensors of several dtypes, unless they are sorted. Unknown dtypes have no rank: their value
/// keeps its order.
#[inline(never)]
fn order_of_several(tensors: PlannedIter<'_>) -> Option<Vec<usize>> {
    let ranks = tensors.infos().iter().map(|info| rank(info).map(Reverse));
    let ranks: Vec<Reverse<usize>> = ranks.collect::<Option<_>>()?;
    let keys: Vec<(Reverse<usize>, &str)> = tensors.map(|tensor| (ranks[tensor.info_number], tensor.name)).collect();
    (!keys.is_sorted()).then(|| sorted::positions(keys.len(), &mut |one, other| keys[one].cmp(&keys[other])))
}

/// Sorts the payloads of a small file.
fn sort_payloads(tensors: PlannedIter<'_>, order: &[usize], payloads: &mut [u8]) {
    let mut rest = &*payloads;
    let split = tensors.map(|tensor| {
        let payload;
        (payload, rest) = rest.split_at(tensor.payload_bytes);
        payload
    });
    let split: Vec<&[u8]> = split.collect();
    let sorted = order.iter().map(|index| split[*index]).collect::<Vec<_>>().concat();
    payloads.copy_from_slice(&sorted);
}

impl SmallFormat for Encode {
    fn front_bytes(&self, tensors: usize) -> usize {
        Writer::expected_bytes(tensors)
    }

    fn alignment(&self) -> u64 {
        1
    }

    fn finish(&self, tensors: &SmallTensors, file: &mut SmallFile<'_>) -> Result<()> {
        let order = self.order(tensors.iter());
        let header = self.header(tensors.iter(), order.as_deref())?;
        file.set_front(header.len())?.copy_from_slice(&header);
        if let Some(order) = order {
            sort_payloads(tensors.iter(), &order, file.records());
        }
        Ok(())
    }
}
