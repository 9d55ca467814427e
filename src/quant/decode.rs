//! Decodes a weight from its parts: whole, or a box of its elements, from no more of the parts than that takes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use half::{bf16, f16};
use tensorfile_quant::packed::{self, Packing};
use tensorfile_quant::{Block, Columns, Float, Float4, Float8, affine, awq, codebook, float4, gptq, int8, transpose};

use super::recipe::{Code, ColumnsKind, Float4Order, Recipe, ScaleCode, Second};
use super::{LogicalTensor, Role};
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::{ReadPiece, boxes, fill_boxes, read_pieces};
use crate::read::Index;
use crate::storage::{FileStorage, GatherBytes, Wanted};
use crate::tensor::{Dtype, Shape};

/// The most elements that are decoded at once, unless a row has more: a processor's cache holds them.
const AT_ONCE: usize = 256 << 10;

/// The same for weights whose rows are columns as they are stored. A tile has a short run of each stored row.
const AT_ONCE_ACROSS: usize = 4 << 20;

/// A weight that is decoded as it is read.
pub(crate) struct DecodedTensor {
    tensor: LogicalTensor,
    /// The dtype of the elements: f32, bf16 or f16.
    to: Dtype,
    /// The tensors of the file, as they are stored.
    stored: Arc<Index>,
    bytes: u64,
}

impl DecodedTensor {
    /// A weight of a file, whose tensors are `stored`. `None` if it has more bytes than memory can.
    pub(crate) fn new(tensor: LogicalTensor, to: Dtype, stored: Arc<Index>) -> Option<Self> {
        let bytes = to.bytes_for(tensor.shape.elements()?)? as u64;
        Some(Self { tensor, to, stored, bytes })
    }

