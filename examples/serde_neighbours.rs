//! Tensor files among other serde formats: one struct for all of them.
//!
//! ```sh
//! cargo run --example serde_neighbours
//! ```

use std::collections::BTreeMap;

use ndarray::{Array1, Array2, array};
use serde::{Deserialize, Serialize};
use tensorfile::{Arrays, Result, TensorMap, btf, ten};

/// An ordinary serde struct. `with` sends an array to tensor files as one tensor, and to other formats as one run of
/// bytes.
#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Sample {
    #[serde(with = "tensorfile::array")]
    image: Array2<u8>,
    /// A list of numbers is a tensor of rank 1, a number one of rank 0.
    label: Vec<f32>,
    weight: f64,
    /// ndarray's own serde support works too, element by element, and so slower.
    mask: Array1<u8>,
}

#[derive(Serialize)]
struct Captioned {
    caption: String,
}

fn main() -> Result<()> {
    let sample =
        Sample { image: array![[1, 2, 3], [4, 5, 6]], label: vec![0.0, 1.0], weight: 0.25, mask: array![1, 0, 1] };

    // In a tensor file each field is a tensor.
    let file = ten::to_vec(&sample)?;
    assert_eq!(ten::from_slice::<Sample>(&file)?, sample);
    println!("ten, {} bytes:", file.len());
    for (name, info) in ten::from_slice::<TensorMap>(&file)?.infos() {
        println!("    {name}: {info}");
    }

    // Elsewhere it is what serde makes of it.
    let json = serde_json::to_string(&sample).expect("JSON takes any struct");
    assert_eq!(serde_json::from_str::<Sample>(&json).expect("it was just written"), sample);
    println!("JSON, {} bytes:\n    {json}", json.len());
    let postcard = postcard::to_stdvec(&sample).expect("postcard takes any struct");
    assert_eq!(postcard::from_bytes::<Sample>(&postcard).expect("it was just written"), sample);
    println!("postcard, {} bytes", postcard.len());

    // Without a struct: any collection of arrays.
    let weights = BTreeMap::from([("fc1.weight", array![[1.0_f32]]), ("fc2.weight", array![[2.0]])]);
    let file = btf::Options::new().embed_names(true).to_vec(&Arrays(&weights))?;
    let Arrays(read): Arrays<BTreeMap<String, Array2<f32>>> = btf::from_slice(&file)?;
    println!("BTF with {} names", read.len());

    // What is no tensor is refused before anything is written.
    let error = btf::to_vec(&Captioned { caption: "a cat".to_owned() }).expect_err("text is no tensor");
    println!("{error}");
    Ok(())
}
