//! Reads arrays without copying them: they borrow from the file's bytes.

use ndarray::{Array2, ArrayView1, ArrayView2, CowArray, Ix2, array};
use tensorfile::{File, TensorFile, TensorView, btf, save};

#[derive(TensorFile)]
struct Model<'a> {
    weight: ArrayView2<'a, f32>,
    bias: ArrayView1<'a, f32>,
}

#[derive(TensorFile)]
struct AnyAlignment<'a> {
    /// Borrows elements that are aligned in memory, copies others.
    weight: CowArray<'a, f32, Ix2>,
    /// Any dtype and rank, as bytes, which can always be borrowed.
    bias: TensorView<'a>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (weight, bias): (Array2<f32>, _) = (array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], array![0.5, -0.5]);
    let model = Model { weight: weight.view(), bias: bias.view() };

    // From a mapped file.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    save(&path, &model)?;
    let file = File::open(&path)?;
    let mapped: Model = file.load()?;
    println!("sum of the weights: {}", mapped.weight.sum());
    assert_eq!(mapped.weight, weight);

    // From bytes in memory; here at an odd address, where elements cannot be borrowed.
    let mut bytes = btf::to_vec(&model)?;
    bytes.insert(0, 0);
    let Err(error) = btf::from_slice::<Model>(&bytes[1..]) else { return Ok(()) };
    println!("{error}");
    let copied: AnyAlignment = btf::from_slice(&bytes[1..])?;
    assert_eq!(copied.weight, weight);
    assert!(bytes.as_ptr_range().contains(&copied.bias.as_bytes().as_ptr()));
    Ok(())
}
