//! Time and peak memory of the program over files at their limits: millions of tensors, names of 1 MB, the highest
//! rank, an archive of many members, and a file of 20 GiB.
//!
//! ```sh
//! bench="cargo bench -p tensorfile-benches --bench limits --all-features"
//! $bench                    # everything: takes 8 GiB of memory to make the files, and a quarter of an hour
//! $bench -- 'many ten'      # only files whose names begin with this
//! BENCH_SHRINK=1000 $bench  # sizes divided by this
//! ```
//!
//! The file of 20 GiB is a hole. "Index" is the peak memory of showing one tensor, which is little more than opening
//! the file. "Above" is the memory that a command takes in addition. Bytes per tensor are the peak minus the peak for a
//! file of one tensor.
//!
//! The goal is the program itself plus 64 MiB, 200 bytes per tensor, and the names. If a command misses it, the
//! benchmark fails. `ls --tree`, `ls --patterns` and `codegen` have no goal: they hold a branch, a pattern or a field
//! for each line they print, and the names in these files have nothing in common.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("the peak memory of a process can only be read on Linux");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(target_os = "linux")]
mod program;

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::fs::{self, File};
    use std::io::{self, Read, Write};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use crate::program;
    use comfy_table::{CellAlignment, Table, presets};
    use tensorfile::model::{TensorData, TensorRecord, TensorSink};
    use tensorfile::{Dtype, FORMATS, Format, Layout, TensorInfo, Tensors, WriteOptions};

    type Result<T> = std::result::Result<T, Box<dyn Error>>;

    const MIB: u64 = 1 << 20;

    /// The memory that a command may take in addition to [`PER_TENSOR`], the names and the program itself.
    const BOUND: u64 = 64 * MIB;
    const PER_TENSOR: u64 = 200;

    /// Commands without a goal, because they hold everything they print: a branch, a pattern or a field for each
    /// tensor, if no two names have a part in common.
    const UNLIMITED: &[&str] = &["ls --tree", "ls --patterns", "codegen"];

    /// The commands, with the arguments before and after the file.
    const COMMANDS: &[(&str, &[&str], &[&str])] = &[
        ("ls", &["ls"], &[]),
        ("ls --json", &["ls", "--json"], &[]),
        ("ls --diffable", &["ls", "--diffable"], &[]),
        ("ls --sort bytes", &["ls", "--sort", "bytes"], &[]),
        ("info", &["info"], &[]),
        ("stats", &["stats"], &[]),
        ("stats --json", &["stats", "--json"], &[]),
        ("verify --payload", &["verify", "--payload"], &[]),
        ("hash", &["hash"], &[]),
        ("hash --tensors", &["hash", "--tensors"], &[]),
        ("diff", &["diff"], &["FILE"]),
        ("report", &["report", "--output", "-"], &[]),
        ("stats --sort mean", &["stats", "--sort", "mean"], &[]),
        ("ls --tree", &["ls", "--tree"], &[]),
        ("ls --patterns", &["ls", "--patterns"], &[]),
        ("codegen", &["codegen"], &[]),
    ];

    pub fn main() -> Result<()> {
        // `cargo bench` adds an option of its own.
        let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
        let (program, folder) = (program::build()?, tempfile::tempdir()?);
        let mut bench =
            Bench { program, folder: folder.path().to_owned(), wanted, empty: 0, rows: Vec::new(), missed: 0 };
        let one = bench.write("one", named("safetensors").unwrap_or(FORMATS[0]), &Many::new(1, 1, [4]))?;
        bench.empty = bench.run(&["show", "--format", "json"], &one, &["#0"])?.peak;

        let shrink = std::env::var("BENCH_SHRINK").map_or(Ok(1), |shrink| shrink.parse::<usize>())?.max(1);
        let shrunk = |size: usize| (size / shrink).max(1);
        for format in FORMATS.iter().filter(|format| format.max_tensors.is_none() && format.name != "npz") {
            // The header of safetensors is bounded.
            let tensors = if format.name == "safetensors" { 1_000_000 } else { 4_000_000 };
            bench.measure(&format!("many {}", format.name), format, &Many::new(shrunk(tensors), 8, [4]))?;
        }
        for format in FORMATS.iter().filter(|format| format.max_tensors.is_none()) {
            let name = shrunk(1 << 20).max(16);
            // A zip archive has no room for them.
            if format.max_name.is_none_or(|longest| longest >= name) && format.name != "npz" {
                bench.measure(&format!("long names {}", format.name), format, &Many::new(32, name, [4]))?;
            }
            let rank = format.max_rank.unwrap_or(255).min(255);
            bench.measure(
                &format!("rank {rank} {}", format.name),
                format,
                &Many::new(shrunk(10_000), 8, vec![1; rank]),
            )?;
        }
        if let Some(npz) = named("npz") {
            bench.measure("members npz", npz, &Many::new(shrunk(100_000), 8, [4]))?;
        }
        bench.measure_hole(shrunk(1 << 14))?;
        bench.print();
        match bench.missed {
            0 => Ok(()),
            missed => Err(format!("{missed} of {} runs took more memory than the goal", bench.rows.len()).into()),
        }
    }

    fn named(format: &str) -> Option<&'static Format> {
        Format::named(format)
    }

    /// Tensors of one shape, made when they are written.
    struct Many {
        tensors: usize,
        /// The least length of a name.
        name: usize,
        info: TensorInfo,
    }

    impl Many {
        fn new(tensors: usize, name: usize, shape: impl AsRef<[usize]>) -> Self {
            Self { tensors, name, info: TensorInfo::new(Dtype::F32, shape.as_ref()) }
        }
    }

    impl Tensors for Many {
        fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
            for at in 0..self.tensors {
                let number = at.to_string();
                let name = format!("t{}{number}", "0".repeat(self.name.saturating_sub(1 + number.len())));
                sink.tensor(&TensorRecord { name: &name, info: &self.info, data: &Halves(&self.info), tied: None })?;
            }
            Ok(())
        }
    }

    /// Elements of 0.5.
    struct Halves<'a>(&'a TensorInfo);

    impl TensorData for Halves<'_> {
        fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
            assert_eq!(self.0.layout, Layout::RowMajor);
            let elements = self.0.shape.elements().unwrap_or(0);
            (0..elements).try_for_each(|_| out.write_all(&0.5_f32.to_le_bytes()))
        }
    }

    struct Bench {
        program: PathBuf,
        folder: PathBuf,
        wanted: String,
        /// The peak memory over a file of one tensor.
        empty: u64,
        rows: Vec<[String; 8]>,
        /// The number of runs that missed the goal.
        missed: usize,
    }

    #[derive(Default)]
    struct Run {
        time: Duration,
        /// The processor time, on which other programs have less influence.
        cpu: Duration,
        /// The peak memory in bytes.
        peak: u64,
    }

    impl Bench {
        fn write(&self, name: &str, format: &Format, tensors: &Many) -> Result<PathBuf> {
            let path = self.folder.join(name.replace(' ', "-")).with_extension(format.extensions[0]);
            // Formats without names call tensors by their positions.
            let options = WriteOptions::new().embed_names(format.max_name == Some(0));
            format.to_writer(io::BufWriter::new(File::create(&path)?), tensors, &options)?;
            Ok(path)
        }

        fn measure(&mut self, name: &str, format: &Format, tensors: &Many) -> Result<()> {
            if !name.starts_with(&self.wanted) {
                return Ok(());
            }
            let path = self.write(name, format, tensors)?;
            self.run_all(name, &path, tensors.tensors, tensors.tensors * tensors.name)?;
            Ok(fs::remove_file(path)?)
        }

        /// Measures a file of 20 tensors whose payloads are a hole; each is of 1 GiB if it has 2¹⁴ rows.
        fn measure_hole(&mut self, rows: usize) -> Result<()> {
            const TENSORS: usize = 20;
            let (name, bytes) = ("hole safetensors", rows << 16);
            if !name.starts_with(&self.wanted) {
                return Ok(());
            }
            let tensor = |at: usize| {
                let offsets = (at * bytes, (at + 1) * bytes);
                format!(
                    r#""t{at}":{{"dtype":"F32","shape":[{rows},16384],"data_offsets":[{},{}]}}"#,
                    offsets.0, offsets.1
                )
            };
            let header = format!("{{{}}}", (0..TENSORS).map(tensor).collect::<Vec<_>>().join(","));
            let path = self.folder.join("hole.safetensors");
            let mut file = File::create(&path)?;
            file.write_all(&(header.len() as u64).to_le_bytes())?;
            file.write_all(header.as_bytes())?;
            file.set_len((8 + header.len() + TENSORS * bytes) as u64)?;
            self.run_all(name, &path, TENSORS, 0)?;
            Ok(fs::remove_file(path)?)
        }

        fn run_all(&mut self, name: &str, path: &Path, tensors: usize, name_bytes: usize) -> Result<()> {
            // Of a large tensor, only the corners are read.
            let open = self.run(&["show"], path, &["#0"])?.peak;
            for &(command, before, after) in COMMANDS {
                let file = path.to_str().ok_or("the folder of temporary files has a name that is not UTF-8")?;
                let after: Vec<&str> =
                    after.iter().map(|argument| if *argument == "FILE" { file } else { *argument }).collect();
                let Run { time, cpu, peak } = self.run(before, path, &after)?;
                let mib = |bytes: u64| format!("{:.1}", bytes as f64 / MIB as f64);
                let per_tensor = peak.saturating_sub(self.empty) as f64 / tensors as f64;
                // The commands that take a second file hold two indexes.
                let indexes = if after.is_empty() { 1 } else { 2 };
                let bound = self.empty + BOUND + indexes * (PER_TENSOR * tensors as u64 + name_bytes as u64);
                let misses = peak > bound && !UNLIMITED.contains(&command);
                self.missed += usize::from(misses);
                let row = [
                    name.to_owned(),
                    command.to_owned(),
                    format!("{:.2}", time.as_secs_f64()),
                    format!("{:.2}", cpu.as_secs_f64()),
                    mib(peak),
                    mib(peak.saturating_sub(open)),
                    // The memory of a few tensors is that of the command.
                    if tensors < 1000 { "-".to_owned() } else { format!("{per_tensor:.0}") },
                    match peak <= bound {
                        true => "yes",
                        false if misses => "no",
                        false => "-",
                    }
                    .to_owned(),
                ];
                println!("{}", row.join(" | "));
                self.rows.push(row);
            }
            Ok(())
        }

        fn run(&self, before: &[&str], file: &Path, after: &[&str]) -> Result<Run> {
            let start = Instant::now();
            let mut command = Command::new(&self.program);
            command.args(before).arg(file).args(after).stdout(Stdio::piped()).stdin(Stdio::null());
            let mut child = command.spawn()?;
            let mut stdout = child.stdout.take().ok_or("standard output is a pipe")?;
            // The output is read elsewhere, so that the program does not wait for it.
            let reader = std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while stdout.read(&mut buffer).is_ok_and(|read| read > 0) {}
            });
            let (run, succeeded) = watch(&mut child)?;
            let _ = reader.join();
            if succeeded {
                Ok(Run { time: start.elapsed(), ..run })
            } else {
                Err(format!("`tensorfile {}` failed", before.join(" ")).into())
            }
        }

        fn print(&self) {
            let mut table = Table::new();
            table.load_preset(presets::ASCII_MARKDOWN);
            table.set_header(["file", "command", "s", "CPU s", "peak MiB", "above index", "B/tensor", "in bound"]);
            for row in &self.rows {
                table.add_row(row);
            }
            for column in table.column_iter_mut().skip(2) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            println!("{table}");
        }
    }

    /// Waits for a process. Returns its time and memory, and whether it succeeded.
    ///
    /// The system reports the peak of an ended process too, but includes the memory of its parent at the start.
    fn watch(child: &mut Child) -> Result<(Run, bool)> {
        let (status, stat) = (format!("/proc/{}/status", child.id()), format!("/proc/{}/stat", child.id()));
        let (mut run, start) = (Run::default(), Instant::now());
        loop {
            // A process that is ending has no such line.
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let found = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            run.peak = run.peak.max(found.unwrap_or(0) * 1024);
            run.cpu = run.cpu.max(cpu_time(&fs::read_to_string(&stat).unwrap_or_default()));
            if let Some(status) = child.try_wait()? {
                return Ok((run, status.success()));
            }
            // A run that is short is watched all the time.
            if start.elapsed() > Duration::from_millis(50) {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
    }

    /// Returns the sum of the times in user and system mode, which are in hundredths of a second.
    fn cpu_time(stat: &str) -> Duration {
        // The name of the program, in parentheses, may have blanks in it.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let times = fields.split_whitespace().skip(11).take(2);
        Duration::from_millis(times.filter_map(|time| time.parse::<u64>().ok()).sum::<u64>() * 10)
    }
}
