//! Rules for all rows of the table of formats.

use serde_json::Value;
use tensorfile::stats::Stats;
use tensorfile::{Dtype, FORMATS, Format, Tensor, TensorInfo, TensorMap, WriteOptions};

use super::{Session, file_of, try_file_of};

/// Returns a file with a tensor of each dtype, or several files if the format stores one tensor in each.
fn samples(format: &Format) -> Vec<TensorMap> {
    let tensor = |dtype: Dtype| {
        // Three elements or blocks in a row.
        let info = TensorInfo::new(dtype, [2, 3 * dtype.block_elements()]);
        let last = if dtype == Dtype::Bool { 2 } else { 100 };
        let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| (at % last).try_into().unwrap()).collect();
        Tensor::new(info, &bytes).unwrap()
    };
    let one = |dtype: &Dtype| [("0".to_owned(), tensor(*dtype))].into_iter().collect();
    let all: TensorMap =
        format.dtypes.iter().enumerate().map(|(at, dtype)| (format!("layers.{at}.w"), tensor(*dtype))).collect();
    // Some formats store only one tensor.
    match format.to_vec(&all, &WriteOptions::new().embed_names(format.max_name.is_some())) {
        Ok(_) => vec![all],
        Err(_) => format.dtypes.iter().map(one).collect(),
    }
}

fn for_each_sample(check: impl Fn(&Session, &str, &Format, &TensorMap)) {
    let session = Session::new();
    for format in FORMATS {
        for map in samples(format) {
            let name = format!("sample.{}", format.extensions[0]);
            std::fs::write(session.path(&name), file_of(format, &map)).unwrap();
            check(&session, &name, format, &map);
        }
    }
}

#[test]
fn ls_and_info_list_every_tensor() {
    for_each_sample(|session, file, format, map| {
        let output = session.run(&["ls", "--json", file]);
        assert!(output.status.success(), "{}: {}", format.name, String::from_utf8_lossy(&output.stderr));
        let listed = serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].take();
        assert_eq!(listed["format"], format.name);
        let rows = listed["tensors"].as_array().unwrap();
        assert_eq!(rows.len(), map.len(), "{}", format.name);
        let bytes = std::fs::read(session.path(file)).unwrap();
        // Some formats sort the tensors.
        for row in rows {
            let name = row["name"].as_str().unwrap();
            let tensor = &map[name];
            assert_eq!(row["dtype"].as_str().unwrap(), tensor.dtype().name());
            assert_eq!(row["shape"], serde_json::json!(tensor.shape().dims()));
            let [offset, len] = ["offset", "bytes"].map(|key| usize::try_from(row[key].as_u64().unwrap()).unwrap());
            assert_eq!(&bytes[offset..offset + len], tensor.as_bytes(), "{}: {name}", format.name);
        }

        let output = session.run(&["info", "--json", file]);
        let info = serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].take();
        assert_eq!(info["format"], format.name);
        assert_eq!(info["size"], bytes.len());
        assert_eq!(info["total"]["tensors"], map.len());
        let storage = |key: &str| info["storage"][key].as_u64().unwrap();
        let counted: u64 = ["payload", "before", "between", "after"].into_iter().map(storage).sum();
        assert_eq!(counted, bytes.len() as u64, "{}", format.name);
        for arguments in [&["ls", file][..], &["ls", "--tree", file], &["ls", "--patterns", file], &["info", file]] {
            assert!(session.run(arguments).status.success(), "{}: {arguments:?}", format.name);
        }
    });
}

#[test]
fn show_prints_every_tensor() {
    for_each_sample(|session, file, format, map| {
        for (name, tensor) in map {
            let raw = session.run(&["show", file, name, "--format", "raw"]);
            assert_eq!(raw.stdout, tensor.as_bytes(), "{}: {name}", format.name);
            if !tensor.dtype().has_elements() {
                let output = session.run(&["show", file, name]);
                let message = String::from_utf8_lossy(&output.stderr);
                assert!(
                    message.contains(&format!("cannot show elements of `{name}`: {}", tensor.dtype())),
                    "{message}"
                );
                assert_eq!(output.status.code(), Some(2));
                continue;
            }
            let part = session.run(&["show", file, name, "--slice", "1, ::-2", "--format", "raw"]);
            let size = tensor.dtype().block_bytes();
            let elements: Vec<&[u8]> = tensor.as_bytes().chunks_exact(size).collect();
            assert_eq!(part.stdout, [elements[5], elements[3]].concat(), "{}: {name}", format.name);
            let json: Value =
                serde_json::from_slice(&session.run(&["show", file, name, "--format", "json"]).stdout).unwrap();
            let rows: Vec<usize> = json.as_array().unwrap().iter().map(|row| row.as_array().unwrap().len()).collect();
            assert_eq!(rows, [3, 3]);
            let text = session.run(&["show", file, name]).stdout;
            let head = format!("{name}: {}\n[[", tensor.info());
            assert!(text.starts_with(head.as_bytes()), "{}: {}", format.name, String::from_utf8_lossy(&text));
        }
    });
}

