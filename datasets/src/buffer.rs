//! Samples held at the same time.

use tensorfile::ErrorKind;

use crate::error::Result;
use crate::sample::Sample;

/// A buffer of samples. Those of streams hold at most [`Limits::held`](tensorfile::Limits::held) bytes together; those
/// of mapped shards take no memory.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    samples: Vec<Sample>,
    held: u64,
}

impl Buffer {
    /// Takes samples from an iterator until there are `size`, or the iterator ends.
    pub(crate) fn fill(&mut self, size: usize, samples: &mut dyn Iterator<Item = Result<Sample>>) -> Result<()> {
        while self.samples.len() < size {
            let Some(sample) = samples.next() else { break };
            self.push(sample?)?;
        }
        Ok(())
    }

    /// Adds a sample. If the held bytes would exceed the limit, that is an error.
    pub(crate) fn push(&mut self, sample: Sample) -> Result<()> {
        let (found, limit) = (self.held.saturating_add(sample.held), sample.source.limits.held);
        // A single sample was checked when it was read.
        if found > limit && !self.samples.is_empty() {
            let limit = ErrorKind::Limit { what: "number of bytes held by samples in a buffer", found, limit };
            return Err(sample.place(limit.into()));
        }
        self.held = found;
        self.samples.push(sample);
        Ok(())
    }

    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Removes a sample. The last one takes its place.
    pub(crate) fn swap_remove(&mut self, at: usize) -> Sample {
        let sample = self.samples.swap_remove(at);
        self.held -= sample.held;
        sample
    }
}
