//! Speed as a multiple of the `safetensors` crate's, with other array libraries for comparison.
//!
//! ```sh
//! bench="cargo bench -p tensorfile-benches --bench speed --features peers"
//! $bench                    # everything: takes 6 GiB of memory, 3 GiB of disk and twenty minutes
//! $bench -- large           # only rows whose names begin with this
//! BENCH_SHRINK=1000 $bench  # sizes divided by this
//! ```
//!
//! A cell is the reference's time divided by the other's, as the median over the rounds: 2.0 is twice as fast. Times on
//! a busy machine wander, so each round measures the reference and the other one right after the other, and alternates
//! which comes first. "Plain" copies, writes or reads the same bytes with one thread and without any format. A cell is
//! empty if the library cannot do the task. `benches/report` puts the table into the README.

mod cases;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufReader, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use ndarray::{Array1, Array2, ArrayD, ArrayView1, ArrayView2, Dimension};
use ndarray_npy::{NpzReader, NpzWriter};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use tempfile::TempDir;
use tensorfile::{Arrays, Format, Result, SaveOptions, TensorMap, WriteOptions};

use cases::{FIELDS, Message1, Message3, Message8, Model};

fn main() -> Result<()> {
    // `cargo bench` adds an option of its own.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let mut report = Report { wanted, rows: Vec::new() };
    large(&mut report)?;
    small(&mut report)?;
    model(&mut report)?;
    messages(&mut report)?;
    one(&mut report)?;
    println!("{}", report.table());
    Ok(())
}

/// Runs a block for each format, with its name, its module, and options for storing names: of up to 8 bytes, or any.
macro_rules! for_each_format {
    (|$name:ident, $module:ident| $block:block) => { for_each_format!(|$name, $module, _options| $block) };
    (|$name:ident, $module:ident, $options:ident| $block:block) => {
        for_each_format!(
            $name, $module, $options, $block, btf.embed_names(true); ten; ptd; tensorbuffers; safetensors;
        )
    };
    (|$name:ident, $module:ident, $options:ident for any name| $block:block) => {
        for_each_format!(
            $name, $module, $options, $block,
            btf.embed_names(true); ten.embed_names(true); ptd; tensorbuffers; safetensors;
        )
    };
    ($name:ident, $module:ident, $options:ident, $block:block, $($format:ident$(.$method:ident($on:expr))?;)*) => {$({
        use tensorfile::$format as $module;
        let ($name, $options) = (stringify!($format), $module::Options::new()$(.$method($on))?);
        $block
    })*};
}

const COLUMNS: [&str; 10] =
    ["plain", "btf", "ten", "ptd", "tensorbuffers", "safetensors", "ndarray-npy", "bincode", "postcard", "rkyv"];

/// The formats of this library among the columns.
const FORMATS: [&str; 5] = ["btf", "ten", "ptd", "tensorbuffers", "safetensors"];

/// Arrays as rkyv stores them: shapes and numbers.
type Rkyv = Vec<(Vec<u64>, Vec<f32>)>;

const BINCODE: bincode::config::Configuration = bincode::config::standard();

