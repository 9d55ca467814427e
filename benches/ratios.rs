//! Time as a multiple of what a plain copy of the same bytes takes.
//!
//! ```sh
//! bench="cargo bench -p tensorfile-benches --bench ratios"
//! $bench                    # everything: takes 4 GiB of memory and ten minutes
//! $bench -- large           # only the cases whose names begin so
//! BENCH_SHRINK=1000 $bench  # sizes divided by this
//! ```
//!
//! Times on a busy machine wander, so each round measures the plain copy and the format one right after the other, in
//! turns which of them first, and the table shows medians over the rounds. "Extra" is the difference for one tensor.

mod cases;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use ndarray::{Array1, Array2, ArrayView1};
use tensorfile::{Arrays, Result, ten};

fn main() -> Result<()> {
    // `cargo bench` adds an option of its own.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let mut report = Report { wanted, rows: Vec::new() };
    large(&mut report)?;
    small(&mut report)?;
    go(&mut report)?;
    println!("{}", report.table());
    Ok(())
}

/// Runs a block for each format, with its name, its module, and options that write every name.
macro_rules! for_each_format {
    (|$name:ident, $module:ident, $options:ident| $block:block) => {
        for_each_format!(btf, |$module| $module::Options::new().embed_names(true), $name, $options, $block);
        for_each_format!(ten, |$module| $module::Options::new(), $name, $options, $block);
        for_each_format!(ptd, |$module| $module::Options::new(), $name, $options, $block);
        for_each_format!(tensorbuffers, |$module| $module::Options::new(), $name, $options, $block);
    };
    ($format:ident, |$module:ident| $new:expr, $name:ident, $options:ident, $block:block) => {{
        use tensorfile::$format as $module;
        let ($name, $options) = (stringify!($format), $new);
        $block
    }};
}

fn large(report: &mut Report) -> Result<()> {
    if !report.wants("large") {
        return Ok(());
    }
    type Owned = Arrays<Vec<Array2<f32>>>;
    let arrays = Arrays(cases::large());
    let payloads: Vec<&[u8]> = arrays.0.iter().filter_map(|array| array.as_slice()).map(bytemuck::cast_slice).collect();
    // An unnamed file is deleted when it is dropped, which is not measured.
    let create = || tempfile::tempfile().expect("a temporary file");
    let rounds = 11;

    for_each_format!(|name, format, _options| {
        let case = |what: &str| Case { what: what.to_owned(), format: name, tensors: payloads.len(), rounds };
        let plain = || payloads.concat();
        report.add(case("large, to memory"), plain, || format::to_vec(&arrays).expect("f32 can be stored"));

        let plain = || {
            let mut file = create();
            payloads.iter().try_for_each(|payload| file.write_all(payload)).expect("there is room");
            file
        };
        report.add(case("large, to file"), plain, || {
            let mut file = create();
            format::to_writer(&mut file, &arrays).expect("there is room");
            file
        });

        let named = tempfile::NamedTempFile::new()?;
        format::to_writer(named.as_file(), &arrays)?;
        let open = || named.reopen().expect("the file was written");
        let plain = || {
            let mut file = open();
            let tensor = |payload: &&[u8]| {
                let mut tensor = Vec::with_capacity(payload.len());
                Read::by_ref(&mut file).take(payload.len() as u64).read_to_end(&mut tensor).expect("the file is whole");
                tensor
            };
            payloads.iter().map(tensor).collect::<Vec<_>>()
        };
        report.add(case("large, from file to owned"), plain, || {
            format::from_reader::<Owned>(open()).expect("the file is whole")
        });

        report.add(case("large, load"), plain, || {
            tensorfile::OpenOptions::new()
                .open(named.path())
                .and_then(|file| file.load::<Vec<Array2<f32>>>())
                .expect("the file is whole")
        });

        let folder = tempfile::tempdir()?;
        let format_row = tensorfile::Format::named(name).expect("it is enabled");
        let path = folder.path().join("model").with_extension(format_row.extensions[0]);
        let plain = || {
            let mut file = tempfile::NamedTempFile::new_in(&folder).expect("a temporary file");
            payloads.iter().try_for_each(|payload| file.write_all(payload)).expect("there is room");
            file.as_file().sync_all().expect("there is a disk");
        };
        report.add(case("large, save"), plain, || tensorfile::save(&path, &arrays.0).expect("there is room"));

        let file = format::to_vec(&arrays)?;
        let plain = || payloads.iter().map(|payload| payload.to_vec()).collect::<Vec<_>>();
        report.add(case("large, from memory to owned"), plain, || {
            format::from_slice::<Owned>(&file).expect("the file is whole")
        });
    });
    Ok(())
}

