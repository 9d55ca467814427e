//! Integers in words, with a scale and often a zero for each group.

use tensorfile_quant::packed::{self, Packing};

use super::scales::widen;
use super::weight::{Decode, PartBox, StoredWeight, Tile, codes_to_word, groups_of, lcm, words_of};
use crate::error::Result;
use crate::quant::Role;
use crate::quant::recipe::{PackedRecipe, ScaleCode};

impl Decode for PackedRecipe {
    fn unit(&self, _: &StoredWeight) -> usize {
        lcm(codes_to_word(self.bits, self.is_dense), self.group)
    }

    fn parts(&self, weight: &StoredWeight, tile: &Tile) -> Vec<PartBox> {
        let [codes, scale] = [Role::Codes, Role::Scale].map(|role| weight.part(role));
        let (rows, groups) = (&tile.rows, groups_of(&tile.aligned, self.group));
        let words = words_of(&tile.aligned, self.bits, self.is_dense);
        let mut parts = vec![
            weight.matrix(codes, tile, rows.clone(), words),
            weight.matrix(scale, tile, rows.clone(), groups.clone()),
        ];
        if let Some(zero) = weight.find(Role::Zero) {
            let words = words_of(&(self.first_zero(tile)..rows.end), self.bits, self.is_dense);
            parts.push(weight.matrix(zero, tile, words, groups));
        }
        parts
    }

    fn compute(&self, weight: &StoredWeight, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()> {
        let scales = widen(ScaleCode::Float(weight.dtype(weight.part(Role::Scale))), &parts[1])?;
        let packing = if self.is_dense { Packing::Dense } else { Packing::Padded };
        let mut zeros = vec![1_u8 << (self.bits - 1); groups_of(&tile.aligned, self.group).len()];
        let rows = tile.by_row(&parts[0]).zip(tile.by_row(&scales)).zip(tile.by_row_mut(out));
        for (row, ((codes, scales), out)) in tile.rows.clone().zip(rows) {
            if let Some(stored) = parts.get(2) {
                packed::unpack_row(stored, self.bits, packing, row - self.first_zero(tile), &mut zeros);
            }
            packed::decode(codes, self.bits, packing, &zeros, scales, self.group, out);
        }
        Ok(())
    }
}

impl PackedRecipe {
    /// Returns the first row of a tile's words of zeros, which are packed down columns.
    fn first_zero(&self, tile: &Tile) -> usize {
        let unit = codes_to_word(self.bits, self.is_dense);
        tile.rows.start / unit * unit
    }
}
