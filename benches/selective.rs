//! Opens a large file and reads one tensor by name, with and without the file in the page cache.
//!
//! ```sh
//! cargo bench -p tensorfile-benches --bench selective --all-features   # writes files of 4 GiB, one after the other
//! cargo bench -p tensorfile-benches --bench selective --all-features -- btf   # only one format
//! BENCH_SHRINK=100 cargo bench -p tensorfile-benches --bench selective --all-features   # of 10 tensors
//! ```
//!
//! Times are medians, and multiples of the `safetensors` crate's time for a mapped file of its own format. Bytes are
//! those that the system read from the disk, as counted by Linux. GNU `dd` removes the file from the cache.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use tensorfile::file::Backend;
use tensorfile::file::load_tensor;
use tensorfile::{FORMATS, File, Format, OpenOptions, Result, SaveOptions, TensorView, WriteOptions};

fn main() -> Result<()> {
    let shrink = std::env::var("BENCH_SHRINK").ok().and_then(|shrink| shrink.parse().ok()).unwrap_or(1_usize).max(1);
    let tensors = (MANY / shrink).max(1);
    println!("One tensor of 1 MiB out of {tensors} in {} MiB, by its name:", (LARGE * tensors) >> 20);
    println!("{}", one_of_many(tensors)?);
    println!("Opening a file of 64 tensors in {} MiB:", 1024 / shrink);
    println!("{}", open(shrink)?);
    Ok(())
}

/// The formats that hold several tensors, or the one that is asked for.
fn formats() -> impl Iterator<Item = &'static Format> {
    // `cargo bench` adds an option of its own.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    FORMATS.iter().copied().filter(move |format| format.max_tensors.is_none() && format.name.starts_with(&wanted))
}

const MANY: usize = 1000;

/// The size of the tensors that are not read.
const LARGE: usize = (4 << 30) / MANY / 4096 * 4096;

/// The size of the tensor that is read.
const WANTED: usize = 1 << 20;

fn one_of_many(tensors: usize) -> Result<Table> {
    // Tensors of the same memory would be stored once by some formats, so each begins somewhere else.
    let memory = vec![1_i8; LARGE + 64 * tensors];
    let wanted = format!("t{:07}", tensors / 2);
    let map: BTreeMap<String, TensorView> = (0..tensors)
        .map(|at| {
            let len = if at == tensors / 2 { WANTED } else { LARGE };
            Ok((format!("t{at:07}"), TensorView::from_slice(&memory[64 * at..64 * at + len], [len])?))
        })
        .collect::<Result<_>>()?;

    let mut rows: Vec<(String, [Measured; 2])> = Vec::new();
    {
        let (_folder, path) = saved("safetensors", &map)?;
        rows.push(("the safetensors crate".to_owned(), measure(&path, &mut || read_by_reference(&path, &wanted))));
    }
    for format in formats() {
        let (_folder, path) = saved(format.name, &map)?;
        for (what, backend) in [("mapped", Backend::Mapped), ("at positions", Backend::Positioned)] {
            let options = OpenOptions::new().backend(backend);
            let mut read = || {
                let file = options.open(&path).expect("it was just saved");
                let tensor = file.tensor(&wanted).expect("it is whole");
                black_box(tensor.as_bytes().len());
            };
            rows.push((format!("{}, {what}", format.name), measure(&path, &mut read)));
        }
        let mut read = || {
            black_box(load_tensor(&path, &wanted).expect("it was just saved").as_bytes().len());
        };
        rows.push((format!("{}, load_tensor", format.name), measure(&path, &mut read)));
    }
    Ok(table(rows))
}

