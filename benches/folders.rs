//! Folders of trainers: listing many tensors, and converting a folder of four processes to one safetensors file.
//!
//! ```sh
//! cargo bench -p tensorfile-benches --bench folders               # 10,000 tensors; 4 GiB, which takes 12 GiB of disk
//! BENCH_SHRINK=100 cargo bench -p tensorfile-benches --bench folders
//! ```
//!
//! A small writer writes the folder like `torch.distributed.checkpoint`, without checksums, and flushes it to disk.
//! Half of the bytes are tensors split by rows, a quarter by columns, and a quarter in one chunk.
//!
//! The time to convert is a multiple of a copy: of `cp` and `sync` for `convert`, which flushes its file, and of `cp`
//! for `convert --no-flush`. All are measured five times in turn; the best of each counts. Peak memory is the program's
//! `VmHWM`. It contains no mapped pages, because the program reads at positions.
//!
//! The goals are a tenth of a second for each 5,000 tensors of `ls`, 0.9 × the copy, and 64 MiB. If a full run misses
//! one, the benchmark fails.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("the peak memory of a process can only be read on Linux");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(target_os = "linux")]
#[path = "../tests/it/support/dcp_writer.rs"]
#[allow(clippy::unwrap_used, reason = "it is shared with tests")]
mod dcp_writer;
#[cfg(target_os = "linux")]
mod program;

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::fs::{self, File};
    use std::io::{self, BufWriter, Read, Write};
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use crate::dcp_writer::{Chunk, Entry, Item, metadata, tensor_item};
    use crate::program;

    type Result<T> = std::result::Result<T, Box<dyn Error>>;

    /// The number of processes that save.
    const RANKS: u64 = 4;

    pub fn main() -> Result<()> {
        let shrink = std::env::var("BENCH_SHRINK").map_or(Ok(1), |shrink| shrink.parse::<u64>())?.max(1);
        let (program, folder) = (program::build()?, tempfile::tempdir()?);
        let saved = folder.path().join("many");
        let tensors = (10_000 / shrink).max(1);
        write(&saved, tensors, 64, 1)?;
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..5 {
            times.push(run(Command::new(&program).arg("ls").arg(&saved))?.0);
        }
        let listed = *times.iter().min().ok_or("five runs")?;
        println!("ls of {tensors} tensors in {} chunks: {listed:.1?}", tensors * 5 / 2);

        let saved = folder.path().join("large");
        // 64 MiB each.
        write(&saved, 64, (4096 / shrink).max(1), 4096)?;
        let bytes: u64 = fs::read_dir(&saved)?.map(|entry| Ok(entry?.metadata()?.len())).sum::<io::Result<u64>>()?;
        let (copy, converted) = (folder.path().join("copy"), folder.path().join("model.safetensors"));
        let (mut copies, mut conversions, mut peak) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()], 0);
        for _ in 0..5 {
            let copied = run(Command::new("cp").arg("-r").arg("--reflink=never").arg(&saved).arg(&copy))?.0;
            copies[0].push(copied);
            copies[1].push(copied + run(Command::new("sync").arg("--file-system").arg(&copy))?.0);
            fs::remove_dir_all(&copy)?;
            for (times, options) in conversions.iter_mut().zip([&["--no-flush"][..], &[]]) {
                let (time, memory) =
                    run(Command::new(&program).arg("convert").arg(&saved).arg(&converted).args(options))?;
                times.push(time);
                peak = peak.max(memory);
                fs::remove_file(&converted)?;
            }
        }
        let best = |times: &[Duration]| times.iter().min().copied().unwrap_or_default().as_secs_f64();
        let [cached, flushed] = [0, 1].map(|i| best(&copies[i]) / best(&conversions[i]));
        let peak = peak as f64 / f64::from(1 << 20);
        println!("{} MiB in {RANKS} files", bytes >> 20);
        println!("cp:                 {:.2?}", copies[0]);
        println!("convert --no-flush: {:.2?}, {cached:.2} × cp", conversions[0]);
        println!("cp and sync:        {:.2?}", copies[1]);
        println!("convert:            {:.2?}, {flushed:.2} × cp and sync, {peak:.0} MiB at most", conversions[1]);
        if shrink == 1 && (listed > Duration::from_millis(200) || cached.min(flushed) < 0.9 || peak > 64.0) {
            return Err("a goal is missed".into());
        }
        Ok(())
    }

    /// Writes a folder of tensors of `rows` × `columns` floats. Of four tensors, two are split by rows, one by columns,
    /// and one is whole.
    fn write(folder: &Path, tensors: u64, rows: u64, columns: u64) -> Result<()> {
        fs::create_dir(folder)?;
        let name = |rank: u64| format!("__{rank}_0.distcp");
        let open = |rank| Ok((BufWriter::with_capacity(1 << 20, File::create(folder.join(name(rank)))?), 0));
        let mut files = (0..RANKS).map(open).collect::<io::Result<Vec<_>>>()?;
        let mut entries = Vec::new();
        for tensor in 0..tensors {
            let boxes: Vec<(Vec<u64>, Vec<u64>)> = match tensor % 4 {
                0 | 1 => parts(rows).map(|(start, len)| (vec![start, 0], vec![len, columns])).collect(),
                2 if columns >= RANKS => parts(columns).map(|(start, len)| (vec![0, start], vec![rows, len])).collect(),
                _ => vec![(vec![0, 0], vec![rows, columns])],
            };
            let mut chunks = Vec::new();
            for (rank, (offsets, sizes)) in (tensor..).zip(boxes) {
                let rank = rank % RANKS;
                let (file, offset) = &mut files[usize::try_from(rank)?];
                let (before, after) = tensor_item("FloatStorage", 4, &sizes, &[sizes[1], 1]);
                let len = 4 * sizes[0] * sizes[1];
                file.write_all(&before)?;
                io::copy(&mut io::repeat(u8::try_from(tensor % 63)?).take(len), file)?;
                file.write_all(&after)?;
                let length = before.len() as u64 + len + after.len() as u64;
                let item = Item { path: name(rank), offset: *offset, length, transforms: Vec::new() };
                *offset += length;
                chunks.push(Chunk { offsets, sizes, item });
            }
            entries
                .push((format!("model.layers.{tensor}.weight"), Entry::Tensor("float32", vec![rows, columns], chunks)));
        }
        files.into_iter().try_for_each(|(mut file, _)| {
            file.flush()?;
            file.get_ref().sync_all()
        })?;
        fs::write(folder.join(".metadata"), metadata(&entries, b"N"))?;
        Ok(())
    }

    /// Returns the starts and the lengths of the parts of a dim, one for each process.
    fn parts(dim: u64) -> impl Iterator<Item = (u64, u64)> {
        let step = dim.div_ceil(RANKS);
        (0..RANKS).map(move |rank| (rank * step).min(dim)).map(move |start| (start, step.min(dim - start)))
    }

    /// Runs a command. Returns its time, and its peak memory in bytes.
    fn run(command: &mut Command) -> Result<(Duration, u64)> {
        let start = Instant::now();
        let mut child = command.stdout(Stdio::null()).spawn()?;
        let status = format!("/proc/{}/status", child.id());
        let (mut peak, mut text) = (0, String::new());
        let exit = loop {
            text.clear();
            // It is gone once the process has ended.
            if File::open(&status).and_then(|mut file| file.read_to_string(&mut text)).is_ok() {
                let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
                peak = peak.max(kib.unwrap_or(0) << 10);
            }
            if let Some(exit) = child.try_wait()? {
                break exit;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        if exit.success() { Ok((start.elapsed(), peak)) } else { Err(format!("{command:?}: {exit}").into()) }
    }
}
