//! Instructions that reading and writing take, for each tensor, counted by valgrind.
//!
//! ```sh
//! cargo bench --bench instructions --features safetensors               # everything; takes ten minutes
//! cargo bench --bench instructions --features safetensors -- one        # only the cases whose names begin so
//! valgrind --tool=callgrind target/release/deps/instructions-* --run "list, to memory" btf 1
//! ```
//!
//! Unlike times, counts hardly depend on what else the machine does. Each is the difference between two runs of this program
//! with the same preparations, in which the work is done once and more often.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;
use std::{fs, io};

use comfy_table::{CellAlignment, Table, presets};
use ndarray::{Array1, Array2, ArrayView1, ArrayView2};
use tempfile::TempDir;
use tensorfile::{Arrays, FORMATS, File, Result, TensorFile};

fn main() -> std::result::Result<(), Box<dyn Error>> {
    // `cargo bench` adds an option of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let cases = all();
    if let [run, what, format, repeats] = &arguments[..]
        && run == "--run"
    {
        let case = cases.iter().find(|case| case.what == what && case.format == format).ok_or("no such case")?;
        let mut work = (case.prepare)()?;
        for _ in 0..repeats.parse::<u32>()? {
            work()?;
        }
        return Ok(());
    }

    let wanted = arguments.first().map_or("", String::as_str);
    let mut rows: Vec<(&str, BTreeMap<&str, u64>)> = Vec::new();
    for case in cases.iter().filter(|case| case.what.starts_with(wanted)) {
        eprintln!("{}, {}", case.what, case.format);
        let more = if case.tensors == 1 { 1000 } else { 1 };
        let count = case.count(1 + more)?.saturating_sub(case.count(1)?) / more / case.tensors as u64;
        match rows.iter_mut().find(|(what, _)| *what == case.what) {
            Some((_, counts)) => counts.extend([(case.format, count)]),
            None => rows.push((case.what, BTreeMap::from([(case.format, count)]))),
        }
    }

    let formats = ["btf", "ten", "ptd", "tensorbuffers", "safetensors"];
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["instructions for each tensor"].into_iter().chain(formats));
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for (what, counts) in rows {
        let cells = formats.map(|format| counts.get(format).map_or_else(String::new, u64::to_string));
        table.add_row([what.to_owned()].into_iter().chain(cells));
    }
    println!("{table}");
    Ok(())
}

/// The number of small tensors.
const MANY: usize = 10_000;

/// Work that can be repeated.
type Work = Box<dyn FnMut() -> Result<()>>;

struct Case {
    what: &'static str,
    format: &'static str,
    /// The number of tensors that the work reads or writes.
    tensors: usize,
    prepare: fn() -> Result<Work>,
}

impl Case {
    /// Returns the instructions of a run of this program that repeats the work so often.
    fn count(&self, repeats: u64) -> std::result::Result<u64, Box<dyn Error>> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe()?)
            .args(["--run", self.what, self.format, &repeats.to_string()])
            .output()
            .map_err(|error| format!("cannot run valgrind: {error}"))?;
        let messages = String::from_utf8_lossy(&output.stderr);
        let count = messages.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
        count.filter(|_| output.status.success()).ok_or_else(|| messages.into())
    }
}

fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    /// Adds the cases of a format, for which the options write every name.
    macro_rules! add {
        ($format:ident, $options:expr) => {{
            use tensorfile::$format as format;

            const NAME: &str = stringify!($format);
            let mut add = |tensors, what, prepare| cases.push(Case { what, format: NAME, tensors, prepare });

            add(MANY, "list, to memory", || {
                let list = list();
                repeat(move || format::to_vec(&list).map(discard))
            });
            add(MANY, "list, to a sink", || {
                let list = list();
                repeat(move || format::to_writer(io::sink(), &list))
            });
            add(MANY, "list, from memory to owned", || {
                let file = format::to_vec(&list())?;
                repeat(move || format::from_slice::<Arrays<Vec<Array1<f32>>>>(&file).map(discard))
            });
            add(MANY, "list, from memory to views", || {
                let file = format::to_vec(&list())?;
                repeat(move || format::from_slice::<Arrays<Vec<ArrayView1<f32>>>>(&file).map(discard))
            });
            add(MANY, "list, from a stream to owned", || {
                let file = format::to_vec(&list())?;
                repeat(move || format::from_reader::<Arrays<Vec<Array1<f32>>>>(&file[..]).map(discard))
            });
            add(MANY, "map, to memory", || {
                let map = map();
                repeat(move || $options.to_vec(&map).map(discard))
            });
            add(MANY, "map, from memory to owned", || {
                let file = $options.to_vec(&map())?;
                repeat(move || format::from_slice::<Arrays<BTreeMap<String, Array1<f32>>>>(&file).map(discard))
            });
            add(MANY, "structs, to memory", || {
                let model = model();
                repeat(move || format::to_vec(&model).map(discard))
            });
            add(MANY, "structs, from memory to owned", || {
                let file = format::to_vec(&model())?;
                repeat(move || format::from_slice::<Model>(&file).map(discard))
            });
            add(MANY, "structs, from memory to views", || {
                let file = format::to_vec(&model())?;
                repeat(move || format::from_slice::<ModelView>(&file).map(discard))
            });
            add(MANY, "structs, save", || {
                let (folder, model) = (tempfile::tempdir()?, model());
                repeat(move || tensorfile::save(path(&folder, NAME), &model))
            });
            add(MANY, "structs, load", || {
                let folder = tempfile::tempdir()?;
                fs::write(path(&folder, NAME), format::to_vec(&model())?)?;
                repeat(move || tensorfile::load::<Model>(path(&folder, NAME)).map(discard))
            });
            add(MANY, "file, open", || {
                let folder = tempfile::tempdir()?;
                fs::write(path(&folder, NAME), $options.to_vec(&map())?)?;
                repeat(move || File::open(path(&folder, NAME)).map(discard))
            });

            add(1, "file, read one of many by name", || {
                let folder = tempfile::tempdir()?;
                fs::write(path(&folder, NAME), $options.to_vec(&map())?)?;
                let (file, last) = (File::open(path(&folder, NAME))?, name(MANY - 1));
                repeat(move || file.tensor(&last).map(discard))
            });
            add(1, "one, encode", || {
                let (one, mut file) = (one(), Vec::new());
                repeat(move || {
                    file.clear();
                    format::to_writer(&mut file, &one)
                })
            });
            add(1, "one, encode to fresh memory", || {
                let one = one();
                repeat(move || format::to_vec(&one).map(discard))
            });
            add(1, "one, decode to owned", || {
                let file = format::to_vec(&one())?;
                repeat(move || format::from_slice::<Arrays<Array1<f32>>>(&file).map(discard))
            });
            add(1, "one, decode to view", || {
                let file = format::to_vec(&one())?;
                repeat(move || format::from_slice::<Arrays<ArrayView1<f32>>>(&file).map(discard))
            });
        }};
    }
    add!(btf, tensorfile::btf::Options::new().embed_names(true));
    add!(ten, tensorfile::ten::Options::new());
    add!(ptd, tensorfile::ptd::Options::new());
    add!(tensorbuffers, tensorfile::tensorbuffers::Options::new());
    add!(safetensors, tensorfile::safetensors::Options::new());
    cases
}

fn repeat(work: impl FnMut() -> Result<()> + 'static) -> Result<Work> {
    Ok(Box::new(work))
}

/// Drops a result that the compiler must not optimize away.
fn discard<T>(result: T) {
    drop(black_box(result));
}

/// Returns the path of a file whose extension names its format.
fn path(folder: &TempDir, format: &str) -> PathBuf {
    let row = FORMATS.iter().find(|row| row.name == format).expect("it is in the table");
    folder.path().join("file").with_extension(row.extensions[0])
}

fn small() -> impl Iterator<Item = Array1<f32>> {
    (0..MANY).map(|tensor| Array1::from_elem(16, tensor as f32))
}

/// Returns a name of the 8 bytes that `.ten` has for them.
fn name(tensor: usize) -> String {
    format!("t{tensor:07}")
}

fn list() -> Arrays<Vec<Array1<f32>>> {
    Arrays(small().collect())
}

fn map() -> Arrays<BTreeMap<String, Array1<f32>>> {
    Arrays(small().enumerate().map(|(at, tensor)| (name(at), tensor)).collect())
}

/// One array of 100 elements, as in the benchmark of the Go package `ten`.
fn one() -> Arrays<Array1<f32>> {
    Arrays(Array1::from_elem(100, 1.5))
}

#[derive(TensorFile)]
struct Model {
    l: Vec<Layer>,
}

/// Its fields' names are so short that `.ten` has room for all: `l.4999.w`.
#[derive(TensorFile)]
struct Layer {
    w: Array2<f32>,
    b: Array1<f32>,
}

#[derive(TensorFile)]
struct ModelView<'a> {
    l: Vec<LayerView<'a>>,
}

#[derive(TensorFile)]
struct LayerView<'a> {
    w: ArrayView2<'a, f32>,
    b: ArrayView1<'a, f32>,
}

fn model() -> Model {
    let layer = || Layer { w: Array2::from_elem((4, 4), 1.5), b: Array1::from_elem(16, 2.5) };
    Model { l: (0..MANY / 2).map(|_| layer()).collect() }
}