    fn shape(&self) -> &Shape {
        &self.tensor.shape
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
        self.each_tile(ranges, &mut |tile| {
            let parts = self.parts(&tile)?;
            self.read_parts(files, &parts, &mut bytes)?;
            let needed = tile.rows.len() * tile.aligned.len();
            numbers.try_reserve_exact(needed.saturating_sub(numbers.len())).map_err(|_| out_of_memory(4 * needed))?;
            numbers.resize(needed, 0.0);
            self.compute(&tile, &bytes, &mut numbers)?;
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
        let dims = self.shape().dims();
        let one = 0..1;
        let (lead, rows, columns) = match ranges {
            [] => (&[][..], &one, &one),
            [columns] => (&[][..], &one, columns),
            [lead @ .., rows, columns] => (lead, rows, columns),
        };
        if rows.is_empty() || columns.is_empty() || lead.iter().any(Range::is_empty) {
            return Ok(());
        }
        let all_columns = dims.last().copied().unwrap_or(1);
        let unit = self.unit();
        let aligned = columns.start - columns.start % unit..columns.end.next_multiple_of(unit).min(all_columns);
        let most = if self.row_unit() > 1 { AT_ONCE_ACROSS } else { AT_ONCE };
        let at_once = (most / aligned.len()).max(1).next_multiple_of(self.row_unit());
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

    /// Returns the number of columns that can only be decoded together.
    fn unit(&self) -> usize {
        match &self.tensor.recipe {
            // MLX has bytes in words.
            Recipe::Scaled { .. } => self.tensor.part(Role::Codes).map_or(1, |codes| codes.dtype.block_bytes()),
            // Columns of the tensor are rows as they are stored.
            Recipe::Float4 { is_transposed: true, .. } => 1,
            Recipe::Float4 { group, .. } => *group,
            Recipe::Packed { bits, is_dense, group } => {
                let words = if *is_dense { 32 } else { 32 / *bits as usize };
                lcm(words, *group)
            }
            // Rows of codes begin with a word.
            Recipe::Columns { bits, kind: ColumnsKind::Gptq { .. }, .. } => {
                if *bits == 3 {
                    32
                } else {
                    32 / *bits as usize
                }
            }
            Recipe::Columns { kind: ColumnsKind::Awq, .. } => 1,
            // Blocks go over rows, so that their places differ from row to row.
            Recipe::Codebook { .. } | Recipe::Refused => 1,
            Recipe::Affine { group, .. } => lcm(32, *group),
            Recipe::Ggml(dtype) => dtype.block_elements(),
        }
    }

    /// Returns the number of rows that can only be decoded together.
    fn row_unit(&self) -> usize {
        match &self.tensor.recipe {
            Recipe::Columns { bits: 3, .. } => 32,
            Recipe::Columns { bits, .. } => 32 / *bits as usize,
            Recipe::Float4 { is_transposed: true, group, .. } => *group,
            _ => 1,
        }
    }

    fn role(&self, role: Role) -> Option<usize> {
        self.tensor.part(role).map(|part| part.position)
    }

    fn dims(&self, position: usize) -> &[usize] {
        self.stored.entry(position).info().shape.dims()
    }

    /// Returns the boxes of the parts that a tile takes: the codes first.
    fn parts(&self, tile: &Tile) -> Result<Vec<PartBox>> {
        let codes = self.role(Role::Codes).expect("a weight has codes");
        let (rows, columns) = (&tile.rows, &tile.aligned);
        let of = |position: usize, tail: [Range<usize>; 2]| {
            let rank = self.dims(position).len();
            let tail = tail.into_iter().skip(2_usize.saturating_sub(rank));
            PartBox(position, tile.lead.iter().map(|i| *i..*i + 1).chain(tail).collect())
        };
        let divided = |range: &Range<usize>, by: usize| range.start / by..range.end.div_ceil(by);
        let whole = |position: usize| PartBox(position, self.dims(position).iter().map(|dim| 0..*dim).collect());
        let scale = self.role(Role::Scale);
        let scale = || scale.expect("it has a scale");
        let mut parts = Vec::with_capacity(4);
        match &self.tensor.recipe {
            Recipe::Scaled { blocks, .. } => {
                parts.push(of(codes, [rows.clone(), divided(columns, self.unit())]));
                let dims = self.dims(scale());
                let all = tile.lead.iter().map(|i| *i..*i + 1).chain([rows.clone(), columns.clone()]);
                // Of rank 1, there are no rows.
                let all = all.skip((tile.lead.len() + 2).saturating_sub(blocks.len()));
                let of_blocks = all.zip(blocks).map(|(range, block)| divided(&range, *block));
                parts.push(match dims.len() {
                    rank if rank == blocks.len() => PartBox(scale(), of_blocks.collect()),
                    1 if dims[0] > 1 => PartBox(scale(), vec![rows.clone()]),
                    _ => whole(scale()),
                });
            }
            Recipe::Float4 { is_transposed: true, group, .. } => {
                let groups = divided(rows, *group);
                let lead = tile.lead.iter().map(|i| *i..*i + 1);
                let ranges = lead.clone().chain([columns.clone(), groups.clone()]);
                parts.push(PartBox(codes, ranges.clone().chain(std::iter::once(0..16)).collect()));
                parts.push(PartBox(scale(), ranges.collect()));
            }
            Recipe::Float4 { group, in_tiles, .. } => {
                let bytes = 2 * self.stored.entry(codes).info().dtype.block_bytes();
                parts.push(of(codes, [rows.clone(), divided(columns, bytes)]));
                if *in_tiles {
                    // The rows of a tile are among each other.
                    let [scale_rows, scale_columns] = [0, 1].map(|dim| self.dims(scale())[dim]);
                    let tiled = rows.start / 128 * 128..rows.end.next_multiple_of(128).min(scale_rows);
                    parts.push(PartBox(scale(), vec![tiled, 0..scale_columns]));
                } else {
                    parts.push(of(scale(), [rows.clone(), divided(columns, *group)]));
                }
                parts.extend(self.role(Role::SecondScale).map(whole));
            }
            Recipe::Packed { bits, is_dense, group } => {
                let words = |range: &Range<usize>| match is_dense {
                    true => range.start / 32 * *bits as usize..(range.end * *bits as usize).div_ceil(32),
                    false => divided(range, 32 / *bits as usize),
                };
                parts.push(of(codes, [rows.clone(), words(columns)]));
                let groups = divided(columns, *group);
                parts.push(of(scale(), [rows.clone(), groups.clone()]));
                if let Some(zero) = self.role(Role::Zero) {
                    // A code may begin in one word and end in the next.
                    let first = if *is_dense { rows.start / 32 * 32 } else { rows.start };
                    parts.push(of(zero, [words(&(first..rows.end)), groups]));
                }
            }
            Recipe::Columns { bits, kind, group } => {
                let zero = self.role(Role::Zero).expect("it has zeros");
                let in_word = 32 / *bits as usize;
                let (inputs, outputs) = (columns, rows);
                let code_words = match kind {
                    ColumnsKind::Gptq { .. } if *bits == 3 => inputs.start / 32 * 3..(inputs.end * 3).div_ceil(32),
                    ColumnsKind::Gptq { .. } => divided(inputs, in_word),
                    ColumnsKind::Awq => inputs.clone(),
                };
                let outputs = self.whole_outputs(outputs);
                let output_words = match *bits {
                    3 => outputs.start / 32 * 3..(outputs.end * 3).div_ceil(32),
                    _ => divided(&outputs, in_word),
                };
                let of_outputs = match kind {
                    ColumnsKind::Gptq { .. } => outputs.clone(),
                    ColumnsKind::Awq => output_words.clone(),
                };
                parts.push(PartBox(codes, vec![code_words, of_outputs]));
                let groups = match self.role(Role::Index) {
                    // Any group may be asked for.
                    Some(_) => 0..self.dims(scale())[0],
                    None => divided(inputs, *group),
                };
                parts.push(PartBox(scale(), vec![groups.clone(), outputs]));
                parts.push(PartBox(zero, vec![groups, output_words]));
                let index = self.role(Role::Index).map(|index| PartBox(index, vec![inputs.clone()]));
                parts.extend(index);
            }
            Recipe::Codebook { block, nested } => {
                let elements = self.blocks_of(tile, *block);
                parts.push(self.flat(codes, elements.start / 2..elements.end.div_ceil(2)));
                let blocks = divided(&elements, *block);
                parts.push(self.flat(scale(), blocks.clone()));
                let mut maps = self.tensor.parts.iter().filter(|part| part.role == Role::Map);
                parts.extend(maps.next().map(|map| whole(map.position)));
                if let (Some((nested, _)), Some(map)) = (nested, maps.next()) {
                    let second = self.role(Role::SecondScale).expect("nested scales have their own");
                    parts.push(whole(map.position));
                    parts.push(self.flat(second, divided(&blocks, *nested)));
                }
            }
            Recipe::Affine { bits, group } => {
                let words = columns.start / 32 * *bits as usize..(columns.end * *bits as usize).div_ceil(32);
                parts.push(of(codes, [rows.clone(), words]));
                let groups = divided(columns, *group);
                parts.push(of(scale(), [rows.clone(), groups.clone()]));
                parts.extend(self.role(Role::Bias).map(|bias| of(bias, [rows.clone(), groups])));
            }
            Recipe::Ggml(_) => {
                parts.push(of(codes, [rows.clone(), columns.clone()]));
                parts.extend(self.role(Role::SecondScale).map(whole));
            }
            Recipe::Refused => {
                return Err(ErrorKind::Unsupported {
                    what: format!("decode `{}`, which is stored as {}", self.tensor.name, self.tensor),
                    instead: "this scheme is recognized, and its parts can be read as they are stored".to_owned(),
                }
                .into());
            }
        }
        Ok(parts)
    }

    /// Returns outputs of GPTQ and AWQ in whole words.
    fn whole_outputs(&self, outputs: &Range<usize>) -> Range<usize> {
        let unit = self.row_unit();
        outputs.start / unit * unit..outputs.end.next_multiple_of(unit).min(self.shape().dims()[0])
    }

    /// Returns the elements of whole blocks that have the rows of a tile.
    fn blocks_of(&self, tile: &Tile, block: usize) -> Range<usize> {
        let dims = self.shape().dims();
        let columns = dims.last().copied().unwrap_or(1);
        let all = self.shape().elements().unwrap_or_default();
        let outer = self.row_of(tile);
        let first = outer * columns + tile.columns.start;
        let last = (outer + tile.rows.len() - 1) * columns + tile.columns.end;
        first / block * block..last.next_multiple_of(block).min(all)
    }

    /// Returns the number of rows before those of a tile.
    fn row_of(&self, tile: &Tile) -> usize {
        let dims = self.shape().dims();
        let rows = if dims.len() >= 2 { dims[dims.len() - 2] } else { 1 };
        let lead = tile.lead.iter().zip(dims).fold(0, |outer, (i, dim)| outer * dim + i);
        lead * rows + tile.rows.start
    }

    /// Returns a range of the elements of a part that has one dim, or others of size 1.
    fn flat(&self, position: usize, range: Range<usize>) -> PartBox {
        let dims = self.dims(position);
        let long = dims.iter().position(|dim| *dim > 1).unwrap_or_default();
        PartBox(position, (0..dims.len()).map(|dim| if dim == long { range.clone() } else { 0..1 }).collect())
    }

    fn pieces<'p>(&'p self, parts: &'p [PartBox]) -> Result<Vec<ReadPiece<'p>>> {
        let piece = |PartBox(position, ranges): &'p PartBox| {
            ReadPiece::part(self.stored.entry(*position), Cow::Borrowed(ranges))
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
            error.in_tensor(self.stored.label(position))
        })
    }

    /// Makes the elements of a tile, in its aligned columns.
    fn compute(&self, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()> {
        let codes = &parts[0][..];
        let (rows, columns) = (&tile.rows, &tile.aligned);
        match &self.tensor.recipe {
            Recipe::Scaled { code, scale, blocks } => {
                let scales = widen(*scale, &parts[1])?;
                // The blocks of rows and of columns.
                let [of_rows, of_columns] = match blocks[..] {
                    [] => [1, 1],
                    [columns] => [1, columns],
                    [.., rows, columns] => [rows, columns],
                };
                let in_row = columns.end.div_ceil(of_columns) - columns.start / of_columns;
                let first_row = rows.start / of_rows;
                for (row, (codes, out)) in
                    rows.clone().zip(codes.chunks_exact(columns.len()).zip(out.chunks_exact_mut(columns.len())))
                {
                    let scales = &scales[(row / of_rows - first_row) * in_row..][..in_row];
                    // The first block may have begun before.
                    let head = match columns.start % of_columns {
                        0 => 0,
                        begun => (of_columns - begun).min(columns.len()),
                    };
                    let (before, rest) = out.split_at_mut(head);
                    if head > 0 {
                        decode_bytes(*code, &codes[..head], &scales[..1], head, before)?;
                    }
                    let scales = if head > 0 { &scales[1..] } else { scales };
                    if !rest.is_empty() {
                        decode_bytes(*code, &codes[head..], scales, of_columns, rest)?;
                    }
                }
            }
            Recipe::Float4 { order, group, scale, second, in_tiles, is_transposed } => {
                let mut scales = widen(*scale, &parts[1])?;
                if *in_tiles {
                    scales = self.untile(tile, &scales, *group);
                }
                if let (Some(second_bytes), true) = (parts.get(2), *second != Second::None) {
                    let [by] = widen(ScaleCode::Float(Dtype::F32), second_bytes)?[..] else {
                        return Err(damaged("the scale of scales is not one number"));
                    };
                    match second {
                        Second::Divides => scales.iter_mut().for_each(|scale| *scale /= by),
                        _ => scales.iter_mut().for_each(|scale| *scale *= by),
                    }
                }
                let order = match order {
                    Float4Order::LowFirst => Float4::Ocp,
                    Float4Order::ModelOpt => Float4::ModelOpt,
                    Float4Order::HighFirst => Float4::HighFirst,
                };
                if !is_transposed {
                    order.decode(codes, &scales, *group, out);
                    return Ok(());
                }
                // Stored rows are columns, in whole groups of rows.
                let inputs = rows.start / group * group..rows.end.next_multiple_of(*group);
                let mut stored = vec![0.0_f32; columns.len() * inputs.len()];
                order.decode(codes, &scales, *group, &mut stored);
                let mut turned = vec![0.0_f32; stored.len()];
                transpose(&stored, inputs.len(), &mut turned, columns.len());
                let skipped = (rows.start - inputs.start) * columns.len();
                out.copy_from_slice(&turned[skipped..skipped + out.len()]);
            }
            Recipe::Packed { bits, is_dense, group } => {
                let scale_dtype = self.scale_dtype();
                let scales = widen(ScaleCode::Float(scale_dtype), &parts[1])?;
                let groups = columns.end.div_ceil(*group) - columns.start / group;
                let packing = if *is_dense { Packing::Dense } else { Packing::Padded };
                let words = codes.len() / rows.len();
                let mut zeros = vec![1_u8 << (bits - 1); groups];
                for (i, row) in rows.clone().enumerate() {
                    if let Some(stored) = parts.get(2) {
                        let unit = if *is_dense { 32 } else { 32 / *bits as usize };
                        let first = rows.start / unit * unit;
                        packed::unpack_row(stored, *bits, packing, row - first, &mut zeros);
                    }
                    let (codes, scales) = (&codes[i * words..][..words], &scales[i * groups..][..groups]);
                    let out = &mut out[i * columns.len()..][..columns.len()];
                    packed::decode(codes, *bits, packing, &zeros, scales, *group, out);
                }
            }
            Recipe::Columns { bits, kind, group } => self.compute_columns(tile, parts, (*bits, *kind, *group), out)?,
            Recipe::Codebook { block, nested } => {
                let elements = self.blocks_of(tile, *block);
                let map = widen(ScaleCode::Float(Dtype::F32), &parts[2])?;
                let map = <&[f32; 16]>::try_from(&map[..]).map_err(|_| damaged("a map has not 16 numbers"))?;
                let absmax = match nested {
                    None => widen(ScaleCode::Float(Dtype::F32), &parts[1])?,
                    Some((nested, offset)) => {
                        let nested_map = widen(ScaleCode::Float(Dtype::F32), &parts[3])?;
                        let nested_map = <&[f32; 256]>::try_from(&nested_map[..])
                            .map_err(|_| damaged("a nested map has not 256 numbers"))?;
                        let second = widen(ScaleCode::Float(Dtype::F32), &parts[4])?;
                        let first = elements.start / block;
                        // The first nested block may have begun before.
                        let head = first % nested;
                        let mut absmax = vec![0.0; parts[1].len()];
                        let (before, rest) =
                            absmax.split_at_mut(if head == 0 { 0 } else { (nested - head).min(parts[1].len()) });
                        let (codes_before, codes_rest) = parts[1].split_at(before.len());
                        let (second_before, second_rest) = second.split_at(usize::from(!before.is_empty()));
                        if !before.is_empty() {
                            codebook::decode_absmax(codes_before, nested_map, second_before, *nested, *offset, before);
                        }
                        if !rest.is_empty() {
                            codebook::decode_absmax(codes_rest, nested_map, second_rest, *nested, *offset, rest);
                        }
                        absmax
                    }
                };
                let all_columns = self.shape().dims().last().copied().unwrap_or(1);
                let first_row = self.row_of(tile);
                let is_contiguous = rows.len() == 1 || columns.len() == all_columns;
                let first = first_row * all_columns + columns.start;
                if is_contiguous && first == elements.start && out.len() == elements.len() {
                    codebook::decode(codes, map, &absmax, *block, out);
                    return Ok(());
                }
                let mut whole = vec![0.0_f32; elements.len()];
                codebook::decode(codes, map, &absmax, *block, &mut whole);
                for (i, out) in out.chunks_exact_mut(columns.len()).enumerate() {
                    let start = (first_row + i) * all_columns + columns.start - elements.start;
                    out.copy_from_slice(&whole[start..start + columns.len()]);
                }
            }
            Recipe::Affine { bits, group } => {
                let dtype = self.scale_dtype();
                let scales = widen(ScaleCode::Float(dtype), &parts[1])?;
                let biases = widen(ScaleCode::Float(dtype), &parts[2])?;
                let (groups, words) = (scales.len() / rows.len(), codes.len() / rows.len());
                for (i, out) in out.chunks_exact_mut(columns.len()).enumerate() {
                    let (scales, biases) = (&scales[i * groups..][..groups], &biases[i * groups..][..groups]);
                    affine::decode(&codes[i * words..][..words], *bits, scales, biases, *group, out);
                }
            }
            Recipe::Ggml(dtype) => {
                let block = Block::from_name(dtype.name()).ok_or_else(|| damaged("there is no such block"))?;
                let Some(scale) = parts.get(1) else {
                    block.decode(codes, out);
                    return Ok(());
                };
                let scales = widen(ScaleCode::Float(Dtype::F32), scale)?;
                let scale = scales[if scales.len() > 1 { tile.lead.first().copied().unwrap_or_default() } else { 0 }];
                block.decode(codes, out);
                out.iter_mut().for_each(|number| *number *= scale);
            }
            Recipe::Refused => unreachable!("its parts are refused"),
        }
        Ok(())
    }

    /// GPTQ and AWQ: rows of the tensor are columns as they are stored.
    fn compute_columns(
        &self,
        tile: &Tile,
        parts: &[Vec<u8>],
        (bits, kind, group): (u32, ColumnsKind, usize),
        out: &mut [f32],
    ) -> Result<()> {
        let (inputs, outputs) = (&tile.aligned, self.whole_outputs(&tile.rows));
        let count = outputs.len();
        let scales = widen(ScaleCode::Float(self.scale_dtype()), &parts[1])?;
        let groups_held = scales.len() / count;
        let words = parts[2].len() / groups_held;
        let mut zeros = vec![0; scales.len()];
        for (words, zeros) in parts[2].chunks_exact(words).zip(zeros.chunks_exact_mut(count)) {
            match kind {
                ColumnsKind::Gptq { less_1 } => {
                    let version = if less_1 { gptq::Version::V1 } else { gptq::Version::V2 };
                    gptq::unpack_zeros(words, bits, version, zeros);
                }
                ColumnsKind::Awq => awq::unpack_zeros(words, zeros),
            }
        }
        let first = inputs.start / group;
        let groups: Vec<u32> = match parts.get(3) {
            None => inputs.clone().map(|input| u32::try_from(input / group - first).unwrap_or(u32::MAX)).collect(),
            Some(index) => {
                let stated = index.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
                let checked = stated.map(|found| {
                    let known = u32::try_from(found).ok().filter(|group| (*group as usize) < groups_held);
                    known.ok_or_else(|| {
                        let [index, scale] =
                            [Role::Index, Role::Scale].map(|role| self.tensor.part(role).map_or("", |part| &part.name));
                        damaged(format!("`{index}` has the group {found}, but `{scale}` has {groups_held}"))
                    })
                });
                checked.collect::<Result<_>>()?
            }
        };
        let columns = Columns { count, zeros: &zeros, scales: &scales, groups: &groups };
        let decode = |out: &mut [f32]| match kind {
            ColumnsKind::Gptq { .. } => gptq::decode(&parts[0], bits, &columns, out, inputs.len()),
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

    /// Takes the scales of a tile's groups out of the tiles of cuBLAS, which have all columns.
    fn untile(&self, tile: &Tile, scales: &[f32], group: usize) -> Vec<f32> {
        let position = self.role(Role::Scale).expect("it has a scale");
        let width = self.dims(position)[1];
        let first = tile.rows.start / 128 * 128;
        let groups = tile.aligned.start / group..tile.aligned.end.div_ceil(group);
        let places = tile.rows.clone().flat_map(|row| groups.clone().map(move |group| (row - first, group)));
        places.map(|(row, group)| scales[float4::tile_index(row, group, width)]).collect()
    }

    fn scale_dtype(&self) -> Dtype {
        self.tensor.part(Role::Scale).map_or(Dtype::F32, |part| part.dtype)
    }
}

/// A box of elements that is decoded at once: rows of one matrix.
#[derive(Debug)]
struct Tile {
    /// The index of the matrix in the dims before the last two.
    lead: Vec<usize>,
    rows: Range<usize>,
    columns: Range<usize>,
    /// The columns in whole groups.
    aligned: Range<usize>,
}

/// A box of the elements of a part: its position in the file, and a range of each dim.
struct PartBox(usize, Vec<Range<usize>>);

/// Decodes bytes with scales.
fn decode_bytes(code: Code, codes: &[u8], scales: &[f32], group: usize, out: &mut [f32]) -> Result<()> {
    match code {
        Code::Float8(dtype) => float8(dtype)?.decode(codes, scales, group, out),
        Code::I8 => int8::decode(codes, scales, group, out),
        Code::LlmInt8 => int8::decode_llm(codes, scales, group, out),
    }
    Ok(())
}

fn float8(dtype: Dtype) -> Result<Float8> {
    Ok(match dtype {
        Dtype::F8E4M3Fn => Float8::E4m3Fn,
        Dtype::F8E5M2 => Float8::E5m2,
        Dtype::F8E4M3Fnuz => Float8::E4m3Fnuz,
        Dtype::F8E5M2Fnuz => Float8::E5m2Fnuz,
        Dtype::F8E8M0 => Float8::E8m0,
        _ => return Err(damaged("the codes are no 8-bit floats")),
    })
}

/// Converts stored scales to f32, exactly.
fn widen(code: ScaleCode, bytes: &[u8]) -> Result<Vec<f32>> {
    let elements = match code {
        ScaleCode::Float(dtype) => bytes.len() / dtype.block_bytes(),
        ScaleCode::E4m3 | ScaleCode::E8m0 => bytes.len(),
    };
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(elements).map_err(|_| out_of_memory(elements * size_of::<f32>()))?;
    numbers.resize(elements, 0.0);
    match code {
        ScaleCode::Float(Dtype::F32) => f32::widen_bytes(bytes, &mut numbers),
        ScaleCode::Float(Dtype::Bf16) => bf16::widen_bytes(bytes, &mut numbers),
        ScaleCode::Float(Dtype::F16) => f16::widen_bytes(bytes, &mut numbers),
        ScaleCode::Float(dtype) => float8(dtype)?.widen_bytes(bytes, &mut numbers),
        ScaleCode::E4m3 => Float8::E4m3Fn.widen_bytes(bytes, &mut numbers),
        ScaleCode::E8m0 => Float8::E8m0.widen_bytes(bytes, &mut numbers),
    }
    Ok(numbers)
}

fn lcm(one: usize, other: usize) -> usize {
    let (mut a, mut b) = (one, other);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    one / a * other
}

fn damaged(what: impl Into<String>) -> Error {
    ErrorKind::Malformed { what: what.into() }.into()
}

fn out_of_memory(bytes: usize) -> Error {
    ErrorKind::OutOfMemory { bytes: bytes as u64 }.into()
}

impl fmt::Debug for DecodedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedTensor").field("tensor", &self.tensor).field("to", &self.to).finish_non_exhaustive()
    }
}

impl GatherBytes for DecodedTensor {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn start(&self) -> u64 {
        self.role(Role::Codes).map_or(0, |codes| self.stored.entry(codes).start())
    }

    fn places(&self) -> Vec<Range<u64>> {
        self.tensor.parts.iter().map(|part| self.stored.entry(part.position).range()).collect()
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
            Wanted::From(from) => fill_boxes(self.shape(), element, from, bytes, &mut read),
        }
    }

    fn spans(&self, files: &FileStorage, wanted: Wanted<'_>, len: usize, each: &mut dyn FnMut(Range<u64>)) {
        let mut spans_of = |ranges: &[Range<usize>]| {
            self.each_tile(ranges, &mut |tile| {
                let parts = self.parts(&tile)?;
                self.pieces(&parts)?.iter().for_each(|piece| piece.spans(files, each));
                Ok(())
            })
        };
        // A weight that is not decoded has no bytes to read.
        let _ = match wanted {
            Wanted::Box(ranges) => spans_of(ranges),
            Wanted::From(from) => {
                boxes(self.shape(), self.to.block_bytes(), from, len, &mut |ranges, _| spans_of(ranges))
            }
        };
    }
}
