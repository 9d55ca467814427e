//! Iterators over samples that you can stop and resume, in another process too.

use serde::{Deserialize, Serialize};
use tensorfile::ErrorKind;

use crate::error::Result;
use crate::sample::Sample;
use crate::shards::{Position, Shards};

/// The state of an iterator over samples. Store it as JSON or in any other serde format.
///
/// ```
/// use tensorfile_datasets::{Resume, ShardWriter, Shards, State};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
/// # let mut writer = ShardWriter::new(path("a-{0..}.tar"))?.max_samples(4);
/// # for key in 0..10 {
/// #     writer.write_files(&key.to_string(), [("txt", "")])?;
/// # }
/// # writer.finish()?;
/// let open = || Ok::<_, tensorfile_datasets::Error>(Shards::new(&path("a-{0..2}.tar"))?.shuffle(3, 42));
/// let mut samples = open()?;
/// samples.by_ref().take(5).for_each(drop);
/// let json = serde_json::to_string(&samples.state())?;
///
/// // Later, in another process.
/// let state: State = serde_json::from_str(&json)?;
/// let mut resumed = open()?;
/// resumed.resume(&state)?;
/// for (sample, expected) in resumed.zip(samples) {
///     assert_eq!(sample?.key, expected?.key);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    /// The place after the last sample read.
    pub position: Position,
    /// The places of the samples in the buffer of a shuffle.
    #[serde(default)]
    pub buffer: Vec<Position>,
    /// The state of the random numbers of a shuffle.
    #[serde(default)]
    pub random: Option<u64>,
    /// The number of samples returned after the rest of this state was taken.
    #[serde(default)]
    pub returned: u64,
}

/// An iterator over samples that you can resume after a [`State`].
pub trait Resume: Iterator<Item = Result<Sample>> {
    /// Returns the state after the last returned sample.
    fn state(&self) -> State;

    /// Resumes after a state. Make this iterator in the same way as the one that returned the state.
    ///
    /// Shards with samples of the state are read again up to these samples. Nothing before is decoded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Message`] if the state belongs to other shards, or if only one of the two iterators is shuffled;
    /// and errors of reading the shards.
    fn resume(&mut self, state: &State) -> Result<()>;

    /// Returns whether [`state`](Self::state) is as small as a position.
    fn has_small_state(&self) -> bool {
        true
    }
}

impl Resume for Shards {
    fn state(&self) -> State {
        State { position: self.position().clone(), ..State::default() }
    }

    fn resume(&mut self, state: &State) -> Result<()> {
        if state.random.is_some() {
            let buffer = state.buffer.len();
            let message =
                format!("the state is one of a shuffle, whose buffer has {buffer} samples; shuffle these shards too");
            return Err(ErrorKind::Message(message).into());
        }
        self.resume_at(&state.position)?;
        skip(self, state.returned)
    }
}

/// Skips samples that were returned before.
pub(crate) fn skip(samples: &mut dyn Resume, returned: u64) -> Result<()> {
    for _ in 0..returned {
        samples.next().transpose()?;
    }
    Ok(())
}
