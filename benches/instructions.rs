//! Counts the instructions for reading and writing a tensor, with valgrind.
//!
//! ```sh
//! export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1   # as in `.ci/run`
//! bench="cargo bench -p tensorfile-benches --bench instructions"
//! $bench                # everything: takes half a minute
//! $bench -- one         # only cases whose names begin with this
//! $bench -- --check     # fails if a count is more than 5 % above instructions.csv
//! $bench -- --write     # accepts the counts: writes them to instructions.csv
//! ```
//!
//! Unlike times, counts hardly depend on other work of the machine. They do depend on the compiler and the C library.
//! If yours differ from those named in the file, `--check` compares nothing. The seeds of hash tables differ between
//! processes and change some counts by up to 8 %, so everything is counted five times, and the lowest count is taken.

mod cases;

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use comfy_table::{CellAlignment, Table, presets};
use ndarray::{Array1, ArrayView1, ArrayView2};
use tempfile::TempDir;
use tensorfile::{Arrays, FORMATS, File, Result};

use cases::{Blocks, Message3};

type Failure = Box<dyn Error>;

fn main() -> std::result::Result<ExitCode, Failure> {
    // `cargo bench` adds an option of its own.
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let mut cases = all();
    if let [run, wanted] = &arguments[..]
        && run == "--run"
    {
        cases.retain(|case| case.what.starts_with(wanted));
        return cases.iter().try_for_each(Case::run).map(|()| ExitCode::SUCCESS).map_err(Into::into);
    }
    let mode = arguments.first().map_or("", String::as_str);
    let is_set = |(name, value): (&str, &str)| env::var(name).is_ok_and(|set| set == value);
    if matches!(mode, "--check" | "--write") && !PROFILE.into_iter().all(is_set) {
        let [(lto, off), (units, one)] = PROFILE;
        return Err(
            format!("the counts in instructions.csv are of another profile: set {lto}={off} {units}={one}").into()
        );
    }
    match mode {
        "--check" => return check(&cases),
        "--write" => fs::write(ACCEPTED, accepted(&cases, &count(&cases, "")?)?)?,
        wanted => {
            cases.retain(|case| case.what.starts_with(wanted));
            println!("{}", table(&cases, &count(&cases, wanted)?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings with which the counts are compared.
const PROFILE: [(&str, &str); 2] = [("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")];

/// The number of small tensors.
const MANY: usize = 1_000;

/// The number of processes that count each case. With one, a third of all checks failed without a change; with five,
/// one in 700 (drawn from 15 counts).
const COUNTS: usize = 5;

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
    /// Returns how often to repeat the work, so that it reads or writes about `MANY` tensors.
    fn repeats(&self) -> usize {
        MANY / self.tensors
    }

    /// Runs the work once to warm up, and then often enough to be counted.
    fn run(&self) -> Result<()> {
        let mut work = (self.prepare)()?;
        work()?;
        counted_by_callgrind(&mut *work, self.repeats())
    }
}

/// Repeats work. Callgrind counts the instructions of calls of this function only, by its name.
#[inline(never)]
fn counted_by_callgrind(work: &mut dyn FnMut() -> Result<()>, repeats: usize) -> Result<()> {
    (0..repeats).try_for_each(|_| black_box(&mut *work)())
}

/// Returns the instructions for each tensor of each case: the lowest of all counts.
fn count(cases: &[Case], wanted: &str) -> std::result::Result<Vec<u64>, Failure> {
    let mut lowest = count_once(cases, wanted)?;
    for _ in 1..COUNTS {
        for (lowest, count) in lowest.iter_mut().zip(count_once(cases, wanted)?) {
            *lowest = count.min(*lowest);
        }
    }
    Ok(lowest)
}

/// Counts all cases in a separate process.
fn count_once(cases: &[Case], wanted: &str) -> std::result::Result<Vec<u64>, Failure> {
    let folder = tempfile::tempdir()?;
    let counts = folder.path().join("counts");
    let output = Command::new("valgrind")
        // The second pattern may not begin with an asterisk; with the same pattern twice, the second is ignored.
        .args(["--tool=callgrind", "--toggle-collect=*counted_by_callgrind*"])
        .arg("--dump-after=instructions::counted_by_callgrind*")
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(env::current_exe()?)
        .args(["--run", wanted])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    // One file for each call.
    let count = |(index, case): (usize, &Case)| {
        let dump = fs::read_to_string(counts.with_extension((index + 1).to_string()))
            .map_err(|error| format!("callgrind has not counted {}: {error}", case.what))?;
        let total = dump.lines().find_map(|line| line.strip_prefix("summary: ")).ok_or("no count")?;
        Ok(total.trim().parse::<u64>()? / (case.repeats() * case.tensors) as u64)
    };
    cases.iter().enumerate().map(count).collect()
}

fn table(cases: &[Case], counts: &[u64]) -> Table {
    let formats = ["btf", "ten", "ptd", "tensorbuffers", "safetensors", "npz"];
    let mut rows: Vec<(&str, BTreeMap<&str, u64>)> = Vec::new();
    for (case, count) in cases.iter().zip(counts) {
        match rows.iter_mut().find(|(what, _)| *what == case.what) {
            Some((_, counts)) => counts.extend([(case.format, *count)]),
            None => rows.push((case.what, BTreeMap::from([(case.format, *count)]))),
        }
    }
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["instructions for each tensor"].into_iter().chain(formats));
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for (what, counts) in rows {
        let cells = formats.map(|format| counts.get(format).map_or_else(String::new, u64::to_string));
        table.add_row([what.to_owned()].into_iter().chain(cells));
    }
    table
}

/// The counts that were accepted.
const ACCEPTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.csv");

/// Returns the lines of the file of accepted counts: the environment, and a line for each case.
fn accepted(cases: &[Case], counts: &[u64]) -> io::Result<String> {
    let mut lines = format!("# {}\nformat;case;instructions\n", environment()?);
    for (case, count) in cases.iter().zip(counts) {
        writeln!(lines, "{};{};{count}", case.format, case.what).expect("a string takes all");
    }
    Ok(lines)
}

/// Returns the versions of the software on which counts depend.
fn environment() -> io::Result<String> {
    let print = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output()?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let rustc = print(&env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()), "--version")?;
    let libc = print("getconf", "GNU_LIBC_VERSION").unwrap_or_default();
    Ok(format!("{rustc}, {libc}, {}", env::consts::ARCH))
}

/// Compares counts with the accepted ones.
fn check(cases: &[Case]) -> std::result::Result<ExitCode, Failure> {
    let (file, environment) = (fs::read_to_string(Path::new(ACCEPTED))?, environment()?);
    let mut lines = file.lines();
    let counted = lines.next().unwrap_or_default().trim_start_matches("# ");
    if counted != environment {
        println!(
            "NOTE: the counts in instructions.csv are of {counted}; here is {environment}: they are not compared."
        );
        return Ok(ExitCode::SUCCESS);
    }
    let accepted: BTreeMap<&str, u64> = lines
        .filter_map(|line| line.rsplit_once(';'))
        .filter_map(|(case, count)| Some((case, count.parse().ok()?)))
        .collect();
    let (mut risen, mut fallen, mut new) = (0, 0, 0);
    for (case, count) in cases.iter().zip(count(cases, "")?) {
        let name = format!("{};{}", case.format, case.what);
        match accepted.get(&name[..]) {
            None => {
                println!("new: {name}: {count}");
                new += 1;
            }
            Some(&before) => {
                let change = (count as f64 / before as f64 - 1.0) * 100.0;
                let verdict = match change {
                    5.0.. => "RISEN",
                    ..=-5.0 => "fallen",
                    _ => continue,
                };
                println!("{verdict}: {name}: from {before} to {count} instructions for each tensor ({change:+.1} %)");
                *(if change > 0.0 { &mut risen } else { &mut fallen }) += 1;
            }
        }
    }
    println!("{} counts: {risen} risen by more than 5 %, {fallen} fallen, {new} new", cases.len());
    if risen + fallen + new > 0 {
        println!("To accept the counts, run this again with `--write` instead of `--check`.");
    }
    // A case without an accepted count is not guarded.
    Ok(if risen + new > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
                let model = cases::blocks(MANY);
                repeat(move || format::to_vec(&model).map(discard))
            });
            add(MANY, "structs, from memory to owned", || {
                let file = format::to_vec(&cases::blocks(MANY))?;
                repeat(move || format::from_slice::<Blocks>(&file).map(discard))
            });
            add(MANY, "structs, from memory to views", || {
                let file = format::to_vec(&cases::blocks(MANY))?;
                repeat(move || format::from_slice::<Blocks<ArrayView2<f32>, ArrayView1<f32>>>(&file).map(discard))
            });
            add(MANY, "structs, save", || {
                let (folder, model) = (tempfile::tempdir()?, cases::blocks(MANY));
                repeat(move || tensorfile::save(path(&folder, NAME), &model))
            });
            add(MANY, "structs, load", || {
                let folder = tempfile::tempdir()?;
                fs::write(path(&folder, NAME), format::to_vec(&cases::blocks(MANY))?)?;
                repeat(move || tensorfile::load::<Blocks>(path(&folder, NAME)).map(discard))
            });
            add(MANY, "file, open", || {
                let folder = tempfile::tempdir()?;
                fs::write(path(&folder, NAME), $options.to_vec(&map())?)?;
                repeat(move || File::open(path(&folder, NAME)).map(discard))
            });
            add(MANY, "file, compare with structs", || {
                let file = tensorfile::OpenOptions::new().from_bytes(format::to_vec(&cases::blocks(MANY))?)?;
                repeat(move || {
                    discard(file.report::<Blocks>());
                    Ok(())
                })
            });

            // All names, as the seed of the hashes makes some take longer.
            add(MANY, "file, read each by name", || {
                let folder = tempfile::tempdir()?;
                fs::write(path(&folder, NAME), $options.to_vec(&map())?)?;
                let (file, names) = (File::open(path(&folder, NAME))?, (0..MANY).map(name).collect::<Vec<_>>());
                repeat(move || names.iter().try_for_each(|name| file.tensor(name).map(discard)))
            });
            add(MANY, "file, view each by name", || {
                let folder = tempfile::tempdir()?;
                fs::write(path(&folder, NAME), $options.to_vec(&map())?)?;
                let (file, names) = (File::open(path(&folder, NAME))?, (0..MANY).map(name).collect::<Vec<_>>());
                repeat(move || names.iter().try_for_each(|name| file.view(name).map(discard)))
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
            add(3, "struct of three, encode to fresh memory", || {
                let message = Message3::new();
                repeat(move || format::to_vec(&message).map(discard))
            });
            add(3, "struct of three, decode to owned", || {
                let file = format::to_vec(&Message3::new())?;
                repeat(move || format::from_slice::<Message3<Array1<f32>>>(&file).map(discard))
            });
            add(3, "struct of three, decode to views", || {
                let file = format::to_vec(&Message3::new())?;
                repeat(move || format::from_slice::<Message3<ArrayView1<f32>>>(&file).map(discard))
            });
            add(3, "map of three, encode to fresh memory", || {
                let map = Arrays(cases::parts(3));
                repeat(move || $options.to_vec(&map).map(discard))
            });
            add(3, "map of three, decode to owned", || {
                let file = $options.to_vec(&Arrays(cases::parts(3)))?;
                repeat(move || format::from_slice::<Arrays<HashMap<String, Array1<f32>>>>(&file).map(discard))
            });
        }};
    }
    add!(btf, tensorfile::btf::Options::new().embed_names(true));
    add!(ten, tensorfile::ten::Options::new());
    add!(ptd, tensorfile::ptd::Options::new());
    add!(tensorbuffers, tensorfile::tensorbuffers::Options::new());
    add!(safetensors, tensorfile::safetensors::Options::new());
    add!(npz, tensorfile::npz::Options::new());
    cases.extend(streams());
    cases
}

