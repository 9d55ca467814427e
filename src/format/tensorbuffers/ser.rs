use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashSet;
use smallvec::SmallVec;

use super::metadata::{self, MetadataTensor, Operation};
use super::{entries, header};
use crate::error::{Error, ErrorKind, Result};
use crate::model::MetadataValue;
use crate::record::{self, FileLayout, Format, Names, Plan, cannot_store};
use crate::tensor::TensorInfo;

/// Writes tensors one after the other, then their metadata.
#[derive(Debug, Clone)]
pub(super) struct Encode {
    pub(super) alignment: u64,
    pub(super) model: Option<String>,
    pub(super) operations: Option<Vec<Operation>>,
    /// The contents of the file that is appended to.
    pub(super) before: Option<Before>,
}

impl Default for Encode {
    fn default() -> Self {
        Self { alignment: 64, model: None, operations: None, before: None }
    }
}

/// A file that is appended to. The new part begins at the offset of its metadata.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    pub(super) end: u64,
    pub(super) tensors: Vec<OldTensor>,
    pub(super) names: HashSet<Box<str>>,
}

/// A tensor that is already in the file.
#[derive(Debug, Clone)]
pub(super) struct OldTensor {
    pub(super) id: u64,
    pub(super) name: Box<str>,
    pub(super) info: TensorInfo,
    pub(super) range: Range<u64>,
}

impl record::Encode for Encode {
    fn format(&self) -> &'static Format {
        &super::FORMAT
    }

    fn names(&self) -> Names {
        Names::Stored
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        if let Some(bytes) = info.payload_bytes().filter(|bytes| u32::try_from(*bytes).is_err()) {
            return Err(cannot_store(format!("{bytes} bytes"), "tensorbuffers stores tensors below 4 GiB"));
        }
        Ok(())
    }

    fn check_name(&self, name: &str, _: &TensorInfo) -> Result<(), ErrorKind> {
        if self.before.as_ref().is_some_and(|before| before.names.contains(name)) {
            return Err(ErrorKind::RepeatedName { name: name.to_owned() });
        }
        Ok(())
    }

    fn with_metadata(&self, entries: &[(String, MetadataValue)]) -> Result<Arc<dyn record::Encode>> {
        let mut encode = self.clone();
        for (key, value) in entries {
            entries::set(&mut encode.model, &mut encode.operations, key, &value.to_string())?;
        }
        Ok(Arc::new(encode))
    }

    fn lay_out(&self, plan: &Plan) -> Result<FileLayout> {
        if !self.alignment.is_power_of_two() || u32::try_from(self.alignment).is_err() {
            let what = format!("align tensors to {} bytes", self.alignment);
            let instead = "an alignment is a power of two below 2^32".to_owned();
            return Err(ErrorKind::Unsupported { what, instead }.into());
        }
        let begin = if self.before.is_some() { Vec::new() } else { header::MAGIC.to_vec() };
        let start = self.before.as_ref().map_or(0, |before| before.end);
        // Offsets in the layout count from `start`. Only with it added they are multiples of the alignment.
        let first = start.max(header::DATA).next_multiple_of(self.alignment) - start;
        let mut layout = plan.stack(first, self.alignment, &mut |_, _| ())?;
        layout.begin = begin;
        layout.end = self.end(plan, start, &layout)?;
        Ok(layout)
    }
}

impl Encode {
    /// Returns the metadata and the footer of the file that is appended to, without more tensors.
    pub(super) fn old_end(&self) -> Result<Vec<u8>> {
        metadata::build(&self.old_records(), self.model.as_deref(), self.operations.as_deref().unwrap_or_default())
    }

    /// Returns the tensors of the file that is appended to.
    fn old_records(&self) -> SmallVec<[MetadataTensor<'_>; 1]> {
        let old = self.before.iter().flat_map(|before| &before.tensors);
        old.map(|old| MetadataTensor { id: old.id, name: &old.name, info: old.info.clone(), range: old.range.clone() })
            .collect()
    }

    /// Returns the metadata and the footer.
    fn end(&self, plan: &Plan, start: u64, layout: &FileLayout) -> Result<Vec<u8>> {
        let mut records = self.old_records();
        for (at, payload) in layout.payloads().enumerate() {
            let (name, offset) = (plan.name(at), start + payload);
            let range = offset..offset + plan.payload_bytes(at) as u64;
            if u32::try_from(range.end).is_err() {
                return Err(Error::new(too_far(range)).in_tensor(name));
            }
            records.push(MetadataTensor { id: header::id(name), name, info: plan.info(at).clone(), range });
        }
        metadata::build(&records, self.model.as_deref(), self.operations.as_deref().unwrap_or_default())
    }
}

fn too_far(range: Range<u64>) -> ErrorKind {
    let what = format!("it at bytes {} to {}", range.start, range.end);
    cannot_store(what, "tensorbuffers addresses bytes below 4 GiB; write several files")
}
