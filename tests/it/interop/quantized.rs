//! Quantized weights, decoded as the programs that quantized them decode them.

use tensorfile::{Dequantize, Dtype, File, OpenOptions};

use crate::support::interop::{installed, run};
use crate::support::root;

/// `setup.sh --quantized` installs the programs.
#[test]
fn decodes_what_programs_decode() {
    let Some(python) = installed("quantized/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(&python);
    run(command.arg("-B").arg(root().join("tests/interop/quantized_torch.py")).arg(folder.path()).arg("0"));
    let mut models = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let expected = File::open(path.join("expected.safetensors")).unwrap();
        let file = OpenOptions::new().dequantize(Dequantize::to(Dtype::F32)).open(&path);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for tensor in expected.tensors() {
            let decoded = file.tensor(tensor.name()).unwrap();
            // Zeros of both signs differ, and so would any rounding.
            assert_eq!(decoded, tensor.read().unwrap(), "{}: `{}`", path.display(), tensor.name());
        }
        models += 1;
    }
    assert!(models > 200, "{models} models");
}
