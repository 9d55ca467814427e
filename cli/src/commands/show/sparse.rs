use std::io::{self, Write};

use tensorfile::view::{PrintOptions, Scalar, scalars};
use tensorfile::{Dtype, Layout, Tensor};

use super::write_json;

/// The stored elements of a sparse tensor.
pub struct Sparse<'a> {
    shape: &'a [usize],
    dtype: Dtype,
    /// A row of 64-bit indices for each element.
    coordinates: &'a [u8],
    values: &'a [u8],
}

impl<'a> Sparse<'a> {
    /// Splits the bytes of a tensor, which [`Layout::Coo`] describes.
    pub fn new(tensor: &'a Tensor) -> Self {
        let (shape, dtype, bytes) = (tensor.shape().dims(), tensor.dtype(), tensor.as_bytes());
        let entries = if let Layout::Coo { entries } = tensor.layout() { *entries } else { 0 };
        let values = bytes.len().saturating_sub(entries * dtype.block_bytes());
        let (rest, values) = bytes.split_at(values);
        Self { shape, dtype, coordinates: &rest[..rest.len().saturating_sub(size_of::<u64>())], values }
    }

    /// Returns coordinates and value of each element, in the order of the file.
    fn elements(&self) -> impl Iterator<Item = (Vec<u64>, Scalar)> {
        scalars(self.dtype, self.values).enumerate().map(|(i, value)| (self.coordinate(i).collect(), value))
    }

    /// Returns coordinates and value of each element, in row-major order. If several elements have the same
    /// coordinates, only the last one counts.
    pub fn sorted(&self) -> impl Iterator<Item = (Vec<u64>, Scalar)> {
        let size = self.dtype.block_bytes();
        let mut order: Vec<usize> = (0..self.values.len() / size).collect();
        // `dedup_by` keeps the first of equal elements, so the last one in the file is sorted first.
        order.sort_by(|&one, &other| self.coordinate(one).cmp(self.coordinate(other)).then(other.cmp(&one)));
        order.dedup_by(|later, first| self.coordinate(*later).eq(self.coordinate(*first)));
        let value = move |i: usize| Scalar::from_le_bytes(self.dtype, &self.values[i * size..][..size]);
        order.into_iter().map(move |i| (self.coordinate(i).collect(), value(i)))
    }

    fn coordinate(&self, element: usize) -> impl Iterator<Item = u64> {
        let row = self.shape.len() * size_of::<u64>();
        let indices = self.coordinates.get(element * row..(element + 1) * row).unwrap_or_default();
        let index = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        indices.chunks_exact(size_of::<u64>()).map(index)
    }

    /// Prints a line for each element, summarized as dense tensors are.
    pub fn print_text(&self, options: &PrintOptions, out: &mut dyn Write) -> io::Result<()> {
        let count = scalars(self.dtype, self.values).count();
        let ranges: Vec<_> = options.summary(&[count]).ranges().flatten().collect();
        for (i, (indices, value)) in self.elements().enumerate() {
            if ranges.iter().any(|range| range.contains(&i)) {
                writeln!(out, "{indices:?} {value}")?;
            } else if ranges.first().is_some_and(|first| i == first.end) {
                writeln!(out, "...")?;
            }
        }
        Ok(())
    }

    /// Prints an object with shape, coordinates and values.
    pub fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{{\"shape\": {:?}, \"coordinates\": [", self.shape)?;
        for (i, (indices, _)) in self.elements().enumerate() {
            write!(out, "{}{indices:?}", if i == 0 { "" } else { ", " })?;
        }
        write!(out, "], \"values\": [")?;
        for (i, (_, value)) in self.elements().enumerate() {
            write!(out, "{}", if i == 0 { "" } else { ", " })?;
            write_json(value, out)?;
        }
        write!(out, "]}}")
    }

    /// Prints a line for each element: its coordinates, then its value.
    pub fn print_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        for (indices, value) in self.elements() {
            for index in indices {
                write!(out, "{index},")?;
            }
            writeln!(out, "{}", value.with_all_digits())?;
        }
        Ok(())
    }
}
