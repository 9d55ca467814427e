/// The generations of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Version {
    /// `FT01` as ExecuTorch has it since 0.7. The default.
    #[default]
    Ft01,
    /// `FT01` as ExecuTorch 0.5 and 0.6 wrote it. Read, not written.
    EarlyFt01,
    /// `DT01`, the RFC's version 1.
    Dt01V1,
    /// `DT01`, the RFC's version 2, which has [`Compatibility`].
    Dt01V2,
}

/// What the RFC's version 2 says of the model that a file belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Compatibility {
    /// The model, such as `llama`.
    pub model_name: String,
    /// The model's version.
    pub version: String,
    /// How the model is quantised.
    pub quantization_scheme: String,
    /// Anything else.
    pub custom_description: String,
}

/// What a file says of itself, beside its tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The generation.
    pub version: Version,
    /// The number that the file has for its version: 0 in `FT01`, 1 or 2 in `DT01`.
    pub schema_version: u32,
    /// What tensors are aligned to, where the file says it: not in the current `FT01`.
    pub tensor_alignment: Option<u32>,
    /// The number of data segments.
    pub segments: usize,
    /// What the file says of its model.
    pub compatibility: Option<Compatibility>,
}