fn small(report: &mut Report) -> Result<()> {
    if !report.wants("small") {
        return Ok(());
    }
    type Owned = Arrays<Vec<Array1<f32>>>;
    type Named = Arrays<BTreeMap<String, Array1<f32>>>;
    let (arrays, named) = (Arrays(cases::small()), Arrays(cases::small_by_name()));
    let payloads: Vec<&[u8]> = arrays.0.iter().filter_map(|array| array.as_slice()).map(bytemuck::cast_slice).collect();
    let (tensors, rounds) = (payloads.len(), 31);
    let write = || payloads.concat();
    let read = || payloads.iter().map(|payload| payload.to_vec()).collect::<Vec<_>>();

    for_each_format!(|format, module, options| {
        let case = |what: &str| Case { what: what.to_owned(), format, tensors, rounds };
        report.add(case("small, to memory"), write, || module::to_vec(&arrays).expect("f32 can be stored"));
        report.add(case("small, to a sink"), write, || module::to_writer(std::io::sink(), &arrays));
        let file = module::to_vec(&arrays)?;
        report.add(case("small, from memory to owned"), read, || module::from_slice::<Owned>(&file));
        report.add(case("small, from memory to views"), read, || {
            module::from_slice::<Arrays<Vec<ArrayView1<f32>>>>(&file)
        });
        report.add(case("small, from a stream to owned"), read, || module::from_reader::<Owned>(&file[..]));

        report.add(case("small and named, to memory"), write, || options.to_vec(&named));
        let file = options.to_vec(&named)?;
        report.add(case("small and named, from memory to owned"), read, || options.from_slice::<Named>(&file));
    });
    Ok(())
}

/// One array, encoded into allocated memory, and decoded, as the benchmarks of the Go package `ten` do.
fn go(report: &mut Report) -> Result<()> {
    for elements in cases::GO {
        let array = Array1::from_elem(elements, 1.5_f32);
        let bytes: &[u8] = bytemuck::cast_slice(array.as_slice().expect("it is contiguous"));
        let value = Arrays(&array);
        let mut copy = Vec::new();
        let mut write = || {
            copy.clear();
            copy.extend_from_slice(black_box(bytes));
            black_box(copy.as_ptr())
        };
        let read = || black_box(bytes).to_vec();
        let rounds = 31;

        for_each_format!(|format, module, _options| {
            let mut file = Vec::new();
            let case = |what: &str| Case { what: format!("go {elements}, {what}"), format, tensors: 1, rounds };
            report.add(case("encode"), &mut write, || {
                file.clear();
                module::to_writer(&mut file, &value).expect("f32 can be stored");
                black_box(file.as_ptr())
            });
            report.add(case("encode to fresh memory"), read, || module::to_vec(&value));
            let file = module::to_vec(&value)?;
            report.add(case("decode to owned"), read, || module::from_slice::<Arrays<Array1<f32>>>(&file));
            report.add(case("decode to view"), read, || module::from_slice::<Arrays<ArrayView1<f32>>>(&file).is_ok());
        });
        let mut stream = Vec::new();
        let case = Case { what: format!("go {elements}, encode"), format: "ten::Encoder", tensors: 1, rounds };
        report.add(case, &mut write, || {
            stream.clear();
            ten::Encoder::new(&mut stream).encode("x", &array).expect("f32 can be stored");
            black_box(stream.as_ptr())
        });
    }
    Ok(())
}

struct Report {
    wanted: String,
    rows: Vec<[String; 7]>,
}

struct Case<'a> {
    what: String,
    format: &'a str,
    tensors: usize,
    rounds: usize,
}

impl Report {
    /// Returns `true` if a case whose name begins with `what` may be selected.
    fn wants(&self, what: &str) -> bool {
        what.starts_with(&self.wanted) || self.wanted.starts_with(what)
    }

    /// Measures a plain copy and a format, and adds a row.
    fn add<P, F>(&mut self, case: Case, mut plain: impl FnMut() -> P, mut format: impl FnMut() -> F) {
        if !case.what.starts_with(&self.wanted) {
            return;
        }
        eprintln!("{}, {}", case.what, case.format);
        // One call to warm up; then enough calls for a round of a millisecond.
        time(1, &mut plain);
        time(1, &mut format);
        let once = time(1, &mut plain).max(time(1, &mut format));
        let calls = u32::try_from(1_000_000 / once.as_nanos().max(1)).map_or(1, |calls| calls.max(1));
        let rounds: Vec<(f64, f64)> = (0..case.rounds)
            .map(|round| {
                let first = (round % 2 == 0).then(|| time(calls, &mut plain));
                let format = time(calls, &mut format);
                let plain = first.unwrap_or_else(|| time(calls, &mut plain));
                (plain.as_secs_f64(), format.as_secs_f64())
            })
            .collect();
        let [lowest, ratio, highest] = spread(rounds.iter().map(|(plain, format)| format / plain));
        let [_, extra, _] = spread(rounds.iter().map(|(plain, format)| format - plain));
        self.rows.push([
            case.what,
            case.format.to_owned(),
            seconds(spread(rounds.iter().map(|(plain, _)| *plain))[1]),
            seconds(spread(rounds.iter().map(|(_, format)| *format))[1]),
            format!("{ratio:.2}"),
            format!("{lowest:.2} - {highest:.2}"),
            format!("{:.0} ns", extra * 1e9 / case.tensors as f64),
        ]);
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header(["case", "format", "plain copy", "format takes", "ratio", "lowest - highest", "extra"]);
        table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table.add_rows(&self.rows);
        table
    }
}

/// Measures the time of a call. A single call is measured without dropping its result.
fn time<T>(calls: u32, call: &mut impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 1..calls {
        drop(black_box(call()));
    }
    let last = black_box(call());
    let time = start.elapsed() / calls;
    drop(last);
    time
}

/// The lowest, the median and the highest.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

fn seconds(seconds: f64) -> String {
    match seconds {
        1e-3.. => format!("{:.1} ms", seconds * 1e3),
        1e-5.. => format!("{:.1} us", seconds * 1e6),
        _ => format!("{:.0} ns", seconds * 1e9),
    }
}
