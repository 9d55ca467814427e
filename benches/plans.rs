//! Read plans, compared with the fastest way to read the same bytes by system calls.
//!
//! ```sh
//! cargo bench -p tensorfile-benches --bench plans               # a file of 256 MiB
//! cargo bench -p tensorfile-benches --bench plans -- 4096       # of 4096 MiB
//! ```
//!
//! The ratio is the time of the fastest other way divided by the plan's: 1.0 is as fast. Times are the shortest of
//! several rounds, each of which measures all ways in turn. "Cold" files are first removed from the page cache, by GNU
//! `dd`.
//!
//! Memory is written before it is read into, because page faults take longer than reading. All ways read into the same
//! memory: a disk filled one half of a machine's memory in 1.6 s and the other in 2.0 s. The memory begins with a page,
//! because copies to other addresses take twice as long on some processors.

use std::fs::File;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use tensorfile::file::ReadPlan;
use tensorfile::threads::set_max_threads;
use tensorfile::{Dtype, Result, SaveOptions, TensorInfo, Tensors, WriteOptions, model};

#[cfg(not(unix))]
fn main() {
    println!("files are read at positions by calls of Unix");
}

#[cfg(unix)]
fn main() -> Result<()> {
    let mib = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(256_usize);
    let shrink = std::env::var("BENCH_SHRINK").ok().and_then(|shrink| shrink.parse().ok()).unwrap_or(1_usize);
    let mib = (mib / shrink.max(1)).max(1);
    let folder = tempfile::tempdir()?;
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["", "plan", "ratio", "other ways", "bytes read"]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));

    let large = folder.path().join("large.ptd");
    // The dims make runs of a quarter of a row long, and short.
    save(&large, &Ones { count: 16, rows: 64, columns: (mib << 20) / 16 / 64 })?;
    let file = tensorfile::File::open(&large)?;
    let whole = file.read_plan().all()?.align(4096).finish()?;
    for (is_cold, threads) in [(true, 2), (false, 1), (false, 2)] {
        measure(&mut table, "all tensors", &large, &whole, &ranges(&whole), (is_cold, threads))?;
    }

    for (what, dim) in [("a quarter, dimension 0", 0), ("a quarter, dimension 1", 1)] {
        let plan = quarters(&file, dim)?;
        measure(&mut table, what, &large, &plan, &plan.spans(), (false, 2))?;
    }
    drop(whole);

    let narrow = folder.path().join("narrow.ptd");
    save(&narrow, &Ones { count: 16, rows: (mib << 20) / 16 / 8192, columns: 8192 })?;
    let file = tensorfile::File::open(&narrow)?;
    let plan = quarters(&file, 1)?;
    let rows: Vec<_> = file.tensors().map(|tensor| tensor.range()).collect();
    measure(&mut table, "a quarter of rows of 8 KiB, and whole rows", &narrow, &plan, &rows, (false, 2))?;

    let many = folder.path().join("many.ptd");
    let count = (mib << 20) / (100 << 10);
    save(&many, &Ones { count, rows: 1, columns: 100 << 10 })?;
    let file = tensorfile::File::open(&many)?;
    let (mut plan, mut seed) = (file.read_plan(), 1_u64);
    let mut order: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(i, (seed >> 33) as usize % (i + 1));
    }
    for i in order {
        plan = plan.tensor(&format!("t{i:06}"))?;
    }
    let plan = plan.finish()?;
    for (is_cold, threads) in [(true, 2), (false, 1), (false, 2)] {
        let what = format!("{count} tensors of 100 KiB, shuffled");
        measure(&mut table, &what, &many, &plan, &ranges(&plan), (is_cold, threads))?;
    }
    println!("{mib} MiB in each file:\n{table}");
    Ok(())
}

/// Matrices of bytes that are 1.
struct Ones {
    count: usize,
    rows: usize,
    columns: usize,
}

impl Tensors for Ones {
    fn send(&self, sink: &mut dyn model::TensorSink) -> Result<()> {
        struct Bytes(usize);

        impl model::TensorData for Bytes {
            fn write_to(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
                let chunk = vec![1; self.0.min(1 << 20)];
                let mut left = self.0;
                while left > 0 {
                    out.write_all(&chunk[..left.min(chunk.len())])?;
                    left -= left.min(chunk.len());
                }
                Ok(())
            }
        }

        let info = TensorInfo::new(Dtype::U8, [self.rows, self.columns]);
        for i in 0..self.count {
            let (name, data) = (format!("t{i:06}"), Bytes(self.rows * self.columns));
            sink.tensor(&model::TensorRecord { name: &name, info: &info, data: &data, tied: None })?;
        }
        Ok(())
    }
}

fn save(path: &Path, tensors: &dyn Tensors) -> Result<()> {
    SaveOptions::new().write(WriteOptions::new().alignment(4096)).save(path, tensors)
}

/// The ranges of the file of whole tensors, in the order of the plan.
fn ranges(plan: &ReadPlan<'_>) -> Vec<Range<u64>> {
    plan.pieces().iter().map(|piece| piece.tensor().range()).collect()
}

