/// How much a file may ask for before it is refused.
///
/// The numbers in a file decide how much memory reading it takes. Each is checked against the bytes that are there, and
/// against these limits where that does not bound it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Tensors in a file. Default: 2²².
    pub tensors: u64,
    /// Dims of a tensor. Default: 255, as a dim order of one byte a dim allows.
    pub rank: u64,
    /// Bytes of a tensor read from a stream, where no length tells how many will come. Default: 2⁴⁰.
    pub payload: u64,
    /// Bytes by which the tensors of a file may be more than the file, because several names share one run of bytes or
    /// because they are compressed. Default: 2³⁰.
    pub shared: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tensors: 1 << 22, rank: 255, payload: 1 << 40, shared: 1 << 30 }
    }
}

impl Limits {
    /// The default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of tensors in a file.
    #[must_use]
    pub fn tensors(mut self, tensors: u64) -> Self {
        self.tensors = tensors;
        self
    }

    /// Sets the number of dims of a tensor.
    #[must_use]
    pub fn rank(mut self, rank: u64) -> Self {
        self.rank = rank;
        self
    }

    /// Sets by how many bytes the tensors of a file may be more than the file.
    #[must_use]
    pub fn shared(mut self, shared: u64) -> Self {
        self.shared = shared;
        self
    }

    /// Sets the number of bytes of a tensor read from a stream.
    #[must_use]
    pub fn payload(mut self, payload: u64) -> Self {
        self.payload = payload;
        self
    }
}
