//! The first guesses of a new user.

use std::collections::{BTreeMap, HashMap};
use std::panic::catch_unwind;

use ndarray::{Array1, array};
use tensorfile::file::load_tensor;
use tensorfile::{Error, File, TensorFile, TensorMap, Tensors, load, ten};

use crate::support::{message, multi_tensor_formats, ten_file};

#[test]
fn a_file_that_does_not_exist_is_told_from_other_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (path, nowhere) = (folder.path().join("model.ten"), folder.path().join("no").join("such.ten"));
    tensorfile::save(&path, &TensorMap::from_iter([("a", array![1.0_f32])])).unwrap();
    let error = |result: tensorfile::Result<()>| result.unwrap_err();
    let cases: [(&str, Error, bool); 7] = [
        ("open", error(File::open(&nowhere).map(drop)), true),
        ("load", error(load::<TensorMap>(&nowhere).map(drop)), true),
        ("load_tensor", error(load_tensor(&nowhere, "a").map(drop)), true),
        ("no folder to save to", error(tensorfile::save(&nowhere, &TensorMap::new())), true),
        ("tensor", error(load_tensor(&path, "b").map(drop)), false),
        ("type", error(load::<Vec<Array1<f64>>>(&path).map(drop)), false),
        ("not a file", error(File::from_bytes(b"?".to_vec()).map(drop)), false),
    ];
    for (what, error, is_not_found) in cases {
        assert_eq!(error.is_not_found(), is_not_found, "{what}: {error}");
    }
}

#[test]
fn a_map_without_the_tensor_panics_with_similar_names() {
    let map = TensorMap::from_iter([("bias", array![1.0_f32]), ("weight", array![2.0])]);
    let panic = |map: TensorMap, name: &'static str| {
        let panic = catch_unwind(move || map[name].clone()).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    };
    assert_eq!(panic(map, "wieght"), "no tensor `wieght`; the map has `weight`, `bias`");
    assert_eq!(panic(TensorMap::new(), "a"), "no tensor `a`");
    let many: TensorMap = (0..9).map(|number| (format!("layers.{number}"), array![1.0_f32])).collect();
    let expected =
        "no tensor `layers.9`; the map has `layers.0`, `layers.1`, `layers.2`, `layers.3`, `layers.4` and 4 more";
    assert_eq!(panic(many, "layers.9"), expected);
}

/// The state of an optimizer for a parameter.
#[derive(TensorFile, Debug, Clone, PartialEq)]
struct Adam {
    m: Array1<f32>,
    #[tensor(alias = "second")]
    v: Option<Array1<f32>>,
}

fn adam(number: f32) -> Adam {
    Adam { m: array![number], v: (number > 1.0).then(|| array![number, number]) }
}

/// States by the names of parameters. One name is below another.
fn states() -> HashMap<String, Adam> {
    let names = ["embed.weight", "layers.0.weight", "layers.0.weight.scale", "layers.0", "bias"];
    names.into_iter().zip(1_u8..).map(|(name, number)| (name.to_owned(), adam(number.into()))).collect()
}

#[test]
fn keys_of_structs_of_tensors_may_have_dots() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Optimizer {
        step: u32,
        states: HashMap<String, Adam>,
    }

    #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
    struct Plain {
        states: HashMap<String, Adam>,
    }

    let optimizer = Optimizer { step: 7, states: states() };
    let plain = Plain { states: states() };
    let folder = tempfile::tempdir().unwrap();
    let embed = tensorfile::WriteOptions::new().embed_names(true);
    for format in multi_tensor_formats() {
        let save = tensorfile::SaveOptions::new().format(format).write(embed.clone());
        let path = folder.path().join(format.name);
        save.save(&path, &states()).unwrap();
        let open = || tensorfile::OpenOptions::new().format(format).open(&path).unwrap();
        assert_eq!(open().load::<HashMap<String, Adam>>().unwrap(), states(), "{}", format.name);
        assert_eq!(open().deserialize::<HashMap<String, Adam>>().unwrap(), states(), "{}", format.name);
        // gguf has no u32.
        if format.name != "gguf" {
            save.save(&path, &optimizer).unwrap();
            assert_eq!(open().load::<Optimizer>().unwrap(), optimizer, "{}", format.name);
        }
    }
    let file = ten_file(&plain);
    assert_eq!(ten::from_slice::<Plain>(&file).unwrap(), plain);
    assert_eq!(ten::from_reader::<Plain>(&file[..]).unwrap(), plain);
    let json = serde_json::to_string(&states()).unwrap();
    assert_eq!(serde_json::from_str::<HashMap<String, Adam>>(&json).unwrap(), states());
    let mut into = states();
    into.values_mut().for_each(|adam| adam.m[0] = 0.0);
    File::from_bytes(ten_file(&states())).unwrap().load_into(&mut into).unwrap();
    assert_eq!(into, states());
}

#[test]
fn tensors_below_the_keys_are_reported() {
    let map = |names: &[&str]| -> TensorMap { names.iter().map(|name| (*name, array![1.0_f32])).collect() };
    let load = |names: &[&str]| message(map(names).load::<BTreeMap<String, Adam>>());
    assert_eq!(
        load(&["a.b.m", "a.b.x", "c.v"]),
        "1 missing, 1 unexpected; 2 of 3 tensors fit\nmissing:\n  `c.m`  f32[_]; did you mean `a.b.x`?\n\
         unexpected:\n  `a.b.x`  f32[1]"
    );
    assert_eq!(load(&["a.m", "a.second", "a.v"]), "1 unexpected; 2 of 3 tensors fit\nunexpected:\n  `a.v`  f32[1]");
    let loaded: BTreeMap<String, Adam> = map(&["a.b.m", "a.b.second"]).load().unwrap();
    assert_eq!(loaded.keys().collect::<Vec<_>>(), ["a.b"]);
}

#[test]
fn other_keys_with_dots_are_an_error_with_a_way_out() {
    #[derive(TensorFile)]
    struct Layer {
        adam: Adam,
    }

    let key = || "layers.0".to_owned();
    let expected = "tensor `layers.0`: cannot store a map with the key `layers.0` for more than one tensor; names could not \
        tell it from a map in a map; use keys without dots, maps of single tensors, or a derived struct that has only tensors";
    let nested: &dyn Tensors = &BTreeMap::from([(key(), Layer { adam: adam(2.0) })]);
    let list: &dyn Tensors = &BTreeMap::from([(key(), vec![adam(1.0)])]);
    for tensors in [nested, list] {
        assert_eq!(message(tensors.load::<TensorMap>()), expected);
    }
}