/// The files of 64 tensors are as large as a model's.
fn open(shrink: usize) -> Result<Table> {
    let len = ((1 << 30) / 64 / shrink).next_multiple_of(64);
    let memory = vec![1_i8; len + 64 * 64];
    let tensor = |at: usize| Ok((format!("t{at:07}"), TensorView::from_slice(&memory[64 * at..64 * at + len], [len])?));
    let map: BTreeMap<String, TensorView> = (0..64).map(tensor).collect::<Result<_>>()?;
    let mut rows: Vec<(String, [Measured; 2])> = Vec::new();
    {
        let (_folder, path) = saved("safetensors", &map)?;
        rows.push((
            "the safetensors crate".to_owned(),
            measure(&path, &mut || {
                let mapping = map_file(&path);
                black_box(safetensors::SafeTensors::deserialize(&mapping).expect("it was just saved").len());
            }),
        ));
    }
    for format in formats() {
        let (_folder, path) = saved(format.name, &map)?;
        let measured = measure(&path, &mut || {
            black_box(File::open(&path).expect("it was just saved").len());
        });
        rows.push((format.name.to_owned(), measured));
    }
    Ok(table(rows))
}

/// A folder with a file of a format.
fn saved(format: &str, map: &BTreeMap<String, TensorView>) -> Result<(tempfile::TempDir, std::path::PathBuf)> {
    eprintln!("{format}");
    let format = Format::named(format).expect("it is in the table");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("file").with_extension(format.extensions[0]);
    SaveOptions::new().write(WriteOptions::new().embed_names(true)).save(&path, map)?;
    Ok((folder, path))
}

fn map_file(path: &Path) -> memmap2::Mmap {
    let file = fs::File::open(path).expect("it was just saved");
    #[expect(unsafe_code, reason = "the crate has no other way to map a file")]
    // SAFETY: nothing else writes to a file in a folder of this program.
    let mapping = unsafe { memmap2::Mmap::map(&file) };
    mapping.expect("files can be mapped")
}

fn read_by_reference(path: &Path, wanted: &str) {
    let mapping = map_file(path);
    let file = safetensors::SafeTensors::deserialize(&mapping).expect("it was just saved");
    black_box(file.tensor(wanted).expect("it is there").data().to_vec());
}

/// The median time, and the bytes read from the disk.
struct Measured {
    time: Duration,
    bytes: Option<u64>,
}

/// Measures a function that reads a file, without the file in the page cache and with it.
fn measure(path: &Path, read: &mut dyn FnMut()) -> [Measured; 2] {
    let mut rounds = |count: usize, is_cold: bool| {
        let mut times = Vec::new();
        let mut bytes = Some(0);
        for _ in 0..count {
            if is_cold {
                forget(path);
            }
            let before = read_bytes();
            let start = Instant::now();
            read();
            times.push(start.elapsed());
            bytes = read_bytes().zip(before).map(|(after, before)| after - before);
        }
        times.sort_unstable();
        Measured { time: times[count / 2], bytes }
    };
    [rounds(7, true), rounds(101, false)]
}

/// Removes a file from the page cache, as far as the system does that.
fn forget(path: &Path) {
    let mut input = std::ffi::OsString::from("if=");
    input.push(path);
    let dd = Command::new("dd").arg(input).args(["iflag=nocache", "count=0", "status=none"]).status();
    drop(dd);
}

/// The bytes that this process made the system read from disks.
fn read_bytes() -> Option<u64> {
    let counters = fs::read_to_string("/proc/self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

fn table(rows: Vec<(String, [Measured; 2])>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["", "not in the page cache", "ratio", "from disk", "in the page cache", "ratio"]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let first = rows.first().map(|(_, measured)| measured.each_ref().map(|measured| measured.time.as_secs_f64()));
    for (what, [cold, warm]) in &rows {
        let time = |measured: &Measured| format!("{:.3} ms", measured.time.as_secs_f64() * 1e3);
        let ratio = |measured: &Measured, at: usize| {
            first.map_or_else(String::new, |first| format!("{:.2}", first[at] / measured.time.as_secs_f64()))
        };
        let bytes = cold.bytes.map_or_else(String::new, |bytes| format!("{:.2} MB", bytes as f64 / 1e6));
        table.add_row([what.clone(), time(cold), ratio(cold, 0), bytes, time(warm), ratio(warm, 1)]);
    }
    table
}
