//! Exchanges arrays with numpy: `.npy` holds one array, `.npz` several by name.

use std::collections::BTreeMap;
use std::fs::File;

use ndarray::{Array1, Array2, array};
use tensorfile::{Arrays, TensorFile, load, npz, save};

/// In Python: `np.savez("points.npz", xy=xy, label=label)`.
#[derive(TensorFile, Debug, PartialEq)]
struct Points {
    xy: Array2<f64>,
    label: Array1<u8>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let points = Points { xy: array![[0.0, 1.0], [2.0, 3.0]], label: array![7, 9] };

    // `np.load("xy.npy")` reads this.
    let path = folder.path().join("xy.npy");
    save(&path, &points.xy)?;
    assert_eq!(load::<Array2<f64>>(&path)?, points.xy);

    // `np.load("points.npz")["xy"]` reads this.
    let path = folder.path().join("points.npz");
    save(&path, &points)?;
    assert_eq!(load::<Points>(&path)?, points);

    // The archive as `np.savez_compressed` writes it.
    npz::Options::new().compress(true).to_writer(File::create(&path)?, &points)?;
    assert_eq!(load::<Points>(&path)?, points);

    // Any arrays of one type, by name, in memory.
    let arrays = Arrays(BTreeMap::from([("a".to_owned(), array![1_i32, 2]), ("b".to_owned(), array![3])]));
    let read: Arrays<BTreeMap<String, Array1<i32>>> = npz::from_slice(&npz::to_vec(&arrays)?)?;
    println!("a: {}, b: {}", read.0["a"], read.0["b"]);
    assert_eq!(read, arrays);
    Ok(())
}
