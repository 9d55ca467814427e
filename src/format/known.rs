//! The formats of this crate, with and without their Cargo features.

use crate::error::{Error, ErrorKind};
use crate::model::{FormatSpec, Magic};
use crate::tensor::Dtype;

/// A format, as far as it is known without its code. A Cargo feature of the same name adds the code.
#[derive(Debug)]
pub(super) struct KnownFormat {
    pub(super) name: &'static str,
    pub(super) extensions: &'static [&'static str],
    pub(super) magics: &'static [Magic],
    pub(super) read_only: bool,
}

pub(super) const KNOWN: &[&KnownFormat] =
    &[&BTF, &TEN, &PTD, &TENSORBUFFERS, &SAFETENSORS, &NPY, &NPZ, &PYTORCH, &GGUF];

pub(super) const BTF: KnownFormat = written("btf", &["btf"], &[]);
pub(super) const TEN: KnownFormat = written("ten", &["ten"], &[magic(0, b"~TenBin~")]);
pub(super) const PTD: KnownFormat = written("ptd", &["ptd"], &[magic(4, b"FT01"), magic(4, b"DT01")]);
pub(super) const TENSORBUFFERS: KnownFormat = written("tensorbuffers", &["tbs"], &[magic(0, b"TBS1")]);
pub(super) const SAFETENSORS: KnownFormat = written("safetensors", &["safetensors"], &[]);
pub(super) const NPY: KnownFormat = written("npy", &["npy"], &[magic(0, b"\x93NUMPY")]);
pub(super) const NPZ: KnownFormat = written("npz", &["npz"], &[magic(0, b"PK\x03\x04"), magic(0, b"PK\x05\x06")]);
pub(super) const GGUF: KnownFormat = written("gguf", &["gguf"], &[magic(0, b"GGUF")]);
pub(super) const PYTORCH: KnownFormat = KnownFormat {
    name: "pytorch",
    extensions: &["pt", "pth"],
    magics: &[
        magic(0, b"PK\x03\x04"),
        // The number of the older form, as pickles of several protocols write it.
        magic(0, b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
        magic(0, b"\x80\x03\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
        magic(0, b"L119547037146038801333356L\n."),
        magic(11, b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
    ],
    read_only: true,
};

/// A copy of what `keeps_metadata` of the formats says. Tests compare them.
const METADATA_ADVICE: &str = "; safetensors keeps any metadata, and gguf any whose key is ASCII";

const fn written(name: &'static str, extensions: &'static [&'static str], magics: &'static [Magic]) -> KnownFormat {
    KnownFormat { name, extensions, magics, read_only: false }
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
        spec.read_only = self.read_only;
        spec.metadata_advice = METADATA_ADVICE;
        spec
    }

    /// The error for a file of the format if its feature is off.
    pub(super) fn feature_off(&self) -> Error {
        ErrorKind::FeatureOff { format: self.name, feature: self.name }.into()
    }
}
