//! Codes of bitsandbytes, which stand for the numbers of a map. Blocks go over all elements, so that their places differ from
//! row to row.

use std::ops::Range;

use tensorfile_quant::codebook;

use super::scales::{runs, widen_f32};
use super::weight::{Decode, PartBox, StoredWeight, Tile, damaged, groups_of};
use crate::error::Result;
use crate::quant::Role;
use crate::quant::recipe::CodebookRecipe;

impl Decode for CodebookRecipe {
    fn parts(&self, weight: &StoredWeight, tile: &Tile) -> Vec<PartBox> {
        let elements = self.elements(weight, tile);
        let blocks = groups_of(&elements, self.block);
        let mut parts = vec![
            weight.flat(weight.part(Role::Codes), groups_of(&elements, 2)),
            weight.flat(weight.part(Role::Scale), blocks.clone()),
        ];
        let mut maps = weight.tensor.parts.iter().filter(|part| part.role == Role::Map);
        parts.extend(maps.next().map(|map| weight.whole(map.position)));
        if let (Some((nested, _)), Some(map)) = (self.nested, maps.next()) {
            parts.push(weight.whole(map.position));
            parts.push(weight.flat(weight.part(Role::SecondScale), groups_of(&blocks, nested)));
        }
        parts
    }

    fn compute(&self, weight: &StoredWeight, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()> {
        let elements = self.elements(weight, tile);
        let (codes, map) = (&parts[0], numbers_of_map::<16>(&parts[2])?);
        let absmax = match self.nested {
            None => widen_f32(&parts[1])?,
            Some((nested, offset)) => {
                let (map, second) = (numbers_of_map::<256>(&parts[3])?, widen_f32(&parts[4])?);
                let mut absmax = vec![0.0; parts[1].len()];
                for (run, blocks) in runs(elements.start / self.block, nested, absmax.len()) {
                    let (codes, second, out) = (&parts[1][run.clone()], &second[blocks], &mut absmax[run]);
                    codebook::decode_absmax(codes, &map, second, nested, offset, out);
                }
                absmax
            }
        };
        let columns = weight.columns();
        let first = weight.row_of(tile) * columns + tile.columns.start;
        let is_contiguous = tile.rows.len() == 1 || tile.columns.len() == columns;
        if is_contiguous && first == elements.start && out.len() == elements.len() {
            codebook::decode(codes, &map, &absmax, self.block, out);
            return Ok(());
        }
        let mut whole = vec![0.0_f32; elements.len()];
        codebook::decode(codes, &map, &absmax, self.block, &mut whole);
        for (i, out) in tile.by_row_mut(out).enumerate() {
            let start = first + i * columns - elements.start;
            out.copy_from_slice(&whole[start..start + out.len()]);
        }
        Ok(())
    }
}

impl CodebookRecipe {
    /// Returns the elements of whole blocks that have the rows of a tile.
    fn elements(&self, weight: &StoredWeight, tile: &Tile) -> Range<usize> {
        let (columns, all) = (weight.columns(), weight.shape().elements().unwrap_or_default());
        let row = weight.row_of(tile);
        let first = row * columns + tile.columns.start;
        let last = (row + tile.rows.len() - 1) * columns + tile.columns.end;
        first / self.block * self.block..last.next_multiple_of(self.block).min(all)
    }
}

fn numbers_of_map<const LEN: usize>(bytes: &[u8]) -> Result<[f32; LEN]> {
    <[f32; LEN]>::try_from(&widen_f32(bytes)?[..]).map_err(|_| damaged(format!("a map has not {LEN} numbers")))
}
