//! Chooses a row of `FORMATS` for an input.

use tensorfile::format::{Deserializer, READ_FORMATS};
use tensorfile::{FORMATS, Format, OpenOptions, btf, gguf, npy, npz, ptd, pytorch, safetensors, ten, tensorbuffers};

use crate::budget::limits;
use crate::input::Input;

/// Chooses a row by the first byte of an input. The rest is the file. New rows do not change the meaning of old inputs.
pub fn choose<'a>(input: &mut Input<'a>) -> Option<&'static Format> {
    FORMATS.get(usize::from(input.byte())).copied()
}

/// As [`choose`], with the formats that are only read from the other end.
pub fn choose_any<'a>(input: &mut Input<'a>) -> Option<&'static Format> {
    let byte = input.byte();
    FORMATS.get(usize::from(byte)).or_else(|| READ_FORMATS.get(usize::from(u8::MAX - byte))).copied()
}

/// Returns the byte that chooses a format.
pub fn number(format: &Format) -> u8 {
    let at = |formats: &[&Format]| formats.iter().position(|other| other.name == format.name);
    let short = |at| u8::try_from(at).expect("the table is short");
    match at(FORMATS) {
        Some(at) => short(at),
        None => u8::MAX - short(at(READ_FORMATS).expect("it is in a table")),
    }
}

/// Returns options for opening a file of `len` bytes, with the row and the limits of all targets.
pub fn open(format: &'static Format, len: usize) -> OpenOptions {
    OpenOptions::new().limits(limits(len)).format(format)
}

/// Evaluates `$body` with the module of a format.
macro_rules! with_module {
    ($format:expr, $module:ident => $body:expr) => {
        with_module!($format, $module, $body, btf ten ptd tensorbuffers safetensors npy npz pytorch gguf)
    };
    ($format:expr, $module:ident, $body:expr, $($name:ident)*) => {
        match $format.name {
            $(stringify!($name) => {
                use $name as $module;
                $body
            })*
            other => panic!("{other} has no module here"),
        }
    };
}

pub fn of_slice<'de>(format: &Format, file: &'de [u8]) -> Deserializer<'de> {
    with_module!(format, module => module::Options::new().limits(limits(file.len())).slice_deserializer(file))
}

pub fn of_reader<'de>(format: &Format, reader: impl std::io::Read + 'de, len: usize) -> Deserializer<'de> {
    with_module!(format, module => module::Options::new().limits(limits(len)).stream_deserializer(reader))
}
