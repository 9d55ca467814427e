//! Does the same as `from_to`, and writes one more format.

mod model;

use std::fs::{self, File};
use std::{env, io};

use tensorfile::{btf, ptd, safetensors};

fn main() -> tensorfile::Result<()> {
    let mut paths = env::args_os().skip(1);
    let file = fs::read(paths.next().expect("the path of a file"))?;
    let model: model::Model = safetensors::from_slice(&file)?;
    let file = File::create(paths.next().expect("the path of a new file"))?;
    ptd::to_writer(io::BufWriter::new(file), &model)?;
    fs::write(paths.next().expect("the path of a second new file"), btf::to_vec(&model)?)?;
    Ok(())
}
