//! Runs `diff` on two tensors of the same shape, and compares its counts and texts with a comparison element by
//! element.

use std::ffi::OsStr;

use serde_json::Value;
use tensorfile::view::scalars;
use tensorfile::{Dtype, Tensor, TensorInfo, TensorMap, WriteOptions};

use crate::input::Input;
use crate::read::write;

/// The dtypes. Each is stored by one of the two formats.
const DTYPES: &[Dtype] = &[
    Dtype::F16,
    Dtype::F32,
    Dtype::F64,
    Dtype::Bf16,
    Dtype::F8E4M3Fn,
    Dtype::I8,
    Dtype::U8,
    Dtype::I64,
    Dtype::U64,
    Dtype::Bool,
];

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let dtypes = [0, 1].map(|_| DTYPES[input.below(DTYPES.len())]);
    let elements = 1 + input.below(40);
    let tensors = dtypes.map(|dtype| {
        let info = TensorInfo::new(dtype, [elements]);
        let mut bytes = input.bytes(info.payload_bytes().unwrap()).to_vec();
        bytes.resize(info.payload_bytes().unwrap(), 0);
        if dtype == Dtype::Bool {
            bytes.iter_mut().for_each(|byte| *byte &= 1);
        }
        Tensor::new(info, &bytes).unwrap()
    });
    let safetensors = tensorfile::Format::named("safetensors").unwrap();
    let mut names = ["a.safetensors", "b.safetensors"].into_iter();
    let paths = tensors.clone().map(|tensor| {
        let map: TensorMap = [("x", tensor)].into_iter().collect();
        write(names.next().unwrap(), &safetensors.to_vec(&map, &WriteOptions::new()).unwrap())
    });
    let diff = |view: &str| {
        let arguments = [OsStr::new("tensorfile"), OsStr::new("diff"), OsStr::new("--ignore-dtype"), OsStr::new(view)];
        let paths = paths.iter().map(|path| path.as_os_str());
        tensorfile_cli::run(&arguments.into_iter().chain(paths).collect::<Vec<_>>()).into_output().unwrap()
    };

    let mut pairs = Vec::new();
    let [a, b] = &tensors;
    for (a, b) in scalars(a.dtype(), a.as_bytes()).zip(scalars(b.dtype(), b.as_bytes())) {
        pairs
            .push([a, b].map(|scalar| scalar.with_all_digits().to_string().replace("True", "1").replace("False", "0")));
    }
    let is_equal = |[a, b]: &&[String; 2]| match [a, b].map(|text| text.parse::<i128>()) {
        [Ok(a), Ok(b)] => a == b,
        _ => {
            let [a, b] = [a, b].map(|text| text.parse::<f64>().unwrap());
            // A float of 64 bits next to an integer of 64 bits is compared exactly.
            a == b && a.abs() < 9e15 || a.is_nan() && b.is_nan() || a.is_infinite() && a == b
        }
    };
    let differing = pairs.iter().filter(|pair| !is_equal(pair)).count() as u64;
    let has_large = pairs.iter().flatten().any(|text| text.parse::<f64>().is_ok_and(|number| number.abs() >= 9e15));
    let json: Value = serde_json::from_slice(&diff("--json")).unwrap();
    let found = json["tensors"].get(0).map_or(0, |tensor| tensor["values"]["differing"].as_u64().unwrap());
    assert!(found == differing || has_large, "{found} differ, expected {differing}: {pairs:?}");
    let not_finite =
        pairs.iter().any(|pair| !is_equal(&pair) && pair.iter().any(|text| !text.parse::<f64>().unwrap().is_finite()));
    if not_finite {
        assert_eq!(json["tensors"][0]["values"]["max_abs"]["difference"], "Infinity");
    }
    // The two texts of a printed pair are different.
    let text = String::from_utf8(diff("--wide")).unwrap();
    for (before, after) in text.match_indices(" -> ").map(|(at, arrow)| (&text[..at], &text[at + arrow.len()..])) {
        let before = before.rsplit(' ').next().unwrap();
        let after = after.split([';', '\n']).next().unwrap();
        assert_ne!(before, after, "{text}");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let pairs = [(1, 2), (0, 0), (2, 2), (1, 0), (7, 8), (9, 5), (3, 4)];
    pairs.iter().map(|(a, b)| [vec![*a, *b, 6], (0..=255).collect()].concat()).collect()
}