fn large(report: &mut Report) -> Result<()> {
    type Owned = Vec<Array2<f32>>;
    type Views<'a> = Vec<ArrayView2<'a, f32>>;

    if !report.wants("large") {
        return Ok(());
    }
    let (folder, arrays) = (tempfile::tempdir()?, Arrays(cases::large()));
    let payloads: Vec<&[u8]> = arrays.0.iter().map(bytes).collect();
    let rounds = 7;
    let (path, other) = (folder.path().join("reference"), folder.path().join("other"));
    write_reference(&path, &arrays.0);
    let write_plain = |path: &Path| {
        let mut file = File::create(path).expect("there is room");
        payloads.iter().try_for_each(|payload| file.write_all(payload)).expect("there is room");
        file
    };

    if let Some(mut row) = report.row("large: to fresh memory", rounds, || to_reference(&arrays.0)) {
        row.add("plain", || payloads.concat());
        for_each_format!(|name, format| { row.add(name, || format::to_vec(&arrays).expect("f32 can be stored")) });
        peers_to_memory(&mut row, &arrays.0);
    }
    if let Some(mut row) = report.row("large: to a reused buffer", rounds, || to_reference(&arrays.0)) {
        let mut copy = Vec::new();
        row.add("plain", || {
            copy.clear();
            payloads.iter().for_each(|payload| copy.extend_from_slice(payload));
        });
        drop(copy);
        for_each_format!(|name, format| {
            let mut file = Vec::new();
            row.add(name, || format::Options::new().to_vec_into(&mut file, &arrays).expect("f32 can be stored"));
        });
    }
    // Files are removed before they are written again: giving back their memory is not measured.
    let new = |path: &Path| drop(fs::remove_file(path));
    if let Some(mut row) = report.row("large: to a new file", rounds, || write_reference(&other, &arrays.0)) {
        row.before = Box::new(|| new(&other));
        row.add("plain", || write_plain(&other));
        for_each_format!(|name, format| {
            // As the reference does it: under a temporary name, which is replaced, without a flush to disk.
            let save = SaveOptions::new().format(&format::FORMAT).durable(false);
            row.add(name, || save.save(&other, &arrays.0).expect("there is room"));
        });
        peers_to_file(&mut row, &arrays.0, &other);
    }
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all()).expect("there is a disk");
    let reference = || {
        write_reference(&other, &arrays.0);
        sync(&other);
    };
    let saved_as = |name: &str| folder.path().join("saved").with_extension(extension(name));
    if let Some(mut row) = report.row("large: saved, with fsync", rounds, reference) {
        row.before = Box::new(|| {
            new(&other);
            FORMATS.iter().for_each(|name| new(&saved_as(name)));
        });
        row.add("plain", || write_plain(&other).sync_all().expect("there is a disk"));
        for name in FORMATS {
            let path = saved_as(name);
            row.add(name, || tensorfile::save(&path, &arrays.0).expect("there is room"));
            fs::remove_file(path)?;
        }
    }
    drop(fs::remove_file(&other));

    if let Some(mut row) = report.row("large: loaded into owned arrays", rounds, || read_reference(&path)) {
        row.add("plain", || fs::read(&path).expect("it was written"));
        for_each_format!(|name, format| {
            let path = saved(&folder, name, |file| format::to_writer(file, &arrays))?;
            row.add(name, || tensorfile::load::<Owned>(&path).expect("it is whole"));
            fs::remove_file(path)?;
        });
        peers_from_file(&mut row, &arrays.0, &other);
    }
    drop(fs::remove_file(&other));
    if let Some(mut row) = report.row("large: loaded into arrays that exist", rounds, || read_reference(&path)) {
        let mut copies = arrays.0.clone();
        row.add("plain", || {
            let mut file = File::open(&path).expect("it was written");
            copies.iter_mut().try_for_each(|copy| file.read_exact(bytes_mut(copy))).expect("it is whole");
        });
        for_each_format!(|name, format| {
            let path = saved(&folder, name, |file| format::to_writer(file, &arrays))?;
            row.add(name, || {
                let file = tensorfile::File::open(&path).expect("it was written");
                for (tensor, copy) in file.tensors().zip(&mut copies) {
                    tensor.read_at(0, bytes_mut(copy)).expect("it is whole");
                }
            });
            fs::remove_file(path)?;
        });
    }
    let reference = || {
        let file = map_file(&path);
        let file = SafeTensors::deserialize(&file).expect("it was written");
        file.iter().map(|(_, tensor)| sum(bytemuck::cast_slice(tensor.data()))).sum::<f32>()
    };
    if let Some(mut row) = report.row("large: mapped and summed", rounds, reference) {
        // Headers of safetensors end at a multiple of 8.
        row.add("plain", || sum(bytemuck::cast_slice(&map_file(&path))));
        for_each_format!(|name, format| {
            let path = saved(&folder, name, |file| format::to_writer(file, &arrays))?;
            row.add(name, || {
                let file = tensorfile::File::open(&path).expect("it was written");
                let views: Views = file.load().expect("it is whole");
                views.iter().map(|view| sum(view.as_slice().expect("it is contiguous"))).sum::<f32>()
            });
            fs::remove_file(path)?;
        });
        write_rkyv(&arrays.0, &other);
        row.add("rkyv", || {
            let file = map_file(&other);
            let arrays = rkyv::access::<rkyv::Archived<Rkyv>, rkyv::rancor::Error>(&file).expect("it is whole");
            arrays.iter().map(|array| array.1.iter().map(|number| number.to_native()).sum::<f32>()).sum::<f32>()
        });
    }
    Ok(())
}

