//! Files that state more bytes than fit into memory, and the limits for reading.

#![allow(clippy::single_range_in_vec_init, reason = "a vector is sliced by one range")]

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use ndarray::{ArrayD, IxDyn};
use tensorfile::file::Backend;
use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::{
    Category, Dtype, Element, ErrorKind, File, Format, Limits, OpenOptions, Result, Tensor, TensorInfo, TensorMap,
    TensorView, Tensors, WriteOptions, btf,
};

use crate::support::child::command;
use crate::support::{message, skipped, u64s, written_formats};

/// More than there is memory for.
const TIB: usize = 1 << 40;

/// One tensor of 1 TiB.
struct One(TensorInfo);

impl Tensors for One {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        sink.tensor(&TensorRecord { name: "a", info: &self.0, data: &Zeros, tied: None })
    }
}

/// Zeros, as many as the writer takes.
struct Zeros;

impl TensorData for Zeros {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        loop {
            out.write_all(&[0; 64 << 10])?;
        }
    }
}

/// A writer that keeps the first bytes, and then fails.
struct Beginning(Vec<u8>);

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const MOST: usize = 256 << 10;
        if self.0.len() > MOST {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a file of one tensor of 1 TiB, which is all a hole.
fn write_hole(format: &Format, path: &Path) {
    let dtype = if format.dtypes.contains(&Dtype::U8) { Dtype::U8 } else { Dtype::I8 };
    let (one, options) = (One(TensorInfo::new(dtype, [TIB >> 30, 1 << 30])), WriteOptions::new());
    let mut begin = Beginning(Vec::new());
    format.to_writer(&mut begin, &one, &options).unwrap_err();
    let file = std::fs::File::create(path).unwrap();
    file.write_all_at(&begin.0, 0).unwrap();
    file.set_len(format.file_bytes(&one, &options).unwrap()).unwrap();
}

/// Tries all ways to read the tensor of a file whole. None may abort.
fn read_all<A: Element>(path: &Path, backend: Backend) {
    let file = OpenOptions::new().backend(backend).open(path).unwrap();
    let tensor = file.nth(0).unwrap();
    let ranges: Vec<_> = tensor.shape().iter().map(|dim| 0..*dim).collect();
    let ways: Vec<(&str, Result<()>)> = vec![
        ("tensor", tensor.read().map(drop)),
        ("array", tensor.array::<A, IxDyn>().map(drop)),
        ("Array", tensor.load::<ArrayD<A>>().map(drop)),
        ("Tensor", tensor.load::<Tensor>().map(drop)),
        ("slice", tensor.slice(&ranges).map(drop)),
        ("map", file.load::<TensorMap>().map(drop)),
        ("list", file.load::<Vec<Tensor>>().map(drop)),
        ("arrays", file.load::<Vec<ArrayD<A>>>().map(drop)),
        ("deserialize", file.deserialize::<Vec<Tensor>>().map(drop)),
        ("load", tensorfile::load::<TensorMap>(path).map(drop)),
        ("load_tensor", tensorfile::file::load_tensor(path, "#0").map(drop)),
    ];
    for (way, read) in ways {
        let error = read.expect_err(way);
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }), "{way}, {backend:?}: {error}");
        assert_eq!(error.category(), Category::Limit);
        let text = error.to_string();
        assert!(text.contains("there is not enough memory for ") && text.contains("tensor `"), "{way}: {text}");
    }
}

/// The variable of the environment with the path of the file.
const PATH: &str = "TENSORFILE_TEST_HOLE";

#[ignore = "reads_more_than_there_is_memory_for runs it, with little memory"]
#[test]
fn child_reads_all() {
    let path = std::env::var_os(PATH).unwrap();
    for backend in [Backend::Mapped, Backend::Positioned] {
        match File::open(&path).unwrap().nth(0).unwrap().dtype() {
            Dtype::U8 => read_all::<u8>(Path::new(&path), backend),
            _ => read_all::<i8>(Path::new(&path), backend),
        }
    }
}

/// Returns a command that runs another one with a limit that `ulimit` sets.
fn limited(limit: &str, inner: &std::process::Command) -> std::process::Command {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "sh"]).arg(inner.get_program()).args(inner.get_args());
    shell.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

#[test]
fn memory_that_there_is_not_is_an_error() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("hole");
    for format in written_formats().filter(|format| !["npz", "pytorch", "tensorbuffers"].contains(&format.name)) {
        let path = path.with_extension(format.extensions[0]);
        if std::fs::File::create(&path).unwrap().set_len(TIB as u64).is_err() {
            return skipped("this file system has no files of 1 TiB");
        }
        write_hole(format, &path);
        let child = command("limits::child_reads_all", &[(PATH, path.to_str().unwrap())]);
        // Of all addresses, and of memory that is not a mapped file.
        for limit in ["-v 2097152", "-d 1048576"] {
            let output = limited(limit, &child).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("1 passed"), "{}, ulimit {limit}: {text}", format.name);
        }
    }
}

/// A BTF file whose tensors all share one record of `bytes` bytes.
fn shared(tensors: u64, bytes: u64) -> Vec<u8> {
    let one = btf::to_vec(&[Tensor::from_slice(&[1_u8], [1]).unwrap()]).unwrap();
    let (start, record) = (8 + 8 * tensors, &one[16..32]);
    let mut file = u64s(&[tensors]);
    (0..tensors).for_each(|_| file.extend(start.to_le_bytes()));
    file.extend(record);
    file.extend(bytes.to_le_bytes());
    file.resize(file.len() + bytes.next_multiple_of(8) as usize, 7);
    file
}

