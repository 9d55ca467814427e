//! A real model, from safetensors into structs, and through every format that can hold it.
//!
//! ```sh
//! cargo run --release --features safetensors --example safetensors -- model.safetensors
//! ```
//!
//! BERT models such as MiniLM and the voice detector Silero VAD are read into the structs below, anything else into a
//! `TensorMap`. `tests/interop/setup.sh --minilm` fetches both models.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use ndarray::{Array1, Array2, Array3};
use serde::Serialize;
use tensorfile::{FORMATS, Format, FromTensors, OpenOptions, Result, TensorFile, TensorMap, WriteOptions};

#[derive(TensorFile)]
struct Bert {
    embeddings: Embeddings,
    encoder: Encoder,
    pooler: Pooler,
}

#[derive(TensorFile)]
struct Embeddings {
    position_ids: Array2<i64>,
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    #[tensor(rename = "LayerNorm")]
    norm: Norm,
}

#[derive(TensorFile)]
struct Embedding {
    weight: Array2<f32>,
}

#[derive(TensorFile)]
struct Encoder {
    layer: Vec<Layer>,
}

#[derive(TensorFile)]
struct Layer {
    attention: Attention,
    #[tensor(rename = "intermediate.dense")]
    intermediate: Linear,
    output: Output,
}

#[derive(TensorFile)]
struct Attention {
    #[tensor(rename = "self")]
    heads: Heads,
    output: Output,
}

#[derive(TensorFile)]
struct Heads {
    query: Linear,
    key: Linear,
    value: Linear,
}

#[derive(TensorFile)]
struct Output {
    dense: Linear,
    #[tensor(rename = "LayerNorm")]
    norm: Norm,
}

#[derive(TensorFile)]
struct Pooler {
    dense: Linear,
}

#[derive(TensorFile)]
struct Linear {
    weight: Array2<f32>,
    bias: Array1<f32>,
}

#[derive(TensorFile)]
struct Norm {
    weight: Array1<f32>,
    bias: Array1<f32>,
}

#[derive(TensorFile)]
struct Silero {
    stft_conv: Conv,
    conv1: Conv,
    conv2: Conv,
    conv3: Conv,
    conv4: Conv,
    lstm_cell: LstmCell,
    final_conv: Conv,
}

#[derive(TensorFile)]
struct Conv {
    weight: Array3<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile)]
struct LstmCell {
    weight_ih: Array2<f32>,
    weight_hh: Array2<f32>,
    bias_ih: Array1<f32>,
    bias_hh: Array1<f32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let silero = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/interop/models/silero_vad_16k.safetensors");
    let path = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None if silero.exists() => silero,
        None => {
            println!("usage: safetensors [FILE]; without FILE, the model that tests/interop/setup.sh fetches");
            return Ok(());
        }
    };
    let file = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let model: TensorMap = tensorfile::safetensors::from_slice(&file)?;
    println!("{}: {} tensors in {} bytes of safetensors", path.display(), model.len(), file.len());

    let has = |name| model.get(name).is_some();
    let table = if has("encoder.layer.0.attention.self.query.weight") && has("embeddings.position_ids") {
        println!("Read as `Bert`:\n\n{}", Bert::schema());
        through_every_format::<Bert>(&model)
    } else if has("stft_conv.weight") {
        println!("Read as `Silero`:\n\n{}", Silero::schema());
        through_every_format::<Silero>(&model)
    } else {
        println!("Read as `TensorMap`.\n");
        through_every_format::<TensorMap>(&model)
    };
    println!("{table}");
    Ok(())
}

/// Takes a model into a `T` and back in every format; a row of the table for each.
fn through_every_format<T: Serialize + for<'f> FromTensors<'f>>(model: &TensorMap) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["format", "bytes", "write", "read", "result"]);
    table.column_iter_mut().skip(1).take(3).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for format in FORMATS {
        table.add_row(through::<T>(format, model).unwrap_or_else(|error| {
            let none = String::new;
            [format.name.to_owned(), none(), none(), none(), error.to_string()]
        }));
    }
    table
}

/// From the tensors into a `T`, into a file, and back.
fn through<T: Serialize + for<'f> FromTensors<'f>>(format: &'static Format, model: &TensorMap) -> Result<[String; 5]> {
    let options = WriteOptions::new().embed_names(true);
    let read = |file| OpenOptions::new().format(format).from_vec(file);
    let mut value: T = read(format.to_vec(model, &options)?)?.load()?;

    // The best of a few times, as the first meets memory that nobody has touched yet.
    let (mut write_time, mut read_time) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let start = Instant::now();
        let file = format.to_vec(&value, &options)?;
        write_time = write_time.min(start.elapsed());
        let start = Instant::now();
        value = read(file)?.load()?;
        read_time = read_time.min(start.elapsed());
    }

    let file = format.to_vec(&value, &options)?;
    let again = format.from_slice(&file)?;
    assert_eq!(again.len(), model.len());
    for (name, tensor) in model {
        assert_eq!(again.get(name), Some(tensor), "{name}");
    }
    Ok([
        format.name.to_owned(),
        file.len().to_string(),
        format!("{write_time:.1?}"),
        format!("{read_time:.1?}"),
        format!("all {} tensors equal", model.len()),
    ])
}
