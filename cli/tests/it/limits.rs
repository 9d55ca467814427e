//! The memory of commands on many small tensors: the index, and little more.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::{Dtype, Format, Layout, Result, TensorInfo, TensorMap, Tensors, WriteOptions};

use super::weights;

/// The number of tensors in a file; another has twice as many. An unoptimized program reads them in some seconds. The
/// benchmark `limits` has millions.
const TENSORS: usize = 25_000;

/// The memory that a command may take in addition to that of the program for one tensor, and to the indexes. Most of it
/// is buffers, which twice the tensors do not make larger.
const BOUND: u64 = 16 << 20;

/// The memory that a tensor may take in an index.
const PER_TENSOR: u64 = 200;

/// The memory that the row of a tensor may take in a page, in addition.
const PER_ROW: u64 = 200;

/// The file, in command lines.
const FILE: &str = "FILE";

/// A number of tensors, which are not held.
struct Many(usize);

impl Tensors for Many {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let info = TensorInfo::new(Dtype::F32, [4]);
        for at in 0..self.0 {
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
    peak_with(arguments, folder, Stdio::null())
}

fn peak_with(arguments: &[&str], folder: &Path, stdin: Stdio) -> (u64, usize) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfile"));
    command.args(arguments).current_dir(folder).env_clear().stdin(stdin);
    peak_of(command)
}

fn peak_of(mut command: Command) -> (u64, usize) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    // It has an end of a pipe, which another process waits for.
    drop(command);
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
    assert!(status.success(), "{status}");
    (peak, reader.join().unwrap())
}

/// Runs the program on a small file. Returns its peak memory in bytes.
fn peak_of_small(arguments: &[&str], folder: &Path) -> u64 {
    // It may end before it is looked at, so it is run some times.
    let peaks = (0..20).map(|_| peak(arguments, folder).0);
    peaks.max().filter(|peak| *peak > 0).expect("some run is looked at in time")
}

#[test]
fn commands_take_little_more_memory_than_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let format = Format::named("ten").unwrap();
    let create = |name| BufWriter::new(File::create(folder.path().join(name)).unwrap());
    format.to_writer(create("many.ten"), &Many(TENSORS), &WriteOptions::new()).unwrap();
    format.to_writer(create("more.ten"), &Many(2 * TENSORS), &WriteOptions::new()).unwrap();
    let one: TensorMap = [("one", weights(&[2]))].into_iter().collect();
    format.to_writer(create("one.ten"), &one, &WriteOptions::new()).unwrap();

    let program = peak_of_small(&["show", "one.ten", "one"], folder.path());
    let commands: &[&[&str]] = &[
        &["ls", FILE],
        &["ls", "--json", FILE],
        &["ls", "--sort", "bytes", FILE],
        &["info", FILE],
        &["stats", FILE],
        &["stats", "--json", FILE],
        &["verify", "--payload", FILE],
        &["hash", FILE],
        &["hash", "--tensors", FILE],
        &["diff", FILE, FILE],
        &["report", FILE, "-o", "page.html"],
    ];
    for &arguments in commands {
        let peak_of = |file: &'static str| {
            let arguments: Vec<&str> = arguments.iter().map(|name| if *name == FILE { file } else { *name }).collect();
            peak(&arguments, folder.path()).0
        };
        let (many, more) = (peak_of("many.ten"), peak_of("more.ten"));
        let (used, grown) = (many.saturating_sub(program), more.saturating_sub(many));
        println!(
            "{arguments:?}: {} KiB more than for one tensor, and {} B more for each other tensor",
            used >> 10,
            grown / TENSORS as u64
        );
        let indexes = arguments.iter().filter(|argument| **argument == FILE).count() as u64;
        // A page lists all tensors, and holds a row for each.
        let each = if arguments[0] == "report" { PER_ROW } else { 0 } + indexes * PER_TENSOR;
        let bound = BOUND + TENSORS as u64 * each;
        assert!(used <= bound, "{arguments:?} took {used} bytes, but the bound is {bound}");
        let bound = TENSORS as u64 * each;
        assert!(
            grown <= bound,
            "{arguments:?} took {grown} bytes more for twice the tensors, but the bound is {bound}"
        );
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

/// A pipe of 256 MiB does not stay in memory, and the elements of a tensor of that size do not.
#[test]
fn long_pipes_and_large_tensors_are_not_held() {
    const MOST: u64 = 160 << 20;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("large.npy");
    let mut header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (16384, 16384), }".to_vec();
    header.resize(117, b' ');
    let file = [b"\x93NUMPY\x01\x00\x76\x00", &header[..], b"\n"].concat();
    fs::write(&path, &file).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(128 + (256 << 20)).unwrap();
    let cat = || {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut file = File::open(&path).unwrap();
        // The program may end before it reads everything.
        std::thread::spawn(move || drop(io::copy(&mut file, &mut writer)));
        Stdio::from(reader)
    };
    let (bytes, len) = peak_with(&["ls", "-"], folder.path(), cat());
    assert!(bytes < MOST && len > 50, "ls: {bytes}");
    let (bytes, len) = peak_with(&["show", "-", "0", "--format", "npy"], folder.path(), cat());
    assert!(bytes < MOST && len == 128 + (256 << 20), "show: {bytes}, {len}");
    let (bytes, len) = peak(&["show", "large.npy", "0", "--format", "npy", "--slice", ":, 1:"], folder.path());
    assert!(bytes < 64 << 20 && len == 128 + 16384 * 16383, "slice: {bytes}, {len}");
}

