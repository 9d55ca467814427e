//! Checks that the README and the documentation of the crate agree with the code.

use ndarray::{Array1, Array2};
use tensorfile::{Dtype, FORMATS, Format, Limits, OpenOptions, Tensor, TensorFile, TensorInfo, TensorMap, safetensors};

const README: &str = include_str!("../../README.md");
const BENCHES: &str = include_str!("../../benches/README.md");
const REPORT: &str = include_str!("../../benches/report");
const UNTRUSTED_FILES: &str = include_str!("../../docs/src/untrusted_files.md");
const CRATE_DOCS: &str = include_str!("../../src/lib.rs");

/// Returns the text between two lines of a page.
fn section<'a>(page: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, section) = page.split_once(begin).unwrap();
    section.split_once(end).unwrap().0.trim()
}

/// Returns the rows of a table, in cells.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let lines = table.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    lines.map(|line| line.split('|').map(str::trim).collect()).collect()
}

#[test]
fn lists_the_formats() {
    let table = section(README, "`tensorfile::FORMATS` -->", "<!-- end of formats -->");
    let mut rows = table.lines().map(|row| {
        let mut columns: Vec<&str> = row.split(" | ").collect();
        // The origin of a format is not in `FORMATS`.
        columns.remove(2);
        columns.join(" | ")
    });
    assert_eq!(rows.next().unwrap(), "| format | files | names | rank |");
    assert_eq!(rows.next().unwrap(), "| --- | --- | --- | --- |");
    let expected: Vec<String> = FORMATS.iter().map(|format| row(format)).collect();
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

fn row(format: &Format) -> String {
    let extensions: Vec<_> = format.extensions.iter().map(|extension| format!("`.{extension}`")).collect();
    let columns = [
        format!("`{}`", format.name),
        extensions.join(" "),
        match format.max_name {
            Some(0) => "none".to_owned(),
            Some(bytes) => format!("up to {bytes} bytes"),
            None => "any".to_owned(),
        },
        format.max_rank.map_or("any".to_owned(), |rank| format!("up to {rank}")),
    ];
    format!("| {} |", columns.join(" | "))
}

#[test]
fn crate_docs_list_the_dtypes() {
    for format in FORMATS {
        let dtypes: Vec<_> = format.dtypes.iter().map(|dtype| dtype.name()).collect();
        let line = format!("//! | `{}` | {} |\n", format.name, dtypes.join(" "));
        assert!(CRATE_DOCS.contains(&line), "src/lib.rs lacks: {line}");
    }
}

#[test]
fn states_the_versions_of_ndarray_and_half() {
    let manifest = include_str!("../../Cargo.toml");
    let number = |start: &str| {
        let line = manifest.lines().find(|line| line.starts_with(start)).unwrap();
        line.split('"').find(|part| part.starts_with(char::is_numeric)).unwrap()
    };
    let (major, _) = number("half = ").split_once('.').unwrap();
    let arrays = format!("Arrays are those of ndarray {}, 16-bit floats those of half {major}", number("ndarray = "));
    assert!(README.contains(&arrays), "README.md lacks: {arrays}");
    assert!(CRATE_DOCS.contains(&arrays), "src/lib.rs lacks: {arrays}");
}

#[derive(TensorFile, Debug)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

/// The struct of the README.
#[derive(TensorFile, Debug)]
struct Mlp {
    embed: Array2<f32>,
    layers: Vec<Linear>,
    #[tensor(rename = "lm_head.weight")]
    head: Array2<f32>,
}

#[test]
fn prints_a_report() {
    let zeros = |dtype: Dtype, dims: &[usize]| {
        let bytes = vec![0; dims.iter().product::<usize>() * dtype.block_bytes()];
        Tensor::new(TensorInfo::new(dtype, dims), &bytes).unwrap()
    };
    let mut map = TensorMap::new();
    map.insert("embed", zeros(Dtype::F16, &[1000, 64]));
    for layer in 0..12 {
        map.insert(format!("layers.{layer}.weight"), zeros(Dtype::F32, &[64, 64]));
        map.insert(format!("layers.{layer}.bias"), zeros(Dtype::F32, &[1, 64]));
    }
    map.insert("lm_head.wieght", zeros(Dtype::F32, &[1000, 64]));

    let file = OpenOptions::new().from_bytes(safetensors::to_vec(&map).unwrap()).unwrap();
    let printed = file.load::<Mlp>().unwrap_err().to_string();
    let section = section(README, "<!-- report: tests/it/readme.rs keeps it true -->", "<!-- end of report -->");
    let expected = format!("```text\n{printed}\n```");
    assert!(section == expected, "the README's report should be:\n\n{expected}\n");
}

#[test]
fn lists_the_limits() {
    let Limits { tensors, rank, payload, shared, memory, .. } = Limits::new();
    assert_eq!((shared, memory), (None, None), "`limits` in tests/it tests what these stand for");
    let lines = [
        format!("- A file may hold {} tensors of up to {rank} dims.", power_of_two(tensors)),
        format!("- A tensor that is read from a stream may take {} bytes.", power_of_two(payload)),
        "- Tensors that share bytes may add up to 2³⁴ bytes, or 64 times the file, more than the file.".to_owned(),
        "- One call takes no more memory than the file and these shared bytes. If there is less memory, you get an error.".to_owned(),
    ];
    for line in lines {
        assert!(UNTRUSTED_FILES.contains(&line), "docs/src/untrusted_files.md lacks: {line}");
    }
}

fn power_of_two(number: u64) -> String {
    assert!(number.is_power_of_two(), "{number}");
    let raise = |digit: char| digit.to_digit(10).and_then(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize));
    format!("2{}", number.ilog2().to_string().chars().filter_map(raise).collect::<String>())
}

