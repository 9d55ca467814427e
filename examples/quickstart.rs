//! Saves a model of plain structs in five formats and loads it back from each.

use ndarray::{Array1, Array2};
use tensorfile::{File, SaveOptions, TensorFile, WriteOptions};

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

    // BTF has no names, and those of `.ten` are up to 8 bytes long. Both keep ours in one more tensor if we ask for it.
    let options = SaveOptions::new().write(WriteOptions::new().embed_names(true));
    let folder = tempfile::tempdir()?;
    for name in ["model.btf", "model.ten", "model.ptd", "model.tbs", "model.safetensors"] {
        let path = folder.path().join(name);
        options.save(&path, &model)?;
        let loaded: Mlp = tensorfile::load(&path)?;
        assert_eq!(loaded, model, "{name}");
        println!("{name:17}  {} bytes; what was read equals what was saved", path.metadata()?.len());
    }

    println!("\nEach file has these tensors:");
    for tensor in File::open(folder.path().join("model.ptd"))?.tensors() {
        println!("  {:15}  {}", tensor.name(), tensor.info());
    }
    Ok(())
}