fn small(report: &mut Report) -> Result<()> {
    type Owned = Arrays<Vec<Array1<f32>>>;
    type Views<'a> = Arrays<Vec<ArrayView1<'a, f32>>>;

    if !report.wants("small") {
        return Ok(());
    }
    let (folder, arrays) = (tempfile::tempdir()?, Arrays(cases::small()));
    let payloads: Vec<&[u8]> = arrays.0.iter().map(bytes).collect();
    let rounds = 11;
    let (path, other) = (folder.path().join("reference"), folder.path().join("other"));
    write_reference(&path, &arrays.0);
    let file = fs::read(&path)?;

    if let Some(mut row) = report.row("small: list to fresh memory", rounds, || to_reference(&arrays.0)) {
        row.add("plain", || payloads.concat());
        for_each_format!(|name, format| { row.add(name, || format::to_vec(&arrays).expect("f32 can be stored")) });
        peers_to_memory(&mut row, &arrays.0);
    }
    if let Some(mut row) = report.row("small: list to a new file", rounds, || write_reference(&other, &arrays.0)) {
        row.before = Box::new(|| drop(fs::remove_file(&other)));
        row.add("plain", || fs::write(&other, &file).expect("there is room"));
        for_each_format!(|name, format| {
            let save = SaveOptions::new().format(&format::FORMAT).durable(false);
            row.add(name, || save.save(&other, &arrays.0).expect("there is room"));
        });
        peers_to_file(&mut row, &arrays.0, &other);
    }
    if let Some(mut row) = report.row("small: list to owned", rounds, || from_reference(&file)) {
        row.add("plain", || payloads.iter().map(|payload| payload.to_vec()).collect::<Vec<_>>());
        for_each_format!(|name, format| {
            let file = format::to_vec(&arrays)?;
            row.add(name, || format::from_slice::<Owned>(&file).expect("it is whole"));
        });
        peers_from_memory(&mut row, &arrays.0);
    }
    let views = || {
        let file = SafeTensors::deserialize(&file).expect("it is whole");
        file.tensors().into_iter().map(|(_, tensor)| tensor.data().as_ptr()).collect::<Vec<_>>()
    };
    if let Some(mut row) = report.row("small: list to views", rounds, views) {
        for_each_format!(|name, format| {
            let file = format::to_vec(&arrays)?;
            row.add(name, || black_box(format::from_slice::<Views>(&file).expect("it is whole").0.len()));
        });
        let file = to_rkyv(&arrays.0);
        row.add("rkyv", || {
            let arrays = rkyv::access::<rkyv::Archived<Rkyv>, rkyv::rancor::Error>(&file).expect("it is whole");
            arrays.iter().map(|array| array.1.as_ptr()).collect::<Vec<_>>()
        });
    }
    Ok(())
}

