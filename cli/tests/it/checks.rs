//! Commands that check look at every kind of tensor. If they cannot look, they say so and fail.

use tensorfile::{CooTensor, Dtype, Tensor, TensorInfo, TensorMap};

use super::{Session, unknown};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/checks");

/// Runs a command line, whose arguments have no spaces. Returns the exit code, the output and the messages.
fn run(session: &Session, line: &str) -> (i32, String, String) {
    let output = session.run(&line.split_whitespace().collect::<Vec<_>>());
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), out, err)
}

/// What `stats --fail-on nan` says of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nan {
    None,
    Found,
    NotChecked,
}

/// Writes two files with a tensor `0` of the same kind, of which one byte differs. Returns their names and what the
/// second one has.
fn pairs(session: &Session) -> Vec<(&'static str, [String; 2], Nan)> {
    let mut pairs = Vec::new();
    let dense = |dtype: Dtype, shape: &[usize], last: &[u8]| {
        let info = TensorInfo::new(dtype, shape);
        let zeros = vec![0; info.payload_bytes().unwrap()];
        let mut other = zeros.clone();
        let start = other.len() - last.len();
        other[start..].copy_from_slice(last);
        [zeros, other].map(|bytes| Tensor::new(info.clone(), &bytes).unwrap())
    };
    let nan = |extension: &'static str, dtype: Dtype, nan: &[u8]| (extension, dense(dtype, &[2, 64], nan), Nan::Found);
    let sparse = |last: f32| CooTensor::new([3, 300], vec![0, 1, 2, 299], vec![1.5, last]).unwrap().to_tensor();
    let blob = |text: &[u8]| Tensor::new(TensorInfo::blob(3), text).unwrap();
    for (kind, (extension, tensors, expected)) in [
        ("f16", nan("safetensors", Dtype::F16, &[0, 0x7e])),
        ("bf16", nan("safetensors", Dtype::Bf16, &[0xc0, 0x7f])),
        ("f32", nan("ptd", Dtype::F32, &f32::NAN.to_le_bytes())),
        ("f64", nan("npz", Dtype::F64, &f64::NAN.to_le_bytes())),
        ("c64", nan("npy", Dtype::C64, &f32::NAN.to_le_bytes())),
        ("c128", nan("npz", Dtype::C128, &f64::NAN.to_le_bytes())),
        ("f8_e4m3fn", nan("safetensors", Dtype::F8E4M3Fn, &[0x7f])),
        ("f8_e5m2", nan("ptd", Dtype::F8E5M2, &[0x7d])),
        ("coo", ("btf", [sparse(1.0), sparse(f32::NAN)], Nan::Found)),
        ("bool", ("npy", dense(Dtype::Bool, &[9], &[1]), Nan::None)),
        ("i64", ("ten", dense(Dtype::I64, &[9], &[1]), Nan::None)),
        ("u8", ("ten", dense(Dtype::U8, &[9], &[1]), Nan::None)),
        ("qint8", ("ptd", dense(Dtype::QInt8, &[9], &[1]), Nan::None)),
        ("quint4x2", ("ptd", dense(Dtype::QUint4x2, &[9], &[1]), Nan::NotChecked)),
        ("bits16", ("ptd", dense(Dtype::Bits16, &[9], &[1]), Nan::NotChecked)),
        ("f4", ("safetensors", dense(Dtype::F4, &[2, 64], &[1]), Nan::NotChecked)),
        ("q4_0", ("gguf", dense(Dtype::Q4_0, &[2, 64], &[1]), Nan::NotChecked)),
        ("q6_k", ("gguf", dense(Dtype::Q6K, &[256], &[1]), Nan::NotChecked)),
        ("blob", ("ptd", [blob(b"abc"), blob(b"abd")], Nan::NotChecked)),
    ] {
        let names = ["a", "b"].map(|name| format!("{kind}-{name}.{extension}"));
        for (name, tensor) in names.iter().zip(tensors) {
            session.write(name, &[("0", tensor)].into_iter().collect());
        }
        pairs.push((kind, names, expected));
    }
    let names = ["unknown-a.safetensors", "unknown-b.safetensors"];
    names.iter().zip([1, 9]).for_each(|(name, first)| unknown::write(session, name, first));
    pairs.push(("unknown", names.map(str::to_owned), Nan::NotChecked));
    pairs
}

