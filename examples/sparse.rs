//! Stores a sparse matrix as coordinates and values in a BTF file.

use ndarray::{Array2, array};
use tensorfile::{CooTensor, btf, ten};

fn main() -> tensorfile::Result<()> {
    // Each value has a row of indices.
    let ratings = CooTensor::new([1_000_000, 1_000_000], vec![3, 7, 41, 0, 999_999, 5], vec![5.0_f32, 3.0, 4.0])?;
    let file = btf::to_vec(&ratings)?;
    println!("{} of 10^12 ratings take {} bytes", ratings.values().len(), file.len());

    let read: CooTensor<f32> = btf::from_slice(&file)?;
    for (coordinate, rating) in read.iter() {
        println!("{coordinate:?}: {rating}");
    }
    assert_eq!(read, ratings);

    // From a dense array and back.
    let dense: Array2<i32> = array![[0, 0, 7], [0, 0, 0], [-1, 0, 0]];
    let sparse = CooTensor::from_dense(&dense);
    assert_eq!(sparse.values(), [7, -1]);
    assert_eq!(sparse.to_dense()?, dense.into_dyn());

    // Other formats refuse it before anything is written.
    println!("{}", ten::to_vec(&sparse).expect_err("ten has no sparse layout"));
    Ok(())
}
