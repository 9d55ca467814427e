//! Integers in words, with a scale and often a zero for each group.

use std::ops::Range;

use tensorfile_quant::packed::{self, Packing};

use super::index::{expect_all_groups, stated_groups};
use super::scales::widen;
use super::weight::{
    AT_ONCE, AT_ONCE_ACROSS, Decode, PartBox, StoredWeight, Tile, codes_to_word, groups_of, lcm, words_of,
};
use crate::error::Result;
use crate::quant::Role;
use crate::quant::recipe::{PackedRecipe, ScaleCode};

impl Decode for PackedRecipe {
    fn unit(&self, weight: &StoredWeight) -> usize {
        let word = codes_to_word(self.bits, self.is_dense);
        // An index gives columns to groups one by one.
        if has_index(weight) { word } else { lcm(word, self.group) }
    }

    fn at_once(&self, weight: &StoredWeight) -> usize {
        // Each tile reads the whole index.
        if has_index(weight) { AT_ONCE_ACROSS } else { AT_ONCE }
    }

    fn parts(&self, weight: &StoredWeight, tile: &Tile) -> Vec<PartBox> {
        let [codes, scale] = [Role::Codes, Role::Scale].map(|role| weight.part(role));
        let (rows, groups) = (&tile.rows, self.groups(weight, tile));
        let words = words_of(&tile.aligned, self.bits, self.is_dense);
        let mut parts = vec![
            weight.matrix(codes, tile, rows.clone(), words),
            weight.matrix(scale, tile, rows.clone(), groups.clone()),
        ];
        if let Some(zero) = weight.find(Role::Zero) {
            let words = words_of(&(self.first_zero(tile)..rows.end), self.bits, self.is_dense);
            parts.push(weight.matrix(zero, tile, words, groups));
        }
        parts.extend(weight.find(Role::Index).map(|index| weight.whole(index)));
        parts
    }

    fn compute(&self, weight: &StoredWeight, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()> {
        let scales = widen(ScaleCode::Float(weight.dtype(weight.part(Role::Scale))), &parts[1])?;
        let packing = if self.is_dense { Packing::Dense } else { Packing::Padded };
        let groups = self.groups(weight, tile).len();
        let mut zeros = vec![1_u8 << (self.bits - 1); groups];
        let has_zeros = weight.find(Role::Zero).is_some();
        let index = match parts.last() {
            Some(index) if has_index(weight) => {
                let stated = stated_groups(weight, index, groups)?;
                // compressed-tensors counts the groups that have columns, others count all of them.
                expect_all_groups(weight, &stated, groups)?;
                Some(stated)
            }
            _ => None,
        };
        let rows = tile.by_row(&parts[0]).zip(tile.by_row(&scales)).zip(tile.by_row_mut(out));
        for (row, ((codes, scales), out)) in tile.rows.clone().zip(rows) {
            if has_zeros {
                packed::unpack_row(&parts[2], self.bits, packing, row - self.first_zero(tile), &mut zeros);
            }
            match &index {
                None => packed::decode(codes, self.bits, packing, &zeros, scales, self.group, out),
                Some(index) => {
                    let index = &index[tile.aligned.clone()];
                    packed::decode_by_index(codes, self.bits, packing, &zeros, scales, index, out);
                }
            }
        }
        Ok(())
    }
}

fn has_index(weight: &StoredWeight) -> bool {
    weight.find(Role::Index).is_some()
}

impl PackedRecipe {
    /// Returns the groups whose scales a tile takes.
    fn groups(&self, weight: &StoredWeight, tile: &Tile) -> Range<usize> {
        let all = 0..weight.dims(weight.part(Role::Scale))[1];
        if has_index(weight) { all } else { groups_of(&tile.aligned, self.group) }
    }

    /// Returns the first row of a tile's words of zeros, which are packed down columns.
    fn first_zero(&self, tile: &Tile) -> usize {
        let unit = codes_to_word(self.bits, self.is_dense);
        tile.rows.start / unit * unit
    }
}
