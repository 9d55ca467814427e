//! Reading without copying: arrays that lie in the file's bytes.
//!
//! ```sh
//! cargo run --example zero_copy
//! ```

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, CowArray, Ix2, array};
use tensorfile::{Result, TensorFile, TensorView, btf};

#[derive(TensorFile)]
struct Owned {
    weight: Array2<f32>,
    bias: Array1<f32>,
}

/// The same file by its borrowed side; the elements are never copied.
#[derive(TensorFile)]
struct Borrowed<'a> {
    weight: ArrayView2<'a, f32>,
    bias: ArrayView1<'a, f32>,
}

/// Once more, for bytes of any alignment.
#[derive(TensorFile)]
struct Either<'a> {
    /// Borrows where the elements lie aligned in memory, copies where they do not.
    weight: CowArray<'a, f32, Ix2>,
    /// Any dtype and rank, as bytes, which always can be borrowed.
    bias: TensorView<'a>,
}

fn main() -> Result<()> {
    let file = btf::to_vec(&Owned { weight: array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], bias: array![0.5, -0.5] })?;

    let model: Borrowed = btf::from_slice(&file)?;
    println!("sum of the weights: {}, of the bias: {}", model.weight.sum(), model.bias.sum());
    assert!(file.as_ptr_range().contains(&model.weight.as_ptr().cast()), "the array lies in the file");

    // BTF aligns elements to 8 bytes of the file; so they are aligned in memory where the file's first byte is.
    // A file in the middle of something else may not be:
    let mut container = vec![0];
    container.extend_from_slice(&file);
    let unaligned = &container[1..];
    if let Err(error) = btf::from_slice::<Borrowed>(unaligned) {
        println!("unaligned, as views: {error}");
    }
    let model: Either = btf::from_slice(unaligned)?;
    let how = if model.weight.is_view() { "borrowed" } else { "copied" };
    println!(
        "unaligned, as `CowArray`: {how}; as `TensorView`: {} in {} bytes",
        model.bias.info(),
        model.bias.as_bytes().len()
    );
    Ok(())
}
