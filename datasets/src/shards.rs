//! The samples of many shards.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tensorfile::model::FromTensors;
use tensorfile::{ErrorKind, Limits, Warning};

use crate::error::{Error, Result};
use crate::locations::locations;
use crate::sample::Sample;
use crate::shard::{Broken, Shard};

/// The samples of many shards, one shard after the other.
///
/// ```
/// use ndarray::{Array1, array};
/// use tensorfile::TensorFile;
/// use tensorfile_datasets::{ShardWriter, Shards};
///
/// #[derive(TensorFile)]
/// struct Row {
///     x: Array1<f32>,
///     label: i64,
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
/// let mut writer = ShardWriter::new(path("rows-{00..}.tar"))?.max_samples(2);
/// for label in 0..5 {
///     writer.write(&format!("{label:04}"), &Row { x: array![0.5], label })?;
/// }
/// writer.finish()?;
///
/// let mut labels = Vec::new();
/// for row in Shards::new(&path("rows-{00..02}.tar"))?.load::<Row>() {
///     labels.push(row?.label);
/// }
/// assert_eq!(labels, [0, 1, 2, 3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Shards {
    locations: Vec<String>,
    limits: Limits,
    on_error: OnError,
    /// The current shard.
    shard: Option<Shard>,
    /// The number of the next shard.
    next: usize,
    /// The place after the last sample.
    position: Position,
    /// The offset in the next shard up to which samples were returned in an earlier run.
    resumed: u64,
    skipped: Skipped,
    warnings: Vec<ShardWarning>,
    is_ended: bool,
}

/// The reaction to a broken sample or shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OnError {
    /// The error is the last item. This is the default.
    #[default]
    Stop,
    /// The sample or the rest of the shard is left out, and [counted](Shards::skipped).
    Skip,
    /// The error is the last item. A [warning](Shards::warnings) is an error too.
    Strict,
}

/// A warning about a shard, for example because it has no end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardWarning {
    /// The path, or the URL without secrets.
    pub shard: String,
    /// The warning.
    pub warning: Warning,
}

impl ShardWarning {
    /// Returns the warnings about a shard.
    pub(crate) fn all(shard: &Shard) -> impl Iterator<Item = Self> {
        let warning = |warning: &Warning| Self { shard: shard.location().to_owned(), warning: warning.clone() };
        shard.warnings().iter().map(warning)
    }
}

impl fmt::Display for ShardWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.shard, self.warning)
    }
}

/// Counts of samples and shards left out because of errors.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Skipped {
    /// The number of samples.
    pub samples: u64,
    /// The number of shards left out as a whole or from some sample on.
    pub shards: u64,
    /// The last error.
    pub last: Option<Error>,
}

/// A place in shards: before the sample at an offset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// The path or URL of the shard. It is empty before the first one.
    pub shard: Arc<str>,
    /// The offset in the shard, uncompressed, in bytes.
    pub offset: u64,
}

impl Shards {
    /// Returns the samples of all shards that match a pattern of paths or URLs, as for [`locations`]. No shard is
    /// opened yet.
    ///
    /// # Errors
    ///
    /// As [`locations`].
    pub fn new(pattern: &str) -> Result<Self> {
        Ok(Self::from_locations(locations(pattern)?))
    }

