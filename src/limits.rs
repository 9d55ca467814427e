/// Limits on the memory that reading a file may take.
///
/// Sizes in a file are checked against the size of the file. Those that this does not bound are checked against these
/// limits.
///
/// ```
/// use tensorfile::{Category, Limits, OpenOptions, TensorMap, ten};
///
/// let file = ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32]), ("b", ndarray::array![2.0])]))?;
/// let limits = Limits::new().tensors(1).rank(4).payload(1 << 30).shared(1 << 20);
/// let error = OpenOptions::new().limits(limits).from_bytes(file).unwrap_err();
/// assert_eq!(error.category(), Category::Limit);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The most tensors in a file. Default: 2²².
    pub tensors: u64,
    /// The most dims of a tensor. Default: 255, the most that a [`DimOrder`](crate::DimOrder) can have.
    pub rank: u64,
    /// The most bytes of a tensor that is read from a stream, whose length is not known. Default: 2⁴⁰.
    pub payload: u64,
    /// The most bytes of a stream that is held in memory, because it cannot be read in order: of `npz`, `pytorch` and
    /// `tensorbuffers` always, of others if their tensors are not in order, and of a pipe or device that
    /// [`File::open`](crate::File::open) opens. [`payload`](Self::payload) limits it too. Default: 2³⁴.
    pub held: u64,
    /// The most bytes by which the tensors of a file may be larger than the file, because they share bytes or are
    /// compressed. The memory for the dtypes and shapes of all tensors is checked in the same way. Default: 2³⁰.
    pub shared: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tensors: 1 << 22, rank: 255, payload: 1 << 40, held: 1 << 34, shared: 1 << 30 }
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

    /// Sets the most bytes by which the tensors of a file may be larger than the file.
    ///
    /// ```
    /// use tensorfile::{Limits, TensorMap, npz};
    ///
    /// // A thousand zeros take a few bytes in a compressed file.
    /// let zeros = TensorMap::from_iter([("zeros", ndarray::Array1::<f32>::zeros(1000))]);
    /// let file = npz::Options::new().compress(true).to_vec(&zeros)?;
    /// let strict = npz::Options::new().limits(Limits::new().shared(100));
    /// assert!(strict.from_slice::<TensorMap>(&file).is_err());
    /// assert!(npz::from_slice::<TensorMap>(&file).is_ok());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn shared(mut self, shared: u64) -> Self {
        self.shared = shared;
        self
    }

    /// Sets the most bytes of a tensor that is read from a stream. A stream that has to be held in memory may not be longer
    /// either.
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

    /// Sets the most bytes of a stream that is held in memory.
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

    /// Returns the most bytes of a stream that is held in memory.
    pub(crate) fn most_held(&self) -> u64 {
        self.held.min(self.payload)
    }
}
