//! The time to open a file of many small tensors and to compare it with a type: in total, and as tensors per second.
//!
//! `cargo bench -p tensorfile-benches --bench open --all-features`; `BENCH_SHRINK=1000` divides the number of tensors.
//! The `safetensors` crate reads the header of its own format for comparison, in memory.

use std::path::PathBuf;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use tensorfile::{Backend, FORMATS, Format, OpenOptions, SaveOptions, Tensor, TensorMap, WriteOptions};

fn main() {
    divan::main();
}

/// Named tensors of 16 floats: 100,000 of them.
fn small() -> TensorMap {
    let shrink = std::env::var("BENCH_SHRINK").ok().and_then(|shrink| shrink.parse().ok()).unwrap_or(1_usize);
    let tensor = Tensor::from_slice(&[1.5_f32; 16], [16]).expect("there are 16");
    (0..100_000 / shrink.max(1)).map(|at| (format!("layers.{}.part.{}", at / 8, at % 8), tensor.clone())).collect()
}

/// The rows of the table of formats that hold several tensors.
fn formats() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().filter(|format| format.max_tensors.is_none()).map(|format| format.name)
}

/// A file of the format, the folder that it is in, and how many tensors it has.
fn file(format: &str) -> (tempfile::TempDir, PathBuf, usize) {
    let format: &'static Format = FORMATS.iter().find(|row| row.name == format).expect("it is in the table");
    let (map, folder) = (small(), tempfile::tempdir().expect("a folder can be made"));
    let path = folder.path().join("small").with_extension(format.extensions[0]);
    let save = SaveOptions::new().write(WriteOptions::new().embed_names(true)).save(&path, &map);
    save.expect("f32 can be stored");
    (folder, path, map.len())
}

fn open(bencher: Bencher<'_, '_>, format: &str, backend: Backend) {
    let (_folder, path, tensors) = file(format);
    let options = OpenOptions::new().backend(backend);
    bencher.counter(ItemsCount::new(tensors)).bench(|| options.open(black_box(&path)));
}

#[divan::bench(args = formats(), sample_count = 10)]
fn mapped(bencher: Bencher<'_, '_>, format: &str) {
    open(bencher, format, Backend::Mapped);
}

#[divan::bench(args = formats(), sample_count = 10)]
fn at_positions(bencher: Bencher<'_, '_>, format: &str) {
    open(bencher, format, Backend::Positioned);
}

#[divan::bench(args = formats(), sample_count = 10)]
fn report(bencher: Bencher<'_, '_>, format: &str) {
    let (_folder, path, tensors) = file(format);
    let file = OpenOptions::new().open(path).expect("it was just saved");
    bencher.counter(ItemsCount::new(tensors)).bench(|| file.report::<TensorMap>());
}

#[cfg(feature = "safetensors")]
#[divan::bench(sample_count = 10)]
fn safetensors_crate(bencher: Bencher<'_, '_>) {
    let (_folder, path, tensors) = file("safetensors");
    let bytes = std::fs::read(path).expect("it was just saved");
    bencher
        .counter(ItemsCount::new(tensors))
        .bench(|| safetensors::SafeTensors::deserialize(black_box(&bytes)).map(|file| file.len()));
}
