//! Folders saved by PyTorch: we read the same tensors as PyTorch does.

use crate::dcp::{compare, described};
use crate::support::interop::{installed, run};
use crate::support::root;

/// `setup.sh --torch` installs one PyTorch. An older one can be put next to it by hand.
#[test]
fn reads_what_pytorch_reads() {
    for (python, options) in [("torch/bin/python", &[][..]), ("torch-1.13/bin/python", &["--old"])] {
        let Some(python) = installed(python) else { continue };
        let folder = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new(&python);
        let script = root().join("tests/interop/torch_folders.py");
        run(command.arg("-B").arg(script).arg(folder.path()).args(options));
        let folders = described(&folder.path().join("expected.jsonl"));
        assert_eq!(folders.len(), if options.is_empty() { 9 } else { 1 });
        folders.iter().for_each(|described| compare(&folder.path().join(&described.folder), described));
    }
}
