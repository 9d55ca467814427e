//! Tensors in coordinate layout, as what they store and where.

use std::io::{self, Write};

use tensorfile::{Dtype, Layout, Tensor};

use crate::out::Out;
use crate::print::Style;
use crate::scalar::{Scalar, scalar, scalars};

/// The entries of a sparse tensor.
pub struct Sparse<'a> {
    shape: &'a [usize],
    dtype: Dtype,
    /// A row of 64-bit indices for each entry.
    indices: &'a [u8],
    values: &'a [u8],
}

impl<'a> Sparse<'a> {
    /// Takes the bytes apart, as [`Layout::Coo`] has them.
    pub fn of(tensor: &'a Tensor) -> Self {
        let (shape, dtype, bytes) = (tensor.shape().dims(), tensor.dtype(), tensor.as_bytes());
        let entries = if let Layout::Coo { entries } = tensor.layout() { *entries } else { 0 };
        let values = bytes.len().saturating_sub(entries * dtype.block_bytes());
        let (rest, values) = bytes.split_at(values);
        Self { shape, dtype, indices: &rest[..rest.len().saturating_sub(size_of::<u64>())], values }
    }

    fn entries(&self) -> impl Iterator<Item = (Vec<u64>, Scalar)> {
        scalars(self.dtype, self.values).enumerate().map(|(at, value)| (self.coordinate(at).collect(), value))
    }

    /// The entries in row-major order. Of several with one coordinate only the last one given counts.
    pub fn sorted_entries(&self) -> impl Iterator<Item = (Vec<u64>, Scalar)> {
        let size = self.dtype.block_bytes();
        let mut order: Vec<usize> = (0..self.values.len() / size).collect();
        // The last one given comes first, and stays.
        order.sort_by(|&one, &other| self.coordinate(one).cmp(self.coordinate(other)).then(other.cmp(&one)));
        order.dedup_by(|later, first| self.coordinate(*later).eq(self.coordinate(*first)));
        let value = move |at: usize| scalar(self.dtype, &self.values[at * size..][..size]);
        order.into_iter().map(move |at| (self.coordinate(at).collect(), value(at)))
    }

    fn coordinate(&self, entry: usize) -> impl Iterator<Item = u64> {
        let row = self.shape.len() * size_of::<u64>();
        let indices = self.indices.get(entry * row..(entry + 1) * row).unwrap_or_default();
        let index = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        indices.chunks_exact(size_of::<u64>()).map(index)
    }

    /// A line for each entry, shortened as dense tensors are.
    pub fn print_text(&self, style: &Style, out: &mut Out) -> io::Result<()> {
        let count = scalars(self.dtype, self.values).count();
        let is_cut = count > style.threshold;
        for (at, (indices, value)) in self.entries().enumerate() {
            if is_cut && at == style.edge {
                writeln!(out, "...")?;
            }
            if !is_cut || at < style.edge || at >= count - style.edge {
                writeln!(out, "{indices:?} {value}")?;
            }
        }
        Ok(())
    }

    /// An object of shape, coordinates and values.
    pub fn print_json(&self, out: &mut Out) -> io::Result<()> {
        write!(out, "{{\"shape\": {:?}, \"coordinates\": [", self.shape)?;
        for (at, (indices, _)) in self.entries().enumerate() {
            write!(out, "{}{indices:?}", if at == 0 { "" } else { ", " })?;
        }
        write!(out, "], \"values\": [")?;
        for (at, (_, value)) in self.entries().enumerate() {
            write!(out, "{}", if at == 0 { "" } else { ", " })?;
            value.write_json(out)?;
        }
        writeln!(out, "]}}")
    }

    /// A line for each entry: its indices, then its value.
    pub fn print_csv(&self, out: &mut Out) -> io::Result<()> {
        for (indices, value) in self.entries() {
            for index in indices {
                write!(out, "{index},")?;
            }
            writeln!(out, "{value}")?;
        }
        Ok(())
    }
}
