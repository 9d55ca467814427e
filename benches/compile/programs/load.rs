//! Loads a file.

mod model;

use std::{env, hint};

fn main() -> tensorfile::Result<()> {
    let path = env::args_os().nth(1).expect("the path of a file");
    let model: model::Model = tensorfile::load(path)?;
    hint::black_box(&model);
    Ok(())
}
