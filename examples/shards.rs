//! Saves a model in several files of limited size and opens them as one.

use ndarray::Array2;
use tensorfile::{File, SaveOptions, TensorFile, load};

#[derive(TensorFile, Debug, PartialEq)]
struct Model {
    layers: Vec<Array2<f32>>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let layer = |at: u8| Array2::from_elem((32, 32), f32::from(at));
    let model = Model { layers: (0..5).map(layer).collect() };

    // Each layer takes 4 KiB, so two of them fit in a shard.
    let path = folder.path().join("model.safetensors");
    SaveOptions::new().max_shard_bytes(8 << 10).save(&path, &model)?;
    assert!(!path.exists());

    // Hugging Face's index lists the shard of each tensor.
    let index = folder.path().join("model.safetensors.index.json");
    println!("{}", std::fs::read_to_string(&index)?);
    assert_eq!(load::<Model>(&index)?, model);

    let file = File::open(&index)?;
    assert_eq!(file.shards().len(), 3);
    for tensor in file.tensors() {
        let shard = tensor.path().and_then(|path| path.file_name()).unwrap_or_default();
        println!("{} {} in {}", tensor.name(), tensor.info(), shard.display());
    }
    Ok(())
}
