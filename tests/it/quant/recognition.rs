//! What is recognized: all weights of the cases and nothing else, and nothing if a part is not as it should be.

use std::fs;

use tensorfile::quant::{Role, Scheme, Verdict};
use tensorfile::report::WarningKind;
use tensorfile::{Dtype, File, OpenOptions, Tensor, TensorInfo, TensorMap, safetensors};

use super::{Case, cases};

#[test]
fn every_case_is_what_its_folder_says() {
    for case in cases() {
        let file = case.open();
        let quantized = file.quantized().unwrap();
        let found: Vec<(&str, &[usize])> =
            quantized.tensors().iter().map(|tensor| (tensor.name(), tensor.shape().dims())).collect();
        let context = format!("{}: {found:?}, unknown: {:?}", case.name, quantized.unknown());
        let warnings = file.warnings().unwrap();
        let is_warned = warnings.iter().any(|warning| warning.kind == WarningKind::Quantization);
        match case.kind.as_str() {
            "quantized" => {
                let mut found = found;
                found.sort_unstable();
                let expected: Vec<(&str, &[usize])> =
                    case.tensors.iter().map(|(name, weight)| (name.as_str(), &weight.shape[..])).collect();
                assert_eq!(found, expected, "{context}");
                assert!(quantized.unknown().is_empty() && !is_warned, "{context}");
            }
            "recognise" => assert!(!found.is_empty() && quantized.unknown().is_empty() && !is_warned, "{context}"),
            "decoy" => assert!(quantized.is_empty() && !is_warned, "{context}"),
            "ambiguous" => assert!(found.is_empty() && !quantized.unknown().is_empty() && is_warned, "{context}"),
            kind => panic!("{kind}"),
        }
    }
}

#[test]
fn each_part_leads_back_to_its_weight() {
    for case in cases() {
        let file = case.open();
        let quantized = file.quantized().unwrap();
        let mut parts = 0;
        for tensor in quantized.tensors() {
            assert!(tensor.part(Role::Codes).is_some(), "{}", case.name);
            for part in tensor.parts() {
                parts += 1;
                let stored = file.nth(part.position()).unwrap();
                assert_eq!((stored.name(), stored.dtype()), (part.name(), part.dtype()), "{}", case.name);
                match quantized.verdict(part.position()) {
                    Verdict::Part(owner, role) => assert_eq!((owner.name(), role), (tensor.name(), part.role())),
                    other => panic!("{}: {other:?}", case.name),
                }
            }
        }
        let plain = file.tensors().filter(|tensor| matches!(quantized.verdict(tensor.position()), Verdict::Plain));
        let unknown: usize = quantized.unknown().iter().map(|unknown| unknown.parts().len()).sum();
        assert_eq!(plain.count() + parts + unknown, file.len(), "{}", case.name);
    }
}

#[test]
fn schemes_and_their_numbers_are_described() {
    let described: Vec<String> = ["fp8-block", "gptq-4bit-v2", "nvfp4-comfy", "ct-int4-zero", "mlx-nvfp4", "gguf-q4_k"]
        .into_iter()
        .map(|name| {
            let case = cases().into_iter().find(|case| case.name == name).unwrap();
            case.open().quantized().unwrap().tensors()[0].to_string()
        })
        .collect();
    let expected = [
        "fp8, blocks of 128 x 128",
        "gptq, version 2, 4 bits, groups of 64",
        "nvfp4, groups of 16, scales in tiles of 128 x 4",
        "packed, 4 bits, groups of 64",
        "mlx, nvfp4, 4 bits, groups of 16",
        "ggml, q4_k",
    ];
    assert_eq!(described, expected);
}

/// Returns the tensors of a case in one file of safetensors, with its configuration.
fn in_one(case: &Case, change: &dyn Fn(&mut TensorMap)) -> Option<File> {
    let file = case.open();
    if file.format().name == "gguf" {
        return None;
    }
    let mut map: TensorMap = file.load().unwrap();
    change(&mut map);
    let folder = tempfile::tempdir().unwrap();
    let mut options = OpenOptions::new();
    for name in ["config.json", "hf_quant_config.json"] {
        let source = case.path().join(name);
        if source.is_file() && fs::read_to_string(&source).unwrap().contains("quantization") {
            let copy = folder.path().join(name);
            fs::copy(source, &copy).unwrap();
            options = options.config(copy);
            // Read now, since the folder goes.
            let opened = options.clone().from_bytes(safetensors::to_vec(&map).unwrap()).unwrap();
            opened.quantized().unwrap();
            return Some(opened);
        }
    }
    Some(options.from_bytes(safetensors::to_vec(&map).unwrap()).unwrap())
}

