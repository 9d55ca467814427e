/// The keys of the fields of [`Compatibility`], in their order. A file written with any of them has the RFC's version
/// 2, the only generation with such fields.
pub(super) const KEYS: [&str; 4] =
    ["ptd.model_name", "ptd.version", "ptd.quantization_scheme", "ptd.custom_description"];
/// The generations of the format.
///
/// ```
/// use tensorfile::{TensorMap, ptd};
///
/// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32])]);
/// let file = ptd::Options::new().version(ptd::Version::Dt01V2).to_vec(&map)?;
/// assert_eq!(ptd::metadata(&file)?.version, ptd::Version::Dt01V2);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Version {
    /// `FT01` as ExecuTorch writes it since 0.7. This is the default.
    #[default]
    Ft01,
    /// `FT01` as ExecuTorch 0.5 and 0.6 wrote it. We read but do not write it.
    EarlyFt01,
    /// `DT01`, the RFC's version 1.
    Dt01V1,
    /// `DT01`, the RFC's version 2, with [`Compatibility`].
    Dt01V2,
}

/// The model of a file, in the RFC's version 2.
///
/// ```
/// use tensorfile::ptd::Compatibility;
///
/// let llama = Compatibility { model_name: "llama".to_owned(), version: "3.2".to_owned(), ..Compatibility::default() };
/// assert_eq!(llama.quantization_scheme, "");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Compatibility {
    /// The model, such as `llama`.
    pub model_name: String,
    /// The model's version.
    pub version: String,
    /// The quantization scheme of the model.
    pub quantization_scheme: String,
    /// A free-form description.
    pub custom_description: String,
}

impl Compatibility {
    /// Returns the fields in the order of the schema.
    pub(super) fn texts(&self) -> [&str; 4] {
        [&self.model_name, &self.version, &self.quantization_scheme, &self.custom_description]
    }
}

/// Information in a file besides its tensors.
///
/// ```
/// use tensorfile::{TensorMap, ptd};
///
/// let metadata = ptd::metadata(&ptd::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?)?;
/// assert_eq!((metadata.version, metadata.segments), (ptd::Version::Ft01, 1));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The generation.
    pub version: Version,
    /// The version number in the file: 0 in `FT01`, 1 or 2 in `DT01`.
    pub schema_version: u32,
    /// The alignment of tensors in bytes, if the file states it. The current `FT01` does not.
    pub tensor_alignment: Option<u32>,
    /// The number of data segments.
    pub segments: usize,
    /// The model of the file, if stated.
    pub compatibility: Option<Compatibility>,
}
