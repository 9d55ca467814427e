//! Saves a model of plain structs in two formats and loads it back.

use ndarray::{Array1, Array2};
use tensorfile::{File, TensorFile, load, save};

#[derive(TensorFile, Debug, PartialEq)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Mlp {
    embed: Linear,
    /// `layers.0.weight`, `layers.0.bias`, `layers.1.weight`, …
    layers: Vec<Linear>,
    #[tensor(rename = "lm_head.weight")]
    head: Array2<f32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let linear = |rows, columns| Linear {
        weight: Array2::from_shape_fn((rows, columns), |(row, column)| (row * columns + column) as f32),
        bias: Some(Array1::linspace(-1.0, 1.0, rows)),
    };
    let embed = Linear { bias: None, ..linear(16, 8) };
    let model = Mlp { embed, layers: vec![linear(8, 8), linear(8, 8)], head: Array2::ones((16, 8)) };

    let folder = tempfile::tempdir()?;
    for name in ["model.safetensors", "model.ptd"] {
        let path = folder.path().join(name);
        save(&path, &model)?;
        let loaded: Mlp = load(&path)?;
        assert_eq!(loaded, model);

        println!("{name}:");
        for tensor in File::open(&path)?.tensors() {
            println!("  {} {}", tensor.name(), tensor.info());
        }
    }
    Ok(())
}