/// Returns the cases of the encoder and the decoder. Only one format has them.
fn streams() -> [Case; 3] {
    use tensorfile::ten;

    let case = |tensors, what, prepare| Case { what, format: "ten", tensors, prepare };
    [
        case(MANY, "stream, encode each", || {
            let tensors: Vec<(String, Array1<f32>)> = (0..MANY).map(name).zip(small()).collect();
            repeat(move || {
                let mut encoder = ten::Encoder::new(io::sink());
                tensors.iter().try_for_each(|(name, tensor)| encoder.encode(name, tensor))
            })
        }),
        case(MANY, "stream, decode each", || {
            let mut encoder = ten::Encoder::new(Vec::new());
            (0..MANY).zip(small()).try_for_each(|(at, tensor)| encoder.encode(&name(at), &tensor))?;
            let stream = encoder.into_inner();
            repeat(move || {
                let mut decoder = ten::Decoder::new(&stream[..]);
                while let Some(tensor) = decoder.decode::<Array1<f32>>()? {
                    discard(tensor);
                }
                Ok(())
            })
        }),
        case(1, "stream, decode one", || {
            let message = ten::to_vec(&one())?;
            repeat(move || ten::Decoder::new(&message[..]).decode::<Array1<f32>>().map(discard))
        }),
    ]
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

/// Returns a name of 8 bytes, the most that `.ten` stores.
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
