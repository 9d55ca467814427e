//! Ties the output weights of a model to its embedding, so that formats that can share bytes store them once.

use ndarray::{Array2, array};
use tensorfile::{TensorFile, load, ptd, save};

#[derive(TensorFile, Debug, PartialEq)]
struct Model {
    embed: Embedding,
    /// Refers to the other tensor by its full name in the file.
    #[tensor(rename = "lm_head.weight", tied = "embed.weight")]
    head: Array2<f32>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Embedding {
    weight: Array2<f32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let weight = Array2::from_shape_fn((256, 64), |(row, column)| (row * 64 + column) as f32);
    let mut model = Model { head: weight.clone(), embed: Embedding { weight } };

    // A `.ptd` file holds the bytes once; safetensors cannot share them.
    for name in ["model.ptd", "model.safetensors"] {
        let path = folder.path().join(name);
        save(&path, &model)?;
        println!("{name}: {} bytes", path.metadata()?.len());
        assert_eq!(load::<Model>(&path)?, model);
    }
    let bytes = |name| folder.path().join(name).metadata().map(|metadata| metadata.len());
    assert!(bytes("model.ptd")? < 80 << 10 && bytes("model.safetensors")? > 128 << 10);

    // Writing values that differ is an error.
    model.head = array![[1.0]];
    println!("{}", ptd::to_vec(&model).expect_err("the tied tensors differ"));
    Ok(())
}
