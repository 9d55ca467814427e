//! Types with `#[tensor(dequantize)]`, loaded from files that store weights as codes.

use std::collections::BTreeMap;

use half::bf16;
use ndarray::{Array1, Array2, ArrayD, array};
use tensorfile::view::RenameRules;
use tensorfile::{Dtype, File, OpenOptions, Tensor, TensorFile, TensorInfo, TensorMap, btf};

/// All weights and all other tensors, in one dtype.
#[derive(TensorFile)]
#[tensor(cast, dequantize)]
struct All<T: tensorfile::Element>(BTreeMap<String, ArrayD<T>>);

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
struct Linear {
    #[tensor(dequantize)]
    weight: Option<Array2<f32>>,
    bias: Array1<f32>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Model {
    up: Linear,
    #[tensor(dequantize, alias = "down.weight", cast)]
    down: Array2<f64>,
    norm: Array1<f32>,
}

/// Codes with a scale for each row: 0.5 · [1, 2] and 2 · [-1, 0].
fn codes() -> Tensor {
    Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [2, 2]), &[0x38, 0x40, 0xb8, 0]).unwrap()
}

fn map() -> TensorMap {
    let mut map = TensorMap::new();
    for name in ["up", "down"] {
        map.insert(format!("{name}.weight"), codes());
        map.insert(format!("{name}.weight_scale"), array![[0.5_f32], [2.0]]);
    }
    map.insert("up.bias", array![7.0_f32]);
    map.insert("norm", array![1.0_f32]);
    map
}

fn model() -> Model {
    let weight = array![[0.5, 1.0], [-2.0, 0.0]];
    Model {
        up: Linear { weight: Some(weight.clone()), bias: array![7.0] },
        down: weight.mapv(f64::from),
        norm: array![1.0],
    }
}

#[cfg(feature = "quant")]
#[test]
fn types_of_all_weights_equal_decoded_files() {
    fn check<T: tensorfile::Element + PartialEq + std::fmt::Debug>(file: &File, decoded: &File, name: &str) {
        let (all, expected): (All<T>, All<T>) = (file.load().unwrap(), decoded.load().unwrap());
        assert_eq!(all.0.keys().collect::<Vec<_>>(), expected.0.keys().collect::<Vec<_>>(), "{name}");
        // NaN equals NaN here.
        let text = |array: &ArrayD<T>| array.iter().map(|number| format!("{number:?}")).collect::<Vec<_>>();
        for (key, array) in &all.0 {
            assert_eq!(text(array), text(&expected.0[key]), "{name}: {key}");
        }
    }

    for case in super::decoding::decoded() {
        let file = case.open();
        let decoded = OpenOptions::new().dequantize(tensorfile::Dequantize::to(Dtype::F32)).open(case.path()).unwrap();
        check::<f32>(&file, &decoded, &case.name);
        check::<bf16>(&file, &decoded, &case.name);
        // Asked for once more, and by one more type.
        check::<f32>(&file, &decoded, &case.name);
    }
}

#[cfg(feature = "quant")]
#[test]
fn fields_ask_for_their_own_weights() {
    let file = File::from_bytes(tensorfile::safetensors::to_vec(&map()).unwrap()).unwrap();
    let report = file.report::<Model>();
    assert!(report.is_ok(), "{report}");
    assert_eq!(file.load::<Model>().unwrap(), model());
    let mut into = Model { up: Linear { weight: None, bias: array![0.0] }, down: array![[]], norm: array![] };
    into.up.weight = Some(array![[0.0, 0.0], [0.0, 0.0]]);
    into.down = array![[0.0, 0.0], [0.0, 0.0]];
    into.norm = array![0.0];
    file.load_into(&mut into).unwrap();
    assert_eq!(into, model());

    /// One weight as it is stored, with its scale, and the other one decoded.
    #[derive(TensorFile, Debug)]
    #[tensor(allow_unknown)]
    struct Mixed {
        #[tensor(rename = "up.weight_scale")]
        scale: Array2<f32>,
        #[tensor(rename = "up.weight")]
        codes: Array2<tensorfile::scalar::F8E4M3Fn>,
        #[tensor(rename = "down.weight", dequantize)]
        down: Array2<bf16>,
    }
    let mixed: Mixed = file.load().unwrap();
    assert_eq!((mixed.scale, mixed.codes.dim()), (array![[0.5], [2.0]], (2, 2)));
    assert_eq!(mixed.down.mapv(f32::from), array![[0.5, 1.0], [-2.0, 0.0]]);
    let rest: Vec<&str> = file.rest::<Mixed>().iter().map(|tensor| tensor.name()).collect();
    assert_eq!(rest, ["norm", "up.bias"]);
    // The file itself is as it was.
    assert_eq!(file.get("down.weight").unwrap().dtype(), Dtype::F8E4M3Fn);
}

#[cfg(feature = "quant")]
#[test]
fn other_names_of_codes_are_found() {
    // A weight whose codes have another name is not missing, even if the field may be.
    for case in super::decoding::decoded().filter(|case| case.name.starts_with("gptq")) {
        let file = case.open();
        let name = case.tensors.keys().next().unwrap().strip_suffix(".weight").unwrap().to_owned();
        assert!(file.position(&format!("{name}.qweight")).is_some(), "{}", case.name);
        let rules = RenameRules::parse([format!("{name}.*=w.*")]).unwrap();
        let file = OpenOptions::new().rename(rules).open(case.path()).unwrap();
        #[derive(TensorFile)]
        #[tensor(allow_unknown)]
        struct Holder {
            w: Weight,
        }
        #[derive(TensorFile)]
        #[tensor(allow_unknown)]
        struct Weight {
            #[tensor(dequantize)]
            weight: Option<Array2<f32>>,
        }
        assert!(file.load::<Holder>().unwrap().w.weight.is_some(), "{}", case.name);
    }
}

#[test]
fn plain_files_are_read_as_they_are() {
    let model = model();
    let bytes = btf::to_vec(&model).unwrap();
    assert_eq!(btf::from_slice::<Model>(&bytes).unwrap(), model);
    assert_eq!(File::from_bytes(bytes).unwrap().load::<Model>().unwrap(), model);
}

#[cfg(feature = "safetensors")]
#[test]
fn slices_and_streams_refuse_codes() {
    let bytes = tensorfile::safetensors::to_vec(&map()).unwrap();
    let error = tensorfile::safetensors::from_slice::<Model>(&bytes).unwrap_err();
    assert!(error.to_string().contains("`#[tensor(dequantize)]` decodes from an open `File`"), "{error}");
    // Types that would take the codes, or would go without the weight.
    let error = tensorfile::safetensors::from_slice::<All<f32>>(&bytes).map(drop).unwrap_err();
    assert!(error.to_string().contains("codes of quantized weights"), "{error}");
    let error = File::from_bytes(bytes).unwrap().deserialize::<Model>().unwrap_err();
    assert!(error.to_string().contains("codes of quantized weights"), "{error}");
    let error = map().load::<Model>().unwrap_err();
    assert!(error.to_string().contains("dequantize"), "{error}");
}
