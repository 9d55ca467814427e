//! Integers of MLX, with a scale and a bias for each group.

use tensorfile_quant::affine;

use super::scales::widen;
use super::weight::{Decode, PartBox, StoredWeight, Tile, groups_of, lcm, words_of};
use crate::error::Result;
use crate::quant::Role;
use crate::quant::recipe::{AffineRecipe, ScaleCode};

impl Decode for AffineRecipe {
    fn unit(&self, _: &StoredWeight) -> usize {
        lcm(32, self.group)
    }

    fn parts(&self, weight: &StoredWeight, tile: &Tile) -> Vec<PartBox> {
        let [codes, scale, bias] = [Role::Codes, Role::Scale, Role::Bias].map(|role| weight.part(role));
        let groups = groups_of(&tile.aligned, self.group);
        let of = |part, columns| weight.matrix(part, tile, tile.rows.clone(), columns);
        vec![of(codes, words_of(&tile.aligned, self.bits, true)), of(scale, groups.clone()), of(bias, groups)]
    }

    fn compute(&self, weight: &StoredWeight, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()> {
        let code = ScaleCode::Float(weight.dtype(weight.part(Role::Scale)));
        let (scales, biases) = (widen(code, &parts[1])?, widen(code, &parts[2])?);
        let groups = tile.by_row(&scales).zip(tile.by_row(&biases));
        for ((codes, (scales, biases)), out) in tile.by_row(&parts[0]).zip(groups).zip(tile.by_row_mut(out)) {
            affine::decode(codes, self.bits, scales, biases, self.group, out);
        }
        Ok(())
    }
}