    /// Returns the samples of the shards at these paths and URLs. They are not patterns.
    pub fn from_locations(locations: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            locations: locations.into_iter().map(Into::into).collect(),
            limits: Limits::default(),
            on_error: OnError::default(),
            shard: None,
            next: 0,
            position: Position::default(),
            resumed: 0,
            skipped: Skipped::default(),
            warnings: Vec::new(),
            is_ended: false,
        }
    }

    /// Sets the limits for reading, as for [`Shard::with_limits`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the reaction to a broken sample or shard.
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// Keeps the shards of one node out of `world`: every `world`-th shard from `rank` on, as webdataset does.
    ///
    /// ```
    /// use tensorfile_datasets::Shards;
    ///
    /// let shards = Shards::new("{0..9}.tar")?.split_by_node(1, 2).split_by_worker(0, 3);
    /// assert_eq!(shards.locations(), ["1.tar", "7.tar"]);
    /// # Ok::<(), tensorfile_datasets::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If `rank` is not below `world`.
    #[must_use]
    pub fn split_by_node(mut self, rank: usize, world: usize) -> Self {
        assert!(rank < world, "rank {rank} is not below {world}");
        self.locations = self.locations.into_iter().skip(rank).step_by(world).collect();
        self
    }

    /// Keeps the shards of one of a node's `workers`. Call it after [`split_by_node`](Self::split_by_node).
    ///
    /// # Panics
    ///
    /// If `worker` is not below `workers`.
    #[must_use]
    pub fn split_by_worker(self, worker: usize, workers: usize) -> Self {
        self.split_by_node(worker, workers)
    }

    /// Returns the paths and URLs of the shards.
    #[must_use]
    pub fn locations(&self) -> &[String] {
        &self.locations
    }

    /// Returns counts of samples and shards left out because of errors.
    #[must_use]
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Returns warnings about shards read so far: some have no end, others have bytes after it.
    #[must_use]
    pub fn warnings(&self) -> &[ShardWarning] {
        &self.warnings
    }

    /// Loads each sample into a type, as [`Sample::load`] does. A sample that does not fit is broken.
    pub fn load<T: for<'s> FromTensors<'s>>(self) -> Loaded<T> {
        Loaded { shards: self, of: PhantomData }
    }

    /// Returns the place after the last sample.
    #[must_use]
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Resumes after a position of an earlier run.
    pub(crate) fn resume_at(&mut self, position: &Position) -> Result<()> {
        let next = match &*position.shard {
            "" => 0,
            shard => self.locations.iter().position(|location| location == shard).ok_or_else(|| {
                ErrorKind::Message(format!("the state is one of other shards: `{shard}` is not among them"))
            })?,
        };
        (self.shard, self.next, self.resumed, self.is_ended) = (None, next, position.offset, false);
        self.position = position.clone();
        Ok(())
    }

    /// Opens a shard. It is not called `open`, because compiler messages would suggest that instead of
    /// [`new`](Self::new).
    pub(crate) fn open_shard(&self, location: &str) -> Result<Shard> {
        Shard::with_limits(location, self.limits.clone())
    }

    /// Counts a broken sample or shard, or returns the error.
    fn broken(&mut self, broken: Broken) -> Result<()> {
        if self.on_error != OnError::Skip {
            self.is_ended = true;
            return Err(broken.into());
        }
        match broken {
            Broken::Sample(_) => self.skipped.samples += 1,
            Broken::Shard(_) => self.skipped.shards += 1,
        }
        self.skipped.last = Some(broken.into());
        Ok(())
    }

    /// Closes the current shard, and keeps its warnings.
    fn close(&mut self) -> Result<(), Broken> {
        let Some(shard) = self.shard.take() else { return Ok(()) };
        if let (OnError::Strict, Some(warning)) = (self.on_error, shard.warnings().first()) {
            return Err(Broken::Shard(Error::malformed(&*warning.text).in_shard(shard.location())));
        }
        self.warnings.extend(ShardWarning::all(&shard));
        Ok(())
    }

    fn open_next(&mut self) -> Result<bool, Broken> {
        let Some(location) = self.locations.get(self.next) else { return Ok(false) };
        self.next += 1;
        let resumed = std::mem::take(&mut self.resumed);
        self.position = Position { shard: location.as_str().into(), offset: resumed };
        self.shard = Some(self.open_shard(location).map_err(Broken::Shard)?);
        Ok(true)
    }
}

impl Iterator for Shards {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_ended {
            let broken = match self.shard.as_mut().map(Shard::next_sample) {
                Some(Some(Ok(sample))) => {
                    if sample.header < self.position.offset {
                        continue;
                    }
                    self.position.offset = sample.end;
                    return Some(Ok(sample));
                }
                Some(Some(Err(broken))) => broken,
                Some(None) => match self.close() {
                    Ok(()) => continue,
                    Err(broken) => broken,
                },
                None => match self.open_next() {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(broken) => broken,
                },
            };
            if let Err(error) = self.broken(broken) {
                return Some(Err(error));
            }
        }
        None
    }
}

/// The samples of shards, each loaded into a type. See [`Shards::load`].
#[derive(Debug)]
pub struct Loaded<T> {
    shards: Shards,
    of: PhantomData<fn() -> T>,
}

impl<T> Loaded<T> {
    /// Returns the shards.
    #[must_use]
    pub fn shards(&self) -> &Shards {
        &self.shards
    }
}

impl<T: for<'s> FromTensors<'s>> Iterator for Loaded<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(sample) = self.shards.next() {
            match sample.and_then(|sample| sample.load()) {
                Ok(value) => return Some(Ok(value)),
                Err(error) if self.shards.is_ended => return Some(Err(error)),
                Err(error) => match self.shards.broken(Broken::Sample(error)) {
                    Ok(()) => {}
                    Err(error) => return Some(Err(error)),
                },
            }
        }
        None
    }
}