/// A change of the tensors of a case, with its name.
type Change<'c> = (&'static str, &'c dyn Fn(&mut TensorMap));

/// Each part that a weight needs is taken away, gets another dtype, or another shape: the weight is then unknown, or its codes
/// are numbers by themselves. It is never recognized with other parts.
#[test]
fn a_weight_with_a_wrong_part_is_not_recognized() {
    for case in cases().into_iter().filter(|case| case.kind == "quantized") {
        let file = case.open();
        let tensor = file.quantized().unwrap().tensors()[0].clone();
        for part in tensor.parts().iter().filter(|part| part.role() != Role::Other) {
            let changes: [Change<'_>; 3] = [
                ("absent", &|map| {
                    map.remove(part.name());
                }),
                ("of another dtype", &|map| {
                    let shape = map[part.name()].shape().clone();
                    let bytes = 8 * shape.elements().unwrap();
                    map.insert(part.name(), Tensor::new(TensorInfo::new(Dtype::C64, shape), &vec![0; bytes]).unwrap());
                }),
                ("of another shape", &|map| {
                    let dims: Vec<usize> = map[part.name()].shape().dims().iter().copied().chain([7]).collect();
                    let bytes = part.dtype().bytes_for(dims.iter().product()).unwrap();
                    map.insert(part.name(), Tensor::new(TensorInfo::new(part.dtype(), dims), &vec![0; bytes]).unwrap());
                }),
            ];
            // Scales of rows need no zero points, and groups in order no index.
            let is_needed = !matches!(part.role(), Role::Index | Role::Zero) || tensor.scheme() == Scheme::Awq;
            for (what, change) in changes {
                let Some(changed) = in_one(&case, change) else { continue };
                let quantized = changed.quantized().unwrap();
                let found = quantized.tensors().iter().find(|found| found.name() == tensor.name());
                if what == "absent" && !is_needed {
                    continue;
                }
                let context = format!("{}: `{}` {what}: {found:?}", case.name, part.name());
                // One scale is for codes of any shape.
                let takes_any = what == "of another shape" && part.role() == Role::Codes;
                if takes_any && found.is_some_and(|found| found.details() == "one scale") {
                    continue;
                }
                assert!(found.is_none(), "{context}");
                // What is left of it is never plain, unless only codes are.
                let left = tensor.parts().iter().filter(|left| {
                    let position = changed.position(left.name());
                    position.is_some_and(|position| matches!(quantized.verdict(position), Verdict::Plain))
                });
                for left in left.filter(|left| left.role() != Role::Other && left.position() != part.position()) {
                    let decoys = matches!(part.role(), Role::Scale | Role::Codes) || left.role() == Role::Codes;
                    assert!(decoys, "{context}: `{}` is plain", left.name());
                }
            }
        }
    }
}

