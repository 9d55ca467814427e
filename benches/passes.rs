//! The time of work over whole payloads, as a multiple of a plain copy or read of the same bytes.
//!
//! ```sh
//! bench="cargo bench -p tensorfile-benches --bench passes"
//! $bench                    # everything: takes 3 GiB of disk and five minutes
//! $bench -- cast            # only cases whose names begin with this
//! BENCH_SHRINK=1000 $bench  # sizes divided by this
//! ```
//!
//! A cast in memory is compared with a copy of the larger of its two sides, both to memory that was used before. The
//! program is measured from start to end, over a file of 1 GiB in 64 tensors in the page cache. It is compared with
//! reading the file in pieces with as many threads; for `convert`, also with writing the result and flushing it to
//! disk. Each round measures both one right after the other, and the table shows medians over the rounds.
//!
//! Some rows compare the program with another one that does similar work: `b3sum` (`cargo install b3sum`), `cmp`, and
//! `python3` with numpy. If you do not have one, its rows are left out, with a note.

mod cases;
mod program;

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use comfy_table::{CellAlignment, Table, presets};
use ndarray::Array2;
use tensorfile::cast::Caster;
use tensorfile::{Dtype, Element, Result};

const MIB: usize = 1 << 20;

fn main() -> Result<()> {
    // `cargo bench` adds an option of its own.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let mut report = Report { wanted, rows: Vec::new() };
    casts(&mut report)?;
    commands(&mut report)?;
    println!("{}", report.table());
    Ok(())
}

/// Casts between all pairs of these dtypes, with one thread.
fn casts(report: &mut Report) -> Result<()> {
    use Dtype::{Bf16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

    if !report.wants("cast") {
        return Ok(());
    }
    let largest = (64 * MIB / cases::shrink()).next_multiple_of(8);
    let numbers: Vec<f64> = (0..largest).map(|at| (at * 7 % 4001) as f64 / 32.0).collect();
    let dtypes = [F16, Bf16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64];
    for from in dtypes {
        for to in dtypes.into_iter().filter(|to| *to != from) {
            let what = format!("cast {from} to {to}");
            if !report.wants(&what) {
                continue;
            }
            let elements = largest / from.block_bytes().max(to.block_bytes());
            let mut source = Vec::new();
            Caster::between_kinds(F64, from)?.cast(&f64::as_le_bytes(&numbers[..elements]), &mut source);
            let (copied, mut copy) = (vec![1_u8; largest], vec![0_u8; largest]);
            let mut cast = vec![0_u8; largest];
            let mut caster = Caster::between_kinds(from, to)?;
            let plain = || black_box(&mut copy[..]).copy_from_slice(black_box(&copied));
            report.add(&what, 1, 9, plain, || {
                cast.clear();
                caster.cast(black_box(&source), &mut cast);
                black_box(&cast);
            });
        }
    }
    Ok(())
}

/// Commands of the program.
fn commands(report: &mut Report) -> Result<()> {
    if !report.wants("program") {
        return Ok(());
    }
    let (program, folder) = (program::build()?, tempfile::tempdir()?);
    let [one, other, halves, written] =
        ["one.ptd", "other.ptd", "halves.ptd", "written"].map(|name| folder.path().join(name));
    let rows = (2048 / cases::shrink()).max(1);
    let number = |tensor: usize, at: (usize, usize)| ((tensor + at.0 * 31 + at.1 * 7) % 997) as f32 / 997.0 - 0.4;
    let tensors = |tensor: usize| Array2::from_shape_fn((rows, 2048), |at| number(tensor, at));
    tensorfile::save(&one, &(0..64).map(|tensor| (format!("layer.{tensor}"), tensors(tensor))).collect::<Map>())?;
    std::fs::copy(&one, &other)?;

    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all_threads = vec![1, available.min(8)];
    all_threads.dedup();
    for threads in all_threads {
        let run = |arguments: &[&str], files: &[&Path]| {
            let mut command = Command::new(&program);
            command.args(arguments).args(files).env("TENSORFILE_THREADS", threads.to_string());
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("the program runs");
            assert!(status.success(), "{arguments:?}");
        };
        let read = |path: &Path| read(path, threads).expect("the file was written");
        for command in [&["hash"][..], &["stats"], &["stats", "--json"], &["verify", "--payload"]] {
            let what = format!("program, {}", command.join(" "));
            report.add(&what, threads, 9, || read(&one), || run(command, &[&one]));
        }
        let read_both = || {
            read(&one);
            read(&other);
        };
        report.add("program, diff", threads, 9, read_both, || run(&["diff"], &[&one, &other]));
        let number = threads.to_string();
        let peers: [(&str, &[&Path], &[&str]); 3] = [
            ("hash", &[&one], &["b3sum", "--num-threads", &number]),
            ("stats", &[&one], &["python3", "-c", NUMPY]),
            ("diff", &[&one, &other], &["cmp"]),
        ];
        for (command, files, peer) in peers {
            let what = format!("program, {command} / {}", peer[0]);
            let run_peer = || {
                let mut command = Command::new(peer[0]);
                command.args(&peer[1..]).args(files).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            };
            if what.starts_with(&report.wanted) && !run_peer() {
                eprintln!("{what}: left out, because `{}` cannot be run", peer[0]);
                continue;
            }
            report.add(&what, threads, 9, || assert!(run_peer()), || run(&[command], files));
        }
        let piece = vec![0x3c_u8; MIB];
        let copy = || {
            read(&one);
            let written = || {
                let mut file = File::create(&written)?;
                let mut left = usize::try_from(one.metadata()?.len() / 2).unwrap_or(usize::MAX);
                while left > 0 {
                    let now = left.min(piece.len());
                    file.write_all(&piece[..now])?;
                    left -= now;
                }
                file.sync_all()
            };
            written().expect("there is room");
        };
        let convert = || run(&["convert", "--dtype", "f16"], &[&one, &halves]);
        report.add("program, convert --dtype f16", threads, 9, copy, convert);
    }
    Ok(())
}

/// Computes with numpy the output of `stats`. It takes the whole file for numbers; the few header bytes take no longer.
const NUMPY: &str = "
import sys, numpy
for part in numpy.array_split(numpy.memmap(sys.argv[1], numpy.float32), 64):
    print(part.min(), part.max(), part.mean(), part.std())
";

type Map = std::collections::BTreeMap<String, Array2<f32>>;

/// Reads a file in pieces, with several threads.
fn read(path: &Path, threads: usize) -> io::Result<()> {
    let part = path.metadata()?.len().div_ceil(threads as u64);
    let read = |thread: usize| {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(thread as u64 * part))?;
        let (mut file, mut piece) = (file.take(part), vec![0; MIB]);
        while file.read(&mut piece)? > 0 {
            black_box(&piece);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || read(thread))).collect();
        let first = read(0);
        others.into_iter().map(|other| other.join().expect("reading does not panic")).fold(first, io::Result::and)
    })
}