#[test]
fn every_check_looks_at_every_kind_of_tensor() {
    let session = Session::new();
    for (kind, [a, b], nan) in pairs(&session) {
        assert_eq!(run(&session, &format!("diff {a} {a}")).0, 0, "{kind}");
        let (code, out, _) = run(&session, &format!("diff {a} {b}"));
        assert!(code == 1 && out.contains(" 1 different") && !out.contains("missing"), "{kind}: {out}");
        assert_eq!(run(&session, &format!("diff --quiet {a} {b}")).0, 1, "{kind}");

        let hashes = [&a, &b].map(|file| run(&session, &format!("hash {file}")).1[..64].to_owned());
        assert_ne!(hashes[0], hashes[1], "{kind}");
        let list = format!("{}  {b}\n", hashes[0]);
        std::fs::write(session.path("list"), list).unwrap();
        assert_eq!(run(&session, "hash --check list").0, 1, "{kind}");
        let (_, manifest, _) = run(&session, &format!("hash --tensors {a}"));
        std::fs::write(session.path("manifest"), manifest).unwrap();
        for (file, code) in [(&a, 0), (&b, 1)] {
            assert_eq!(run(&session, &format!("hash --tensors --check manifest {file}")).0, code, "{kind}");
            assert_eq!(run(&session, &format!("verify --manifest manifest {file}")).0, code, "{kind}");
        }

        for view in ["", "--json", "--long", "--diffable", "--sort std"] {
            let (code, _, err) = run(&session, &format!("stats --fail-on nan {view} {b}"));
            let found = match (err.contains("has 1 NaN, first at "), err.contains("cannot check `")) {
                (true, false) => Nan::Found,
                (false, true) => Nan::NotChecked,
                (false, false) => Nan::None,
                (true, true) => panic!("{kind}: {err}"),
            };
            assert_eq!((found, code), (nan, i32::from(nan != Nan::None)), "{kind} {view}: {err}");
        }
        let (code, _, err) = run(&session, &format!("stats --fail-on nan {a}"));
        assert_eq!(code, i32::from(nan == Nan::NotChecked), "{kind}: {err}");

        let (code, out, _) = run(&session, &format!("report --json {a} {b}"));
        let page: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &page["diff"]["equal"]), (0, &false.into()), "{kind}");
        let (row, values) = (&page["files"][1]["tensors"][0], &page["files"][1]["values"]);
        // The page has statistics of what `stats` has some of, or says why not.
        let nans = values.as_array().unwrap().iter().find(|values| values["tensor"] == 0);
        let nans = nans.map(|values| values["stats"]["nans"].as_u64().unwrap());
        let expected = match nan {
            Nan::Found => Some(1),
            Nan::None => Some(0),
            Nan::NotChecked => None,
        };
        assert_eq!((nans, row["no_values"].is_null()), (expected, expected.is_some()), "{kind}: {row}");
    }
}

#[test]
fn what_has_no_elements_passes() {
    let session = Session::new();
    let mut map = TensorMap::new();
    for (name, dtype) in [("f", Dtype::F32), ("b", Dtype::Bool), ("q", Dtype::QInt8), ("p", Dtype::QUint4x2)] {
        map.insert(name, Tensor::new(TensorInfo::new(dtype, [0, 4]), &[]).unwrap());
    }
    session.write("empty.ptd", &map);
    session.write("none.safetensors", &TensorMap::new());
    for file in ["empty.ptd", "none.safetensors"] {
        for command in ["stats --fail-on nan,inf,zero", "verify --payload --strict", "hash"] {
            let (code, _, err) = run(&session, &format!("{command} {file}"));
            assert_eq!((code, err.as_str()), (0, ""), "{command} {file}");
        }
        assert_eq!(run(&session, &format!("diff {file} {file}")).0, 0);
    }
}

#[test]
fn elements_that_are_stored_elsewhere_are_not_equal() {
    let session = Session::new();
    // There are elements of an unknown dtype, and no bytes of them.
    let json = r#"{"a":{"dtype":"F99","shape":[2,2],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    let bytes = [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &[1]].concat();
    std::fs::write(session.path("x.safetensors"), bytes).unwrap();
    let unseen = 1;
    let (code, out, _) = run(&session, "diff x.safetensors x.safetensors");
    assert!(code == 1 && out.contains(&format!(", {unseen} not compared")), "{out}");
    assert_eq!(run(&session, "diff --no-values x.safetensors x.safetensors").0, 0);
    let (code, out, err) = run(&session, "hash x.safetensors");
    assert!(code == 1 && err.contains("the digest has no elements of `"), "{err}");
    std::fs::write(session.path("list"), out).unwrap();
    let (code, out, _) = run(&session, "hash --check list");
    assert_eq!((code, out.as_str()), (1, "x.safetensors: not checked\n"));
    let (_, manifest, _) = run(&session, "hash --tensors x.safetensors");
    std::fs::write(session.path("manifest"), manifest).unwrap();
    let (code, out, _) = run(&session, "verify --manifest manifest x.safetensors");
    assert!(code == 1 && out.contains("cannot compare `"), "{out}");
    assert_eq!(run(&session, "hash --tensors --check manifest x.safetensors").0, 1);
}

