//! Loads a model from safetensors, computes with it, and saves it as an ExecuTorch data file.

use ndarray::{Array1, Array2, array};
use tensorfile::{TensorFile, load, save};

#[derive(TensorFile, Debug, PartialEq)]
struct Linear {
    weight: Array2<f32>,
    bias: Array1<f32>,
}

impl Linear {
    fn forward(&self, input: &Array1<f32>) -> Array1<f32> {
        self.weight.dot(input) + &self.bias
    }
}

#[derive(TensorFile, Debug, PartialEq)]
struct Mlp {
    fc1: Linear,
    fc2: Linear,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    save(&path, &trained())?;

    let mut model: Mlp = load(&path)?;
    let hidden = model.fc1.forward(&array![1.0, 2.0]).mapv(|x| x.max(0.0));
    let output = model.fc2.forward(&hidden);
    println!("output: {output}");
    assert_eq!(output, array![8.5]);

    model.fc2.bias += 1.0;
    let changed = folder.path().join("model.ptd");
    save(&changed, &model)?;
    assert_eq!(load::<Mlp>(&changed)?, model);
    Ok(())
}

/// The model in the file.
fn trained() -> Mlp {
    let fc1 = Linear { weight: array![[1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], bias: array![1.0, 0.0, 0.0] };
    Mlp { fc1, fc2: Linear { weight: array![[1.0, 1.0, 2.0]], bias: array![0.5] } }
}
