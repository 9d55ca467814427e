use std::sync::Arc;

use indexmap::IndexMap;

use super::header;
use super::metadata::{TypedValue, Writing};
use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::model::{FilePart, FormatSpec, MetadataValue};
use crate::tensor::TensorInfo;
use crate::write;
use crate::write::{FileLayout, NamePolicy, PlannedTensors};

/// Writes the header, then the tensors, each padded to the alignment.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) metadata: IndexMap<String, TypedValue>,
    pub(super) alignment: Option<u64>,
    /// Write names that only some builds of ggml read.
    pub(super) long_names: bool,
    /// Whether the file is one of several.
    pub(super) part: Option<FilePart>,
}

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        &super::FORMAT
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        if header::has_whole_rows(info) {
            Ok(())
        } else {
            let (dtype, block) = (info.dtype, info.dtype.block_elements());
            Err(cannot_store(info.to_string(), format!("in gguf, rows of {dtype} are multiples of {block}")))
        }
    }

    fn longest_name(&self) -> Option<usize> {
        Some(if self.long_names { header::MAX_LONG_NAME } else { header::MAX_NAME })
    }

    fn longer_names(&self) -> Option<usize> {
        (!self.long_names).then_some(header::MAX_LONG_NAME)
    }

    fn with_part(&self, part: FilePart) -> Option<Arc<dyn write::Encode>> {
        Some(Arc::new(Self { part: Some(part), ..self.clone() }))
    }

    fn with_metadata(&self, entries: &[(String, MetadataValue)]) -> Result<Arc<dyn write::Encode>> {
        let mut encode = self.clone();
        encode.metadata.extend(entries.iter().map(|(key, value)| (key.clone(), TypedValue::from_field(value))));
        Ok(Arc::new(encode))
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        if let Some(FilePart { count, .. }) = self.part
            && count > header::MAX_PARTS
        {
            let (what, most) = (format!("save in {count} parts"), header::MAX_PARTS);
            return Err(ErrorKind::Unsupported { what, instead: format!("gguf has up to {most}") }.into());
        }
        let entries = Writing::new(&self.metadata, self.alignment, self.part)?;
        for index in 0..plan.len() {
            let checked = header::check_alignment(plan.info(index), entries.alignment);
            checked.map_err(|error| Error::new(error).in_tensor(plan.name(index)))?;
        }
        let mut layout = plan.stack_payloads(0, entries.alignment)?;
        // ggml knows the size of a type, and so where the padding begins: more of it changes nothing.
        plan.end_with_unknown(1, &mut layout)?;
        layout.put_before(header::write(plan, &entries, &layout))?;
        Ok(layout)
    }
}