/// A plan of a quarter of every tensor.
fn quarters(file: &tensorfile::File, dim: usize) -> Result<ReadPlan<'_>> {
    let mut plan = file.read_plan();
    for tensor in file.tensors() {
        let mut part: Vec<Range<usize>> = tensor.shape().iter().map(|dim| 0..*dim).collect();
        part[dim] = part[dim].end / 4..part[dim].end / 2;
        plan = plan.slice(tensor.name(), &part)?;
    }
    plan.finish()
}

/// Measures a plan, and reading ranges with calls of the system.
#[cfg(unix)]
fn measure(
    table: &mut Table,
    what: &str,
    path: &Path,
    plan: &ReadPlan<'_>,
    ranges: &[Range<u64>],
    (is_cold, threads): (bool, usize),
) -> Result<()> {
    const ROUNDS: usize = 7;
    let total = usize::try_from(ranges.iter().map(|range| range.end - range.start).sum::<u64>()).unwrap_or(usize::MAX);
    let mut memory = vec![1_u8; plan.bytes().max(total) + SECTOR];
    let first = memory.as_ptr().align_offset(SECTOR);
    let memory = &mut memory[first..];
    set_max_threads(threads);
    let file = File::open(path)?;
    let mut times = vec![Vec::<Duration>::new(); 4];
    for round in 0..ROUNDS {
        // All ways in turn, so that whatever else the machine does disturbs all of them.
        for way in (0..times.len()).map(|way| (way + round) % 4) {
            if is_cold {
                forget(path);
            }
            let direct = if way == 3 { open_direct(path) } else { None };
            let start = Instant::now();
            match way {
                0 => plan.read_into(memory)?,
                1 => read_raw(&file, ranges, false, memory, threads),
                2 => read_raw(&file, ranges, true, memory, threads),
                _ => match direct.filter(|_| is_cold && ranges.iter().all(is_aligned)) {
                    Some(direct) => read_raw(&direct, ranges, true, memory, threads),
                    None => continue,
                },
            }
            times[way].push(start.elapsed());
        }
    }
    black_box(&memory);
    let shortest: Vec<Option<Duration>> = times.iter().map(|times| times.iter().min().copied()).collect();
    let own = shortest[0].unwrap_or_default();
    let best = shortest[1..].iter().flatten().min().copied().unwrap_or_default();
    let text = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let others: Vec<String> = ["as asked", "in file order", "direct"]
        .iter()
        .zip(&shortest[1..])
        .filter_map(|(way, time)| Some(format!("{way} {}", text((*time)?))))
        .collect();
    table.add_row([
        format!(
            "{what}: {}, {threads} thread{}",
            if is_cold { "cold" } else { "warm" },
            if threads == 1 { "" } else { "s" }
        ),
        text(own),
        format!("{:.2}", best.as_secs_f64() / own.as_secs_f64()),
        others.join(", "),
        format!(
            "{:.3} ×",
            plan.bytes_read() as f64 / plan.pieces().iter().map(|piece| piece.range().len()).sum::<usize>() as f64
        ),
    ]);
    Ok(())
}

/// The most bytes that `O_DIRECT` reads at once, and that a thread takes here.
const BLOCK: usize = 8 << 20;

/// `O_DIRECT` needs offsets, lengths and addresses that are multiples of this.
const SECTOR: usize = 4096;

fn is_aligned(range: &Range<u64>) -> bool {
    range.start.is_multiple_of(SECTOR as u64) && (range.end - range.start).is_multiple_of(SECTOR as u64)
}

/// Reads ranges to the beginning of `memory`, one after the other in the order asked for. Threads take one block at a
/// time, in the order of the file or in the order asked for.
#[cfg(unix)]
fn read_raw(file: &File, ranges: &[Range<u64>], in_file_order: bool, memory: &mut [u8], threads: usize) {
    let (mut rest, mut blocks) = (memory, Vec::new());
    for range in ranges {
        let len = usize::try_from(range.end - range.start).expect("it fits into memory");
        let (now, later) = rest.split_at_mut(len);
        blocks.extend(now.chunks_mut(BLOCK).enumerate().map(|(i, block)| (range.start + (i * BLOCK) as u64, block)));
        rest = later;
    }
    if in_file_order {
        blocks.sort_by_key(|(offset, _)| *offset);
    }
    let blocks = Mutex::new(blocks.into_iter());
    let work = || {
        loop {
            let next = blocks.lock().expect("no thread panics").next();
            let Some((offset, block)) = next else { break };
            std::os::unix::fs::FileExt::read_exact_at(file, block, offset).expect("the file is whole");
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| _ = scope.spawn(work));
        work();
    });
}

/// Opens a file past the page cache, on systems whose flag we know.
#[cfg(unix)]
fn open_direct(path: &Path) -> Option<File> {
    let flag = if cfg!(all(target_os = "linux", target_arch = "x86_64")) { 0o40000 } else { return None };
    std::os::unix::fs::OpenOptionsExt::custom_flags(std::fs::OpenOptions::new().read(true), flag).open(path).ok()
}

/// Removes a file from the page cache, as far as the system does that.
fn forget(path: &Path) {
    let mut input = std::ffi::OsString::from("if=");
    input.push(path);
    drop(Command::new("dd").arg(input).args(["iflag=nocache", "count=0", "status=none"]).status());
}
