//! Files made by other software, in two layouts, and files that maps refuse.

use tensorfile::{Error, ErrorKind, File, LayoutMap, OpenOptions, TensorMap};

use super::{case, folder, folders};

fn tensors(file: &File) -> TensorMap {
    let mut map = TensorMap::new();
    for tensor in file.tensors() {
        map.insert(tensor.name().to_owned(), tensor.read().unwrap());
    }
    map
}

fn sorted(map: &TensorMap) -> Vec<(String, tensorfile::Tensor)> {
    let mut tensors: Vec<_> = map.clone().into_iter().collect();
    tensors.sort_by(|one, other| one.0.cmp(&other.0));
    tensors
}

#[test]
fn files_of_other_software_are_mapped_both_ways() {
    let cases = folders("cases");
    assert_eq!(cases.len(), 4);
    for path in cases {
        let map = LayoutMap::open(folder().join(case(&path).map)).unwrap();
        let open = |name: &str, map: Option<&LayoutMap>| {
            let options = map.map_or_else(OpenOptions::new, |map| OpenOptions::new().map(map));
            options.open(path.join(name)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        for (from, to, map) in [
            ("left.safetensors", "right.safetensors", map.clone()),
            ("right.safetensors", "left.safetensors", map.inverted()),
        ] {
            let (mapped, expected) = (open(from, Some(&map)), open(to, None));
            assert_eq!(sorted(&tensors(&mapped)), sorted(&tensors(&expected)), "{} from {from}", path.display());
            let receipt = mapped.receipt().unwrap();
            assert_eq!(
                receipt.source.elements - receipt.left_elements() + receipt.made_elements(),
                receipt.target.elements
            );
            assert_eq!(receipt.target.tensors, expected.len() as u64);
        }
    }
}

#[test]
fn shipped_maps_are_those_of_the_cases() {
    for name in ["qwen3-moe", "llama-gguf", "fused"] {
        let shipped = LayoutMap::named(name).unwrap();
        let lines = |text: &str| {
            let equations = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("let l "));
            equations.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        let own = std::fs::read_to_string(folder().join(format!("maps/{name}.map"))).unwrap();
        assert_eq!(lines(shipped.text()), lines(&own), "{name}");
    }
}

/// Opens a file that a map refuses.
fn refused(name: &str) -> Error {
    let path = folder().join("bad").join(name);
    let map = LayoutMap::open(path.join("map.map")).unwrap();
    let map = if case(&path).invert { map.inverted() } else { map };
    OpenOptions::new().map(&map).open(path.join("in.safetensors")).map(|_| name).unwrap_err()
}

#[test]
fn what_does_not_fit_is_refused_with_the_first_misfit_of_each_kind() {
    let expected: &[(&str, &[&str])] = &[
        (
            "already_converted",
            &[
                "no tensor matches line 4, `model.layers.{l}.mlp.experts.{e}.{p:gate|up}_proj.weight [i h]`; the file has the \
               right side already, so invert the map (and 1 more)",
            ],
        ),
        (
            "another_shape",
            &["`model.layers.0.block_sparse_moe.experts.1.w1.weight` is bf16[8, 6], but dim 0 of line 4 is 6"],
        ),
        (
            "choice_without_tensor",
            &[
                "no tensor has `mlp.dwn_proj` for `t` of line 8",
                "no rule uses `model.layers.0.mlp.down_proj.weight` (and 1 more)",
            ],
        ),
        (
            "expert_hole",
            &[
                "p = gate of e = 1 of l = 0 is missing: line 4 needs `model.layers.0.mlp.experts.1.gate_proj.weight` (and 2 \
               more)",
            ],
        ),
        (
            "expert_renumbered",
            &[
                "p = gate of e = 3 of l = 0 is too many: line 4 has no place for \
                 `model.layers.0.mlp.experts.3.gate_proj.weight` (and 5 more)",
                "p = gate of e = 1 of l = 0 is missing: line 4 needs `model.layers.0.mlp.experts.1.gate_proj.weight` (and 5 \
                 more)",
            ],
        ),
        (
            "last_expert_missing_everywhere",
            &[
                "p = gate of e = 2 of l = 0 is missing: line 4 needs `model.layers.0.mlp.experts.2.gate_proj.weight` (and 5 \
               more)",
            ],
        ),
        ("made_twice", &["`model.embed_tokens.weight` is made by line 10 and by `keep`"]),
        (
            "one_too_many",
            &[
                "p = up of e = 3 of l = 0 is too many: line 4 has no place for `model.layers.0.mlp.experts.3.up_proj.weight`",
            ],
        ),
        ("part_missing", &["no rule uses part `k` of `attn.wqkv.weight`"]),
        ("part_twice", &["lines 6 and 7 use part `q` of `attn.wqkv.weight`"]),
        (
            "same_size_another_dtype",
            &["line 4 puts f16 of `model.layers.0.mlp.experts.1.up_proj.weight` and bf16 of \
               `model.layers.0.mlp.experts.0.gate_proj.weight` together"],
        ),
        (
            "uneven_parts",
            &["`model.layers.0.self_attn.q_proj.weight` is bf16[16, 16], but dim 0 of line 6 is 8 (and 3 more)"],
        ),
        (
            "wrong_heads",
            &["`model.layers.0.self_attn.qkv_proj.weight` is bf16[32, 16], but dim 0 of line 6 is 48 (and 3 more)"],
        ),
    ];
    let names: Vec<String> =
        folders("bad").iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, expected) in expected {
        let error = refused(name);
        let ErrorKind::Unmapped { misfits, .. } = error.kind() else { panic!("{name}: {error}") };
        assert_eq!(misfits, expected, "{name}");
    }
}
