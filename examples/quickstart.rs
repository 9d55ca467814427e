//! A model as plain structs, to a file of every format and back.
//!
//! ```sh
//! cargo run --release --example quickstart
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use ndarray::{Array1, Array2};
use tensorfile::{FORMATS, Result, SaveOptions, TensorFile, WriteOptions};

#[derive(TensorFile, Debug, PartialEq)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Mlp {
    embed: Linear,
    /// `layers.0.weight`, `layers.0.bias`, `layers.1.weight`, …
    layers: Vec<Linear>,
    /// A name may have dots of its own.
    #[tensor(rename = "lm_head.weight")]
    head: Array2<f32>,
}

fn main() -> Result<()> {
    let model = model();
    println!("The type says what is in a file; `_` is any dim, `*` any index, `?` may be absent:\n\n{}", Mlp::schema());

    // BTF has no names, and those of `.ten` are too short for ours: they can be embedded, or be done without.
    let folder = tempfile::tempdir()?;
    let mut rows = Vec::new();
    for format in FORMATS.iter().copied().filter(|format| format.max_tensors.is_none()) {
        let path = folder.path().join("model").with_extension(format.extensions[0]);
        let names = if format.max_name.is_some() { "embedded" } else { "stored" };
        let save = SaveOptions::new().write(WriteOptions::new().embed_names(true));
        rows.push(measure([format.name, names], &model, &path, &save)?);
        if format.max_name == Some(0) {
            rows.push(measure([format.name, "none"], &model, &path, &SaveOptions::new())?);
        }
    }

    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["format", "names", "bytes", "save", "load", "save GB/s", "load GB/s"]);
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{}", table.add_rows(rows));
    println!("Saving ends when the file is on the disk. Each was loaded into a model that equals the first.");
    Ok(())
}

/// 68 MiB of weights.
fn model() -> Mlp {
    let linear = |rows: usize, columns: usize, bias: bool| Linear {
        weight: Array2::from_shape_fn((rows, columns), |(row, column)| (row * columns + column) as f32),
        bias: bias.then(|| Array1::linspace(-1.0, 1.0, rows)),
    };
    Mlp {
        embed: linear(4096, 1024, false),
        layers: (0..9).map(|layer| linear(1024, 1024, layer % 2 == 0)).collect(),
        head: linear(4096, 1024, false).weight,
    }
}

/// Saves a file and loads it, three times; the best times are a row of the table.
fn measure(title: [&str; 2], model: &Mlp, path: &Path, save: &SaveOptions) -> Result<[String; 7]> {
    let (mut save_time, mut load_time) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let start = Instant::now();
        save.save(path, model)?;
        save_time = save_time.min(start.elapsed());

        let start = Instant::now();
        let loaded: Mlp = tensorfile::load(path)?;
        load_time = load_time.min(start.elapsed());
        assert_eq!(loaded, *model, "what was loaded is what was saved");
    }
    let bytes = std::fs::metadata(path)?.len();
    let throughput = |time: Duration| format!("{:.1}", bytes as f64 / time.as_secs_f64() / 1e9);
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let [format, names] = title.map(str::to_owned);
    let [saved, loaded] = [save_time, load_time].map(milliseconds);
    Ok([format, names, bytes.to_string(), saved, loaded, throughput(save_time), throughput(load_time)])
}
