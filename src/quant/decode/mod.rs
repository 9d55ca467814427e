//! Decodes a weight from its parts: whole, or a box of its elements, from no more of the parts than that takes.
//!
//! Each family of recipes has a file here, and a row in [`family`]. A file says which boxes of the parts a tile of elements takes,
//! and makes the elements of them. The walk over tiles and all reading is here.

mod affine;
mod codebook;
mod columns;
mod float4;
mod ggml;
mod index;
mod packed;
mod scaled;
mod scales;
mod weight;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use half::{bf16, f16};
use tensorfile_quant::Float;

use super::recipe::Recipe;
use super::{LogicalTensor, Role};
use crate::error::{ErrorKind, Result};
use crate::fetch::{ReadPiece, boxes, fill_boxes, read_pieces};
use crate::read::Index;
use crate::storage::{FileStorage, GatherBytes, Wanted};
use crate::tensor::Dtype;
use weight::{Decode, PartBox, StoredWeight, Tile, out_of_memory};

/// Returns what decodes a recipe; `None` if nothing does.
fn family(recipe: &Recipe) -> Option<&dyn Decode> {
    Some(match recipe {
        Recipe::Scaled(recipe) => recipe,
        Recipe::Float4(recipe) => recipe,
        Recipe::Packed(recipe) => recipe,
        Recipe::Columns(recipe) => recipe,
        Recipe::Codebook(recipe) => recipe,
        Recipe::Affine(recipe) => recipe,
        Recipe::Ggml(recipe) => recipe,
        Recipe::Refused => return None,
    })
}

/// A weight that is decoded as it is read.
pub(crate) struct DecodedTensor {
    weight: StoredWeight,
    /// The dtype of the elements: f32, bf16 or f16.
    to: Dtype,
    bytes: u64,
}

impl DecodedTensor {
    /// A weight of a file, whose tensors are `stored`. `None` if it has more bytes than memory can.
    pub(crate) fn new(tensor: LogicalTensor, to: Dtype, stored: Arc<Index>) -> Option<Self> {
        let bytes = to.bytes_for(tensor.shape.elements()?)? as u64;
        Some(Self { weight: StoredWeight { tensor, stored }, to, bytes })
    }

    /// Returns what decodes the weight.
    fn family(&self) -> Result<&dyn Decode> {
        let tensor = &self.weight.tensor;
        family(&tensor.recipe).ok_or_else(|| {
            let what = format!("decode `{}`, which is stored as {tensor}", tensor.name);
            let instead = "this scheme is recognized, and its parts can be read as they are stored".to_owned();
            ErrorKind::Unsupported { what, instead }.into()
        })
    }

    /// Fills memory with a box of elements.
    fn fill<F: Float + Pod>(&self, files: &FileStorage, ranges: &[Range<usize>], bytes: &mut [u8]) -> Result<()> {
        let mut held = Vec::new();
        let is_aligned = bytemuck::try_cast_slice_mut::<u8, F>(bytes).is_ok();
        let out: &mut [F] = if is_aligned {
            bytemuck::cast_slice_mut(bytes)
        } else {
            held.resize(bytes.len() / size_of::<F>(), F::default());
            &mut held
        };
        let mut done = 0;
        self.decode(files, ranges, &mut |numbers| {
            F::round(numbers, &mut out[done..done + numbers.len()]);
            done += numbers.len();
        })?;
        if cfg!(target_endian = "big") {
            let numbers: &mut [u8] = bytemuck::cast_slice_mut(out);
            numbers.chunks_exact_mut(size_of::<F>()).for_each(<[u8]>::reverse);
        }
        if !is_aligned {
            bytes.copy_from_slice(bytemuck::cast_slice(&held));
        }
        Ok(())
    }

    /// Decodes a box to f32, and calls `each` with runs of its elements in order.
    fn decode(&self, files: &FileStorage, ranges: &[Range<usize>], each: &mut dyn FnMut(&[f32])) -> Result<()> {
        // The memory of a tile is used again for the next: fresh memory is cleared page by page.
        let (mut numbers, mut bytes): (Vec<f32>, Vec<Vec<u8>>) = Default::default();
        let family = self.family()?;
        self.each_tile(ranges, &mut |tile| {
            let parts = family.parts(&self.weight, &tile);
            self.read_parts(files, &parts, &mut bytes)?;
            let needed = tile.rows.len() * tile.aligned.len();
            numbers.try_reserve_exact(needed.saturating_sub(numbers.len())).map_err(|_| out_of_memory(4 * needed))?;
            numbers.resize(needed, 0.0);
            family.compute(&self.weight, &tile, &bytes, &mut numbers)?;
            if tile.aligned == tile.columns {
                each(&numbers);
                return Ok(());
            }
            let skipped = tile.columns.start - tile.aligned.start;
            for row in numbers.chunks_exact(tile.aligned.len()) {
                each(&row[skipped..skipped + tile.columns.len()]);
            }
            Ok(())
        })
    }

