//! The functions of `tensorfile.h`, compared with those of Rust that do the same.
//!
//! ```sh
//! cargo bench -p tensorfile-benches --bench c --features c           # a plan of 256 MiB
//! cargo bench -p tensorfile-benches --bench c --features c -- 4096   # of 4096 MiB
//! ```
//!
//! The ratio is the time of Rust divided by that of C: 1.0 is as fast. Times are the lowest of several rounds, each of which
//! measures both in turn. `BENCH_SHRINK` divides the number of tensors and the lengths.

use std::hint::black_box;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use tensorfile::{Dtype, Result, SaveOptions, Tensor, TensorInfo, TensorMap};
use tensorfile_c::entry::{
    tf_file_close, tf_file_tensor, tf_open, tf_plan_free, tf_plan_new, tf_plan_read, tf_tensor_close,
    tf_tensor_get_info, tf_view,
};
use tensorfile_c::{tf_file, tf_status, tf_tensor, tf_tensor_info, tf_text};

fn main() -> Result<()> {
    let mib = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(256_usize);
    let shrink = std::env::var("BENCH_SHRINK").ok().and_then(|shrink| shrink.parse().ok()).unwrap_or(1_usize).max(1);
    let folder = tempfile::tempdir()?;
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["", "Rust", "C", "ratio"]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));

    let many = folder.path().join("many.safetensors");
    let count = (10_000 / shrink).max(1);
    save(&many, count, 16)?;
    let rounds = (100 / shrink).max(3);
    let open = || drop(black_box(tensorfile::File::open(&many)));
    compare(&mut table, &format!("open {count} tensors"), (rounds, 1), open, || tf_file_close(opened(&many)));

    let (file, handle) = (tensorfile::File::open(&many)?, opened(&many));
    let walk = || file.tensors().for_each(|tensor| _ = black_box((tensor.name(), tensor.shape())));
    compare(&mut table, "a tensor with its name and shape", (rounds, count), walk, || {
        for position in 0..count {
            let tensor = tensor(handle, position);
            black_box(info(tensor).name.len);
            tf_tensor_close(tensor);
        }
    });
    let tensors: Vec<*mut tf_tensor> = (0..count).map(|position| tensor(handle, position)).collect();
    let view = || file.tensors().for_each(|tensor| drop(black_box(tensor.view())));
    compare(&mut table, "the first view of a tensor", (1, count), view, || {
        tensors.iter().for_each(|tensor| see(*tensor))
    });
    let again = || file.tensors().for_each(|tensor| drop(black_box(tensor.view())));
    compare(&mut table, "a later view", (rounds, count), again, || tensors.iter().for_each(|tensor| see(*tensor)));
    tensors.into_iter().for_each(|tensor| tf_tensor_close(tensor));
    tf_file_close(handle);

    let large = folder.path().join("large.safetensors");
    save(&large, 16, ((mib << 20) / 16 / shrink).max(4))?;
    let (file, handle) = (tensorfile::File::open(&large)?, opened(&large));
    let plan = file.read_plan().all()?.finish()?;
    // Reading into new memory would take longer than reading.
    let mut memory = vec![1_u8; plan.bytes()];
    let mut c_plan = null_mut();
    assert_eq!(tf_plan_new(handle, null(), 0, null(), &raw mut c_plan, null_mut()), tf_status::TF_OK);
    let (start, len) = (memory.as_mut_ptr(), memory.len());
    let read = || plan.read_into(&mut memory).expect("the file is whole");
    compare(&mut table, &format!("a plan of {} MiB", len >> 20), (7, 1), read, || {
        assert_eq!(tf_plan_read(c_plan, start.cast(), len, null_mut()), tf_status::TF_OK);
    });
    tf_plan_free(c_plan);
    tf_file_close(handle);
    println!("{table}");
    Ok(())
}

/// Saves tensors of `len` bytes of `f32` each.
fn save(path: &Path, count: usize, len: usize) -> Result<()> {
    let mut map = TensorMap::new();
    for i in 0..count {
        let info = TensorInfo::new(Dtype::F32, [len / 4]);
        map.insert(format!("layers.{i}.weight"), Tensor::new(info, &vec![1; len / 4 * 4])?);
    }
    SaveOptions::new().save(path, &map)
}

fn text(text: &str) -> tf_text {
    tf_text { data: text.as_ptr().cast(), len: text.len() }
}

fn opened(path: &Path) -> *mut tf_file {
    let mut file = null_mut();
    let path = path.to_str().expect("a temporary folder has a name in UTF-8");
    assert_eq!(tf_open(text(path), null(), &raw mut file, null_mut()), tf_status::TF_OK);
    file
}

fn tensor(file: *mut tf_file, position: usize) -> *mut tf_tensor {
    let mut tensor = null_mut();
    assert_eq!(tf_file_tensor(file, position, &raw mut tensor, null_mut()), tf_status::TF_OK);
    tensor
}

fn info(tensor: *const tf_tensor) -> tf_tensor_info {
    let mut info = tf_tensor_info {
        size: size_of::<tf_tensor_info>(),
        name: text(""),
        dtype: 0,
        layout: 0,
        rank: 0,
        dims: null(),
        strides: null(),
        bytes: 0,
        offset: 0,
        alignment: 0,
        unknown_dtype: text(""),
    };
    assert_eq!(tf_tensor_get_info(tensor, &raw mut info, null_mut()), tf_status::TF_OK);
    info
}

fn see(tensor: *const tf_tensor) {
    let (mut bytes, mut len) = (null(), 0);
    assert_eq!(tf_view(tensor, &raw mut bytes, &raw mut len, null_mut()), tf_status::TF_OK);
    black_box(bytes);
}

/// Measures both ways in turn, and adds a row of the time of one unit.
fn compare(
    table: &mut Table,
    what: &str,
    (rounds, units): (usize, usize),
    mut rust: impl FnMut(),
    mut c: impl FnMut(),
) {
    let mut lowest = [Duration::MAX; 2];
    for _ in 0..rounds {
        for (lowest, way) in lowest.iter_mut().zip([&mut rust as &mut dyn FnMut(), &mut c]) {
            let start = Instant::now();
            way();
            *lowest = (*lowest).min(start.elapsed());
        }
    }
    let [rust, c] = lowest.map(|time| time.as_secs_f64() / units as f64);
    let time = |seconds: f64| match seconds {
        1e-3.. => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.1} ns", seconds * 1e9),
    };
    table.add_row([what.to_owned(), time(rust), time(c), format!("{:.2}", rust / c)]);
}
