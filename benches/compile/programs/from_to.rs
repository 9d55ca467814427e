//! Reads one format and writes another, with the functions that have serde's bounds.

mod model;

use std::fs::{self, File};
use std::{env, io};

use tensorfile::{ptd, safetensors};

fn main() -> tensorfile::Result<()> {
    let mut paths = env::args_os().skip(1);
    let file = fs::read(paths.next().expect("the path of a file"))?;
    let model: model::Model = safetensors::from_slice(&file)?;
    let file = File::create(paths.next().expect("the path of a new file"))?;
    ptd::to_writer(io::BufWriter::new(file), &model)
}
