//! Batches of samples: tensors stacked where their shapes agree.

use indexmap::IndexMap;
use tensorfile::model::{TensorRecord, TensorSink, Tensors};
use tensorfile::{Layout, Shape, Tensor, TensorInfo, TensorMap};

use crate::buffer::Buffer;
use crate::error::Result;
use crate::resume::{Resume, State};
use crate::sample::Sample;

/// Some samples together.
///
/// ```
/// use ndarray::{Array1, Array2, array};
/// use tensorfile::TensorFile;
/// use tensorfile_datasets::{Batches, ShardWriter, Shards};
///
/// #[derive(TensorFile)]
/// struct Row {
///     x: Array1<f32>,
///     label: i64,
/// }
///
/// #[derive(TensorFile)]
/// struct Rows {
///     x: Array2<f32>,
///     label: Array1<i64>,
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
/// let mut writer = ShardWriter::new(path("a-{0..}.tar"))?;
/// for label in 0..5 {
///     writer.write(&format!("{label:04}"), &Row { x: array![0.5, 1.0], label })?;
/// }
/// writer.finish()?;
///
/// let mut batches = Batches::new(Shards::new(&path("a-0.tar"))?, 3);
/// let rows: Rows = batches.next().expect("five samples")?.load()?;
/// assert_eq!((rows.x.dim(), rows.label), ((3, 2), array![0, 1, 2]));
/// assert_eq!(batches.next().expect("two are left")?.keys, ["0003", "0004"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Batch {
    /// The keys of the samples.
    pub keys: Vec<String>,
    /// The tensors by name.
    pub tensors: IndexMap<String, Column>,
    /// The entries of metadata by name, one for each sample.
    pub metadata: IndexMap<String, Vec<Option<String>>>,
}

/// The tensors of one name in a [`Batch`].
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Tensors of equal dtype and shape, stacked along a new first dim.
    Stacked(Tensor),
    /// One tensor for each sample; `None` for samples without it.
    Separate(Vec<Option<Tensor>>),
}

impl Batch {
    /// Loads samples, and stacks their tensors.
    ///
    /// # Errors
    ///
    /// As [`Sample::load`].
    pub fn new(samples: &[Sample]) -> Result<Self> {
        let mut columns: IndexMap<String, Vec<Option<Tensor>>> = IndexMap::new();
        let mut metadata: IndexMap<String, Vec<Option<String>>> = IndexMap::new();
        for (i, sample) in samples.iter().enumerate() {
            for (name, tensor) in sample.load::<TensorMap>()? {
                columns.entry(name).or_insert_with(|| vec![None; samples.len()])[i] = Some(tensor);
            }
            for (name, text) in sample.metadata()? {
                metadata.entry(name).or_insert_with(|| vec![None; samples.len()])[i] = Some(text);
            }
        }
        let tensors = columns.into_iter().map(|(name, column)| Ok((name, stack(column)?)));
        let tensors = tensors.collect::<tensorfile::Result<_>>()?;
        Ok(Self { keys: samples.iter().map(|sample| sample.key.clone()).collect(), tensors, metadata })
    }

    /// Loads the stacked tensors into a type. Its arrays have one dim more than those of a sample.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Load`](tensorfile::ErrorKind::Load) if they do not fit.
    pub fn load<T: for<'t> tensorfile::model::FromTensors<'t>>(&self) -> Result<T> {
        Ok((self as &dyn Tensors).load()?)
    }
}

impl Tensors for Batch {
    /// Sends the stacked tensors.
    fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
        for (name, column) in &self.tensors {
            if let Column::Stacked(tensor) = column {
                sink.tensor(&TensorRecord { name, info: tensor.info(), data: &tensor.as_bytes(), tied: None })?;
            }
        }
        Ok(())
    }
}

/// Stacks tensors if none is missing, all are row-major, and all have the same dtype and shape.
fn stack(column: Vec<Option<Tensor>>) -> tensorfile::Result<Column> {
    let Some(info) = column.first().and_then(Option::as_ref).map(|first| first.info().clone()) else {
        return Ok(Column::Separate(column));
    };
    let are_alike = column.iter().all(|tensor| tensor.as_ref().is_some_and(|tensor| *tensor.info() == info));
    if !are_alike || info.layout != Layout::RowMajor {
        return Ok(Column::Separate(column));
    }
    let bytes = column.iter().flatten().map(Tensor::as_bytes).collect::<Vec<_>>().concat();
    let shape: Shape = std::iter::once(column.len()).chain(info.shape.dims().iter().copied()).collect();
    Ok(Column::Stacked(Tensor::new(TensorInfo::new(info.dtype, shape), &bytes)?))
}

/// Batches of samples. The last one may be smaller.
#[derive(Debug)]
pub struct Batches<I> {
    samples: I,
    size: usize,
}

impl<I: Iterator<Item = Result<Sample>>> Batches<I> {
    /// Returns batches of `size` samples, for example of [`Shards`](crate::Shards). You need not load the samples
    /// before.
    ///
    /// All samples of a batch that come from streams hold at most [`Limits::held`](tensorfile::Limits::held) bytes
    /// together.
    pub fn new(samples: I, size: usize) -> Self {
        Self { samples, size: size.max(1) }
    }
}

impl<I: Resume> Batches<I> {
    /// Returns the state after the last batch, for [`resume`](Self::resume).
    pub fn state(&self) -> State {
        self.samples.state()
    }

    /// Resumes after a state, as [`Resume::resume`] does.
    ///
    /// # Errors
    ///
    /// As [`Resume::resume`].
    pub fn resume(&mut self, state: &State) -> Result<()> {
        self.samples.resume(state)
    }
}

impl<I: Iterator<Item = Result<Sample>>> Iterator for Batches<I> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut buffer = Buffer::default();
        match buffer.fill(self.size, &mut self.samples) {
            Ok(()) if buffer.samples().is_empty() => None,
            filled => Some(filled.and_then(|()| Batch::new(buffer.samples()))),
        }
    }
}