/// Returns the digest that `hash` prints.
fn digest(session: &Session, file: &str) -> String {
    let output = session.run(&["hash", file]);
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn equal_tensors_are_equal_in_all_pairs_of_formats() {
    for_each_sample(|session, file, format, map| {
        for other in FORMATS {
            let written = try_file_of(other, map);
            let target = format!("other.{}", other.extensions[0]);
            let verified = session.run(&["verify", "--for", other.name, file]);
            let message = String::from_utf8_lossy(&verified.stdout).into_owned();
            assert_eq!(verified.status.success(), written.is_ok(), "{} to {}: {message}", format.name, other.name);
            let Ok(written) = written else { continue };
            std::fs::write(session.path(&target), written).unwrap();
            // Tensors of several dtypes are sorted in safetensors files only.
            let is_sorted = |format: &Format| format.name == "safetensors";
            let by_position = &["diff", "--by-position", "--quiet", &target, file][..];
            let by_position = Some(by_position).filter(|_| is_sorted(format) == is_sorted(other));
            for arguments in [&["diff", file, &target][..]].into_iter().chain(by_position) {
                let output = session.run(arguments);
                let message = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success(), "{} and {}: {message}", format.name, other.name);
            }
            assert_eq!(digest(session, file), digest(session, &target), "{} and {}", format.name, other.name);
        }
    });
}

#[test]
fn finds_a_changed_byte() {
    for_each_sample(|session, file, format, map| {
        let output = session.run(&["verify", "--payload", file]);
        // Some formats give warnings too.
        assert!(output.stdout.ends_with(format!("{file}: ok\n").as_bytes()), "{}", format.name);

        let listed = serde_json::from_slice::<Value>(&session.run(&["ls", "--json", file]).stdout).unwrap()[0].take();
        let bytes = std::fs::read(session.path(file)).unwrap();
        for row in listed["tensors"].as_array().unwrap() {
            let name = row["name"].as_str().unwrap();
            let size = map[name].dtype().block_bytes();
            let mut changed = bytes.clone();
            // Flips the lowest bit of element [1, 1].
            changed[usize::try_from(row["offset"].as_u64().unwrap()).unwrap() + 4 * size] ^= 1;
            let target = format!("changed.{}", format.extensions[0]);
            std::fs::write(session.path(&target), changed).unwrap();

            let output = session.run(&["diff", "--json", file, &target]);
            if ["npz", "pytorch"].contains(&format.name) {
                // The checksum of the member is wrong.
                assert_eq!(output.status.code(), Some(4), "{name}");
                let verified = session.run(&["verify", "--payload", &target]).stdout;
                assert!(String::from_utf8_lossy(&verified).contains("the CRC-32 is "), "{name}");
                continue;
            }
            assert_eq!(output.status.code(), Some(1), "{}: {name}", format.name);
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            let tensors = found["tensors"].as_array().unwrap();
            assert_eq!((tensors.len(), &tensors[0]["name"]), (1, &row["name"]), "{}", format.name);
            let values = &tensors[0]["values"];
            assert_eq!((&values["differing"], &values["of"]), (&1.into(), &6.into()), "{}: {name}", format.name);
            let column = map[name].dtype().block_elements();
            assert_eq!(values["first"]["index"], serde_json::json!([1, column]), "{}: {name}", format.name);
            assert_ne!(digest(session, file), digest(session, &target), "{}: {name}", format.name);
        }
    });
}

