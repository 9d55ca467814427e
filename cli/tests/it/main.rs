//! Runs the program `tensorfile` from the command line.
//!
//! Its output is compared with snapshots. `INSTA_UPDATE=always cargo test -p tensorfile-cli` updates them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod append_split_merge;
mod bools;
mod checkpoint;
mod checks;
#[cfg(feature = "cloud")]
mod cloud;
mod codegen;
mod convert;
mod datasets;
mod dcp;
mod diff;
mod edit;
mod every_command;
mod every_format;
#[cfg(target_os = "linux")]
mod full_disk;
mod hash;
mod hostile_names;
#[cfg(target_os = "linux")]
mod huge;
mod ignored;
mod info;
#[cfg(target_os = "linux")]
mod limits;
mod ls;
mod maps;
mod max_memory;
#[cfg(all(feature = "http", unix))]
mod nginx;
mod parts;
mod pipes;
mod pytorch;
mod quantized;
#[cfg(feature = "http")]
mod remote;
mod rename;
mod repeated_names;
mod report;
mod several_files;
mod show;
#[cfg(unix)]
mod signals;
#[cfg(unix)]
mod special_files;
mod splits;
mod stats;
mod threads;
mod tour;
mod unknown;
mod verdicts;
mod verify;
mod warnings;
#[cfg(unix)]
mod writing;

#[path = "../../../tests/it/support/skipped.rs"]
mod skip;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tensorfile::{CooTensor, Dtype, FORMATS, Format, Tensor, TensorInfo, TensorMap, WriteOptions};

use skip::skipped;

/// A directory with files, in which the program runs.
struct Session {
    folder: tempfile::TempDir,
}

impl Session {
    /// Creates a directory with `model.ptd`, which has names and many dtypes, and `sparse.btf`, which has neither.
    fn new() -> Self {
        let session = Self { folder: tempfile::tempdir().unwrap() };
        session.write("model.ptd", &model());
        session.write("sparse.btf", &sparse());
        session
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in the format of its extension, with names.
    fn write(&self, name: &str, map: &TensorMap) {
        let extension = Path::new(name).extension().unwrap().to_str().unwrap();
        let format = FORMATS.iter().find(|format| format.extensions.contains(&extension)).unwrap();
        std::fs::write(self.path(name), file_of(format, map)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfile"));
        command.args(arguments).current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        plain(self.command(arguments).output().unwrap())
    }

    fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The program may end before it reads everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        plain(child.wait_with_output().unwrap())
    }

    /// Runs command lines, whose arguments have no spaces; returns their output and exit codes.
    fn transcript(&self, lines: &[&str]) -> String {
        let mut transcript = String::new();
        for line in lines {
            let output = self.run(&line.split_whitespace().collect::<Vec<_>>());
            transcript += &format!("$ tensorfile {line}\n");
            transcript += std::str::from_utf8(&output.stdout).unwrap();
            transcript += std::str::from_utf8(&output.stderr).unwrap();
            match output.status.code().unwrap() {
                0 => transcript += "\n",
                code => transcript += &format!("[exit code {code}]\n\n"),
            }
        }
        transcript
    }
}

/// Returns the output of the program, after a check that its messages have no words of Rust, serde or the library's
/// API: who uses the program does not know them.
fn plain(output: Output) -> Output {
    const WORDS: &[&str] = &[
        "usize",
        "expected u64",
        "#[tensor",
        "#[derive",
        "Options::",
        "WriteOptions",
        "OpenOptions",
        "SaveOptions",
        "CowArray",
        "TensorMap",
        "TensorView",
        "CooTensor",
        "`Tensor`",
        "`File::",
        "Option<",
        "Vec<",
        "HashMap",
        "BTreeMap",
        "Cargo",
        "serde",
        "unwrap",
        "panicked",
        "Some(",
        "None,",
        "Err(",
        "ErrorKind",
        "sequence",
    ];
    let messages = String::from_utf8_lossy(&output.stderr);
    for word in WORDS {
        assert!(!messages.contains(word), "`{word}` is not a word for messages of the program: {messages}");
    }
    output
}

/// Returns a file with the tensors of a map; names that the format cannot store are embedded.
fn file_of(format: &Format, map: &TensorMap) -> Vec<u8> {
    try_file_of(format, map).unwrap_or_else(|error| panic!("{error}"))
}

fn try_file_of(format: &Format, map: &TensorMap) -> tensorfile::Result<Vec<u8>> {
    let is_kept = |(at, name): (usize, &str)| {
        name == at.to_string() || format.max_name.is_none_or(|most| (1..=most).contains(&name.len()))
    };
    let options = WriteOptions::new().embed_names(!map.names().enumerate().all(is_kept));
    format.to_vec(map, &options)
}

/// Returns a tensor of fractions between -1 and 1.
fn weights(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let weights: Vec<f32> = (0..count).map(|at| (at * 7919 % 2003) as f32 / 1001.0 - 1.0).collect();
    Tensor::from_slice(&weights, shape).unwrap()
}

fn model() -> TensorMap {
    let mut model = TensorMap::new();
    model.insert("embed.weight", weights(&[100, 30]));
    for layer in 0..3 {
        model.insert(format!("encoder.layer.{layer}.attention.weight"), weights(&[16, 24]));
        model.insert(format!("encoder.layer.{layer}.attention.bias"), weights(&[24]));
    }
    model.insert("head.weight", weights(&[4, 16]));
    model.insert("steps", Tensor::from_slice(&[1234_i64], []).unwrap());
    model.insert("mask", Tensor::from_slice(&[true, false, true, true, false, false], [2, 3]).unwrap());
    let halves = [0.1, f32::NAN, f32::INFINITY, -2.5].map(half::f16::from_f32);
    model.insert("halves", Tensor::from_slice(&halves, [4]).unwrap());
    model.insert("none", Tensor::from_slice::<f32>(&[], [0, 4]).unwrap());
    model.insert("packed", Tensor::new(TensorInfo::new(Dtype::QUint4x2, [3]), &[0x21, 0x43, 0xff]).unwrap());
    model
}

fn sparse() -> TensorMap {
    let sparse = CooTensor::new([3, 300], vec![0, 1, 2, 299, 1, 0], vec![1.5_f32, -2.0, 0.25]).unwrap();
    [("0", sparse.to_tensor()), ("1", weights(&[2, 3]))].into_iter().collect()
}
