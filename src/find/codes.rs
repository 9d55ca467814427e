//! The quantized weights among the tensors that a type asks for: whether a tensor holds numbers or codes, and which weights
//! are to be decoded.

use std::borrow::Cow;

use super::MetadataSource;
use super::compare::compare_dequantized;
use crate::error::{ErrorKind, Result};
use crate::model::Schema;
use crate::quant::{LogicalTensor, Quantized, Role, Verdict, may_be_quantized, recognize};
use crate::read::Index;
use crate::tensor::{Dtype, TensorInfo};

/// What was recognized among the tensors of a file, when it was first asked for.
#[derive(Default)]
pub(super) struct Codes {
    recognized: Quantized,
    /// The tensors that were looked at. A stream has more later.
    tensors: usize,
}

impl Codes {
    /// Returns the quantized weights. An open file knows its configuration; elsewhere, the names decide.
    #[cold]
    pub(super) fn recognized<'a>(
        &'a mut self,
        index: &Index,
        metadata: &'a MetadataSource<'_>,
    ) -> Result<&'a Quantized> {
        if let MetadataSource::OfFile(file, _) = metadata {
            return file.quantized();
        }
        if self.tensors != index.len() {
            let any = (0..index.len()).any(|at| may_be_quantized(index.name(at), index.entry(at).info()));
            self.recognized = if any { recognize(index) } else { Quantized::default() };
            self.tensors = index.len();
        }
        Ok(&self.recognized)
    }

    /// Checks that a tensor holds numbers.
    #[cold]
    pub(super) fn check_numbers(&mut self, index: &Index, metadata: &MetadataSource<'_>, at: usize) -> Result<()> {
        self.recognized(index, metadata)?.refusal(at).map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// Checks that the type asks for no weight that only an open file decodes.
    #[cold]
    pub(super) fn check_decoded(
        &mut self,
        schema: &Schema,
        index: &Index,
        metadata: &MetadataSource<'_>,
    ) -> Result<()> {
        let recognized = self.recognized(index, metadata)?;
        match asked_weights(schema, index, recognized)?.first() {
            None => Ok(()),
            Some((weight, _)) => {
                let what = format!(
                    "decode `{}`, stored as {weight}, from a slice, a stream or tensors in memory",
                    weight.name()
                );
                let instead = "`File::load` and `tensorfile::load` decode it".to_owned();
                Err(ErrorKind::Unsupported { what, instead }.into())
            }
        }
    }
}

/// Returns the weights that a type asks to have decoded, each with the dtype to decode it to. No payload is read.
pub(crate) fn asked_weights<'q>(
    schema: &Schema,
    index: &Index,
    quantized: &'q Quantized,
) -> Result<Vec<(&'q LogicalTensor, Dtype)>> {
    if quantized.tensors().is_empty() {
        return Ok(Vec::new());
    }
    // The type is compared with the file as it would be if all weights were decoded.
    let (mut decoded, mut weights) = (Index::default(), Vec::with_capacity(index.len()));
    if index.has_repeated_names() {
        decoded.let_names_repeat();
    }
    for at in 0..index.len() {
        let (name, info, weight) = match quantized.verdict(at) {
            Verdict::Part(weight, Role::Codes) => {
                (weight.name(), Cow::Owned(TensorInfo::new(Dtype::F32, weight.shape().clone())), Some(weight))
            }
            Verdict::Part(..) => continue,
            _ => (index.name(at), Cow::Borrowed(index.entry(at).info()), None),
        };
        decoded.push_checked(Some(name), info.into_owned(), 0..0)?;
        weights.push(weight);
    }
    decoded.complete()?;
    let asked = compare_dequantized(schema, &decoded);
    Ok(asked.into_iter().filter_map(|(at, dtype)| Some((weights[at]?, dtype))).collect())
}
