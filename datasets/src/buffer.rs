//! Samples held at the same time.

use tensorfile::ErrorKind;

use crate::error::Result;
use crate::sample::Sample;

/// Samples of which those of streams hold at most [`Limits::held`](tensorfile::Limits::held) bytes together. Samples of
/// mapped shards take no memory.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    samples: Vec<Sample>,
    held: u64,
}

impl Buffer {
    /// Takes samples from an iterator until there are `size`, or no more.
    pub(crate) fn fill(&mut self, size: usize, samples: &mut dyn Iterator<Item = Result<Sample>>) -> Result<()> {
        while self.samples.len() < size {
            let Some(sample) = samples.next() else { break };
            self.push(sample?)?;
        }
        Ok(())
    }

    /// Takes a sample in a stream, if its bytes do not exceed the limit together with those held.
    pub(crate) fn push(&mut self, sample: Sample) -> Result<()> {
        let (found, limit) = (self.held.saturating_add(sample.held), sample.source.limits.held);
        // One sample alone was checked when it was read.
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
