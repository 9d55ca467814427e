//! Loads each file into its generated struct, and saves the struct again.

// The generated code gives no warnings, except that no field is read.
#![deny(warnings)]
#![allow(dead_code)]

use tensorfile::{FORMATS, File, Layout, OpenOptions, Tensor, TensorMap};

/// Loads a file.
macro_rules! loads {
    ($model:ty, $about:literal, $path:literal, $format:ident, $($options:tt)*) => {
        let file = open($path, stringify!($format));
        file.load::<$model>().unwrap_or_else(|error| panic!("{}: {}: {error}", $about, $path));
    };
}

/// Loads and saves a file, and compares the tensors.
///
/// It uses the functions of one format, because `save` would compile the types for all formats.
macro_rules! saves {
    ($model:ty, $about:literal, $path:literal, $format:ident, $($options:tt)*) => {
        let file = open($path, stringify!($format));
        let model = file.load::<$model>().unwrap_or_else(|error| panic!("{}: {}: {error}", $about, $path));
        let saved = tensorfile::$format::$($options)*.to_vec(&model).unwrap();
        same($about, file.load().unwrap(), file.format().from_slice(&saved).unwrap());
    };
}

fn main() {
    // The checks are inserted here.
}

fn open(path: &str, format: &str) -> File {
    let format = FORMATS.iter().find(|row| row.name == format).unwrap();
    OpenOptions::new().format(format).open(path).unwrap()
}

fn same(about: &str, file: TensorMap, saved: TensorMap) {
    assert_eq!(file.len(), saved.len(), "{about}");
    // The saved tensors have names even if the file has none.
    let is_nameless = file.names().enumerate().all(|(at, name)| name == at.to_string()) && !file.is_empty();
    if is_nameless && about == "without names" {
        file.iter().zip(saved.iter()).for_each(|((name, tensor), (_, saved))| equal(about, name, tensor, saved));
    } else {
        file.iter().for_each(|(name, tensor)| equal(about, name, tensor, &saved[name]));
    }
}

fn equal(about: &str, name: &str, tensor: &Tensor, saved: &Tensor) {
    match tensor.layout() {
        // Dim orders are saved as row-major.
        Layout::DimOrder(_) => {
            assert_eq!(tensor.array::<i16>().unwrap(), saved.array::<i16>().unwrap(), "{about}: {name:?}");
        }
        _ => assert_eq!(tensor, saved, "{about}: {name:?}"),
    }
}
