//! Blocks of ggml, and a scale beside those of NVFP4.

use tensorfile_quant::Block;

use super::scales::widen_f32;
use super::weight::{Decode, PartBox, StoredWeight, Tile, damaged};
use crate::error::Result;
use crate::quant::Role;
use crate::quant::recipe::GgmlRecipe;

impl Decode for GgmlRecipe {
    fn unit(&self, _: &StoredWeight) -> usize {
        self.0.block_elements()
    }

    fn parts(&self, weight: &StoredWeight, tile: &Tile) -> Vec<PartBox> {
        let codes = weight.matrix(weight.part(Role::Codes), tile, tile.rows.clone(), tile.aligned.clone());
        std::iter::once(codes).chain(weight.find(Role::SecondScale).map(|second| weight.whole(second))).collect()
    }

    fn compute(&self, _: &StoredWeight, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()> {
        let block = Block::from_name(self.0.name()).ok_or_else(|| damaged("there is no such block"))?;
        block.decode(&parts[0], out);
        if let Some(scale) = parts.get(1) {
            let scales = widen_f32(scale)?;
            // One for all, or one for each expert.
            let expert = tile.lead.first().copied().unwrap_or_default();
            let scale = scales[if scales.len() > 1 { expert } else { 0 }];
            out.iter_mut().for_each(|number| *number *= scale);
        }
        Ok(())
    }
}