#[test]
fn cases_of_reports() {
    let session = Session::new();
    let fixture = |name: &str| format!("{FIXTURES}/{name}");
    let (code, _, err) = run(&session, &format!("stats --fail-on nan {}", fixture("nan-complex.npy")));
    assert!(code == 1 && err.contains("NaN, first at ["), "{err}");

    let (_, out, _) = run(&session, &format!("stats --json {}", fixture("large-offset.safetensors")));
    // The text, as the parser of this test rounds some numbers.
    let number = |name: &str, key: &str| -> f64 {
        let (_, tensor) = out.split_once(&format!("\"name\": \"{name}\"")).unwrap();
        let (_, number) = tensor.split_once(&format!("\"{key}\": ")).unwrap();
        number.split_once(',').unwrap().0.parse().unwrap()
    };
    assert_eq!((number("f64", "mean"), number("f64", "std")), (1e15 + 0.5, 0.5));
    assert_eq!(number("u64", "mean"), 9_223_372_036_854_779_304.5);
    assert!((number("u64", "std") - 2020.72).abs() < 0.01);
}

#[test]
fn printed_numbers_are_the_numbers() {
    let session = Session::new();
    let bits: Vec<u8> = [0x7bff_u16, 0x2e66, 0x0001, 0xfbff].iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let halves = Tensor::new(TensorInfo::new(Dtype::F16, [4]), &bits).unwrap();
    session.write("half.npy", &[("0", halves)].into_iter().collect());
    let expected = [65504.0, 0.099_975_585_937_5, 2.0_f64.powi(-24), -65504.0];
    let text = "65504.0, 0.0999755859375, 5.960464477539063e-08, -65504.0";
    let (_, csv, _) = run(&session, "show half.npy --format csv");
    assert_eq!(csv.lines().map(|line| line.parse::<f64>().unwrap()).collect::<Vec<_>>(), expected);
    let (_, json, _) = run(&session, "show half.npy --format json");
    assert_eq!(json, format!("[{text}]\n"));
    let (_, json, _) = run(&session, "show half.npy --json");
    assert!(json.contains(&format!("\"data\": [{text}]")), "{json}");
    let (_, json, _) = run(&session, "stats --json half.npy");
    let listed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(listed[0]["tensors"][0]["stats"]["max"].as_f64(), Some(65504.0));
    let (_, json, _) = run(&session, "report --json half.npy");
    let page: serde_json::Value = serde_json::from_str(&json).unwrap();
    let max = page["files"][0]["values"][0]["stats"]["max"].as_str().unwrap();
    assert_eq!(max.parse(), Ok(65504.0));
    // Text is as numpy prints it.
    assert!(run(&session, "show half.npy").1.contains("6.55e+04"));
}

#[test]
fn casts_that_lose_numbers_are_refused_on_request() {
    let session = Session::new();
    let map: TensorMap = [
        ("big", Tensor::from_slice(&[1.0_f32, 70_000.0, 1e-20], [3]).unwrap()),
        ("inf", Tensor::from_slice(&[f32::INFINITY, 2.0], [2]).unwrap()),
    ]
    .into_iter()
    .collect();
    session.write("x.safetensors", &map);
    insta::assert_snapshot!(session.transcript(&[
        "convert x.safetensors half.safetensors --dtype f16 --fail-on overflow",
        "convert x.safetensors half.safetensors --dtype f16 --fail-on overflow --dry-run",
        "convert x.safetensors half.safetensors --dtype f16 --fail-on underflow,nan",
        "convert x.safetensors half.safetensors --dtype f16 --fail-on overflow --filter inf",
        "convert x.safetensors brain.safetensors --dtype bf16 --fail-on overflow,underflow",
        "convert x.safetensors other.safetensors --fail-on overflow",
    ]));
    assert!(session.path("half.safetensors").exists() && session.path("brain.safetensors").exists());
    // The existing file stays.
    let before = std::fs::read(session.path("half.safetensors")).unwrap();
    let (code, _, _) = run(&session, "convert x.safetensors half.safetensors --dtype f16 --fail-on overflow");
    assert_eq!((code, std::fs::read(session.path("half.safetensors")).unwrap()), (1, before));
}

/// Statistics are of a tensor that can be read, in every command.
#[test]
fn coordinates_outside_of_the_shape_are_errors_everywhere() {
    let session = Session::new();
    let sparse = CooTensor::new([3, 300], vec![2, 0x34], vec![1.5_f32]).unwrap();
    session.write("far.btf", &[("0", sparse.to_tensor())].into_iter().collect());
    let mut file = std::fs::read(session.path("far.btf")).unwrap();
    let at = file.windows(8).position(|bytes| bytes == 0x34_u64.to_le_bytes()).unwrap();
    file[at + 1] = 0x12;
    std::fs::write(session.path("far.btf"), &file).unwrap();
    for command in ["stats", "stats --long", "verify", "hash", "diff far.btf", "show", "report --json"] {
        let (code, out, err) = run(&session, &format!("{command} far.btf"));
        assert_eq!(code, 4, "{command}: {out}{err}");
    }
}
