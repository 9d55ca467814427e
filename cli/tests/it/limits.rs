//! The memory that commands take for many small tensors: that of the index, and little more.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tensorfile::{
    Dtype, Format, Result, TensorData, TensorInfo, TensorMap, TensorRecord, TensorSink, Tensors, WriteOptions,
};

use super::weights;

/// As many as an unoptimized program reads ten times in a few seconds. The benchmark `limits` has millions.
const TENSORS: usize = 50_000;

/// The memory that a command may take in addition to that of the program for one tensor, and to the indexes.
const BOUND: u64 = 24 << 20;

/// The memory that an index may take.
const INDEX: u64 = 200 * TENSORS as u64;

struct Many;

impl Tensors for Many {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let info = TensorInfo::new(Dtype::F32, [4]);
        for at in 0..TENSORS {
            let name = format!("t{at:07}");
            sink.tensor(&TensorRecord { name: &name, info: &info, data: &Halves, tied: None })?;
        }
        Ok(())
    }
}

/// Four elements of 0.5.
struct Halves;

impl TensorData for Halves {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        (0..4).try_for_each(|_| out.write_all(&0.5_f32.to_le_bytes()))
    }
}

/// Runs the program. Returns its peak memory and the length of its output, both in bytes.
fn peak(arguments: &[&str], folder: &Path) -> (u64, usize) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfile"));
    command.args(arguments).current_dir(folder).env_clear().stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut buffer, mut len) = (vec![0; 1 << 16], 0);
        loop {
            match stdout.read(&mut buffer).unwrap() {
                0 => return len,
                read => len += read,
            }
        }
    });
    // The peak that the system tells after the end is at least the memory of this process, which other tests fill.
    let path = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let status = loop {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let found = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(found.unwrap_or(0) * 1024);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(status.success(), "{arguments:?}");
    (peak, reader.join().unwrap())
}

#[test]
fn commands_take_little_more_memory_than_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let format = Format::named("ten").unwrap();
    let create = |name| BufWriter::new(File::create(folder.path().join(name)).unwrap());
    format.to_writer(create("many.ten"), &Many, &WriteOptions::new()).unwrap();
    let one: TensorMap = [("one", weights(&[2]))].into_iter().collect();
    format.to_writer(create("one.ten"), &one, &WriteOptions::new()).unwrap();

    let (program, _) = peak(&["show", "one.ten", "one"], folder.path());
    let file = "many.ten";
    let commands: &[&[&str]] = &[
        &["ls", file],
        &["ls", "--json", file],
        &["ls", "--sort", "bytes", file],
        &["info", file],
        &["stats", file],
        &["stats", "--json", file],
        &["verify", "--payload", file],
        &["hash", file],
        &["hash", "--tensors", file],
        &["diff", file, file],
    ];
    for &arguments in commands {
        let (peak, _) = peak(arguments, folder.path());
        let used = peak.saturating_sub(program);
        let indexes = arguments.iter().filter(|argument| **argument == file).count() as u64;
        let bound = BOUND + indexes * INDEX;
        println!("{arguments:?}: {} KiB more than for one tensor", used >> 10);
        assert!(used <= bound, "{arguments:?} took {used} bytes, but the bound is {bound}");
    }
}

#[test]
fn one_long_name_does_not_widen_the_rows_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let long = "n".repeat(1 << 20);
    let map: TensorMap =
        [(long.as_str(), weights(&[2])), ("a", weights(&[2])), ("b", weights(&[2]))].into_iter().collect();
    let file = File::create(folder.path().join("long.safetensors")).unwrap();
    Format::named("safetensors").unwrap().to_writer(file, &map, &WriteOptions::new()).unwrap();
    for command in ["ls", "stats"] {
        let (_, printed) = peak(&[command, "long.safetensors"], folder.path());
        assert!(printed < 3000, "{command} printed {printed} bytes");
    }
}
