//! Loads and saves a file, and uses every format.

mod model;

use std::{env, hint, io};

use model::Model;
use tensorfile::{Result, btf, gguf, npy, npz, ptd, pytorch, safetensors, ten, tensorbuffers};

fn main() -> Result<()> {
    let mut paths = env::args_os().skip(1);
    let model: Model = tensorfile::load(paths.next().expect("the path of a file"))?;
    tensorfile::save(paths.next().expect("the path of a new file"), &model)?;

    btf::to_writer(io::stdout(), &model)?;
    ten::to_writer(io::stdout(), &model)?;
    ptd::to_writer(io::stdout(), &model)?;
    tensorbuffers::to_writer(io::stdout(), &model)?;
    safetensors::to_writer(io::stdout(), &model)?;
    npy::to_writer(io::stdout(), &model)?;
    npz::to_writer(io::stdout(), &model)?;
    pytorch::to_writer(io::stdout(), &model)?;
    gguf::to_writer(io::stdout(), &model)?;

    let file: &[u8] = hint::black_box(&[]);
    let models: [Result<Model>; 9] = [
        btf::from_slice(file),
        ten::from_slice(file),
        ptd::from_slice(file),
        tensorbuffers::from_slice(file),
        safetensors::from_slice(file),
        npy::from_slice(file),
        npz::from_slice(file),
        pytorch::from_slice(file),
        gguf::from_slice(file),
    ];
    hint::black_box(&models);
    Ok(())
}
