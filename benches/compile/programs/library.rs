//! Loads a file and saves it under another name, without a struct: the library's own share of a program.

use std::env;

fn main() -> tensorfile::Result<()> {
    let mut paths = env::args_os().skip(1);
    let tensors: tensorfile::TensorMap = tensorfile::load(paths.next().expect("the path of a file"))?;
    tensorfile::save(paths.next().expect("the path of a new file"), &tensors)
}
