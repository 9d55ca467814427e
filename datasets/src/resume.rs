//! Iterators over samples that can stop and go on in another process.

use serde::{Deserialize, Serialize};
use tensorfile::ErrorKind;

use crate::error::Result;
use crate::sample::Sample;
use crate::shards::{Position, Shards};

/// The state of an iterator over samples, for serde: JSON, or any other format.
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
    /// The place after the last sample that was read.
    pub position: Position,
    /// The places of the samples in the buffer of a shuffle.
    #[serde(default)]
    pub buffer: Vec<Position>,
    /// The state of the random numbers of a shuffle.
    #[serde(default)]
    pub random: Option<u64>,
    /// The number of samples after the state that were returned too.
    #[serde(default)]
    pub returned: u64,
}

/// An iterator over samples whose [`State`] can be kept.
pub trait Resume: Iterator<Item = Result<Sample>> {
    /// Returns the state after the last sample that was returned.
    fn state(&self) -> State;

    /// Goes on after a state of an iterator that was made in the same way.
    ///
    /// Shards with samples of the state are read again up to these samples, which are not decoded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Message`] if the state is one of other shards, or is one of a shuffle and these are not shuffled, or the
    /// other way round; and errors of reading them.
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

/// Passes over samples that were returned before.
pub(crate) fn skip(samples: &mut dyn Resume, returned: u64) -> Result<()> {
    for _ in 0..returned {
        samples.next().transpose()?;
    }
    Ok(())
}
