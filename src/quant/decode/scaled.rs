//! 8-bit floats and integers, with a scale for each block.

use std::ops::Range;

use tensorfile_quant::int8;

use super::scales::{float8, runs, widen};
use super::weight::{Decode, PartBox, StoredWeight, Tile, groups_of};
use crate::error::Result;
use crate::quant::Role;
use crate::quant::recipe::{Code, ScaledRecipe};

impl Decode for ScaledRecipe {
    fn unit(&self, weight: &StoredWeight) -> usize {
        // MLX has bytes in words.
        weight.dtype(weight.part(Role::Codes)).block_bytes()
    }

    fn parts(&self, weight: &StoredWeight, tile: &Tile) -> Vec<PartBox> {
        let columns = groups_of(&tile.aligned, self.unit(weight));
        let codes = weight.matrix(weight.part(Role::Codes), tile, tile.rows.clone(), columns);
        let of_blocks = |part| self.of_blocks(weight, part, tile);
        let zeros = weight.find(Role::Zero).map(of_blocks);
        [codes, of_blocks(weight.part(Role::Scale))].into_iter().chain(zeros).collect()
    }

    fn compute(&self, _: &StoredWeight, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()> {
        let scales = widen(self.scale, &parts[1])?;
        let [of_rows, of_columns] = self.block();
        let (columns, first_row) = (&tile.aligned, tile.rows.start / of_rows);
        let in_row = groups_of(columns, of_columns).len();
        for ((row, codes), out) in tile.rows.clone().zip(tile.by_row(&parts[0])).zip(tile.by_row_mut(out)) {
            let of_row = (row / of_rows - first_row) * in_row;
            for (run, blocks) in runs(columns.start, of_columns, columns.len()) {
                let blocks = of_row + blocks.start..of_row + blocks.end;
                let (codes, scales, out) = (&codes[run.clone()], &scales[blocks.clone()], &mut out[run]);
                match (self.code, parts.get(2)) {
                    (Code::Float8(dtype), _) => float8(dtype)?.decode(codes, scales, of_columns, out),
                    (Code::I8, None) => int8::decode(codes, scales, of_columns, out),
                    (Code::I8, Some(zeros)) => {
                        int8::decode_with_zeros(codes, &zeros[blocks], scales, of_columns, out);
                    }
                    (Code::LlmInt8, _) => int8::decode_llm(codes, scales, of_columns, out),
                }
            }
        }
        Ok(())
    }
}

impl ScaledRecipe {
    /// Returns the rows and columns of a block.
    fn block(&self) -> [usize; 2] {
        match self.blocks[..] {
            [] => [1, 1],
            [columns] => [1, columns],
            [.., rows, columns] => [rows, columns],
        }
    }

    /// Returns the box of a part that has a number for each block, each row, or one for all.
    fn of_blocks(&self, weight: &StoredWeight, part: usize, tile: &Tile) -> PartBox {
        let all = tile.lead().chain([tile.rows.clone(), tile.aligned.clone()]);
        // Of rank 1, there are no rows.
        let all = all.skip((tile.lead.len() + 2).saturating_sub(self.blocks.len()));
        let of_blocks = all.zip(&self.blocks).map(|(range, block): (Range<usize>, _)| groups_of(&range, *block));
        match weight.dims(part) {
            dims if dims.len() == self.blocks.len() => PartBox(part, of_blocks.collect()),
            [numbers] if *numbers > 1 => PartBox(part, vec![tile.rows.clone()]),
            _ => weight.whole(part),
        }
    }
}
