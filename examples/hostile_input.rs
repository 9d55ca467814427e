//! Reads malformed files under limits: every problem is an error with a category, a tensor and an offset.

use tensorfile::{Category, Error, Limits, OpenOptions, Tensor, TensorMap, ten};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let map = TensorMap::from_iter([
        ("weight", Tensor::from_slice(&[1.0_f32; 77], [77])?),
        ("bias", Tensor::from_slice(&[0.5_f32, -0.5], [2])?),
    ]);
    let file = ten::to_vec(&map)?;
    let limits = Limits::new().tensors(1000).rank(8).payload(1 << 30);
    let read = |file: &[u8]| OpenOptions::new().limits(limits.clone()).from_bytes(file.to_vec())?.load::<TensorMap>();
    assert_eq!(read(&file)?, map);

    // The upload stopped in the middle of the last tensor.
    let error = report(read(&file[..file.len() - 5]));
    assert_eq!((error.category(), error.tensor()), (Category::File, Some("bias")));
    assert!(error.offset().is_some_and(|offset| offset < file.len() as u64));

    // A dim of 2^56 for `weight` claims more bytes than the file has. Nothing is allocated for it.
    let mut huge = file.clone();
    let dim = huge.windows(8).position(|bytes| bytes == 77_u64.to_le_bytes()).expect("`weight` has 77 elements");
    huge[dim..dim + 8].copy_from_slice(&(1_u64 << 56).to_le_bytes());
    let error = report(read(&huge));
    assert_eq!((error.category(), error.tensor()), (Category::File, Some("weight")));

    // A valid file can still ask for more than a program wants to give.
    let few = OpenOptions::new().limits(Limits::new().tensors(1)).from_bytes(file);
    assert_eq!(report(few).category(), Category::Limit);

    // Not a tensor file.
    assert_eq!(report(read(b"<html>")).category(), Category::File);
    Ok(())
}

fn report<T>(result: Result<T, Error>) -> Error {
    let error = result.err().expect("the file is not accepted");
    println!("{:?}, tensor {:?}, offset {:?}: {error}", error.category(), error.tensor(), error.offset());
    error
}
