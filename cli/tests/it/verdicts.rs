//! `verify --for` and `convert` agree about the tensors that they refuse.

use std::path::Path;

use tensorfile::{
    CooTensor, Dtype, FORMATS, Format, Layout, Tensor, TensorInfo, TensorMap, WriteOptions, npz, safetensors,
};

use super::{Session, try_file_of, weights};

fn one(name: &str, tensor: Tensor) -> TensorMap {
    [(name, tensor)].into_iter().collect()
}

/// Tensors of every kind, alone and together.
fn maps() -> Vec<(String, TensorMap)> {
    let zeros = |dtype: Dtype, rank: usize| {
        let mut shape = vec![1; rank];
        shape.iter_mut().last().into_iter().for_each(|last| *last = dtype.block_elements());
        let info = TensorInfo::new(dtype, shape);
        Tensor::new(info.clone(), &vec![0; info.payload_bytes().unwrap()]).unwrap()
    };
    let blob = Tensor::new(TensorInfo::blob(3), b"abc").unwrap();
    let sparse = CooTensor::new([3], vec![2], vec![1.5_f32]).unwrap().to_tensor();
    let layout = Layout::from_dim_order(&[1, 0, 2]).unwrap();
    let turned = Tensor::new(TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [1, 2, 3]) }, &[1; 6]).unwrap();
    let mut maps: Vec<(String, TensorMap)> = Dtype::ALL
        .iter()
        .flat_map(|dtype| {
            [("a", 1), ("0", 2)].map(|(name, rank)| (format!("{dtype} {name}"), one(name, zeros(*dtype, rank))))
        })
        .collect();
    for rank in [0, 5, 10, 17, 65] {
        maps.push((format!("rank {rank}"), one("a", zeros(Dtype::F32, rank))));
    }
    for name in ["", "encoder.layer.0.weight", "x/y", "ä", "a b", "data.pkl", "a.npy", "META-INF/MANIFEST.MF"] {
        maps.push((format!("the name {name:?}"), one(name, weights(&[2]))));
        let mut with_blob = one("w", weights(&[2]));
        with_blob.insert(name, blob.clone());
        maps.push((format!("a blob {name:?}"), with_blob));
    }
    maps.push(("a name of 70 bytes".to_owned(), one(&"n".repeat(70), weights(&[2]))));
    maps.push(("a name of 70,000 bytes".to_owned(), one(&"n".repeat(70_000), weights(&[2]))));
    maps.push(("a blob alone".to_owned(), one("b", blob)));
    maps.push(("sparse".to_owned(), one("0", sparse.clone())));
    maps.push(("sparse and dense".to_owned(), [("0", sparse), ("1", weights(&[2]))].into_iter().collect()));
    maps.push(("a dim order".to_owned(), one("a", turned)));
    maps.push(("nothing".to_owned(), TensorMap::new()));
    maps.push(("two".to_owned(), [("0", weights(&[2])), ("1", weights(&[3]))].into_iter().collect()));
    maps
}

/// Files of all formats, each with its contents.
fn files(session: &Session) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut add = |what: String, extension: &str, bytes: Vec<u8>| {
        let name = format!("{}.{extension}", files.len());
        std::fs::write(session.path(&name), bytes).unwrap();
        files.push((what, name));
    };
    for (what, map) in maps() {
        // One format that stores it is enough, and each is tried by some.
        let mut formats: Vec<&Format> = FORMATS.to_vec();
        let first = what.len() % formats.len();
        formats.rotate_left(first);
        if let Some((format, bytes)) = formats.iter().find_map(|format| Some((format, try_file_of(format, &map).ok()?)))
        {
            add(format!("{what} in {}", format.name), format.extensions[0], bytes);
        }
    }
    let weight = || one("w", weights(&[2]));
    let metadata = safetensors::Options::new().metadata("lr", "0.1").to_vec(&weight()).unwrap();
    add("metadata".to_owned(), "safetensors", metadata);
    let mut unknown = npz::to_vec(&weight()).unwrap();
    let descr = unknown.windows(5).position(|text| text == b"'<f4'").unwrap();
    unknown[descr + 2] = b'V';
    add("an unknown dtype".to_owned(), "npz", unknown);
    let order = WriteOptions::new().keep_dim_order(true);
    let layout = Layout::from_dim_order(&[1, 0]).unwrap();
    let turned = Tensor::new(TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [2, 3]) }, &[1; 6]).unwrap();
    add("columns".to_owned(), "npy", Format::named("npy").unwrap().to_vec(&one("0", turned), &order).unwrap());
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    for path in [
        "cases/npz-one-bad-member/long-header.npz",
        "pytorch/checkpoint.pt",
        "pytorch/tensor.pt",
        "pytorch/quantized.pt",
    ] {
        let extension = path.rsplit_once('.').unwrap().1;
        add(path.to_owned(), extension, std::fs::read(cases.join(path)).unwrap());
    }
    files
}

#[test]
fn verify_refuses_what_convert_refuses() {
    let session = Session::new();
    let files = files(&session);
    assert!(files.len() > 70, "{} files", files.len());
    let mut wrong = Vec::new();
    for format in FORMATS {
        // One run for all files, as each tells its verdict.
        let mut arguments = vec!["verify", "--json", "--for", format.name];
        arguments.extend(files.iter().map(|(_, name)| name.as_str()));
        let reports: serde_json::Value = serde_json::from_slice(&session.run(&arguments).stdout).unwrap();
        for ((what, name), report) in files.iter().zip(reports.as_array().unwrap()) {
            let target = format!("out.{}", format.extensions[0]);
            let converted = session.run(&["convert", "--dry-run", name, &target, "--to", format.name]);
            let (verified, stderr) = (report["ok"].as_bool().unwrap(), String::from_utf8_lossy(&converted.stderr));
            if verified != converted.status.success() {
                wrong.push(format!("{what} ({name}) to {}: verify says {}, but convert {stderr}", format.name, report));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
