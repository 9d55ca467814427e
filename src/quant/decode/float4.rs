//! 4-bit floats, two to a byte, with a scale for each group.

use tensorfile_quant::{Float4, float4, transpose};

use super::scales::{widen, widen_f32};
use super::weight::{AT_ONCE, AT_ONCE_ACROSS, Decode, PartBox, StoredWeight, Tile, damaged, groups_of};
use crate::error::Result;
use crate::quant::Role;
use crate::quant::recipe::{Float4Order, Float4Recipe, Second};

/// The rows of a tile of cuBLAS, among which the scales of each are.
const TILE_ROWS: usize = 128;

/// The bytes of a group of gpt-oss, which are a dim.
const GROUP_BYTES: usize = 16;

impl Decode for Float4Recipe {
    fn unit(&self, _: &StoredWeight) -> usize {
        // Columns of the tensor are rows as they are stored.
        if self.is_transposed { 1 } else { self.group }
    }

    fn row_unit(&self) -> usize {
        if self.is_transposed { self.group } else { 1 }
    }

    fn at_once(&self, _: &StoredWeight) -> usize {
        if self.is_transposed { AT_ONCE_ACROSS } else { AT_ONCE }
    }

    fn parts(&self, weight: &StoredWeight, tile: &Tile) -> Vec<PartBox> {
        let [codes, scale] = [Role::Codes, Role::Scale].map(|role| weight.part(role));
        let (rows, columns) = (&tile.rows, &tile.aligned);
        if self.is_transposed {
            let ranges = tile.lead().chain([columns.clone(), groups_of(rows, self.group)]);
            let bytes = std::iter::once(0..GROUP_BYTES);
            return vec![PartBox(codes, ranges.clone().chain(bytes).collect()), PartBox(scale, ranges.collect())];
        }
        let in_element = 2 * weight.dtype(codes).block_bytes();
        let mut parts = vec![weight.matrix(codes, tile, rows.clone(), groups_of(columns, in_element))];
        if self.in_tiles {
            let [scale_rows, scale_columns] = [0, 1].map(|dim| weight.dims(scale)[dim]);
            let tiled = rows.start / TILE_ROWS * TILE_ROWS..rows.end.next_multiple_of(TILE_ROWS).min(scale_rows);
            parts.push(PartBox(scale, vec![tiled, 0..scale_columns]));
        } else {
            parts.push(weight.matrix(scale, tile, rows.clone(), groups_of(columns, self.group)));
        }
        parts.extend(weight.find(Role::SecondScale).map(|second| weight.whole(second)));
        parts
    }

    fn compute(&self, weight: &StoredWeight, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()> {
        let mut scales = widen(self.scale, &parts[1])?;
        if self.in_tiles {
            let width = weight.dims(weight.part(Role::Scale))[1];
            scales = self.untile(tile, &scales, width);
        }
        if let (Some(second), true) = (parts.get(2), self.second != Second::None) {
            let [by] = widen_f32(second)?[..] else {
                return Err(damaged("the scale of scales is not one number"));
            };
            match self.second {
                Second::Divides => scales.iter_mut().for_each(|scale| *scale /= by),
                _ => scales.iter_mut().for_each(|scale| *scale *= by),
            }
        }
        let order = match self.order {
            Float4Order::LowFirst => Float4::Ocp,
            Float4Order::ModelOpt => Float4::ModelOpt,
            Float4Order::HighFirst => Float4::HighFirst,
        };
        if !self.is_transposed {
            // Rows are whole groups, so that all are one run.
            order.decode(&parts[0], &scales, self.group, out);
            return Ok(());
        }
        // Stored rows are columns, in whole groups of rows.
        let columns = tile.aligned.len();
        let inputs = tile.rows.start / self.group * self.group..tile.rows.end.next_multiple_of(self.group);
        let mut stored = vec![0.0_f32; columns * inputs.len()];
        order.decode(&parts[0], &scales, self.group, &mut stored);
        let mut turned = vec![0.0_f32; stored.len()];
        transpose(&stored, inputs.len(), &mut turned, columns);
        let skipped = (tile.rows.start - inputs.start) * columns;
        out.copy_from_slice(&turned[skipped..skipped + out.len()]);
        Ok(())
    }
}

impl Float4Recipe {
    /// Takes the scales of a tile's groups out of the tiles of cuBLAS, which have all columns.
    fn untile(&self, tile: &Tile, scales: &[f32], width: usize) -> Vec<f32> {
        let first = tile.rows.start / TILE_ROWS * TILE_ROWS;
        let groups = groups_of(&tile.aligned, self.group);
        let places = tile.rows.clone().flat_map(|row| groups.clone().map(move |group| (row - first, group)));
        places.map(|(row, group)| scales[float4::tile_index(row, group, width)]).collect()
    }
}