/// 100,000 tensors under the names of a model.
fn model(report: &mut Report) -> Result<()> {
    if !report.wants("model") {
        return Ok(());
    }
    let model = cases::model((100 / cases::shrink()).max(1));
    let map = Arrays(cases::model_map(&model)?);
    let (folder, rounds) = (tempfile::tempdir()?, 11);
    let (path, other) = (folder.path().join("reference"), folder.path().join("other"));
    let file = map_to_reference(&map.0);
    fs::write(&path, &file)?;
    // In the order of the file.
    let names: Vec<String> =
        tensorfile::safetensors::from_slice::<TensorMap>(&file)?.into_iter().map(|it| it.0).collect();
    // Structs are found by position where there are no names.
    let structs = |format: &Format| WriteOptions::new().embed_names(format.name == "ten");
    if let Some(mut row) = report.row("model: structs to memory", rounds, || map_to_reference(&map.0)) {
        for_each_format!(|name, format| {
            let (format, options) = (&format::FORMAT, structs(&format::FORMAT));
            row.add(name, || format.to_vec(&model, &options).expect("f32 can be stored"));
        });
    }
    if let Some(mut row) = report.row("model: map to memory", rounds, || map_to_reference(&map.0)) {
        for_each_format!(|name, format, options for any name| {
            row.add(name, || options.to_vec(&map).expect("f32 can be stored"));
        });
    }
    if let Some(mut row) = report.row("model: structs to owned", rounds, || fields_from_reference(&file, &names)) {
        for_each_format!(|name, format| {
            let file = format::FORMAT.to_vec(&model, &structs(&format::FORMAT))?;
            row.add(name, || format::from_slice::<Model>(&file).expect("it is whole"));
        });
    }
    if let Some(mut row) = report.row("model: structs to views", rounds, || views_from_reference(&file, &names)) {
        for_each_format!(|name, format| {
            let file = format::FORMAT.to_vec(&model, &structs(&format::FORMAT))?;
            row.add(name, || format::from_slice::<Model<ArrayView2<f32>, ArrayView1<f32>>>(&file).is_ok());
        });
    }
    if let Some(mut row) = report.row("model: map to owned", rounds, || map_from_reference(&file)) {
        for_each_format!(|name, format, options for any name| {
            let file = options.to_vec(&map)?;
            row.add(name, || format::from_slice::<Arrays<HashMap<String, Array1<f32>>>>(&file).expect("it is whole"));
        });
    }

    let save = |format: &str| {
        let path = folder.path().join("named").with_extension(extension(format));
        SaveOptions::new().write(WriteOptions::new().embed_names(true)).save(&path, &map.0).map(|()| path)
    };
    let last = &names[names.len() - 1];
    let open = || {
        let file = map_file(&path);
        black_box(look_up(&SafeTensors::deserialize(&file).expect("it is whole"), last));
    };
    if let Some(mut row) = report.row("model: open, look one up", rounds, open) {
        for name in FORMATS {
            let path = save(name)?;
            row.add(name, || {
                let file = tensorfile::File::open(&path).expect("it is whole");
                black_box(file.view(last).expect("it is there").as_bytes().as_ptr());
            });
        }
        let arrays: Vec<_> = names.iter().map(|name| (&name[..], &map.0[name])).collect();
        write_npz(File::create(&other)?, arrays);
        row.add("ndarray-npy", || {
            let file = BufReader::new(File::open(&other).expect("it was written"));
            NpzReader::new(file).expect("it is whole").by_name::<_, ndarray::Ix1>(last).map(|array: Array1<f32>| array)
        });
    }
    let opened = SafeTensors::deserialize(&file).expect("it is whole");
    let wanted = in_random_order(&names, 10_000);
    let reference = || wanted.iter().map(|name| look_up(&opened, name)).fold(0, usize::wrapping_add);
    if let Some(mut row) = report.row("model: look 10,000 up", rounds, reference) {
        for name in FORMATS {
            let file = tensorfile::File::open(save(name)?)?;
            let look_up = |name: &&str| file.view(name).expect("it is there").as_bytes().as_ptr().addr();
            row.add(name, || wanted.iter().map(look_up).fold(0, usize::wrapping_add));
        }
    }
    Ok(())
}

/// Messages of 1, 3 and 8 named arrays of 100 floats, in structs and in maps.
fn messages(report: &mut Report) -> Result<()> {
    /// Adds the rows of a struct.
    macro_rules! structs {
        ($message:ident, $parts:literal) => {
            let (message, arrays) = ($message::new(), FIELDS.map(cases::part));
            let (arrays, fields, rounds) = (&arrays[..$parts], &FIELDS[..$parts], 31);
            let payloads: Vec<&[u8]> = arrays.iter().map(bytes).collect();
            let views = || fields.iter().zip(arrays).map(|(name, array)| (*name, view(array)));
            let file = safetensors::serialize(views(), None).expect("f32 can be stored");
            let what = |what: &str| format!("struct of {}: {what}", $parts);

            let encode = || safetensors::serialize(&views().collect::<HashMap<_, _>>(), None);
            if let Some(mut row) = report.row(&what("encode"), rounds, encode) {
                row.add("plain", || black_box(&payloads).concat());
                for_each_format!(|name, format| {
                    row.add(name, || format::to_vec(&message).expect("f32 can be stored"));
                });
            }
            if let Some(mut row) = report.row(&what("decode to owned"), rounds, || fields_from_reference(&file, fields))
            {
                row.add("plain", || black_box(&payloads).iter().map(|payload| payload.to_vec()).collect::<Vec<_>>());
                for_each_format!(|name, format| {
                    let file = format::to_vec(&message)?;
                    row.add(name, || format::from_slice::<$message<Array1<f32>>>(&file).expect("it is whole"));
                });
            }
            if let Some(mut row) = report.row(&what("decode to views"), rounds, || views_from_reference(&file, fields))
            {
                for_each_format!(|name, format| {
                    let file = format::to_vec(&message)?;
                    row.add(name, || format::from_slice::<$message<ArrayView1<f32>>>(&file).is_ok());
                });
            }
        };
    }
    structs!(Message1, 1);
    structs!(Message3, 3);
    structs!(Message8, 8);

    for parts in [1, 3, 8] {
        let (map, rounds) = (Arrays(cases::parts(parts)), 31);
        let file = map_to_reference(&map.0);
        if let Some(mut row) = report.row(&format!("map of {parts}: encode"), rounds, || map_to_reference(&map.0)) {
            for_each_format!(|name, format, options| {
                row.add(name, || options.to_vec(&map).expect("f32 can be stored"));
            });
        }
        let decode = || map_from_reference(&file);
        if let Some(mut row) = report.row(&format!("map of {parts}: decode to owned"), rounds, decode) {
            for_each_format!(|name, format, options| {
                let file = options.to_vec(&map)?;
                row.add(name, || {
                    format::from_slice::<Arrays<HashMap<String, Array1<f32>>>>(&file).expect("it is whole")
                });
            });
        }
    }
    Ok(())
}