#[test]
fn without_its_configuration_a_layout_that_needs_one_is_unknown() {
    for case in cases().into_iter().filter(|case| case.kind == "quantized") {
        let file = case.open();
        if file.format().name == "gguf" {
            continue;
        }
        let map: TensorMap = file.load().unwrap();
        let alone = File::from_bytes(safetensors::to_vec(&map).unwrap()).unwrap();
        let quantized = alone.quantized().unwrap();
        let needs_config = matches!(
            file.quantized().unwrap().tensors()[0].scheme(),
            Scheme::Gptq | Scheme::Awq | Scheme::Mlx | Scheme::Int8
        );
        assert_eq!(quantized.tensors().is_empty(), needs_config, "{}", case.name);
        assert_eq!(!quantized.unknown().is_empty(), needs_config, "{}", case.name);
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    let case = cases().into_iter().find(|case| case.name == "gptq-4bit-v1").unwrap();
    let model = case.path().join("model.safetensors");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = format!("{{\"a\": \"{}\"}}", "a".repeat(1 << 20));
    for (text, what) in
        [("{", "it is not JSON"), (&*deep, "it is not JSON"), (&*long, "it has more than 1048576 bytes")]
    {
        fs::write(&config, text).unwrap();
        let file = OpenOptions::new().config(&config).open(&model).unwrap();
        let unknown = file.quantized().unwrap().unknown()[0].clone();
        assert!(unknown.reason().contains("config.json") && unknown.reason().contains(what), "{}", unknown.reason());
    }
    let file = OpenOptions::new().config(folder.path().join("none.json")).open(&model).unwrap();
    assert!(file.quantized().unwrap().unknown()[0].reason().contains("none.json"));
}

#[test]
fn renamed_tensors_are_known_by_their_names_in_the_file() {
    let case = cases().into_iter().find(|case| case.name == "fp8-block").unwrap();
    let rules = tensorfile::view::RenameRules::parse(["model.layers.*=h.*"]).unwrap();
    let file = OpenOptions::new().rename(rules).open(case.path()).unwrap();
    let tensor = &file.quantized().unwrap().tensors()[0];
    assert_eq!(tensor.name(), "h.0.mlp.down_proj.weight");
    let parts: Vec<&str> = tensor.parts().iter().map(tensorfile::quant::Part::name).collect();
    assert_eq!(parts, ["h.0.mlp.down_proj.weight", "h.0.mlp.down_proj.weight_scale_inv"]);
}

/// Names alone decide nothing: floats may be called as codes are.
#[test]
fn floats_called_as_codes_are_plain() {
    let mut map = TensorMap::new();
    for name in ["a.qweight", "b_blocks", "c.weight_packed", "d.weight", "e.weight"] {
        map.insert(name, ndarray::Array2::<f32>::zeros((16, 16)));
    }
    for name in [
        "a.scales",
        "a.qzeros",
        "b_scales",
        "c.weight_scale",
        "d.weight_scale_inv",
        "e.scales",
        "e.biases",
        "logit_scale",
    ] {
        map.insert(name, ndarray::Array1::<f32>::zeros(16));
    }
    let file = File::from_bytes(safetensors::to_vec(&map).unwrap()).unwrap();
    let quantized = file.quantized().unwrap();
    assert!(quantized.is_empty(), "{quantized:?}");
}

/// Numbers that would exceed memory, or are negative, are no shapes.
#[test]
fn shapes_that_cannot_be_are_refused() {
    let mut map = TensorMap::new();
    map.insert("a.weight_packed", ndarray::Array2::<i32>::zeros((2, 8)));
    map.insert("a.weight_scale", ndarray::Array2::<f32>::zeros((2, 1)));
    // Eight words for 80 columns are 3 bits, with unused bits in each word or without.
    for shape in [[-2_i64, 64], [2, i64::MAX], [i64::MAX, i64::MAX], [0, 0], [3, 64], [2, 80]] {
        map.insert("a.weight_shape", ndarray::arr1(&shape));
        let file = File::from_bytes(safetensors::to_vec(&map).unwrap()).unwrap();
        let quantized = file.quantized().unwrap();
        assert!(quantized.tensors().is_empty() && quantized.unknown().len() == 1, "{shape:?}");
    }
    map.insert("a.weight_shape", ndarray::arr1(&[2_i64, 64]));
    let file = File::from_bytes(safetensors::to_vec(&map).unwrap()).unwrap();
    assert_eq!(file.quantized().unwrap().tensors()[0].to_string(), "packed, 4 bits, groups of 64");
}

/// The scales of blocks are in one row. A matrix of them would be read in another order.
#[test]
fn scales_of_flat_blocks_are_flat() {
    let case = cases().into_iter().find(|case| case.name == "bnb-nf4").unwrap();
    let name = "model.layers.0.mlp.gate_proj.weight.absmax";
    let changed = in_one(&case, &|map| {
        let scales = map[name].as_bytes().to_vec();
        map.insert(name, Tensor::new(TensorInfo::new(Dtype::F32, [2, scales.len() / 8]), &scales).unwrap());
    });
    let changed = changed.unwrap();
    assert!(changed.quantized().unwrap().tensors().is_empty());
}

#[test]
fn a_stated_block_that_is_none_fits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    let case = cases().into_iter().find(|case| case.name == "fp8-block").unwrap();
    for block in ["[-1, 128]", "[128]", "[0, 0]", "[128, 128, 128]"] {
        fs::write(&config, format!("{{\"quantization_config\": {{\"weight_block_size\": {block}}}}}")).unwrap();
        let file = OpenOptions::new().config(&config).open(case.path().join("model.safetensors")).unwrap();
        let quantized = file.quantized().unwrap();
        assert!(quantized.tensors().is_empty() && quantized.unknown().len() == 1, "{block}");
    }
}
