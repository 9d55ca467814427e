//! A model as plain structs, to a file of every format and back.
//!
//! ```sh
//! cargo run --release --example quickstart
//! ```

use std::fs::File;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use ndarray::{Array1, Array2};
use tensorfile::{FORMATS, Result, TensorFile, btf, ptd, ten, tensorbuffers};

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
    let btf_with_names = btf::Options::new().embed_names(true);
    let ten_with_names = ten::Options::new().embed_names(true);
    let rows = [
        measure("btf", "none", &model, |file| btf::to_writer(file, &model), btf::from_reader)?,
        measure("btf", "embedded", &model, |file| btf_with_names.to_writer(file, &model), btf::from_reader)?,
        measure("ten", "embedded", &model, |file| ten_with_names.to_writer(file, &model), ten::from_reader)?,
        measure("ptd", "stored", &model, |file| ptd::to_writer(file, &model), ptd::from_reader)?,
        measure(
            "tensorbuffers",
            "stored",
            &model,
            |file| tensorbuffers::to_writer(file, &model),
            tensorbuffers::from_reader,
        )?,
    ];
    for format in FORMATS {
        assert!(rows.iter().any(|row| row[0] == format.name), "{} is missing here", format.name);
    }

    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["format", "names", "bytes", "write", "read", "write GB/s", "read GB/s"]);
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{}", table.add_rows(rows));
    println!("Each file was read back into a model that equals the first.");
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

/// Writes a file and reads it, three times; the best times are a row of the table.
fn measure(
    format: &str,
    names: &str,
    model: &Mlp,
    write: impl Fn(&File) -> Result<()>,
    read: impl Fn(File) -> Result<Mlp>,
) -> Result<[String; 7]> {
    let (mut bytes, mut write_time, mut read_time) = (0, Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let file = tempfile::NamedTempFile::new()?;
        let start = Instant::now();
        write(file.as_file())?;
        write_time = write_time.min(start.elapsed());

        let start = Instant::now();
        let read = read(file.reopen()?)?;
        read_time = read_time.min(start.elapsed());
        assert_eq!(read, *model, "what was read is what was written");
        bytes = file.as_file().metadata()?.len();
    }
    let throughput = |time: Duration| format!("{:.1}", bytes as f64 / time.as_secs_f64() / 1e9);
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    Ok([
        format.to_owned(),
        names.to_owned(),
        bytes.to_string(),
        milliseconds(write_time),
        milliseconds(read_time),
        throughput(write_time),
        throughput(read_time),
    ])
}