/// One array, with the numbers of elements in the benchmark of the Go package `ten`.
fn one(report: &mut Report) -> Result<()> {
    for elements in cases::GO {
        let array = vec![Array1::from_elem(elements, 1.5_f32)];
        let (payload, value, file) = (bytes(&array[0]), Arrays(&array[0]), to_reference(&array));
        let rounds = 31;

        if let Some(mut row) = report.row(&format!("one of {elements}: encode"), rounds, || to_reference(&array)) {
            let mut copy = Vec::new();
            row.add("plain", || {
                copy.clear();
                copy.extend_from_slice(black_box(payload));
            });
            for_each_format!(|name, format| {
                let mut file = Vec::new();
                row.add(name, || format::Options::new().to_vec_into(&mut file, &value).expect("f32 can be stored"));
            });
            peers_to_memory(&mut row, &array);
        }
        let decode = || from_reference(&file);
        if let Some(mut row) = report.row(&format!("one of {elements}: decode to owned"), rounds, decode) {
            row.add("plain", || black_box(payload).to_vec());
            for_each_format!(|name, format| {
                let file = format::to_vec(&value)?;
                row.add(name, || format::from_slice::<Arrays<Array1<f32>>>(&file).expect("it is whole"));
            });
            peers_from_memory(&mut row, &array);
        }
        let decode = || SafeTensors::deserialize(&file).map(|file| file.tensor(&name(0)).map(|it| it.data().as_ptr()));
        if let Some(mut row) = report.row(&format!("one of {elements}: decode to view"), rounds, decode) {
            for_each_format!(|name, format| {
                let file = format::to_vec(&value)?;
                row.add(name, || format::from_slice::<Arrays<ArrayView1<f32>>>(&file).is_ok());
            });
        }
    }
    Ok(())
}

/// The name of a tensor: 8 bytes, as many as `.ten` has room for.
fn name(index: usize) -> String {
    format!("t{index:07}")
}

fn numbered<D>(arrays: &[ndarray::Array<f32, D>]) -> impl Iterator<Item = (String, &ndarray::Array<f32, D>)> {
    arrays.iter().enumerate().map(|(index, array)| (name(index), array))
}

fn extension(format: &str) -> &'static str {
    Format::named(format).expect("it is in the table").extensions[0]
}

/// Writes a file of a format.
fn saved(folder: &TempDir, format: &str, write: impl FnOnce(&File) -> Result<()>) -> Result<PathBuf> {
    let path = folder.path().join("saved").with_extension(extension(format));
    write(&File::create(&path)?)?;
    Ok(path)
}

fn bytes<D: Dimension>(array: &ndarray::Array<f32, D>) -> &[u8] {
    bytemuck::cast_slice(array.as_slice().expect("it is contiguous"))
}

fn bytes_mut<D: Dimension>(array: &mut ndarray::Array<f32, D>) -> &mut [u8] {
    bytemuck::cast_slice_mut(array.as_slice_mut().expect("it is contiguous"))
}

/// Sums in several parts, as the processor adds several numbers at once.
fn sum(numbers: &[f32]) -> f32 {
    let (parts, rest) = numbers.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, number)| *sum += number);
    }
    sums.iter().chain(rest).sum()
}

fn map_file(path: &Path) -> memmap2::Mmap {
    let file = File::open(path).expect("it was written");
    #[expect(unsafe_code, reason = "the crate has no other way to map a file")]
    // SAFETY: nothing else writes to a file in a folder of this program.
    let mapping = unsafe { memmap2::Mmap::map(&file) };
    mapping.expect("files can be mapped")
}

