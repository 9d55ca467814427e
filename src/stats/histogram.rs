use std::convert::Infallible;
use std::io;

use super::elements::{Chunk, Elements};
use crate::cast::WholeElements;
use crate::threads::in_order;

/// A histogram of the finite elements of a tensor, with bins of equal width; see
/// [`Stats::histogram`](super::Stats::histogram).
///
/// ```
/// use tensorfile::stats::Stats;
/// use tensorfile::Tensor;
///
/// let tensor = Tensor::from_slice(&[0.0_f32, 1.0, 1.5, 2.0], [4])?;
/// let mut stats = Stats::from_info(tensor.info()).expect("f32 is numeric");
/// stats.update(tensor.as_bytes());
/// let mut histogram = stats.histogram(2).expect("there are elements");
/// histogram.update(tensor.as_bytes());
/// for (count, edges) in histogram.counts().iter().zip(histogram.edges().windows(2)) {
///     println!("{} to {}: {count}", edges[0], edges[1]);
/// }
/// assert_eq!(histogram.counts(), [1, 3]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Histogram {
    elements: Elements,
    whole: WholeElements,
    edges: Vec<f64>,
    counts: Vec<u64>,
}

impl Histogram {
    pub(super) fn new(elements: Elements, skip: usize, min: f64, max: f64, bins: usize) -> Self {
        // Between equal numbers there is only one bin.
        let bins = if min < max { bins.max(1) } else { 1 };
        let edge = |index: usize| {
            let part = index as f64 / bins as f64;
            // `max - min` might overflow.
            min * (1.0 - part) + max * part
        };
        let edges = (0..=bins).map(edge).collect();
        Self { elements, whole: elements.joined_after(skip), edges, counts: vec![0; bins] }
    }

    /// Adds the next bytes of the payload. A piece may begin and end inside of an element.
    ///
    /// NaN and infinities are not counted.
    pub fn update(&mut self, piece: &[u8]) {
        let Self { elements, whole, edges, counts } = self;
        whole.add(piece, |bytes| {
            let parts: Vec<&[u8]> = elements.parts(bytes).collect();
            let count = |part: usize, found: &mut Vec<u64>| {
                found.clear();
                found.resize(edges.len() - 1, 0);
                elements.read(parts[part], |chunk| match chunk {
                    Chunk::F32(chunk) => count(edges, found, chunk),
                    Chunk::F64(chunk) => count(edges, found, chunk),
                    Chunk::Integers(integers) => count(edges, found, integers.rounded),
                });
            };
            let Ok(()) = in_order(&mut Vec::new(), parts.len(), bytes.len(), &count, &mut |found| {
                counts.iter_mut().zip(found).for_each(|(count, found)| *count += *found);
                Ok::<(), Infallible>(())
            });
        });
    }

    /// Returns the number of elements in each bin.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the edges of the bins, one more than there are bins. A bin includes its lower edge, and only the last
    /// bin its upper edge.
    #[must_use]
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }
}

fn count<F: Copy + Into<f64>>(edges: &[f64], counts: &mut [u64], elements: &[F]) {
    let [min, max] = [edges[0], edges[edges.len() - 1]];
    let last = counts.len() - 1;
    // Halves do not overflow.
    let bins_in_a_half = counts.len() as f64 / (max / 2.0 - min / 2.0);
    for number in elements.iter().map(|&element| element.into()).filter(|number: &f64| number.is_finite()) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates at the first and the last bin"
        )]
        let mut bin = (((number / 2.0 - min / 2.0) * bins_in_a_half) as usize).min(last);
        // Rounding may have crossed an edge.
        while bin > 0 && number < edges[bin] {
            bin -= 1;
        }
        while bin < last && number >= edges[bin + 1] {
            bin += 1;
        }
        counts[bin] += 1;
    }
}

/// Writing adds to the payload.
///
/// ```
/// use std::io::Write;
/// use tensorfile::stats::Stats;
/// use tensorfile::Tensor;
///
/// let tensor = Tensor::from_slice(&[0.0_f32, 1.0, 4.0], [3])?;
/// let mut stats = Stats::from_info(tensor.info()).expect("f32 is numeric");
/// stats.write_all(tensor.as_bytes())?;
/// let mut histogram = stats.histogram(2).expect("there are finite elements");
/// histogram.write_all(tensor.as_bytes())?;
/// assert_eq!(histogram.counts(), [2, 1]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
impl io::Write for Histogram {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.update(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
