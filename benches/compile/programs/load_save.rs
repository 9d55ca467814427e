//! Loads a file and saves it under another name.

mod model;

use std::env;

fn main() -> tensorfile::Result<()> {
    let mut paths = env::args_os().skip(1);
    let model: model::Model = tensorfile::load(paths.next().expect("the path of a file"))?;
    tensorfile::save(paths.next().expect("the path of a new file"), &model)
}
