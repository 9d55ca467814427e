//! Files of a million small tensors: the processor time and the peak memory of commands that write them.
//!
//! ```sh
//! cargo bench -p tensorfile-benches --bench many --all-features            # everything: takes 1 GiB of disk and two minutes
//! cargo bench -p tensorfile-benches --bench many --all-features -- convert # only the rows that begin so
//! BENCH_SHRINK=1000 cargo bench -p tensorfile-benches --bench many --all-features
//! ```
//!
//! The files are of safetensors, with tensors f32[4] under the names of a mixture of experts. Each command runs over a tenth of
//! the tensors and over all, three times, and the best run counts. Time is that of the processor, in the program and in the
//! system, so that other programs on the machine matter little. Files are not flushed to disk. Memory is the `VmHWM` of the
//! program, with the pages of files that it maps.
//!
//! The goals for each row: 4 s, 250 MiB, and at most 11 times the time for 10 times the tensors. It fails if a full run misses
//! one. Rows of npz have no goal for memory: the writer of archives holds 220 bytes for each member until the end.

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
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use comfy_table::{CellAlignment, Table, presets};
    use tensorfile::model::{TensorRecord, TensorSink};
    use tensorfile::{Dtype, FORMATS, SaveOptions, TensorInfo, Tensors};

    use crate::program;

    type Result<T> = std::result::Result<T, Box<dyn Error>>;

    const MIB: f64 = (1 << 20) as f64;

    /// The unit of times in `/proc`.
    const TICK: Duration = Duration::from_millis(10);

    pub fn main() -> Result<()> {
        // `cargo bench` adds an option of its own.
        let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
        let shrink = std::env::var("BENCH_SHRINK").map_or(Ok(1), |shrink| shrink.parse::<usize>())?.max(1);
        let (program, folder) = (program::build()?, tempfile::tempdir()?);
        let all = (1_000_000 / shrink).max(10);
        let (few, many) = (folder.path().join("few.safetensors"), folder.path().join("many.safetensors"));
        for (path, tensors) in [(&few, all / 10), (&many, all)] {
            SaveOptions::new().durable(false).save(path, &Many(tensors))?;
        }

        let (mut table, mut missed) = (Table::new(), Vec::new());
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header([
            "".to_owned(),
            format!("{} tensors", all / 10),
            format!("{all} tensors"),
            "times".to_owned(),
        ]);
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        for (what, before, after) in rows() {
            if !what.starts_with(&wanted) {
                continue;
            }
            eprintln!("{what}");
            let measured = [&few, &many].map(|file| measure(&program, folder.path(), before, file, &after));
            let [few, many] = measured;
            let ((few, few_peak), (many, many_peak)) = (few?, many?);
            // Both parts of a time are rounded down.
            let times = (many + TICK).as_secs_f64() / (few + TICK).as_secs_f64();
            let cell = |time: Duration, peak: u64| format!("{time:.2?}, {:.0} MiB", peak as f64 / MIB);
            table.add_row([what.clone(), cell(few, few_peak), cell(many, many_peak), format!("{times:.1}")]);
            let is_small = many_peak as f64 <= 250.0 * MIB || what.ends_with("npz");
            if many > Duration::from_secs(4) || !is_small || times > 11.0 {
                missed.push(what);
            }
        }
        println!("{table}");
        if shrink == 1 && !missed.is_empty() {
            return Err(format!("a goal is missed: {}", missed.join(", ")).into());
        }
        Ok(())
    }

    /// The commands, with what comes before the file and after it. `OUT` is a file in a folder that is removed.
    fn rows() -> Vec<(String, &'static [&'static str], Vec<String>)> {
        let to = |format: &str| ["OUT", "--to", format, "--no-flush"].map(str::to_owned).to_vec();
        let formats = FORMATS.iter().filter(|format| format.max_tensors.is_none());
        let mut rows: Vec<(String, &'static [&'static str], Vec<String>)> =
            formats.map(|format| (format!("convert to {}", format.name), &["convert"][..], to(format.name))).collect();
        rows.push(("merge".to_owned(), &["merge"], to("ptd")));
        rows.push(("append".to_owned(), &["append", "OUT", "--no-flush"], Vec::new()));
        let by_prefix = ["--by-prefix", "2", "--out", "OUT", "--no-flush"].map(str::to_owned);
        rows.push(("split --by-prefix 2".to_owned(), &["split"], by_prefix.to_vec()));
        rows
    }

    /// Returns the lowest processor time of three runs, and the highest peak.
    fn measure(
        program: &Path,
        folder: &Path,
        before: &[&str],
        file: &Path,
        after: &[String],
    ) -> Result<(Duration, u64)> {
        let out = folder.join("out");
        let (mut best, mut most) = (Duration::MAX, 0);
        for _ in 0..3 {
            fs::create_dir(&out)?;
            let written = out.join("out.safetensors");
            if before.contains(&"OUT") {
                SaveOptions::new().durable(false).save(&written, &Other)?;
            }
            let path = |argument: &str| if argument == "OUT" { written.clone() } else { argument.into() };
            let mut command = Command::new(program);
            command.args(before.iter().map(|argument| path(argument))).arg(file);
            command.args(after.iter().map(|argument| path(argument)));
            let (time, peak) = run(&mut command)?;
            (best, most) = (best.min(time), most.max(peak));
            fs::remove_dir_all(&out)?;
        }
        Ok((best, most))
    }

    /// Runs a command. Returns its processor time, and its peak memory in bytes.
    fn run(command: &mut Command) -> Result<(Duration, u64)> {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let folder = format!("/proc/{}", child.id());
        let (mut ticks, mut peak) = (0, 0);
        let exit = loop {
            // Both are gone once the process has been waited for.
            let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            peak = peak.max(kib.unwrap_or(0) << 10);
            let stat = fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
            // The name of the program, in brackets, may have spaces. The time in the program is the 14th field.
            let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
            ticks = ticks.max(fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum());
            if let Some(exit) = child.try_wait()? {
                break exit;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        if exit.success() { Ok((ticks * TICK, peak)) } else { Err(format!("{command:?}: {exit}").into()) }
    }

    /// Tensors with the names of a mixture of experts, which are not held.
    struct Many(usize);

    impl Tensors for Many {
        fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
            let info = TensorInfo::new(Dtype::F32, [4]);
            (0..self.0).try_for_each(|i| {
                let name = format!("layers.{}.experts.{}.w{}", i >> 13, i >> 5 & 255, i & 31);
                let payload = [i as u64, !(i as u64)].map(u64::to_le_bytes);
                sink.tensor(&TensorRecord { name: &name, info: &info, data: &payload.as_flattened(), tied: None })
            })
        }
    }

    /// The tensor of a file to append to.
    struct Other;

    impl Tensors for Other {
        fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
            let info = TensorInfo::new(Dtype::F32, [4]);
            sink.tensor(&TensorRecord { name: "other", info: &info, data: &&[0; 16][..], tied: None })
        }
    }
}
