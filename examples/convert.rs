//! Converts a file to other formats without holding its tensors in memory.

use ndarray::Array2;
use tensorfile::view::{CastView, Renamed, Subset};
use tensorfile::{Dtype, File, TensorFile, TensorMap, load, save};

#[derive(TensorFile)]
struct Model {
    encoder: Vec<Array2<f32>>,
    head: Array2<f32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let [from, to, small] = ["model.safetensors", "model.ptd", "encoder.npz"].map(|name| folder.path().join(name));
    save(&from, &Model { encoder: vec![Array2::ones((64, 64)); 3], head: Array2::zeros((2, 64)) })?;

    // Payloads are copied from file to file in chunks.
    let file = File::open(&from)?;
    save(&to, &file)?;
    assert_eq!(load::<TensorMap>(&to)?, load::<TensorMap>(&from)?);
    println!("{} bytes of {} -> {} bytes of ptd", file.file_bytes(), file.format().name, to.metadata()?.len());

    // A part of the file, under other names and in another dtype, on the same way.
    let encoder = Subset::new(&file, |name| name.starts_with("encoder."));
    let renamed = Renamed::new(&encoder, |name| Some(name.replace("encoder.", "layer")));
    save(&small, &CastView::new(&renamed, |_, _| Dtype::F16))?;
    for tensor in File::open(&small)?.tensors() {
        println!("{} {}", tensor.name(), tensor.info());
        assert_eq!(tensor.dtype(), Dtype::F16);
    }
    Ok(())
}
