//! GPTQ and AWQ: rows of the tensor are columns as they are stored.

use std::ops::Range;

use tensorfile_quant::{Columns, awq, gptq};

use super::index::stated_groups;
use super::scales::widen;
use super::weight::{AT_ONCE_ACROSS, Decode, PartBox, StoredWeight, Tile, codes_to_word, groups_of, words_of};
use crate::error::Result;
use crate::quant::Role;
use crate::quant::recipe::{ColumnsKind, ColumnsRecipe, ScaleCode};

impl Decode for ColumnsRecipe {
    fn unit(&self, _: &StoredWeight) -> usize {
        match self.kind {
            // Rows of codes begin with a word.
            ColumnsKind::Gptq { .. } => self.codes_to_word(),
            ColumnsKind::Awq => 1,
        }
    }

    fn row_unit(&self) -> usize {
        self.codes_to_word()
    }

    fn at_once(&self, _: &StoredWeight) -> usize {
        AT_ONCE_ACROSS
    }

    fn parts(&self, weight: &StoredWeight, tile: &Tile) -> Vec<PartBox> {
        let [codes, scale, zero] = [Role::Codes, Role::Scale, Role::Zero].map(|role| weight.part(role));
        let (inputs, outputs) = (&tile.aligned, self.whole_outputs(weight, tile));
        let output_words = self.words(&outputs);
        let of_codes = match self.kind {
            ColumnsKind::Gptq { .. } => vec![self.words(inputs), outputs.clone()],
            ColumnsKind::Awq => vec![inputs.clone(), output_words.clone()],
        };
        let index = weight.find(Role::Index);
        let groups = match index {
            // Any group may be asked for.
            Some(_) => 0..weight.dims(scale)[0],
            None => groups_of(inputs, self.group),
        };
        let mut parts = vec![
            PartBox(codes, of_codes),
            PartBox(scale, vec![groups.clone(), outputs]),
            PartBox(zero, vec![groups, output_words]),
        ];
        parts.extend(index.map(|index| PartBox(index, vec![inputs.clone()])));
        parts
    }

    fn compute(&self, weight: &StoredWeight, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()> {
        let (inputs, outputs) = (&tile.aligned, self.whole_outputs(weight, tile));
        let count = outputs.len();
        let scales = widen(ScaleCode::Float(weight.dtype(weight.part(Role::Scale))), &parts[1])?;
        let groups_held = scales.len() / count;
        let words = parts[2].len() / groups_held;
        let mut zeros = vec![0; scales.len()];
        for (words, zeros) in parts[2].chunks_exact(words).zip(zeros.chunks_exact_mut(count)) {
            match self.kind {
                ColumnsKind::Gptq { less_1 } => {
                    let version = if less_1 { gptq::Version::V1 } else { gptq::Version::V2 };
                    gptq::unpack_zeros(words, self.bits, version, zeros);
                }
                ColumnsKind::Awq => awq::unpack_zeros(words, zeros),
            }
        }
        let first = inputs.start / self.group;
        let groups: Vec<u32> = match parts.get(3) {
            None => inputs.clone().map(|input| u32::try_from(input / self.group - first).unwrap_or(u32::MAX)).collect(),
            Some(index) => stated_groups(weight, index, groups_held)?,
        };
        let columns = Columns { count, zeros: &zeros, scales: &scales, groups: &groups };
        let decode = |out: &mut [f32]| match self.kind {
            ColumnsKind::Gptq { .. } => gptq::decode(&parts[0], self.bits, &columns, out, inputs.len()),
            ColumnsKind::Awq => awq::decode(&parts[0], &columns, out, inputs.len()),
        };
        if outputs == tile.rows {
            decode(out);
            return Ok(());
        }
        let mut whole = vec![0.0_f32; count * inputs.len()];
        decode(&mut whole);
        let skipped = (tile.rows.start - outputs.start) * inputs.len();
        out.copy_from_slice(&whole[skipped..skipped + out.len()]);
        Ok(())
    }
}

impl ColumnsRecipe {
    /// Returns the number of codes after which one begins with a word. Those of 3 bits cross words.
    fn codes_to_word(&self) -> usize {
        codes_to_word(self.bits, self.bits == 3)
    }

    fn words(&self, codes: &Range<usize>) -> Range<usize> {
        words_of(codes, self.bits, self.bits == 3)
    }

    /// Returns the outputs of a tile in whole words.
    fn whole_outputs(&self, weight: &StoredWeight, tile: &Tile) -> Range<usize> {
        let (outputs, unit) = (&tile.rows, self.codes_to_word());
        outputs.start / unit * unit..outputs.end.next_multiple_of(unit).min(weight.shape().dims()[0])
    }
}