    /// Calls `each` with the parts of a box that are decoded at once, in the order of their elements.
    fn each_tile(&self, ranges: &[Range<usize>], each: &mut dyn FnMut(Tile) -> Result<()>) -> Result<()> {
        let one = 0..1;
        let (lead, rows, columns) = match ranges {
            [] => (&[][..], &one, &one),
            [columns] => (&[][..], &one, columns),
            [lead @ .., rows, columns] => (lead, rows, columns),
        };
        if rows.is_empty() || columns.is_empty() || lead.iter().any(Range::is_empty) {
            return Ok(());
        }
        let family = self.family()?;
        let (unit, row_unit) = (family.unit(&self.weight), family.row_unit());
        let aligned =
            columns.start - columns.start % unit..columns.end.next_multiple_of(unit).min(self.weight.columns());
        let at_once = (family.at_once(&self.weight) / aligned.len()).max(1).next_multiple_of(row_unit);
        let mut index: Vec<usize> = lead.iter().map(|range| range.start).collect();
        loop {
            let mut start = rows.start;
            while start < rows.end {
                let end = (start - start % at_once + at_once).min(rows.end);
                let tile =
                    Tile { lead: index.clone(), rows: start..end, columns: columns.clone(), aligned: aligned.clone() };
                each(tile)?;
                start = end;
            }
            let Some(dim) = (0..lead.len()).rev().find(|dim| index[*dim] + 1 < lead[*dim].end) else { return Ok(()) };
            index[dim] += 1;
            index[dim + 1..].iter_mut().zip(&lead[dim + 1..]).for_each(|(index, range)| *index = range.start);
        }
    }

    fn pieces<'p>(&'p self, parts: &'p [PartBox]) -> Result<Vec<ReadPiece<'p>>> {
        let piece = |PartBox(position, ranges): &'p PartBox| {
            ReadPiece::part(self.weight.stored.entry(*position), Cow::Borrowed(ranges))
        };
        parts.iter().map(piece).collect()
    }

    /// Reads parts together.
    fn read_parts(&self, files: &FileStorage, parts: &[PartBox], memory: &mut Vec<Vec<u8>>) -> Result<()> {
        let pieces = self.pieces(parts)?;
        memory.resize_with(pieces.len(), Vec::new);
        for (piece, memory) in pieces.iter().zip(&mut *memory) {
            let needed = piece.bytes().unwrap_or(usize::MAX);
            let more = needed.saturating_sub(memory.len());
            memory.try_reserve_exact(more).map_err(|_| out_of_memory(needed))?;
            memory.resize(needed, 0);
        }
        let placed = pieces.iter().zip(memory.iter_mut().map(Vec::as_mut_slice)).collect();
        read_pieces(files, placed, &mut |_| Ok(())).map_err(|(i, error)| {
            let PartBox(position, _) = parts[i];
            error.in_tensor(self.weight.stored.label(position))
        })
    }
}

impl fmt::Debug for DecodedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedTensor")
            .field("tensor", &self.weight.tensor)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

impl GatherBytes for DecodedTensor {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn start(&self) -> u64 {
        self.weight.find(Role::Codes).map_or(0, |codes| self.weight.stored.entry(codes).start())
    }

    fn places(&self) -> Vec<Range<u64>> {
        self.weight.tensor.parts.iter().map(|part| self.weight.stored.entry(part.position).range()).collect()
    }

    fn read(&self, files: &FileStorage, wanted: Wanted<'_>, bytes: &mut [u8]) -> Result<()> {
        let element = self.to.block_bytes();
        let mut read = |ranges: &[Range<usize>], bytes: &mut [u8]| match self.to {
            Dtype::Bf16 => self.fill::<bf16>(files, ranges, bytes),
            Dtype::F16 => self.fill::<f16>(files, ranges, bytes),
            _ => self.fill::<f32>(files, ranges, bytes),
        };
        match wanted {
            Wanted::Box(ranges) => read(ranges, bytes),
            Wanted::From(from) => fill_boxes(self.weight.shape(), element, from, bytes, &mut read),
        }
    }

    fn spans(&self, files: &FileStorage, wanted: Wanted<'_>, len: usize, each: &mut dyn FnMut(Range<u64>)) {
        let mut spans_of = |ranges: &[Range<usize>]| {
            let family = self.family()?;
            self.each_tile(ranges, &mut |tile| {
                let parts = family.parts(&self.weight, &tile);
                self.pieces(&parts)?.iter().for_each(|piece| piece.spans(files, each));
                Ok(())
            })
        };
        // A weight that is not decoded has no bytes to read.
        let _ = match wanted {
            Wanted::Box(ranges) => spans_of(ranges),
            Wanted::From(from) => {
                boxes(self.weight.shape(), self.to.block_bytes(), from, len, &mut |ranges, _| spans_of(ranges))
            }
        };
    }
}