#[test]
fn names_the_rust_version_and_the_licence() {
    let version = env!("CARGO_PKG_RUST_VERSION");
    let lines = [
        format!("Rust {version} or newer."),
        format!("![Rust {version}](https://img.shields.io/badge/rust-{version}+-blue)"),
        format!("![{}](", env!("CARGO_PKG_LICENSE").replace("OR", "or")),
    ];
    for line in lines {
        assert!(README.contains(&line), "the README lacks: {line}");
    }
}

#[test]
fn is_short() {
    assert!(README.lines().count() <= 185, "{} lines", README.lines().count());
    let (begin, _) = README.split_once("```rust").unwrap();
    assert!(begin.contains("docs/src/transcript.svg"), "the program is not on the first screen");
    for row in rows(README) {
        assert!(row.len() <= 6, "a table has more than 6 columns: {row:?}");
    }
}

/// The table of the README has rows and columns of the long one, as the script that writes both says.
#[test]
fn has_rows_of_the_table_of_speed() {
    let (begin, end) = ("<!-- speed: benches/report writes this -->", "<!-- end of speed -->");
    let (long, short) = (section(BENCHES, begin, end), section(README, begin, end));
    assert!(
        long.contains("`cargo bench -p tensorfile-benches --bench speed "),
        "the table does not say how it was measured"
    );
    let (long, short) = (rows(long), rows(short));
    let cell = |row: &str, column: &str| {
        let row = long.iter().find(|cells| cells[0] == row).unwrap_or_else(|| panic!("there is no row {row}"));
        let column = long[0].iter().position(|cell| *cell == column);
        row[column.unwrap_or_else(|| panic!("{:?}", long[0]))]
    };
    let columns: Vec<&str> = section(REPORT, "columns='", "'").split('|').collect();
    let labels: Vec<(&str, &str)> =
        section(REPORT, "rows='", "'").lines().map(|line| line.split_once(" = ").unwrap()).collect();
    assert!(labels.len() >= 8 && columns.len() >= 4);
    assert_eq!(short[0][1..], columns);
    assert_eq!(
        short[2..].iter().map(|row| row[0]).collect::<Vec<_>>(),
        labels.iter().map(|it| it.0).collect::<Vec<_>>()
    );
    for (row, (label, name)) in short[2..].iter().zip(labels) {
        let expected: Vec<&str> = columns.iter().map(|column| cell(name, column)).collect();
        assert_eq!(row[1..], expected, "{label}");
        assert!(row[1..].iter().filter(|cell| !cell.is_empty()).count() >= 3, "{label} was not measured");
    }
}
