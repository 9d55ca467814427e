//! Files of 20 GiB, most of which is a hole: opened, listed and sliced in little memory, whatever the format.
//!
//! The files take no room where the file system has holes. Where it has none, or on another system than Linux, this says
//! so and passes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use tensorfile::{Backend, Collection, Dtype, FORMATS, Format, OpenOptions, Result, TensorInfo, WriteOptions};

const GIB: u64 = 1 << 30;

/// What opening, listing and slicing may add to the memory of the process.
const BOUND: u64 = 64 << 20;

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Tensors of zeros but for their last four bytes.
struct Huge(Vec<(String, TensorInfo)>);

impl Huge {
    /// As much as a format can hold of 20 GiB: tensors of 1 GiB, or a single one.
    fn new(format: &Format) -> Self {
        let gib = if format.name == "tensorbuffers" { 3 } else { 20 };
        let (tensors, rows) = if format.max_tensors == Some(1) { (1, gib << 14) } else { (gib, 1 << 14) };
        let info = TensorInfo::new(Dtype::F32, [rows, 1 << 14]);
        let name = |at: usize| if format.max_name == Some(0) { at.to_string() } else { format!("t{at}") };
        Self((0..tensors).map(|at| (name(at), info.clone())).collect())
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, info)| info.payload_bytes().unwrap() as u64).sum()
    }
}

impl Collection for Huge {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn name(&self, at: usize) -> &str {
        &self.0[at].0
    }

    fn info(&self, at: usize) -> &TensorInfo {
        &self.0[at].1
    }

    fn pour(&self, at: usize, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for _ in 1..self.0[at].1.payload_bytes().unwrap() / ZEROS.len() {
            take(&ZEROS)?;
        }
        take(&ZEROS[4..])?;
        take(&1.5_f32.to_le_bytes())
    }
}

/// A file in which [`ZEROS`] become a hole.
struct Sparse(File);

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if ZEROS.as_ptr_range().contains(&bytes.as_ptr()) {
            self.0.seek(SeekFrom::Current(i64::try_from(bytes.len()).unwrap()))?;
            return Ok(bytes.len());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes the file; `None` where the file system writes holes out.
fn write(format: &Format, path: &Path) -> Option<Huge> {
    let huge = Huge::new(format);
    // A file that is written out shows it soon.
    File::create(path).unwrap().set_len(GIB).unwrap();
    if fs::metadata(path).unwrap().blocks() * 512 > GIB / 2 {
        return None;
    }
    let file = Sparse(File::create(path).unwrap());
    format.to_writer(file, &huge as &dyn Collection, &WriteOptions::new()).unwrap();
    assert!(fs::metadata(path).unwrap().len() > huge.bytes());
    Some(huge)
}

/// The most memory that the process has had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Lists the file and shows a corner of it by the program, if it is built, which gets 1 GiB of addresses in all.
fn program_reads(path: &Path, huge: &Huge) {
    let Some(program) = option_env!("CARGO_BIN_EXE_tensorfile") else { return };
    let last = huge.name(huge.len() - 1).to_owned();
    for (arguments, expected) in [
        (&["ls", "--json"][..], format!("\"bytes\": {}", huge.bytes())),
        (&["show", "--format", "json", "--slice", "-1,-2:"], "[0.0, 1.5]".to_owned()),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -v 1048576; exec \"$@\"", "sh", program]).args(arguments).arg(path);
        if arguments[0] == "show" {
            shell.arg(&last);
        }
        let output = shell.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&expected), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn opens_lists_and_slices_in_bounded_memory() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for &format in FORMATS {
        let path = folder.path().join("huge").with_extension(format.extensions[0]);
        let Some(huge) = write(format, &path) else {
            println!("NOTE: this file system has no holes, so no huge files are tried");
            return;
        };
        let before = peak();
        for backend in [Backend::Mapped, Backend::Positioned] {
            let file = OpenOptions::new().backend(backend).open(&path).unwrap();
            let listed: u64 = file.tensors().map(|tensor| tensor.payload_bytes()).sum();
            assert_eq!((file.len(), listed), (huge.len(), huge.bytes()));
            let (rows, columns) = (huge.0[0].1.shape[0], huge.0[0].1.shape[1]);
            let corner = file.slice(huge.name(huge.len() - 1), &[rows - 2..rows, columns - 1..columns]).unwrap();
            assert_eq!(corner.as_view().array::<f32>().unwrap().as_slice(), Some(&[0.0, 1.5][..]), "{}", format.name);
            let row = file.slice(huge.name(0), &[5..6, 0..1 << 14]).unwrap();
            assert_eq!(row.as_bytes().len(), 4 << 14);
        }
        program_reads(&path, &huge);
        let used = peak() - before;
        assert!(used < BOUND, "{}: took {used} bytes", format.name);
        println!("{}: {} GiB opened, listed and sliced in {} KiB more", format.name, huge.bytes() / GIB, used >> 10);
        fs::remove_file(&path).unwrap();
    }
}
