//! Whether a tensor that a type casts holds numbers, or the codes of a quantized weight.

use super::MetadataSource;
use crate::error::Result;
use crate::quant::{Quantized, may_be_quantized, recognize};
use crate::read::Index;

/// What was recognized among the tensors of a file, when a type first cast one.
#[derive(Default)]
pub(super) struct Codes {
    recognized: Option<Quantized>,
    /// The tensors that were looked at. A stream has more later.
    tensors: usize,
}

impl Codes {
    /// Checks that a tensor holds numbers. An open file knows its configuration; elsewhere, the names decide.
    #[cold]
    pub(super) fn of(&mut self, index: &Index, metadata: &MetadataSource<'_>, at: usize) -> Result<()> {
        if let MetadataSource::OfFile(file) = metadata {
            return file.check_numbers(at);
        }
        if self.recognized.is_none() || self.tensors != index.len() {
            let names = 0..index.len();
            let any = names.into_iter().any(|at| may_be_quantized(index.name(at), index.entry(at).info()));
            self.recognized = Some(if any { recognize(index) } else { Quantized::default() });
            self.tensors = index.len();
        }
        let recognized = self.recognized.as_ref().and_then(|recognized| recognized.refusal(at));
        recognized.map_or(Ok(()), |refusal| Err(refusal.into()))
    }
}
