/// Limits on the memory that reading a file may take.
///
/// Sizes in a file are checked against the size of the file. Those that this does not bound are checked against these
/// limits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The most tensors in a file. Default: 2²².
    pub tensors: u64,
    /// The most dims of a tensor. Default: 255, the most that a [`DimOrder`](crate::DimOrder) can have.
    pub rank: u64,
    /// The most bytes of a tensor that is read from a stream, whose length is not known. Default: 2⁴⁰.
    pub payload: u64,
    /// The most bytes by which the tensors of a file may be larger than the file, because they share bytes or are
    /// compressed. The memory for the dtypes and shapes of all tensors is checked in the same way. Default: 2³⁰.
    pub shared: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tensors: 1 << 22, rank: 255, payload: 1 << 40, shared: 1 << 30 }
    }
}

impl Limits {
    /// Returns the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the most tensors in a file.
    #[must_use]
    pub fn tensors(mut self, tensors: u64) -> Self {
        self.tensors = tensors;
        self
    }

    /// Sets the most dims of a tensor.
    #[must_use]
    pub fn rank(mut self, rank: u64) -> Self {
        self.rank = rank;
        self
    }

    /// Sets the most bytes by which the tensors of a file may be larger than the file.
    #[must_use]
    pub fn shared(mut self, shared: u64) -> Self {
        self.shared = shared;
        self
    }

    /// Sets the most bytes of a tensor that is read from a stream.
    #[must_use]
    pub fn payload(mut self, payload: u64) -> Self {
        self.payload = payload;
        self
    }
}
