//! Finds other software, which `tests/interop/setup.sh` installs into `target/interop` or `$TENSORFILE_INTEROP`.
//!
//! If software is missing, its tests print that they are skipped.

use std::path::PathBuf;
use std::process::Command;

use super::{root, skipped};

/// Returns the path of a file or folder of the foreign software, if it is installed.
pub fn installed(path: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TENSORFILE_INTEROP").unwrap_or("target/interop".into());
    let path = root().join(folder).join(path);
    if !path.exists() {
        skipped(format_args!(
            "{} is missing; tests/interop/setup.sh --executorch --ggml --torch --quantized installs it",
            path.display()
        ));
        return None;
    }
    Some(path)
}

/// The Python that runs the scripts in `tests/interop`.
pub struct Python(PathBuf);

impl Python {
    pub fn find() -> Option<Self> {
        installed("venv/bin/python").map(Self)
    }

    pub fn script(&self, name: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.arg("-B").arg(root().join("tests/interop").join(name));
        command
    }
}

/// Runs a program and returns its output.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[allow(dead_code, reason = "not every format has software to compare with")]
pub fn joined(numbers: impl IntoIterator<Item = impl ToString>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

/// Hashes a payload as the scripts do: FNV-1a of 64 bits.
#[allow(dead_code, reason = "not every format has software to compare with")]
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