#[test]
fn shared_bytes_are_counted_in_the_index_and_not_allocated() {
    // 15 GiB and 17 GiB of one record of 1 MiB: far more than 64 times the file.
    let open = |tensors, limits: Limits| {
        OpenOptions::new().limits(limits).from_bytes(shared(tensors, 1 << 20)).map(|file| file.len())
    };
    assert_eq!(open(15 << 10, Limits::new()).unwrap(), 15 << 10);
    let len = shared(17 << 10, 1 << 20).len() as u64;
    let expected = |limit: u64, field: &str| {
        let (at, found) = (limit >> 20, ((limit >> 20) + 1) << 20);
        format!(
            "btf: tensor `#{at}`: sum of payloads in bytes is {found}, but the limit is {limit}; `Limits::{field}` raises it"
        )
    };
    assert_eq!(message(open(17 << 10, Limits::new())), expected(len + (1 << 34), "shared"));
    assert_eq!(open(17 << 10, Limits::new().shared(1 << 35)).unwrap(), 17 << 10);
    assert_eq!(open(17 << 10, Limits::new().memory(1 << 35)).unwrap(), 17 << 10);
    assert_eq!(message(open(3, Limits::new().shared(100))), expected(shared(3, 1 << 20).len() as u64 + 100, "shared"));
    // 64 times a file of 1 GiB, which is mostly a hole.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("tied.btf");
    let mut begin = shared(60, 0);
    let dim = begin.len() - 8;
    begin[dim..].copy_from_slice(&(1_u64 << 30).to_le_bytes());
    let file = std::fs::File::create(&path).unwrap();
    file.write_all_at(&begin, 0).unwrap();
    file.set_len(begin.len() as u64 + (1 << 30)).unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!(file.tensors().map(|tensor| tensor.payload_bytes()).sum::<u64>(), 60 << 30);
    assert_eq!(file.nth(59).unwrap().slice(&[5..7]).unwrap().as_bytes(), [0, 0]);
}

#[test]
fn what_is_read_is_bounded() {
    let file = |limits: Limits| OpenOptions::new().limits(limits).from_bytes(shared(10, 1000)).unwrap();
    let least = |read: &dyn Fn(&File) -> Result<()>| {
        (0..=20).map(|step| step * 500).find(|bytes| read(&file(Limits::new().memory(*bytes))).is_ok()).unwrap()
    };
    assert_eq!(least(&|file| file.tensor("#3").map(drop)), 1000);
    assert_eq!(least(&|file| file.slice("#3", &[0..700]).map(drop)), 1000);
    assert_eq!(least(&|file| file.slice("#3", &[0..500]).map(drop)), 500);
    assert_eq!(least(&|file| file.load::<TensorMap>().map(drop)), 1000, "one for all");
    assert_eq!(least(&|file| file.load::<Vec<TensorView<'_>>>().map(drop)), 0, "borrowed");
    assert_eq!(least(&|file| file.load::<[Tensor; 10]>().map(drop)), 10_000);
    assert_eq!(least(&|file| file.load::<Vec<Vec<u8>>>().map(drop)), 10_000);
    let error = file(Limits::new().memory(2500)).load::<Vec<Vec<u8>>>().unwrap_err();
    let expected = "memory for tensors in bytes is 3000, but the limit is 2500";
    assert!(error.to_string().contains(expected), "{error}");
    assert!(!format!("{error:#}").contains("Limits"), "{error:#}");
    assert_eq!((error.category(), error.kind().limits_field()), (Category::Limit, Some("memory")));
}

#[cfg(feature = "npz")]
#[test]
fn compressed_zeros_count_when_they_are_read() {
    use tensorfile::npz;

    const BYTES: usize = 100 << 20;
    let zeros: TensorMap = [
        ("z", Tensor::from_slice(&vec![0_u8; BYTES], [BYTES]).unwrap()),
        ("one", Tensor::from_slice(&[1_u8], [1]).unwrap()),
    ]
    .into_iter()
    .collect();
    let file = npz::Options::new().compress(true).to_vec(&zeros).unwrap();
    assert!(file.len() < BYTES / 500);
    // More than 64 times the file.
    let open = |limits: Limits| OpenOptions::new().limits(limits).from_bytes(file.clone()).unwrap();
    assert!(open(Limits::new()).tensor("z").unwrap() == zeros["z"]);
    for limits in [Limits::new().shared(1 << 20), Limits::new().memory(2 << 20)] {
        let file = open(limits);
        assert_eq!(file.len(), 2);
        assert_eq!(file.tensor("one").unwrap(), zeros["one"]);
        assert_eq!(file.slice("z", &[1000..1003]).unwrap().as_bytes(), [0; 3]);
        for read in
            [file.tensor("z").map(drop), file.load::<TensorMap>().map(drop), file.slice("z", &[0..BYTES]).map(drop)]
        {
            let error = read.unwrap_err();
            assert_eq!(error.kind().limits_field(), Some("memory"), "{error}");
        }
        // Bytes that are passed on take no memory.
        let mut bytes = 0;
        file.get("z").unwrap().write_to(&mut Count(&mut bytes)).unwrap();
        assert_eq!(bytes, BYTES);
    }
}

/// Counts bytes.
#[cfg(feature = "npz")]
struct Count<'a>(&'a mut usize);

#[cfg(feature = "npz")]
impl Write for Count<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        *self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
