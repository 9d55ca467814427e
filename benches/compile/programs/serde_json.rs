//! Reads a file and writes it under another name, with serde_derive and serde_json.

mod model;

use std::{env, error, fs};

fn main() -> Result<(), Box<dyn error::Error>> {
    let mut paths = env::args_os().skip(1);
    let model: model::Model = serde_json::from_slice(&fs::read(paths.next().expect("the path of a file"))?)?;
    fs::write(paths.next().expect("the path of a new file"), serde_json::to_vec(&model)?)?;
    Ok(())
}