struct Report {
    wanted: String,
    rows: Vec<[String; 6]>,
}

impl Report {
    /// Returns `true` if a case whose name begins with `what` may be selected.
    fn wants(&self, what: &str) -> bool {
        what.starts_with(&self.wanted) || self.wanted.starts_with(what)
    }

    /// Measures plain work and the work of this library, and adds a row.
    fn add(&mut self, what: &str, threads: usize, rounds: usize, mut plain: impl FnMut(), mut work: impl FnMut()) {
        if !what.starts_with(&self.wanted) {
            return;
        }
        eprintln!("{what}");
        let rounds = if cases::shrink() > 1 { 1 } else { rounds };
        // Once to warm up.
        time(&mut plain);
        time(&mut work);
        let rounds: Vec<(f64, f64)> = (0..rounds).map(|_| (time(&mut plain), time(&mut work))).collect();
        let [lowest, ratio, highest] = spread(rounds.iter().map(|(plain, work)| work / plain));
        let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
        self.rows.push([
            what.to_owned(),
            threads.to_string(),
            milliseconds(spread(rounds.iter().map(|(plain, _)| *plain))[1]),
            milliseconds(spread(rounds.iter().map(|(_, work)| *work))[1]),
            format!("{ratio:.2}"),
            format!("{lowest:.2} - {highest:.2}"),
        ]);
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header(["case", "threads", "plain", "takes", "ratio", "lowest - highest"]);
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table.add_rows(&self.rows);
        table
    }
}

/// Measures the time of a call in seconds.
fn time(call: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}

/// The lowest, the median and the highest.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}
