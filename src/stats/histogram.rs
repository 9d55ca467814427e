use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::elements::{Chunk, Elements};

/// How many elements of a tensor lie in each of some bins of equal width; see [`Stats::histogram`](super::Stats::histogram).
#[derive(Debug, Clone)]
pub struct Histogram {
    elements: Elements,
    edges: Vec<f64>,
    counts: Vec<u64>,
}

impl Histogram {
    pub(super) fn new(elements: Elements, min: f64, max: f64, bins: usize) -> Self {
        // Between two equal numbers there is room for one bin.
        let bins = if min < max { bins.max(1) } else { 1 };
        let edge = |at: usize| {
            let part = at as f64 / bins as f64;
            // A difference might overflow.
            min * (1.0 - part) + max * part
        };
        Self { elements, edges: (0..=bins).map(edge).collect(), counts: vec![0; bins] }
    }

    /// Takes the next bytes of the payload. A piece may end inside of an element.
    ///
    /// NaN and the infinities are in no bin.
    pub fn update(&mut self, piece: &[u8]) {
        let Self { elements, edges, counts } = self;
        elements.add(piece, |chunk| match chunk {
            Chunk::Narrow(chunk) => count(edges, counts, chunk),
            Chunk::Wide(chunk) => count(edges, counts, chunk),
            Chunk::Range(..) => {}
        });
    }

    /// The elements in each bin.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The limits of the bins, one more than there are bins. A bin begins with the first of its limits and ends before
    /// the second, but the last one has both.
    #[must_use]
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }
}

fn count<F: Copy + Into<f64>>(edges: &[f64], counts: &mut [u64], elements: &[F]) {
    let [min, max] = [edges[0], edges[edges.len() - 1]];
    let last = counts.len() - 1;
    // Of halves, which cannot overflow.
    let bins_in_a_half = counts.len() as f64 / (max / 2.0 - min / 2.0);
    for number in elements.iter().map(|&element| element.into()).filter(|number: &f64| number.is_finite()) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "cut off at the first and the last"
        )]
        let mut bin = (((number / 2.0 - min / 2.0) * bins_in_a_half) as usize).min(last);
        // What rounding brought over an edge goes back.
        while bin > 0 && number < edges[bin] {
            bin -= 1;
        }
        while bin < last && number >= edges[bin + 1] {
            bin += 1;
        }
        counts[bin] += 1;
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut histogram = serializer.serialize_struct("Histogram", 2)?;
        histogram.serialize_field("edges", &self.edges)?;
        histogram.serialize_field("counts", &self.counts)?;
        histogram.end()
    }
}
