//! The formats of this crate, with and without their Cargo features.

use crate::error::{Error, ErrorKind};
use crate::model::{FormatAdvice, FormatSpec, Magic};
use crate::tensor::Dtype;

/// A format, as far as it is known without its code. A Cargo feature of the same name adds the code.
#[derive(Debug)]
pub(super) struct KnownFormat {
    pub(super) name: &'static str,
    pub(super) extensions: &'static [&'static str],
    /// An extension of new files. Other software has it too, so the content decides about files that exist.
    pub(super) written_extension: Option<&'static str>,
    pub(super) magics: &'static [Magic],
}

pub(super) const KNOWN: &[&KnownFormat] =
    &[&BTF, &TEN, &PTD, &TENSORBUFFERS, &SAFETENSORS, &NPY, &NPZ, &PYTORCH, &GGUF];

pub(super) const BTF: KnownFormat = known("btf", &["btf"], &[]);
pub(super) const TEN: KnownFormat = known("ten", &["ten"], &[magic(0, b"~TenBin~")]);
pub(super) const PTD: KnownFormat = known("ptd", &["ptd"], &[magic(4, b"FT01"), magic(4, b"DT01")]);
pub(super) const TENSORBUFFERS: KnownFormat = known("tensorbuffers", &["tbs"], &[magic(0, b"TBS1")]);
pub(super) const SAFETENSORS: KnownFormat = known("safetensors", &["safetensors"], &[]);
pub(super) const NPY: KnownFormat = known("npy", &["npy"], &[magic(0, b"\x93NUMPY")]);
pub(super) const NPZ: KnownFormat = known("npz", &["npz"], &[magic(0, b"PK\x03\x04"), magic(0, b"PK\x05\x06")]);
pub(super) const GGUF: KnownFormat = known("gguf", &["gguf"], &[magic(0, b"GGUF")]);
pub(super) const PYTORCH: KnownFormat = KnownFormat {
    name: "pytorch",
    extensions: &["pt", "pth"],
    written_extension: Some("bin"),
    magics: &[
        magic(0, b"PK\x03\x04"),
        // The number of the older form, as pickles of several protocols write it.
        magic(0, b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
        magic(0, b"\x80\x03\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
        magic(0, b"L119547037146038801333356L\n."),
        magic(11, b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
    ],
};

/// A copy of what the formats say. Tests compare them.
const ADVICE: FormatAdvice = FormatAdvice {
    metadata: "; safetensors keeps any metadata, and gguf any whose key is ASCII",
    sparse: "; btf stores sparse ones",
    blobs: "; npz and ptd store blobs",
    blocks: "; gguf stores it",
};

const fn known(name: &'static str, extensions: &'static [&'static str], magics: &'static [Magic]) -> KnownFormat {
    KnownFormat { name, extensions, written_extension: None, magics }
}

const fn magic(offset: usize, bytes: &'static [u8]) -> Magic {
    Magic { offset, bytes }
}

impl KnownFormat {
    /// Returns the specification of a format with these dtypes.
    pub(super) const fn spec(&self, dtypes: &'static [Dtype]) -> FormatSpec {
        let mut spec = FormatSpec::new(self.name, dtypes);
        spec.extensions = self.extensions;
        spec.magics = self.magics;
        spec.advice = ADVICE;
        spec
    }

    /// The error for a file of the format if its feature is off.
    pub(super) fn feature_off(&self) -> Error {
        ErrorKind::FeatureOff { format: self.name, feature: self.name }.into()
    }
}
