//! Shows the field and struct attributes of `#[derive(TensorFile)]`.

use std::time::Instant;

use ndarray::{Array1, Array2, array};
use tensorfile::{Tensor, TensorFile, TensorMap, safetensors};

#[derive(TensorFile)]
#[tensor(allow_unknown)]
struct Layer {
    /// Another name in the file, with dots of its own, and an older name to read.
    #[tensor(rename = "self.query", alias = "attention.q")]
    query: Array1<f32>,
    /// `scale` and `shift` are in the file without a prefix.
    #[tensor(flatten)]
    norm: Norm,
    /// Integers and other floats are converted.
    #[tensor(cast)]
    mean: Array1<f64>,
    /// The file holds the transposed matrix, and the inner dim is known.
    #[tensor(transpose, shape = [_, 3])]
    weight: Array2<f32>,
    /// Not in the file.
    #[tensor(skip, default = "Instant::now")]
    loaded: Instant,
}

#[derive(TensorFile)]
struct Norm {
    scale: f32,
    #[tensor(default)]
    shift: f32,
}

fn main() -> tensorfile::Result<()> {
    let file = safetensors::to_vec(&TensorMap::from_iter([
        ("attention.q", Tensor::from_slice(&[1.0_f32, 2.0], [2])?),
        ("scale", Tensor::from_slice(&[0.5_f32], [])?),
        ("mean", Tensor::from_slice(&[3_i8, -4], [2])?),
        ("weight", Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3, 1])?),
        ("optimizer.step", Tensor::from_slice(&[9_u64], [])?),
    ]))?;
    let layer: Layer = safetensors::from_slice(&file)?;
    println!("{}", Layer::schema());
    assert_eq!((layer.query, layer.mean), (array![1.0, 2.0], array![3.0, -4.0]));
    assert_eq!((layer.norm.scale, layer.norm.shift), (0.5, 0.0));
    assert_eq!(layer.weight, array![[1.0, 2.0, 3.0]]);
    assert!(layer.loaded.elapsed().as_secs() < 3600);
    Ok(())
}
