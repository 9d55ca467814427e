//! Sparse tensors: coordinates and values, in BTF and as dense arrays.
//!
//! ```sh
//! cargo run --example sparse
//! ```

use ndarray::{Array2, array};
use tensorfile::{CooTensor, Result, btf, ten};

fn main() -> Result<()> {
    // From coordinates, a row of indices for each value:
    let ratings = CooTensor::new([1_000_000, 1_000_000], vec![3, 7, 41, 0, 999_999, 5], vec![5.0_f32, 3.0, 4.0])?;
    let file = btf::to_vec(&ratings)?;
    println!("{} of 10^12 ratings take {} bytes", ratings.values().len(), file.len());

    let read: CooTensor<f32> = btf::from_slice(&file)?;
    for (coordinate, rating) in read.iter() {
        println!("    {coordinate:?}: {rating}");
    }
    assert_eq!(read, ratings);

    // From a dense array, and back:
    let dense: Array2<i32> = array![[0, 0, 7], [0, 0, 0], [-1, 0, 0]];
    let sparse = CooTensor::from_dense(&dense);
    println!("{dense}\nhas {} values, at {:?}", sparse.values().len(), sparse.coordinates());
    let read: CooTensor<i32> = btf::from_slice(&btf::to_vec(&sparse)?)?;
    assert_eq!(read.to_dense()?, dense.into_dyn());

    // The TensorFlow Runtime's own code takes another layout number than its specification has:
    let for_tfrt = btf::Options::new().tfrt_coo(true).to_vec(&sparse)?;
    assert_eq!(btf::from_slice::<CooTensor<i32>>(&for_tfrt)?, sparse, "both are read");

    // Not every format can hold it, and none pretends to:
    let error = ten::to_vec(&sparse).expect_err("`.ten` has no sparse layout");
    println!("{error}");
    Ok(())
}