/// A pipe of a format whose headers come first, or in between, is not held in any place if only they are read.
#[test]
fn listing_a_pipe_takes_the_memory_of_its_index() {
    /// Buffers of the stream, and the index that is read from it.
    const MOST: u64 = 6 << 20;
    const PAYLOAD: usize = 64 << 20;

    struct Zeros;

    impl Tensors for Zeros {
        fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
            let info = TensorInfo::new(Dtype::F32, [PAYLOAD / 4]);
            // Tensors in the same place of memory would be stored once.
            let zeros = vec![0; 2 * PAYLOAD];
            for (name, data) in ["0", "1"].iter().zip(zeros.chunks(PAYLOAD)) {
                sink.tensor(&TensorRecord { name, info: &info, data: &data, tied: None })?;
            }
            Ok(())
        }
    }

    for command in ["ls", "info"] {
        let most = peak_of_one(&[command]) + MOST;
        for name in ["safetensors", "gguf", "ptd", "btf", "ten"] {
            check_pipe(name, &[command], &Zeros, most);
        }
    }
}

/// No payload of a pipe is held in any place if tensors are read in order: neither many nor a large one, dense or
/// sparse.
#[test]
fn reading_a_pipe_takes_the_memory_of_a_chunk() {
    /// A chunk of a payload, the numbers that threads find in it, and the buffers and the index of a stream.
    const MOST: u64 = 16 << 20;
    const LARGE: usize = 192 << 20;
    const SMALL: usize = 1 << 20;

    /// Tensors of 64 MiB together, but for the last one.
    struct Large(Option<Layout>);

    impl Tensors for Large {
        fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
            let small = TensorInfo::new(Dtype::F32, [SMALL / 4]);
            for at in 0..if self.0.is_some() { 64 } else { 0 } {
                sink.tensor(&TensorRecord { name: &at.to_string(), info: &small, data: &Repeated(SMALL), tied: None })?;
            }
            let layout = self.0.clone().unwrap_or(Layout::RowMajor);
            let (name, len) = (if self.0.is_some() { "64" } else { "0" }, LARGE);
            let info = match layout {
                Layout::Coo { .. } => TensorInfo { layout, ..TensorInfo::new(Dtype::F32, [1 << 40]) },
                _ => TensorInfo::new(Dtype::F32, [len / 4]),
            };
            let sparse = Sparse(info.payload_bytes().unwrap());
            let data: &dyn TensorData = if info.layout == Layout::RowMajor { &Repeated(len) } else { &sparse };
            sink.tensor(&TensorRecord { name, info: &info, data, tied: None })
        }
    }

    /// Equal bytes.
    struct Repeated(usize);

    impl TensorData for Repeated {
        fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
            write_repeated(0x3e, self.0, out)
        }
    }

    /// Writes a byte many times. Without optimizations, `io::repeat` takes longer than the program.
    fn write_repeated(byte: u8, mut len: usize, out: &mut dyn Write) -> io::Result<()> {
        let block = vec![byte; SMALL];
        while len > 0 {
            let now = len.min(block.len());
            out.write_all(&block[..now])?;
            len -= now;
        }
        Ok(())
    }

    /// Sparse elements of a vector, in a number of bytes.
    struct Sparse(usize);

    impl TensorData for Sparse {
        fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
            let entries = (self.0 - 8) / 12;
            write_repeated(0, 8 * entries, out)?;
            out.write_all(&entries.to_le_bytes())?;
            Repeated(4 * entries).write_to(out)
        }
    }

    let sparse = Layout::Coo { entries: LARGE / 12 };
    let most = peak_of_one(&["stats"]) + MOST;
    for name in ["safetensors", "gguf", "ptd", "btf", "ten", "npy"] {
        let layout = (name != "npy").then_some(Layout::RowMajor);
        check_pipe(name, &["stats"], &Large(layout), most);
    }
    check_pipe("btf", &["stats"], &Large(Some(sparse.clone())), most);
    for arguments in [&["hash"][..], &["hash", "--tensors"], &["verify", "--payload"]] {
        check_pipe("safetensors", arguments, &Large(Some(Layout::RowMajor)), peak_of_one(arguments) + MOST);
    }
    check_pipe("btf", &["verify"], &Large(Some(sparse)), peak_of_one(&["verify"]) + MOST);
}

/// Returns the peak memory of a command on a file with one small tensor, in bytes.
fn peak_of_one(arguments: &[&str]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let one: TensorMap = [("0", weights(&[2]))].into_iter().collect();
    let file = Format::named("safetensors").unwrap().to_vec(&one, &WriteOptions::new()).unwrap();
    fs::write(folder.path().join("one.safetensors"), file).unwrap();
    peak_of_small(&[arguments, &["one.safetensors"]].concat(), folder.path())
}

/// Runs a command on a pipe with tensors. It may take `most` bytes, and cannot make a temporary file.
#[track_caller]
fn check_pipe(name: &str, arguments: &[&str], tensors: &(dyn Tensors + Sync), most: u64) {
    let format = Format::named(name).unwrap();
    let (reader, writer) = io::pipe().unwrap();
    let mut shell = Command::new(env!("CARGO_BIN_EXE_tensorfile"));
    shell.args(arguments).arg("-").env_clear().env("TMPDIR", "/nowhere").stdin(reader);
    let (bytes, len) = std::thread::scope(|scope| {
        let write = scope.spawn(move || format.to_writer(writer, tensors, &WriteOptions::new()));
        let peak = peak_of(shell);
        write.join().unwrap().unwrap();
        peak
    });
    println!("{arguments:?} {name}: {} KiB of {} KiB", bytes >> 10, most >> 10);
    assert!(bytes < most && len > 10, "{arguments:?} {name}: {bytes} bytes, of {most}");
}
