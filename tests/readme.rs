//! What the README says and the crate knows is the same.

use tensorfile::{FORMATS, Format, Limits};

const README: &str = include_str!("../README.md");

#[test]
fn lists_the_formats() {
    let mut table = vec![
        "| format | files | dtypes | rank | names | sparse |".to_owned(),
        "| --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    table.extend(FORMATS.iter().map(|format| row(format)));
    let table = table.join("\n");

    let (_, section) = README.split_once("`tensorfile::FORMATS` -->").unwrap();
    let (section, _) = section.split_once("<!-- end of formats -->").unwrap();
    assert_eq!(section.trim(), table, "the README's table should be:\n\n{table}\n");
}

fn row(format: &Format) -> String {
    let extensions: Vec<_> = format.extensions.iter().map(|extension| format!("`.{extension}`")).collect();
    let dtypes: Vec<_> = format.dtypes.iter().map(|dtype| dtype.name()).collect();
    let columns = [
        format!("`{}`", format.name),
        extensions.join(" "),
        dtypes.join(" "),
        format.max_rank.map_or("any".to_owned(), |rank| format!("up to {rank}")),
        match format.max_name {
            Some(0) => "none".to_owned(),
            Some(bytes) => format!("up to {bytes} bytes"),
            None => "any".to_owned(),
        },
        if format.sparse { "COO" } else { "no" }.to_owned(),
    ];
    format!("| {} |", columns.join(" | "))
}

#[test]
fn tells_the_limits() {
    let Limits { tensors, rank, payload, shared, .. } = Limits::new();
    let lines = [
        format!("- A file may hold {} tensors of up to {rank} dims.", power_of_two(tensors)),
        format!("- A tensor from a stream may take {} bytes; from memory, what is there.", power_of_two(payload)),
        format!("- Tensors that share bytes may add up to {} bytes more than the file.", power_of_two(shared)),
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
fn tells_the_rust_version() {
    let line = format!("Rust {} or newer.", env!("CARGO_PKG_RUST_VERSION"));
    assert!(README.contains(&line), "the README lacks: {line}");
}
