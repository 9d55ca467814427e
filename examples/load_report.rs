//! Prints every mismatch between a struct and a file that does not fit it.

use ndarray::{Array1, Array2};
use tensorfile::{ErrorKind, File, TensorFile, load, save};

/// The model in the file.
#[derive(TensorFile)]
struct Trained {
    layers: Vec<Linear<f32>>,
    gamma: Array1<f32>,
    steps: u64,
}

/// The model that the program expects.
#[derive(TensorFile, Debug)]
struct Expected {
    layers: Vec<Linear<f64>>,
    #[tensor(shape = [8])]
    gamma: Array1<f32>,
    step: u64,
}

#[derive(TensorFile, Debug)]
struct Linear<A> {
    weight: Array2<A>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    let layers = (0..12).map(|_| Linear { weight: Array2::zeros((4, 4)) }).collect();
    save(&path, &Trained { layers, gamma: Array1::ones(4), steps: 1000 })?;

    let report = File::open(&path)?.report::<Expected>();
    println!("{report}");
    assert_eq!((report.wrong_dtype.len(), report.wrong_shape.len()), (12, 1));
    assert_eq!(report.missing[0].near, ["steps"]);

    // `load` fails with the same report.
    let error = load::<Expected>(&path).expect_err("the file does not fit");
    assert!(matches!(error.kind(), ErrorKind::Load(in_error) if **in_error == report));
    Ok(())
}