/// An array in the form for the `safetensors` crate.
fn view<D: Dimension>(array: &ndarray::Array<f32, D>) -> TensorView<'_> {
    let view = TensorView::new(safetensors::Dtype::F32, array.shape().to_vec(), bytes(array));
    view.expect("the shape is that of the bytes")
}

fn views<D: Dimension>(arrays: &[ndarray::Array<f32, D>]) -> impl Iterator<Item = (String, TensorView<'_>)> {
    arrays.iter().enumerate().map(|(index, array)| (name(index), view(array)))
}

/// Writes a map of arrays, through a map of views.
fn map_to_reference(map: &HashMap<String, Array1<f32>>) -> Vec<u8> {
    let views: HashMap<&str, TensorView> = map.iter().map(|(name, array)| (&name[..], view(array))).collect();
    safetensors::serialize(&views, None).expect("f32 can be stored")
}

fn map_from_reference(file: &[u8]) -> HashMap<String, ArrayD<f32>> {
    let file = SafeTensors::deserialize(file).expect("it is whole");
    file.tensors().into_iter().map(|(name, tensor)| (name, array(&tensor))).collect()
}

/// Reads the tensors of these names.
fn fields_from_reference(file: &[u8], names: &[impl AsRef<str>]) -> Vec<ArrayD<f32>> {
    let file = SafeTensors::deserialize(file).expect("it is whole");
    names.iter().map(|name| array(&file.tensor(name.as_ref()).expect("it is there"))).collect()
}

/// Finds the payloads of these names.
fn views_from_reference(file: &[u8], names: &[impl AsRef<str>]) -> Vec<*const u8> {
    let file = SafeTensors::deserialize(file).expect("it is whole");
    names.iter().map(|name| file.tensor(name.as_ref()).expect("it is there").data().as_ptr()).collect()
}

/// Returns the address of a payload.
fn look_up(file: &SafeTensors<'_>, name: &str) -> usize {
    file.tensor(name).expect("it is there").data().as_ptr().addr()
}

/// Copies a tensor.
fn array(tensor: &TensorView<'_>) -> ArrayD<f32> {
    let numbers = bytemuck::pod_collect_to_vec(tensor.data());
    ArrayD::from_shape_vec(tensor.shape(), numbers).expect("the shape is that of the bytes")
}

/// Returns names in an order that no cache of the processor foresees.
fn in_random_order(names: &[String], count: usize) -> Vec<&str> {
    let mut state = 1_u64;
    let mut draw = || {
        // The multiplier of PCG; the upper bits are random.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        &names[usize::try_from(state >> 32).expect("32 bits fit") % names.len()][..]
    };
    (0..count.min(names.len())).map(|_| draw()).collect()
}

fn to_reference<D: Dimension>(arrays: &[ndarray::Array<f32, D>]) -> Vec<u8> {
    safetensors::serialize(views(arrays), None).expect("f32 can be stored")
}

fn write_reference<D: Dimension>(path: &Path, arrays: &[ndarray::Array<f32, D>]) {
    safetensors::serialize_to_file(views(arrays), None, path).expect("there is room");
}

fn from_reference(file: &[u8]) -> Vec<ArrayD<f32>> {
    let file = SafeTensors::deserialize(file).expect("it is whole");
    file.tensors().into_iter().map(|(_, tensor)| array(&tensor)).collect()
}

fn read_reference(path: &Path) -> Vec<ArrayD<f32>> {
    from_reference(&map_file(path))
}

