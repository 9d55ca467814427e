//! Shuffles samples in a buffer.

use std::collections::BTreeMap;

use fastrand::Rng;
use tensorfile::ErrorKind;

use crate::buffer::Buffer;
use crate::error::Result;
use crate::resume::{Resume, State, skip};
use crate::sample::Sample;
use crate::shards::{Position, Shards};

/// Samples in a random order. See [`Shards::shuffle`].
#[derive(Debug)]
pub struct Shuffle {
    samples: Shards,
    size: usize,
    random: Rng,
    buffer: Buffer,
    has_failed: bool,
}

impl Shards {
    /// Shuffles samples: each is drawn at random from a buffer of `size` samples. With the same seed, you get the same
    /// order.
    ///
    /// In the buffer, samples of mapped shards take no memory. Samples of streams hold at most
    /// [`Limits::held`](tensorfile::Limits::held) bytes together; if they need more, you get an error.
    ///
    /// ```
    /// use tensorfile_datasets::{ShardWriter, Shards};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
    /// # let mut writer = ShardWriter::new(path("a-{0..}.tar"))?.max_samples(4);
    /// # for key in 0..10 {
    /// #     writer.write_files(&key.to_string(), [("txt", "")])?;
    /// # }
    /// # writer.finish()?;
    /// let keys = |seed| -> Result<Vec<String>, tensorfile_datasets::Error> {
    ///     Shards::new(&path("a-{0..2}.tar"))?.shuffle(5, seed).map(|sample| Ok(sample?.key)).collect()
    /// };
    /// assert_eq!(keys(1)?, keys(1)?);
    /// assert_ne!(keys(1)?, keys(2)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shuffle(self, size: usize, seed: u64) -> Shuffle {
        Shuffle {
            samples: self,
            size: size.max(1),
            random: Rng::with_seed(seed),
            buffer: Buffer::default(),
            has_failed: false,
        }
    }
}

impl Shuffle {
    /// Returns the shards.
    #[must_use]
    pub fn shards(&self) -> &Shards {
        &self.samples
    }

    /// Reads the samples at some places again.
    fn read(&self, places: &[Position]) -> Result<Buffer> {
        let mut found: Vec<Option<Sample>> = places.iter().map(|_| None).collect();
        let mut shards: BTreeMap<&str, BTreeMap<u64, usize>> = BTreeMap::new();
        for (i, place) in places.iter().enumerate() {
            shards.entry(&place.shard).or_default().insert(place.offset, i);
        }
        for (location, mut offsets) in shards {
            for sample in self.samples.open_shard(location)? {
                // A broken sample never was in a buffer.
                let Ok(sample) = sample else { continue };
                if let Some(i) = offsets.remove(&sample.header) {
                    found[i] = Some(sample);
                }
                if offsets.is_empty() {
                    break;
                }
            }
        }
        let mut buffer = Buffer::default();
        for sample in found {
            let other = "the state is one of other shards: samples of its buffer are not there";
            buffer.push(sample.ok_or_else(|| ErrorKind::Message(other.to_owned()))?)?;
        }
        Ok(buffer)
    }
}

impl Iterator for Shuffle {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        if let Err(error) = self.buffer.fill(self.size, &mut self.samples) {
            // The iteration ends, because samples after an error would be in another order than without it.
            self.has_failed = true;
            self.buffer = Buffer::default();
            return Some(Err(error));
        }
        let len = self.buffer.samples().len();
        (len > 0).then(|| Ok(self.buffer.swap_remove(self.random.usize(..len))))
    }
}

impl Resume for Shuffle {
    fn state(&self) -> State {
        let place = |sample: &Sample| Position { shard: sample.source.location.clone(), offset: sample.header };
        State {
            position: self.samples.position().clone(),
            buffer: self.buffer.samples().iter().map(place).collect(),
            random: Some(self.random.get_seed()),
            returned: 0,
        }
    }

    fn resume(&mut self, state: &State) -> Result<()> {
        let Some(seed) = state.random else {
            return Err(ErrorKind::Message("the state is not one of a shuffle".to_owned()).into());
        };
        self.buffer = self.read(&state.buffer)?;
        self.has_failed = false;
        self.random = Rng::with_seed(seed);
        self.samples.resume_at(&state.position)?;
        skip(self, state.returned)
    }

    fn has_small_state(&self) -> bool {
        false
    }
}
