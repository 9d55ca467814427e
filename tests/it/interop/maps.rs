//! Layout maps, compared with the program that stores a model in two layouts.

use tensorfile::{File, LayoutMap, OpenOptions, TensorMap};

use crate::support::interop::{installed, run};
use crate::support::root;

/// `setup.sh --quantized` installs transformers.
#[test]
fn a_map_makes_the_parameters_of_a_model_and_its_files() {
    let Some(python) = installed("quantized/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(&python);
    run(command.arg("-B").arg(root().join("tests/interop/maps_transformers.py")).arg(folder.path()).arg("0"));
    let map = LayoutMap::named("qwen3-moe").unwrap();
    let mut models = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let (left, right) = (path.join("left"), path.join("right.safetensors"));
        let config = left.join("config.json");
        for (source, target, map) in [(&left, &right, map.clone()), (&right, &left, map.clone().inverted())] {
            let mapped = OpenOptions::new().config(&config).map(&map).open(source).unwrap();
            let expected = File::open(target).unwrap();
            assert!(mapped.load::<TensorMap>().unwrap() == expected.load().unwrap(), "{}", source.display());
        }
        models += 1;
    }
    assert_eq!(models, 2);
}
