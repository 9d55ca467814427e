//! Layout maps: planning the experts of a large model, and writing tensors in another layout.
//!
//! ```sh
//! cargo bench -p tensorfile-benches --bench maps                  # 4 GiB, which takes 8 GiB of disk
//! BENCH_SHRINK=100 cargo bench -p tensorfile-benches --bench maps
//! cargo bench -p tensorfile-benches --bench maps -- transposed    # some of the rows
//! ```
//!
//! Times to write are multiples of `cp`, of files that neither flushes. Both are measured three times in turn; the best of
//! each counts. The goals are 0.5 s for a plan of 36,000 tensors, 0.9 × `cp` for long runs, 0.8 for permuted rows, and 0.5 for
//! elements of two bytes.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tensorfile::file::Backend;
use tensorfile::{LayoutMap, OpenOptions, SaveOptions, Tensors};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Names and shapes of bf16 tensors.
type Shapes = Vec<(String, Vec<usize>)>;

fn main() -> Result<()> {
    let shrink = std::env::var("BENCH_SHRINK").map_or(Ok(1), |shrink| shrink.parse::<usize>())?.max(1);
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let folder = tempfile::tempdir_in(".")?;
    let (source, target) = (folder.path().join("source.safetensors"), folder.path().join("target.safetensors"));

    let layers = (94 / shrink).max(1);
    write(&source, &experts(layers, 128, [1536, 4096]), true)?;
    let map = LayoutMap::named("qwen3-moe").ok_or("it is shipped")?.set("e", 128).set("l", layers as u64);
    let start = Instant::now();
    let file = OpenOptions::new().map(&map).open(&source)?;
    println!("plan of {layers} layers with 128 experts: {:.2?}", start.elapsed());
    println!("{}", file.receipt().ok_or("it is mapped")?);

    let rows = ((1 << 20) / shrink).next_multiple_of(128);
    let matrices = (0..(64 / shrink).max(1)).map(|n| (format!("{n}.q"), vec![4096, 8192])).collect();
    let one = |name: &str, shape: [usize; 2]| vec![(name.to_owned(), shape.to_vec())];
    for (what, tensors, map) in [
        (
            "experts in one tensor",
            experts((16 / shrink).max(1), (512 / shrink).clamp(2, 32), [1024, 1024]),
            "model.layers.{l}.mlp.experts.{e}.{p:gate|up}_proj.weight [i h] = gate_up.{l} [e (p i) h]\n\
             model.layers.{l}.mlp.experts.{e}.down_proj.weight [h i] = down.{l} [e h i]",
        ),
        (
            "rows of 4 KiB permuted",
            one("q", [rows, 2048]),
            "let two = 2\nlet half = 64\nq [(n two half) h] = r [(n half two) h]",
        ),
        ("matrices of 64 MiB transposed", matrices, "{n}.q [a b] = {n}.r [b a]"),
        ("one matrix transposed", one("q", [rows, 2048]), "q [a b] = r [b a]"),
        ("elements interleaved", one("q", [rows, 2048]), "let two = 2\nq [a (two b)] = r [a (b two)]"),
    ] {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| what.contains(wanted)) {
            continue;
        }
        let bytes = write(&source, &tensors, false)?;
        let map = LayoutMap::parse(map)?;
        let (mut copied, mut mapped) = (Duration::MAX, Duration::MAX);
        for _ in 0..3 {
            copied = copied.min(timed(&target, &|| {
                let copy = Command::new("cp").arg("--reflink=never").arg(&source).arg(&target).status()?;
                if copy.success() { Ok(()) } else { Err("cp failed".into()) }
            })?);
            mapped = mapped.min(timed(&target, &|| {
                let file = OpenOptions::new().backend(Backend::Positioned).map(&map).open(&source)?;
                Ok(SaveOptions::new().durable(false).save(&target, &file as &dyn Tensors)?)
            })?);
        }
        let times = copied.as_secs_f64() / mapped.as_secs_f64();
        println!("{what}, {} MiB: {mapped:.2?}, {times:.2} x cp", bytes >> 20);
    }
    Ok(())
}

fn experts(layers: usize, experts: usize, [inner, hidden]: [usize; 2]) -> Shapes {
    let name = |layer, expert, part| format!("model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight");
    let mut tensors = Vec::new();
    for (layer, expert) in (0..layers).flat_map(|layer| (0..experts).map(move |expert| (layer, expert))) {
        tensors.extend(["gate", "up"].map(|part| (name(layer, expert, part), vec![inner, hidden])));
        tensors.push((name(layer, expert, "down"), vec![hidden, inner]));
    }
    tensors
}

/// Returns the time of a function that writes a new file.
fn timed(target: &Path, run: &dyn Fn() -> Result<()>) -> Result<Duration> {
    if target.exists() {
        fs::remove_file(target)?;
    }
    let start = Instant::now();
    run()?;
    Ok(start.elapsed())
}

/// Writes a safetensors file of bytes that count up, or with gaps, and returns the number of its payload bytes.
fn write(path: &Path, tensors: &Shapes, is_sparse: bool) -> Result<u64> {
    let (mut header, mut end) = (Vec::new(), 0);
    for (name, shape) in tensors {
        let start = end;
        end += 2 * shape.iter().product::<usize>() as u64;
        header.push(format!(r#""{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{start},{end}]}}"#));
    }
    let mut header = format!("{{{}}}", header.join(","));
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    if is_sparse {
        file.into_inner()?.set_len(8 + header.len() as u64 + end)?;
        return Ok(end);
    }
    let piece: Vec<u8> = (0..=250).cycle().take(1 << 20).collect();
    let mut left = end;
    while left > 0 {
        let now = left.min(piece.len() as u64);
        file.write_all(&piece[..usize::try_from(now)?])?;
        left -= now;
    }
    file.flush()?;
    Ok(end)
}
