//! Loads each file by the code that was printed for it, and saves it again.

// The printed code gives no warnings, but for fields that nobody reads here.
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

/// Loads a file and compares what is saved of that with it.
///
/// It is saved by the functions of one format: code for each of the many types and all formats would take long to compile.
macro_rules! saves {
    ($model:ty, $about:literal, $path:literal, $format:ident, $($options:tt)*) => {
        let file = open($path, stringify!($format));
        let model = file.load::<$model>().unwrap_or_else(|error| panic!("{}: {}: {error}", $about, $path));
        let saved = tensorfile::$format::$($options)*.to_vec(&model).unwrap();
        same($about, file.load().unwrap(), file.format().from_slice(&saved).unwrap());
    };
}

fn main() {
    // The checks stand here.
}

fn open(path: &str, format: &str) -> File {
    let format = FORMATS.iter().find(|row| row.name == format).unwrap();
    OpenOptions::new().format(format).open(path).unwrap()
}

fn same(about: &str, file: TensorMap, saved: TensorMap) {
    assert_eq!(file.len(), saved.len(), "{about}");
    // Without names, a field's name may take the place of the tensor's position.
    let is_nameless = file.names().enumerate().all(|(at, name)| name == at.to_string()) && !file.is_empty();
    if is_nameless && about == "without names" {
        file.iter().zip(saved.iter()).for_each(|((name, tensor), (_, saved))| equal(about, name, tensor, saved));
    } else {
        file.iter().for_each(|(name, tensor)| equal(about, name, tensor, &saved[name]));
    }
}

fn equal(about: &str, name: &str, tensor: &Tensor, saved: &Tensor) {
    match tensor.layout() {
        // Saved in row-major order.
        Layout::DimOrder(_) => {
            assert_eq!(tensor.array::<i16>().unwrap(), saved.array::<i16>().unwrap(), "{about}: {name:?}");
        }
        _ => assert_eq!(tensor, saved, "{about}: {name:?}"),
    }
}
