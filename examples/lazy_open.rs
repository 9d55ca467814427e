//! Opens a file without reading its payloads, then reads one tensor and a slice of another.

use ndarray::{Array1, Array2, Ix1, array, s};
use tensorfile::{File, TensorFile, save};

#[derive(TensorFile)]
struct Model {
    embedding: Array2<f32>,
    bias: Array1<f32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    let embedding = Array2::from_shape_fn((1000, 64), |(row, column)| (row * 64 + column) as f32);
    save(&path, &Model { embedding: embedding.clone(), bias: array![0.5, -0.5] })?;

    // Reads the index only.
    let file = File::open(&path)?;
    for tensor in file.tensors() {
        println!("{} {} at bytes {:?}", tensor.name(), tensor.info(), tensor.range());
    }

    // Reads 8 bytes.
    let bias = file.array::<f32, Ix1>("bias")?;
    assert_eq!(bias, array![0.5, -0.5]);

    // Reads three rows.
    let rows = file.slice("embedding", &[10..13, 0..64])?;
    println!("slice: {}", rows.info());
    assert_eq!(rows.array::<f32>()?, embedding.slice(s![10..13, ..]).into_dyn());

    // Reads nothing: the view borrows from the mapped file.
    let view = file.view("embedding")?;
    assert_eq!(view.array::<f32>()?, embedding.into_dyn());

    let error = file.tensor("embeding").expect_err("the name is misspelled");
    println!("{error}");
    Ok(())
}
