//! A weight in its file, and what a family of recipes does to decode it.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::quant::{LogicalTensor, Role};
use crate::read::Index;
use crate::tensor::{Dtype, Shape};

/// Elements that are decoded at once: a processor's cache holds them.
pub(super) const AT_ONCE: usize = 256 << 10;

/// The same for weights of which a tile has a short run of each stored row, or a part again that all tiles need.
pub(super) const AT_ONCE_ACROSS: usize = 4 << 20;

/// A family of recipes that are decoded in the same way.
pub(super) trait Decode {
    /// Returns the number of columns that can only be decoded together.
    fn unit(&self, _weight: &StoredWeight) -> usize {
        1
    }

    /// Returns the number of rows that can only be decoded together.
    fn row_unit(&self) -> usize {
        1
    }

    /// Returns the most elements that are decoded at once, unless a row has more.
    fn at_once(&self, _weight: &StoredWeight) -> usize {
        AT_ONCE
    }

    /// Returns the boxes of the parts that a tile takes.
    fn parts(&self, weight: &StoredWeight, tile: &Tile) -> Vec<PartBox>;

    /// Makes the elements of a tile, in its aligned columns. `parts` has the bytes of the boxes, in their order.
    fn compute(&self, weight: &StoredWeight, tile: &Tile, parts: &[Vec<u8>], out: &mut [f32]) -> Result<()>;
}

/// A weight, with the tensors of its file.
pub(super) struct StoredWeight {
    pub(super) tensor: LogicalTensor,
    /// The tensors as they are stored.
    pub(super) stored: Arc<Index>,
}

impl StoredWeight {
    pub(super) fn shape(&self) -> &Shape {
        &self.tensor.shape
    }

    /// Returns the number of columns: of elements that follow each other.
    pub(super) fn columns(&self) -> usize {
        self.shape().dims().last().copied().unwrap_or(1)
    }

    /// Returns the number of rows of the whole weight before those of a tile.
    pub(super) fn row_of(&self, tile: &Tile) -> usize {
        let dims = self.shape().dims();
        let rows = if dims.len() >= 2 { dims[dims.len() - 2] } else { 1 };
        let lead = tile.lead.iter().zip(dims).fold(0, |outer, (i, dim)| outer * dim + i);
        lead * rows + tile.rows.start
    }

    /// Returns the position of a part that may be absent.
    pub(super) fn find(&self, role: Role) -> Option<usize> {
        self.tensor.part(role).map(|part| part.position)
    }

    /// Returns the position of a part that recognition made sure of.
    pub(super) fn part(&self, role: Role) -> usize {
        self.find(role).unwrap_or_else(|| unreachable!("a {} weight has its {role}", self.tensor.scheme))
    }

    pub(super) fn dims(&self, position: usize) -> &[usize] {
        self.stored.entry(position).info().shape.dims()
    }

    pub(super) fn dtype(&self, position: usize) -> Dtype {
        self.stored.entry(position).info().dtype
    }

    /// Returns a part as a whole.
    pub(super) fn whole(&self, position: usize) -> PartBox {
        PartBox(position, self.dims(position).iter().map(|dim| 0..*dim).collect())
    }

    /// Returns rows and columns of a part, in the matrix of a tile. One of rank 1 has no rows.
    pub(super) fn matrix(&self, position: usize, tile: &Tile, rows: Range<usize>, columns: Range<usize>) -> PartBox {
        let tail = [rows, columns].into_iter().skip(2_usize.saturating_sub(self.dims(position).len()));
        PartBox(position, tile.lead().chain(tail).collect())
    }

    /// Returns a range of the elements of a part that has one dim, or others of size 1.
    pub(super) fn flat(&self, position: usize, range: Range<usize>) -> PartBox {
        let dims = self.dims(position);
        let long = dims.iter().position(|dim| *dim > 1).unwrap_or_default();
        PartBox(position, (0..dims.len()).map(|dim| if dim == long { range.clone() } else { 0..1 }).collect())
    }
}

/// A box of the elements of a part: its position in the file, and a range of each dim.
pub(super) struct PartBox(pub(super) usize, pub(super) Vec<Range<usize>>);

/// A box of elements that is decoded at once: rows of one matrix.
#[derive(Debug)]
pub(super) struct Tile {
    /// The index of the matrix in the dims before the last two.
    pub(super) lead: Vec<usize>,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// The columns in whole groups.
    pub(super) aligned: Range<usize>,
}

impl Tile {
    /// Returns the ranges of the dims before the last two.
    pub(super) fn lead(&self) -> impl Iterator<Item = Range<usize>> + Clone {
        self.lead.iter().map(|i| *i..*i + 1)
    }

    /// Divides what belongs to a tile into what belongs to each of its rows.
    pub(super) fn by_row<'n, T>(&self, numbers: &'n [T]) -> impl Iterator<Item = &'n [T]> + use<'n, T> {
        numbers.chunks_exact((numbers.len() / self.rows.len()).max(1))
    }

    /// The same for the elements.
    pub(super) fn by_row_mut<'n>(&self, out: &'n mut [f32]) -> impl Iterator<Item = &'n mut [f32]> + use<'n> {
        out.chunks_exact_mut(self.aligned.len())
    }
}

/// Returns the groups that have a range of elements.
pub(super) fn groups_of(range: &Range<usize>, group: usize) -> Range<usize> {
    range.start / group..range.end.div_ceil(group)
}

/// Returns the words of 32 bits that have a range of codes, which begins with a word. Codes cross words if `is_dense`; else
/// a word may have bits that no code uses.
pub(super) fn words_of(range: &Range<usize>, bits: u32, is_dense: bool) -> Range<usize> {
    match is_dense {
        true => range.start / 32 * bits as usize..(range.end * bits as usize).div_ceil(32),
        false => groups_of(range, 32 / bits as usize),
    }
}

/// Returns the number of codes after which one begins with a word.
pub(super) fn codes_to_word(bits: u32, is_dense: bool) -> usize {
    if is_dense { 32 } else { 32 / bits as usize }
}

pub(super) fn lcm(one: usize, other: usize) -> usize {
    let (mut a, mut b) = (one, other);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    one / a * other
}

pub(super) fn damaged(what: impl Into<String>) -> Error {
    ErrorKind::Malformed { what: what.into() }.into()
}

pub(super) fn out_of_memory(bytes: usize) -> Error {
    ErrorKind::OutOfMemory { bytes: bytes as u64 }.into()
}