#[test]
fn stats_cover_every_tensor() {
    for_each_sample(|session, file, format, map| {
        let output = session.run(&["stats", "--json", "--long", file]);
        assert!(output.status.success(), "{}: {}", format.name, String::from_utf8_lossy(&output.stderr));
        let listed = serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].take();
        let rows = listed["tensors"].as_array().unwrap();
        assert_eq!(rows.len(), map.len(), "{}", format.name);
        for row in rows {
            let name = row["name"].as_str().unwrap();
            let tensor = &map[name];
            let mut stats = Stats::from_info(tensor.info());
            if let Some(stats) = &mut stats {
                stats.update(tensor.as_bytes());
            }
            // Parsed from text too, which may change the last digit of floats.
            let mut expected: Value = serde_json::from_slice(&serde_json::to_vec(&stats).unwrap()).unwrap();
            let mut found = row["stats"].clone();
            if let (Some(expected), Some(found)) = (expected.as_object_mut(), found.as_object_mut()) {
                expected.remove("dtype");
                let counts = found.remove("histogram").unwrap()["counts"].clone();
                let counted: u64 = counts.as_array().unwrap().iter().filter_map(Value::as_u64).sum();
                assert_eq!(counted, 6 - nans_and_infinities(found), "{}: {name}", format.name);
            }
            assert_eq!(found, expected, "{}: {name}", format.name);
        }
        for arguments in [&["stats", file][..], &["stats", "--long", file], &["stats", "--diffable", file]] {
            assert!(session.run(arguments).status.success(), "{}: {arguments:?}", format.name);
        }
    });
}

#[test]
fn reports_have_every_tensor() {
    for_each_sample(|session, file, format, map| {
        // A sample of a few bytes, too.
        for sample in ["4MiB", "9B"] {
            let output = session.run(&["report", "--json", "--sample", sample, file]);
            assert!(output.status.success(), "{}: {}", format.name, String::from_utf8_lossy(&output.stderr));
            let data: Value = serde_json::from_slice(&output.stdout).unwrap();
            let (rows, values) = (&data["files"][0]["tensors"], data["files"][0]["values"].as_array().unwrap());
            assert_eq!(rows.as_array().unwrap().len(), map.len(), "{}", format.name);
            for (at, row) in rows.as_array().unwrap().iter().enumerate() {
                let name = row["name"].as_str().unwrap();
                let values = values.iter().find(|values| values["tensor"] == at);
                assert_eq!(values.is_none(), row.get("no_values").is_some(), "{}: {name}", format.name);
                let Some(mut stats) = Stats::from_info(map[name].info()) else { continue };
                stats.update(map[name].as_bytes());
                let values = values.unwrap_or_else(|| panic!("{}: {name} has no values", format.name));
                let read = values["read"].as_u64().unwrap();
                assert_eq!(read < stats.count(), values["part"] != "all", "{}: {name}", format.name);
                if values["part"] == "all" {
                    let found = ["zeros", "nans"].map(|key| values["stats"][key].as_u64().unwrap());
                    assert_eq!(found, [stats.zeros(), stats.nans()], "{}: {name}", format.name);
                }
            }
        }
    });
}

fn nans_and_infinities(stats: &serde_json::Map<String, Value>) -> u64 {
    let keys = ["nans", "positive_infinities", "negative_infinities"];
    keys.into_iter().filter_map(|key| stats[key].as_u64()).sum()
}

#[test]
fn truncated_files_are_malformed_or_shorter() {
    let session = Session::new();
    for format in FORMATS {
        let samples = samples(format);
        // Files with one tensor each differ in its dtype only: each is cut at other bytes.
        let cuts = (24 / samples.len()).max(3);
        for (at, map) in samples.iter().enumerate() {
            let bytes = file_of(format, map);
            for cut in 0..cuts {
                let len = bytes.len() * (cut * samples.len() + at) / (cuts * samples.len());
                let file = format!("cut.{}", format.extensions[0]);
                std::fs::write(session.path(&file), &bytes[..len]).unwrap();
                for arguments in [
                    &["ls"][..],
                    &["info"],
                    &["stats"],
                    &["hash"],
                    &["verify", "--payload"],
                    &["diff", &file],
                    &["report", "--json"],
                ] {
                    let output = session.run(&[arguments, &[&file]].concat());
                    let message = String::from_utf8_lossy(&output.stderr);
                    assert!(matches!(output.status.code(), Some(0 | 4)), "{} cut at {len}: {message}", format.name);
                }
            }
        }
    }
}