fn write_npz<'a, D: Dimension + 'a>(
    file: impl Write + std::io::Seek,
    arrays: impl IntoIterator<Item = (impl Into<String>, &'a ndarray::Array<f32, D>)>,
) {
    let mut npz = NpzWriter::new(file);
    for (name, array) in arrays {
        npz.add_array(name, array).expect("f32 can be stored");
    }
    npz.finish().expect("there is room");
}

fn read_npz<D: Dimension>(file: impl Read + std::io::Seek) -> Vec<ndarray::Array<f32, D>> {
    let mut npz = NpzReader::new(file).expect("it is whole");
    (0..npz.len()).map(|index| npz.by_index(index).expect("it is whole")).collect()
}

fn to_rkyv<D: Dimension>(arrays: &[ndarray::Array<f32, D>]) -> rkyv::util::AlignedVec {
    rkyv::to_bytes::<rkyv::rancor::Error>(&for_rkyv(arrays)).expect("f32 can be stored")
}

/// Returns the arrays in the form for rkyv. This conversion is not measured.
fn for_rkyv<D: Dimension>(arrays: &[ndarray::Array<f32, D>]) -> Rkyv {
    let shape = |array: &ndarray::Array<f32, D>| array.shape().iter().map(|&dim| dim as u64).collect();
    arrays.iter().map(|array| (shape(array), array.iter().copied().collect())).collect()
}

fn write_rkyv<D: Dimension>(arrays: &[ndarray::Array<f32, D>], path: &Path) {
    fs::write(path, to_rkyv(arrays)).expect("there is room");
}

fn peers_to_memory<D: Dimension>(row: &mut Row<'_>, arrays: &Vec<ndarray::Array<f32, D>>)
where
    ndarray::Array<f32, D>: serde::Serialize,
{
    row.add("ndarray-npy", || {
        let mut file = Cursor::new(Vec::new());
        write_npz(&mut file, numbered(arrays));
        file
    });
    row.add("bincode", || bincode::serde::encode_to_vec(arrays, BINCODE).expect("it can be stored"));
    row.add("postcard", || postcard::to_stdvec(arrays).expect("it can be stored"));
    let arrays = for_rkyv(arrays);
    row.add("rkyv", || rkyv::to_bytes::<rkyv::rancor::Error>(&arrays).expect("it can be stored"));
}

fn peers_to_file<D: Dimension>(row: &mut Row<'_>, arrays: &Vec<ndarray::Array<f32, D>>, path: &Path)
where
    ndarray::Array<f32, D>: serde::Serialize,
{
    let create = || BufWriter::new(File::create(path).expect("there is room"));
    row.add("ndarray-npy", || write_npz(create(), numbered(arrays)));
    row.add("bincode", || {
        bincode::serde::encode_into_std_write(arrays, &mut create(), BINCODE).expect("there is room")
    });
    row.add("postcard", || postcard::to_io(arrays, create()).expect("there is room").flush());
    let arrays = for_rkyv(arrays);
    row.add("rkyv", || {
        let file = rkyv::to_bytes::<rkyv::rancor::Error>(&arrays).expect("it can be stored");
        fs::write(path, file)
    });
}

fn peers_from_memory<D: Dimension>(row: &mut Row<'_>, arrays: &Vec<ndarray::Array<f32, D>>)
where
    ndarray::Array<f32, D>: serde::Serialize + serde::de::DeserializeOwned,
{
    let mut file = Cursor::new(Vec::new());
    write_npz(&mut file, numbered(arrays));
    row.add("ndarray-npy", || read_npz::<D>(Cursor::new(file.get_ref())));
    let file = bincode::serde::encode_to_vec(arrays, BINCODE).expect("it can be stored");
    row.add("bincode", || {
        bincode::serde::decode_from_slice::<Vec<ndarray::Array<f32, D>>, _>(&file, BINCODE).expect("it is whole")
    });
    let file = postcard::to_stdvec(arrays).expect("it can be stored");
    row.add("postcard", || postcard::from_bytes::<Vec<ndarray::Array<f32, D>>>(&file).expect("it is whole"));
    let file = to_rkyv(arrays);
    row.add("rkyv", || rkyv::from_bytes::<Rkyv, rkyv::rancor::Error>(&file).expect("it is whole"));
}

fn peers_from_file<D: Dimension>(row: &mut Row<'_>, arrays: &Vec<ndarray::Array<f32, D>>, path: &Path)
where
    ndarray::Array<f32, D>: serde::Serialize + serde::de::DeserializeOwned,
{
    write_npz(BufWriter::new(File::create(path).expect("there is room")), numbered(arrays));
    row.add("ndarray-npy", || read_npz::<D>(BufReader::new(File::open(path).expect("it was written"))));
    let file = bincode::serde::encode_to_vec(arrays, BINCODE).expect("it can be stored");
    fs::write(path, file).expect("there is room");
    row.add("bincode", || {
        let file = map_file(path);
        bincode::serde::decode_from_slice::<Vec<ndarray::Array<f32, D>>, _>(&file, BINCODE).expect("it is whole")
    });
    let file = postcard::to_stdvec(arrays).expect("it can be stored");
    fs::write(path, file).expect("there is room");
    row.add("postcard", || postcard::from_bytes::<Vec<ndarray::Array<f32, D>>>(&map_file(path)).expect("it is whole"));
    write_rkyv(arrays, path);
    row.add("rkyv", || rkyv::from_bytes::<Rkyv, rkyv::rancor::Error>(&map_file(path)).expect("it is whole"));
}

struct Report {
    wanted: String,
    rows: Vec<Measured>,
}

struct Measured {
    what: String,
    /// The median time of the reference in seconds.
    reference: f64,
    ratios: BTreeMap<&'static str, f64>,
}

/// A row that is measured.
struct Row<'a> {
    measured: &'a mut Measured,
    rounds: usize,
    /// Runs before each measured call.
    before: Box<dyn FnMut() + 'a>,
    reference: Timed<'a>,
}

/// Work, called as often as given, that returns the time of one call.
type Timed<'a> = Box<dyn FnMut(u32) -> Duration + 'a>;

impl Report {
    /// Returns `true` if a row whose name begins with `what` may be selected.
    fn wants(&self, what: &str) -> bool {
        what.starts_with(&self.wanted) || self.wanted.starts_with(what)
    }

    /// Begins a row, with the work of the `safetensors` crate.
    fn row<'a, T>(&'a mut self, what: &str, rounds: usize, reference: impl FnMut() -> T + 'a) -> Option<Row<'a>> {
        if !what.starts_with(&self.wanted) {
            return None;
        }
        self.rows.push(Measured { what: what.to_owned(), reference: 0.0, ratios: BTreeMap::new() });
        let rounds = if cases::shrink() > 1 { 1 } else { rounds };
        let measured = self.rows.last_mut()?;
        Some(Row { measured, rounds, before: Box::new(|| ()), reference: timed(reference) })
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header(["", "the safetensors crate"].into_iter().chain(COLUMNS));
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        for row in &self.rows {
            let cells = COLUMNS.map(|column| row.ratios.get(column).map_or_else(String::new, |ratio| rounded(*ratio)));
            table.add_row([row.what.clone(), seconds(row.reference)].into_iter().chain(cells));
        }
        table
    }
}

impl Row<'_> {
    /// Measures work in turns with the reference.
    fn add<T>(&mut self, column: &'static str, work: impl FnMut() -> T) {
        eprintln!("{}, {column}", self.measured.what);
        let mut work = timed(work);
        let (reference, before) = (&mut self.reference, &mut self.before);
        let mut time = |work: &mut Timed<'_>, calls| {
            before();
            work(calls)
        };
        /// Work that takes longer is measured in one round, without warming up.
        const SLOW: Duration = Duration::from_secs(3);

        // Once to warm up; then enough calls for a round of a millisecond.
        let first_reference = time(reference, 1);
        let first = time(&mut work, 1);
        if first > SLOW {
            self.measured.reference = first_reference.as_secs_f64();
            self.measured.ratios.insert(column, first_reference.as_secs_f64() / first.as_secs_f64());
            return;
        }
        let calls = |once: Duration| u32::try_from(1_000_000 / once.as_nanos().max(1)).map_or(1, |calls| calls.max(1));
        let [theirs, ours] = [calls(time(reference, 1)), calls(time(&mut work, 1))];
        let mut times: Vec<(f64, f64)> = Vec::new();
        for round in 0..self.rounds {
            let first = (round % 2 == 0).then(|| time(reference, theirs));
            let ours = time(&mut work, ours);
            let theirs = first.unwrap_or_else(|| time(reference, theirs));
            times.push((theirs.as_secs_f64(), ours.as_secs_f64()));
        }
        self.measured.reference = median(times.iter().map(|(theirs, _)| *theirs));
        self.measured.ratios.insert(column, median(times.iter().map(|(theirs, ours)| theirs / ours)));
    }
}

/// A single call is measured without dropping its result.
fn timed<'a, T>(mut work: impl FnMut() -> T + 'a) -> Timed<'a> {
    Box::new(move |calls| {
        let start = Instant::now();
        for _ in 1..calls {
            drop(black_box(work()));
        }
        let last = black_box(work());
        let time = start.elapsed() / calls;
        drop(last);
        time
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints a number with two significant digits.
fn rounded(ratio: f64) -> String {
    match ratio {
        9.95.. => format!("{ratio:.0}"),
        0.995.. => format!("{ratio:.1}"),
        _ => format!("{ratio:.2}"),
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        1e-3.. => format!("{:.1} ms", seconds * 1e3),
        1e-5.. => format!("{:.1} us", seconds * 1e6),
        _ => format!("{:.0} ns", seconds * 1e9),
    }
}
