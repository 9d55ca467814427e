//! Checks that the README and the documentation of the crate agree with the code.

use ndarray::{Array1, Array2};
use tensorfile::{Dtype, FORMATS, Format, Limits, OpenOptions, Tensor, TensorFile, TensorInfo, TensorMap, safetensors};

const README: &str = include_str!("../../README.md");
const CRATE_DOCS: &str = include_str!("../../src/lib.rs");

/// Returns the text between two lines of the README.
fn section<'a>(begin: &str, end: &str) -> &'a str {
    let (_, section) = README.split_once(begin).unwrap();
    section.split_once(end).unwrap().0.trim()
}

#[test]
fn lists_the_formats() {
    let table = section("`tensorfile::FORMATS` -->", "<!-- end of formats -->");
    let mut rows = table.lines().map(|row| {
        let mut columns: Vec<&str> = row.split(" | ").collect();
        // The origin of a format is not in `FORMATS`.
        columns.remove(2);
        columns.join(" | ")
    });
    assert_eq!(rows.next().unwrap(), "| format | files | names | rank | sparse |");
    assert_eq!(rows.next().unwrap(), "| --- | --- | --- | --- | --- |");
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
        if format.sparse { "COO" } else { "no" }.to_owned(),
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
    let section = section("<!-- report: tests/it/readme.rs keeps it true -->", "<!-- end of report -->");
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
        "- What is read takes no more memory than that, and it is an error if there is less.".to_owned(),
    ];
    for line in lines {
        assert!(README.contains(&line), "the README lacks: {line}");
    }
}

fn power_of_two(number: u64) -> String {
    assert!(number.is_power_of_two(), "{number}");
    let raise = |digit: char| digit.to_digit(10).and_then(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize));
    format!("2{}", number.ilog2().to_string().chars().filter_map(raise).collect::<String>())
}

#[test]
fn names_the_rust_version() {
    let line = format!("Rust {} or newer.", env!("CARGO_PKG_RUST_VERSION"));
    assert!(README.contains(&line), "the README lacks: {line}");
}

#[test]
fn has_a_table_of_speed_that_a_script_replaces() {
    let table = section("<!-- speed: benches/report writes this -->", "<!-- end of speed -->");
    assert!(
        table.contains("`cargo bench -p tensorfile-benches --bench "),
        "the table does not say how it was measured"
    );
    assert!(table.lines().filter(|line| line.starts_with("| ")).count() > 5);
    let script = include_str!("../../benches/report");
    assert!(script.contains("<!-- speed: ") && script.contains("<!-- end of speed -->"));
}
