/// Limits on memory for reading a file.
///
/// Sizes in a file are checked against the size of the file. These limits bound everything else. Running out of memory
/// is [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), also below all limits.
///
/// ```
/// use tensorfile::{Category, Limits, OpenOptions, TensorMap, ten};
///
/// let file = ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32]), ("b", ndarray::array![2.0])]))?;
/// let limits = Limits::new().tensors(1).rank(4).payload(1 << 30).shared(1 << 20).memory(1 << 30);
/// let error = OpenOptions::new().limits(limits).from_bytes(file).unwrap_err();
/// assert_eq!(error.category(), Category::Limit);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The most tensors in a file. Default: 2²².
    pub tensors: u64,
    /// The maximum rank of a tensor. Default: 255, the maximum of a [`DimOrder`](crate::DimOrder).
    pub rank: u64,
    /// The maximum bytes of a tensor from a stream of unknown length. Default: 2⁴⁰.
    pub payload: u64,
    /// The maximum bytes held in memory of a stream that cannot be read in order: always for `npz`, `pytorch` and
    /// `tensorbuffers`, for other formats if their tensors are out of order, and for a pipe or device opened by
    /// [`File::open`](crate::File::open). The maximum bytes of a file from a server without ranges, if it is read
    /// backwards or does not say how long it is. [`payload`](Self::payload) and [`memory`](Self::memory) limit it too.
    /// Default: 2³⁴.
    pub held: u64,
    /// The maximum bytes by which the tensors of a file may exceed the file, by sharing bytes. They are only counted:
    /// nothing is allocated for them before they are read. `None`, the default, is 2³⁴, or 64 times the length of the
    /// file, or [`memory`](Self::memory), whichever is the most.
    ///
    /// The memory for names, dtypes, shapes and metadata is allocated, and may be larger than the file by this number
    /// too, or by 2³⁰ by default.
    pub shared: Option<u64>,
    /// The maximum bytes of memory for the tensors read by one call: a tensor, a part of it, or everything loaded into
    /// a type. Borrowed tensors take none. `None`, the default, is the length of the file plus
    /// [`shared`](Self::shared), so only compressed tensors, and copies of shared ones, can exceed it.
    pub memory: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tensors: 1 << 22, rank: 255, payload: 1 << 40, held: 1 << 34, shared: None, memory: None }
    }
}

impl Limits {
    /// Returns the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the most tensors in a file.
    ///
    /// ```
    /// use tensorfile::{Limits, TensorMap, ten};
    ///
    /// let file = ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32]), ("b", ndarray::array![2.0])]))?;
    /// let one = ten::Options::new().limits(Limits::new().tensors(1));
    /// let error = one.from_slice::<TensorMap>(&file).unwrap_err();
    /// assert!(error.to_string().contains("number of tensors is 2, but the limit is 1"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn tensors(mut self, tensors: u64) -> Self {
        self.tensors = tensors;
        self
    }

    /// Sets the most dims of a tensor.
    ///
    /// ```
    /// use tensorfile::{Limits, TensorMap, ten};
    ///
    /// let file = ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![[1.0_f32]])]))?;
    /// let vectors = ten::Options::new().limits(Limits::new().rank(1));
    /// let error = vectors.from_slice::<TensorMap>(&file).unwrap_err();
    /// assert!(error.to_string().contains("rank is 2, but the limit is 1"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn rank(mut self, rank: u64) -> Self {
        self.rank = rank;
        self
    }

    /// Sets the maximum bytes by which the tensors of a file may exceed the file, by sharing bytes.
    ///
    /// ```
    /// use tensorfile::{File, Limits, OpenOptions, TensorMap, ptd};
    ///
    /// // Two names of the same bytes.
    /// let weight = tensorfile::Tensor::from(ndarray::Array1::<f32>::zeros(1000));
    /// let file = ptd::to_vec(&TensorMap::from_iter([("embed", weight.clone()), ("head", weight)]))?;
    /// assert!(file.len() < 5000 && File::from_bytes(file.clone()).is_ok());
    /// let strict = OpenOptions::new().limits(Limits::new().shared(100));
    /// assert!(strict.from_bytes(file).is_err());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn shared(mut self, shared: u64) -> Self {
        self.shared = Some(shared);
        self
    }

    /// Sets the maximum bytes of memory for the tensors read by one call.
    ///
    /// ```
    /// use tensorfile::{Limits, OpenOptions, TensorMap, npz};
    ///
    /// // A thousand zeros take a few bytes in a compressed file.
    /// let zeros = TensorMap::from_iter([("zeros", ndarray::Array1::<f32>::zeros(1000))]);
    /// let file = npz::Options::new().compress(true).to_vec(&zeros)?;
    /// let file = OpenOptions::new().limits(Limits::new().memory(2000)).from_bytes(file)?;
    /// let error = file.tensor("zeros").unwrap_err();
    /// assert!(error.to_string().contains("memory for tensors in bytes is 4000, but the limit is 2000"));
    /// assert!(file.slice("zeros", &[0..10]).is_ok());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn memory(mut self, memory: u64) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Returns the maximum bytes of all tensors in a file of `len` bytes together.
    pub(crate) fn most_shared(&self, len: u64) -> u64 {
        /// The default of [`shared`](Self::shared), and how many times the length of the file it is at least.
        const SHARED: (u64, u64) = (1 << 34, 64);
        let default = || SHARED.0.max(len.saturating_mul(SHARED.1)).max(self.memory.unwrap_or(0));
        len.saturating_add(self.shared.unwrap_or_else(default))
    }

    /// Returns the maximum bytes of memory for the tensors read by one call from a file of `len` bytes.
    pub(crate) fn most_read(&self, len: u64) -> u64 {
        self.memory.unwrap_or_else(|| self.most_shared(len))
    }

    /// Returns the maximum bytes by which the memory for names, headers and metadata may exceed the file.
    pub(crate) fn headers(&self) -> u64 {
        const HEADERS: u64 = 1 << 30;
        self.shared.unwrap_or(HEADERS).min(self.memory.unwrap_or(u64::MAX))
    }

    /// Sets the maximum bytes of a tensor from a stream. It also bounds a stream that has to be held in memory.
    ///
    /// ```
    /// use tensorfile::{Limits, TensorMap, ten};
    ///
    /// let file = ten::to_vec(&TensorMap::from_iter([("a", ndarray::Array1::<f32>::zeros(1000))]))?;
    /// let small = ten::Options::new().limits(Limits::new().payload(1000));
    /// let error = small.from_reader::<TensorMap>(&file[..]).unwrap_err();
    /// assert!(error.to_string().contains("payload in bytes is 4000, but the limit is 1000"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn payload(mut self, payload: u64) -> Self {
        self.payload = payload;
        self
    }

    /// Sets the maximum bytes held in memory of a stream.
    ///
    /// ```
    /// use tensorfile::{Limits, TensorMap, npz};
    ///
    /// // The index of an archive is at its end, so all of a stream is held before the first tensor is read.
    /// let file = npz::to_vec(&TensorMap::from_iter([("a", ndarray::Array1::<f32>::zeros(1000))]))?;
    /// let small = npz::Options::new().limits(Limits::new().held(1000));
    /// let error = small.from_reader::<TensorMap>(&file[..]).unwrap_err();
    /// assert!(error.to_string().contains("the limit is 1000"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn held(mut self, held: u64) -> Self {
        self.held = held;
        self
    }

    /// Returns the maximum bytes held in memory of a stream.
    pub(crate) fn most_held(&self) -> u64 {
        self.held.min(self.payload).min(self.memory.unwrap_or(u64::MAX))
    }
}
