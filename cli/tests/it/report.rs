//! The page written by `report`, and its data.

mod browser;

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use tensorfile::{CooTensor, Dtype, Format, Tensor, TensorInfo, TensorMap, WriteOptions};

use super::hostile_names::{self, NAMES};
use super::{Session, skipped, weights};

/// Runs `report` with these arguments, and returns the page.
fn page(session: &Session, arguments: &[&str]) -> String {
    let output = session.run(&[&["report", "-o", "page.html"], arguments].concat());
    assert!(output.status.success() && output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(session.path("page.html")).unwrap()
}

/// Returns the output of `report --json`.
fn data(session: &Session, arguments: &[&str]) -> Value {
    let output = session.run(&[&["report", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the text of the data in a page.
fn embedded(page: &str) -> &str {
    let (_, rest) = page.split_once(r#"<script type="application/json" id="data">"#).unwrap();
    rest.split_once("</script>").unwrap().0
}

/// Returns the values of the tensor with this name.
fn values<'d>(data: &'d Value, name: &str) -> Option<&'d Value> {
    let file = &data["files"][0];
    let at = file["tensors"].as_array().unwrap().iter().position(|row| row["name"] == name).unwrap();
    file["values"].as_array().unwrap().iter().find(|values| values["tensor"] == at)
}

fn row<'d>(data: &'d Value, name: &str) -> &'d Value {
    data["files"][0]["tensors"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()
}

/// Runs a command that fails, and returns the exit code and the message.
fn failure(session: &Session, arguments: &[&str]) -> (i32, String) {
    let output = session.run(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_page_has_the_data_of_json_and_needs_no_network() {
    let session = Session::new();
    for arguments in [&["model.ptd"][..], &["sparse.btf"], &["model.ptd", "sparse.btf"]] {
        let page = page(&session, arguments);
        let shown: Value = serde_json::from_str(embedded(&page)).unwrap();
        assert_eq!(shown, data(&session, arguments));
        // The name of SVG's elements is no address that anything is fetched from.
        assert_eq!(
            page.matches("http").count(),
            page.matches("'http://www.w3.org/2000/svg'").count() + 1,
            "{arguments:?}"
        );
        assert!(
            page.contains(
                r#"<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'nonce-"#
            )
        );
        assert!(!page.contains("{nonce}") && !page.contains("innerHTML") && !page.contains("eval("));
    }
    let piped = session.run(&["report", "model.ptd", "-o", "-"]);
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), page(&session, &["model.ptd"]));
}

#[test]
fn lists_tensors_with_their_values() {
    let session = Session::new();
    let data = data(&session, &["model.ptd"]);
    assert_eq!((&data["sample"], &data["diff"]), (&json!(64 << 20), &Value::Null));
    let file = &data["files"][0];
    let info: Value = serde_json::from_slice(&session.run(&["info", "--json", "model.ptd"]).stdout).unwrap();
    assert_eq!(file["info"], info[0]);
    let listed: Value = serde_json::from_slice(&session.run(&["ls", "--json", "model.ptd"]).stdout).unwrap();
    let key = |row: &Value| json!([row["name"], row["dtype"], row["bytes"], row["offset"]]);
    let keys = |rows: &Value| rows.as_array().unwrap().iter().map(key).collect::<Vec<_>>();
    assert_eq!(keys(&file["tensors"]), keys(&listed[0]["tensors"]));
    assert_eq!((&file["with_values"], &file["left_out"]["tensors"]), (&json!(11), &json!(0)));

    // The same numbers as `stats` has.
    let stats: Value = serde_json::from_slice(&session.run(&["stats", "--json", "model.ptd"]).stdout).unwrap();
    for of in stats[0]["tensors"].as_array().unwrap() {
        let name = of["name"].as_str().unwrap();
        let Some(found) = values(&data, name) else {
            assert!(["none", "packed"].contains(&name), "{name}");
            continue;
        };
        assert_eq!((&found["part"], &found["read"]), (&json!("all"), &of["stats"]["count"]), "{name}");
        for (row, count) in [("nans", "nans"), ("zeros", "zeros"), ("positive_infinities", "positive_infinities")] {
            assert_eq!(found["stats"][row], of["stats"][count], "{name}");
        }
        let min = |value: &Value| value.as_str().map_or(value.as_f64(), |text| text.parse().ok()).unwrap();
        assert!((min(&found["stats"]["min"]) - min(&of["stats"]["min"])).abs() < 1e-5, "{name}");
        let counts: u64 =
            found["histogram"]["counts"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
        let finite =
            ["nans", "positive_infinities", "negative_infinities"].map(|odd| of["stats"][odd].as_u64().unwrap());
        assert_eq!(counts, of["stats"]["count"].as_u64().unwrap() - finite.iter().sum::<u64>(), "{name}");
    }
    assert_eq!(row(&data, "none")["no_values"], "empty");
    assert_eq!(row(&data, "packed")["no_values"], "bits");

    let map = &values(&data, "halves").unwrap()["heat_map"];
    assert_eq!((&map["down"]["cells"], &map["across"]["cells"]), (&json!(1), &json!(4)));
    let layer = &map["layers"][0];
    assert_eq!((&layer["name"], layer["cells"].as_str().unwrap()), (&json!("values"), "h!!A"));
    let map = &values(&data, "embed.weight").unwrap()["heat_map"];
    assert_eq!(
        (&map["down"], &map["across"]["length"]),
        (&json!({"cells": 64, "length": 100, "dims": [0]}), &json!(30))
    );
    assert_eq!(map["layers"][1]["name"], "largest absolute values");
    assert_eq!(map["layers"][0]["cells"].as_str().unwrap().len(), 64 * 30);
}

#[test]
fn coverage_has_every_byte_once() {
    let session = Session::new();
    // Two tensors of a file share their bytes.
    let json =
        r#"{"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},"b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}}"#;
    let bytes = [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &[7; 8]].concat();
    fs::write(session.path("whole.safetensors"), &bytes).unwrap();
    for file in ["model.ptd", "sparse.btf", "whole.safetensors"] {
        let data = data(&session, &[file]);
        let (info, coverage) = (&data["files"][0]["info"], &data["files"][0]["coverage"][0]);
        assert_eq!((&coverage["bytes"], &coverage["exact"]), (&info["size"], &json!(true)), "{file}");
        let runs = coverage["runs"].as_array().unwrap();
        let number = |run: &Value, key: &str| run[key].as_u64().unwrap();
        assert!(runs.windows(2).all(|runs| runs[0]["end"] == runs[1]["start"]), "{file}");
        assert_eq!((&runs[0]["start"], &runs[runs.len() - 1]["end"]), (&json!(0), &info["size"]), "{file}");
        let used: u64 = runs.iter().map(|run| number(run, "payload") + number(run, "shared")).sum();
        assert_eq!(info["storage"]["payload"], used, "{file}");
    }
    let map: TensorMap = [("a", weights(&[40])), ("b", weights(&[40])), ("c", weights(&[9]))].into_iter().collect();
    session.write("model.safetensors", &map);
    assert!(session.run(&["split", "model.safetensors", "--max-shard-size", "200B"]).status.success());
    let data = data(&session, &["model.safetensors.index.json"]);
    let coverage = data["files"][0]["coverage"].as_array().unwrap();
    let names: Vec<&str> = coverage.iter().map(|shard| shard["shard"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]);
    assert_eq!((row(&data, "a").get("shard"), &row(&data, "c")["shard"]), (None, &json!(1)));
}

#[test]
fn samples_are_called_samples() {
    let session = Session::new();
    let map: TensorMap =
        [("large", weights(&[300, 400])), ("line", weights(&[5000])), ("small", weights(&[9]))].into_iter().collect();
    session.write("large.ten", &map);
    let found = data(&session, &["large.ten", "--sample", "16KiB"]);
    for (name, of) in [("large", 120_000), ("line", 5000)] {
        let values = values(&found, name).unwrap();
        let read = values["read"].as_u64().unwrap();
        assert_eq!((&values["part"], &values["of"]), (&json!("spread"), &json!(of)), "{name}");
        assert!(read > 3000 && read <= 4096, "{name}: {read}");
        // Each cell of the map has elements.
        assert!(!values["heat_map"]["layers"][0]["cells"].as_str().unwrap().contains(' '), "{name}");
        let count: u64 =
            values["histogram"]["counts"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(count, read, "{name}");
    }
    assert_eq!(values(&found, "small").unwrap()["part"], "all");
    // A compressed payload is read from its start.
    let npz = Format::named("npz").unwrap();
    let archive = npz.to_vec(&map, &WriteOptions::new()).unwrap();
    fs::write(session.path("large.npz"), archive).unwrap();
    let found = data(&session, &["large.npz", "--sample", "16KiB"]);
    let values = values(&found, "large").unwrap();
    assert_eq!((&values["part"], &values["read"]), (&json!("front"), &json!(4096)));
    assert!(values["heat_map"]["layers"][0]["cells"].as_str().unwrap().ends_with(' '));
}

#[test]
fn charts_and_filters_choose_the_tensors_that_are_read() {
    let session = Session::new();
    let names = |arguments: &[&str]| {
        let data = data(&session, &[&["model.ptd"], arguments].concat());
        let (file, all) = (&data["files"][0], data["files"][0]["tensors"].as_array().unwrap().len());
        assert_eq!(all, 13);
        let name = |values: &Value| {
            file["tensors"][usize::try_from(values["tensor"].as_u64().unwrap()).unwrap()]["name"].clone()
        };
        let names: Vec<Value> = file["values"].as_array().unwrap().iter().map(name).collect();
        (names, file["with_values"].clone())
    };
    let first = "encoder.layer.0.attention.weight";
    assert_eq!(names(&["--charts", "2"]), (vec![json!("embed.weight"), json!(first)], json!(11)));
    assert_eq!(names(&["--filter", "*.0.*.weight"]), (vec![json!(first)], json!(1)));
    assert_eq!(names(&["--no-values"]), (vec![], json!(11)));
    assert_eq!(data(&session, &["--no-values", "model.ptd"])["sample"], Value::Null);
    let (code, message) = failure(&session, &["report", "-o", "x.html", "model.ptd", "--filter", "nothing"]);
    assert_eq!((code, message.as_str()), (1, "tensorfile: --filter: no tensor matches\n"));
}

#[test]
fn other_kinds_of_tensors_are_shown_as_what_they_are() {
    let session = Session::new();
    let complex =
        Tensor::new(TensorInfo::new(Dtype::C64, [2]), &[3.0_f32, 4.0, 0.0, 0.0].map(f32::to_le_bytes).concat());
    let map: TensorMap = [
        ("complex", complex.unwrap()),
        ("nan", Tensor::from_slice(&[f32::NAN, f32::NAN], [2]).unwrap()),
        ("huge", Tensor::from_slice(&[f64::MIN, f64::MAX], [2]).unwrap()),
        ("scalar", Tensor::from_slice(&[u64::MAX], []).unwrap()),
    ]
    .into_iter()
    .collect();
    session.write("odd.npz", &map);
    let found = data(&session, &["odd.npz"]);
    let complex = values(&found, "complex").unwrap();
    assert_eq!((&complex["stats"]["max"], &complex["stats"]["zeros"]), (&json!("5.0"), &json!(1)));
    assert_eq!(
        (&complex["heat_map"]["layers"][0]["name"], &complex["heat_map"]["layers"][0]["high"]),
        (&json!("absolute values"), &json!(5.0))
    );
    let nan = values(&found, "nan").unwrap();
    assert_eq!((&nan["stats"]["min"], &nan["stats"]["nans"], nan.get("histogram")), (&json!("-"), &json!(2), None));
    assert_eq!(nan["heat_map"]["layers"][0]["cells"], "!!");
    let huge = values(&found, "huge").unwrap();
    assert_eq!(
        (&huge["stats"]["max"], &huge["heat_map"]["layers"][0]["cells"]),
        (&json!("1.7976931348623157e+308"), &json!("A-"))
    );
    assert_eq!(values(&found, "scalar").unwrap()["stats"]["max"], "18446744073709551615");

    let found = data(&session, &["sparse.btf"]);
    let sparse = values(&found, "0").unwrap();
    assert_eq!((&sparse["of"], &sparse["stats"]["min"], sparse.get("heat_map")), (&json!(3), &json!("-2.0"), None));
    assert_eq!(row(&found, "0")["shape"], "[3, 300] sparse, nnz 3");
    // The elements follow the coordinates. A sample has no coordinates.
    let ones = CooTensor::new([9000], (0..9000).collect(), vec![1.0_f32; 9000]).unwrap().to_tensor();
    session.write("ones.btf", &[("0", ones)].into_iter().collect());
    let found = data(&session, &["ones.btf", "--sample", "4KiB"]);
    let sparse = values(&found, "0").unwrap();
    assert_eq!(
        (&sparse["part"], &sparse["stats"]["min"], &sparse["stats"]["max"]),
        (&json!("spread"), &json!("1.0"), &json!("1.0"))
    );

    super::unknown::write(&session, "new.safetensors", 1);
    let found = data(&session, &["new.safetensors"]);
    assert_eq!((&row(&found, "a")["dtype"], &row(&found, "a")["no_values"]), (&json!("F99"), &json!("unknown_dtype")));
    session.write("none.ten", &TensorMap::new());
    assert_eq!(data(&session, &["none.ten"])["files"][0]["tensors"], json!([]));
}

#[test]
fn quantized_blocks_have_no_values() {
    let session = Session::new();
    let gguf = Format::named("gguf").unwrap();
    let blocks = Tensor::new(TensorInfo::new(Dtype::Q8_0, [2, 32]), &[1; 68]).unwrap();
    let map: TensorMap = [("blk.0.weight", blocks), ("blk.0.norm", weights(&[32]))].into_iter().collect();
    fs::write(session.path("model.gguf"), gguf.to_vec(&map, &WriteOptions::new()).unwrap()).unwrap();
    let found = data(&session, &["model.gguf"]);
    assert_eq!(
        (&row(&found, "blk.0.weight")["no_values"], &found["files"][0]["with_values"]),
        (&json!("blocks"), &json!(1))
    );
}

#[test]
fn two_files_are_compared_as_diff_does() {
    let session = Session::new();
    let mut other = super::model();
    other.insert("embed.weight", weights(&[30, 100]));
    other.insert("head.weight", Tensor::from_slice(&[0.25_f32; 64], [4, 16]).unwrap());
    other.insert("new", weights(&[3]));
    other.insert("steps", Tensor::from_slice(&[1234_i32], []).unwrap());
    session.write("other.ptd", &other);
    let found = data(&session, &["model.ptd", "other.ptd"]);
    let output = session.run(&["diff", "--json", "--metadata", "model.ptd", "other.ptd"]);
    let diff: Value = serde_json::from_slice(&output.stdout).unwrap();
    let key = |row: &Value| json!([row["name"], row["what"]]);
    let keys = |rows: &Value| rows.as_array().unwrap().iter().map(key).collect::<Vec<_>>();
    assert_eq!(keys(&found["diff"]["tensors"]), keys(&diff["tensors"]));
    assert_eq!(keys(&diff["tensors"]).len(), 4);
    assert_eq!(found["diff"]["summary"], "10 tensors equal, 3 different, 1 only in other.ptd");
    let head = found["diff"]["tensors"].as_array().unwrap().iter().find(|row| row["name"] == "head.weight").unwrap();
    assert_eq!((&head["part"], &head["a"]), (&json!(1.0), &json!("f32[4, 16]")));
    assert!(
        head["max_abs"].as_f64().unwrap() > 1.0
            && head["values"].as_str().unwrap().starts_with("64 of 64 differ; max abs 1.2")
    );
    assert_eq!(data(&session, &["model.ptd", "model.ptd"])["diff"]["equal"], true);
    // Without values, as `diff --no-values`.
    assert_eq!(
        data(&session, &["--no-values", "model.ptd", "other.ptd"])["diff"]["tensors"].as_array().unwrap().len(),
        3
    );
    let of_three = data(&session, &["model.ptd", "other.ptd", "sparse.btf"]);
    assert_eq!((&of_three["diff"], of_three["files"].as_array().unwrap().len()), (&Value::Null, 3));
}

#[test]
fn names_cannot_leave_the_data() {
    let hostile = [
        "</script><img src=x onerror=alert(1)>",
        "<!--<script>",
        "a\u{2028}b\u{2029}c",
        "\u{202e}evil",
        "\u{1}\u{7f}\u{9b}",
        "{script}{data}{nonce}{style}",
    ];
    let session = Session::new();
    let names = || NAMES.iter().chain(&hostile);
    let map: TensorMap = names().map(|name| (*name, weights(&[2]))).collect();
    let metadata = names().map(|name| ((*name).to_owned(), (*name).to_owned())).collect();
    let safetensors = Format::named("safetensors").unwrap();
    let file = "<b>&amp;.safetensors";
    fs::write(session.path(file), safetensors.to_vec(&map, &WriteOptions::new().metadata(metadata)).unwrap()).unwrap();
    session.write("other.ten", &[("</script>", weights(&[1]))].into_iter().collect());
    for arguments in [&[file][..], &[file, "other.ten"]] {
        let page = page(&session, arguments);
        let text = embedded(&page);
        assert!(!text.contains(['<', '>', '&']));
        assert_eq!(hostile_names::control(text), None);
        // One of the data, and one of the script.
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
        let shown: Value = serde_json::from_str(text).unwrap();
        let found: Vec<&str> =
            shown["files"][0]["tensors"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert!(names().all(|name| found.contains(name)) && found.len() == names().count());
        assert_eq!(shown["files"][0]["info"]["file"], file);
    }
}

#[test]
fn a_failure_leaves_the_old_page() {
    let session = Session::new();
    fs::write(session.path("broken.ptd"), "broken").unwrap();
    fs::write(session.path("page.html"), "old").unwrap();
    let report = |arguments: &[&str]| failure(&session, &[&["report"], arguments].concat());
    for (arguments, expected_code, start) in [
        (&["broken.ptd", "-o", "page.html"][..], 4, "tensorfile: broken.ptd: "),
        (&["model.ptd", "missing.ptd", "-o", "page.html"], 3, "tensorfile: missing.ptd: "),
        (
            &["model.ptd", "-o", "page.html", "--no-clobber"],
            3,
            "tensorfile: page.html: exists, and --no-clobber is given",
        ),
        (&["model.ptd", "-o", "model.ptd"], 2, "tensorfile: --output model.ptd: the extension must be .html or .htm"),
        (&["model.ptd", "-o", "none/page.html"], 3, "tensorfile: none/page.html: "),
        (&["model.ptd"], 2, "error: the following required arguments were not provided:\n  --output <PAGE>"),
        (&["-", "-", "-o", "page.html"], 2, "tensorfile: only one of the files can be standard input"),
        (&["model.ptd", "-o", "page.html", "--sample", "0"], 2, "error: invalid value '0' for '--sample <SIZE>'"),
    ] {
        let (code, message) = report(arguments);
        assert_eq!(code, expected_code, "{arguments:?}: {message}");
        assert!(message.starts_with(start), "{arguments:?}: {message}");
        assert_eq!(fs::read_to_string(session.path("page.html")).unwrap(), "old", "{arguments:?}");
    }
    // A tensor file can have any name.
    fs::copy(session.path("sparse.btf"), session.path("sparse.html")).unwrap();
    let (code, message) = report(&["./sparse.html", "-o", "sparse.html"]);
    assert_eq!((code, message.as_str()), (2, "tensorfile: --output sparse.html: is one of the files to read\n"));
    let many = vec!["model.ptd"; 65];
    assert_eq!(
        report(&[&many[..], &["-o", "page.html"]].concat()).1,
        "tensorfile: a report shows up to 64 files, but there are 65\n"
    );

    let output = session.run(&["report", "--json", "broken.ptd"]);
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &error["file"]), (Some(4), &json!("broken.ptd")));
    assert!(session.run(&["report", "model.ptd", "-o", "page.html"]).status.success());
    assert_ne!(fs::read_to_string(session.path("page.html")).unwrap(), "old");
    let left = fs::read_dir(session.folder.path()).unwrap().count();
    assert_eq!(left, 5, "temporary files are removed");
}

/// Writes a safetensors file whose payload is a hole. Returns false if the file system has no holes.
fn write_hole(session: &Session, name: &str, tensors: &[(String, &str, [u64; 2])]) -> bool {
    let mut end = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, dtype, shape)| {
            let start = end;
            end += shape[0] * shape[1] * if *dtype == "F32" { 4 } else { 2 };
            format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#)
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    fs::write(session.path(name), &file).unwrap();
    let file_bytes = file.len() as u64 + end;
    fs::OpenOptions::new().write(true).open(session.path(name)).unwrap().set_len(file_bytes).is_ok()
}

/// Returns the tensors of a model with 70 billion parameters.
fn large_model() -> Vec<(String, &'static str, [u64; 2])> {
    let mut tensors = vec![("model.embed_tokens.weight".to_owned(), "BF16", [128_256, 8192])];
    for layer in 0..80 {
        let parts: [(&str, &str, [u64; 2]); 9] = [
            ("self_attn.q_proj", "BF16", [8192, 8192]),
            ("self_attn.k_proj", "BF16", [1024, 8192]),
            ("self_attn.v_proj", "BF16", [1024, 8192]),
            ("self_attn.o_proj", "BF16", [8192, 8192]),
            ("mlp.gate_proj", "BF16", [28_672, 8192]),
            ("mlp.up_proj", "BF16", [28_672, 8192]),
            ("mlp.down_proj", "BF16", [8192, 28_672]),
            ("input_layernorm", "F32", [1, 8192]),
            ("post_attention_layernorm", "F32", [1, 8192]),
        ];
        tensors.extend(parts.map(|(part, dtype, shape)| (format!("model.layers.{layer}.{part}.weight"), dtype, shape)));
    }
    tensors.push(("lm_head.weight".to_owned(), "BF16", [128_256, 8192]));
    tensors
}

#[test]
fn large_models_have_small_pages() {
    let session = Session::new();
    if !write_hole(&session, "large.safetensors", &large_model()) {
        skipped("this file system has no holes, so no large model is tried; $TMPDIR can name a folder on one that has");
        return;
    }
    let page = page(&session, &["large.safetensors", "--charts", "12", "--sample", "64KiB"]);
    assert!(page.len() < 500_000, "{}", page.len());
    let shown: Value = serde_json::from_str(embedded(&page)).unwrap();
    let file = &shown["files"][0];
    assert!(file["info"]["total"]["parameters"].as_u64().unwrap() > 70_000_000_000);
    let values = file["values"].as_array().unwrap();
    assert!(values.len() == 12 && values.iter().all(|values| values["part"] == "spread" && values["read"] == 32_768));
}

#[test]
fn many_tensors_are_listed_up_to_a_bound() {
    let session = Session::new();
    let tensors = |count: usize| -> Vec<_> {
        (0..count)
            .map(|at| (format!("block.{}.{at}", at / 100), "F32", [1, if at % 1000 == 7 { 2 } else { 1 }]))
            .collect()
    };
    assert!(write_hole(&session, "many.safetensors", &tensors(210_000)));
    let page = page(&session, &["many.safetensors", "--no-values"]);
    assert!(page.len() < 30 << 20, "{}", page.len());
    let shown: Value = serde_json::from_str(embedded(&page)).unwrap();
    let file = &shown["files"][0];
    let listed = file["tensors"].as_array().unwrap();
    assert_eq!(
        (listed.len(), &file["left_out"]),
        (200_000, &json!({"tensors": 10_000, "parameters": 10_000, "bytes": 40_000}))
    );
    // The largest are among them.
    assert_eq!(listed.iter().filter(|row| row["bytes"] == 8).count(), 210);
}

#[test]
fn a_name_that_is_too_long_for_the_page_is_left_out() {
    let session = Session::new();
    let long = "n".repeat(25 << 20);
    let tensors = [(long, "F32", [4, 4]), ("short".to_owned(), "F32", [2, 2])];
    assert!(write_hole(&session, "long.safetensors", &tensors));
    let found = data(&session, &["long.safetensors"]);
    let file = &found["files"][0];
    assert_eq!((&file["tensors"][0]["name"], &file["left_out"]["bytes"]), (&json!("short"), &json!(64)));
    let values = file["values"].as_array().unwrap();
    assert_eq!((values.len(), &values[0]["of"]), (1, &json!(4)));
}

#[test]
fn reads_a_pipe() {
    let session = Session::new();
    let input = fs::read(session.path("model.ptd")).unwrap();
    let output = session.run_with_input(&["report", "-", "-o", "page.html"], &input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(session.path("page.html")).unwrap();
    let shown: Value = serde_json::from_str(embedded(&page)).unwrap();
    assert_eq!(shown["files"][0]["info"]["file"], "standard input");
    let mut command = session.command(&["report", "model.ptd", "-o", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0), "a closed pipe is no error");
}
