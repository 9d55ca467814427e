//! Sends one ordinary serde struct to a tensor file and to JSON.

use ndarray::{Array2, array};
use serde::{Deserialize, Serialize};
use tensorfile::{TensorMap, ten};

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Sample {
    #[serde(with = "tensorfile::array")]
    image: Array2<u8>,
    /// A list of numbers is a tensor of rank 1, a number one of rank 0.
    label: Vec<f32>,
    weight: f64,
}

#[derive(Serialize)]
struct Captioned {
    caption: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sample = Sample { image: array![[1, 2, 3], [4, 5, 6]], label: vec![0.0, 1.0], weight: 0.25 };

    // In a tensor file each field is a tensor.
    let file = ten::to_vec(&sample)?;
    assert_eq!(ten::from_slice::<Sample>(&file)?, sample);
    for (name, info) in ten::from_slice::<TensorMap>(&file)?.infos() {
        println!("{name}: {info}");
    }

    // In other formats the array is a struct of dtype, shape, layout and bytes.
    let json = serde_json::to_string(&sample)?;
    println!("{json}");
    assert_eq!(serde_json::from_str::<Sample>(&json)?, sample);

    // Values that are not tensors are refused before anything is written.
    println!("{}", ten::to_vec(&Captioned { caption: "a cat".to_owned() }).expect_err("text is not a tensor"));
    Ok(())
}
