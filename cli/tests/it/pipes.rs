//! Streams give the same output as files, whether they are read in order or held in memory.

use std::fs;
use std::path::Path;
use std::process::Output;

use tensorfile::{CooTensor, FORMATS, Format, Tensor, TensorMap, WriteOptions};

use super::{Session, file_of, weights};

/// The file, in command lines.
const FILE: &str = "FILE";

/// The output about a file does not depend on where the file comes from.
const COMMANDS: &[&[&str]] = &[
    &["stats", FILE],
    &["stats", "--json", FILE],
    &["stats", "--diffable", "--fail-on", "inf,nan,zero", FILE],
    &["stats", "--sort", "mean", "--reverse", "--filter", "![cf]*", FILE],
    &["stats", "--long", FILE],
    &["stats", FILE, "#0"],
    &["stats", "--json", FILE, "#0"],
    &["stats", FILE, "--tensor", "#1", "--tensor", "#0"],
    &["stats", FILE, "--tensor", "#0", "--tensor", "none"],
    &["stats", FILE, "--tensor", "#0", "--tensor", "#0"],
    &["hash", FILE],
    &["hash", "--tensors", FILE],
    &["hash", "--json", FILE],
    &["hash", "--tensors", "--check", "manifest", FILE],
    &["verify", FILE],
    &["verify", "--strict", "--json", FILE],
    &["verify", "--payload", FILE],
    &["verify", "--payload", "--manifest", "manifest", FILE],
    &["verify", "--manifest", "manifest", "--json", FILE],
    &["verify", "--for", "npy", FILE],
];

fn arguments<'a>(command: &[&'a str], file: &'a str) -> Vec<&'a str> {
    command.iter().map(|argument| if *argument == FILE { file } else { argument }).collect()
}

/// Returns the output without the name of the file, and the exit code.
fn shown(output: &Output, name: &str) -> String {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).join("stderr: ");
    let names =
        [(name, FILE), ("standard input", FILE), ("\"file\": \"-\"", "\"file\": \"FILE\""), ("  -\n", "  FILE\n")];
    let text = names.iter().fold(text, |text, (name, file)| text.replace(name, file));
    format!("{text}exit code: {:?}", output.status.code())
}

#[track_caller]
fn compare(session: &Session, name: &str, commands: &[&[&str]]) {
    let bytes = fs::read(session.path(name)).unwrap();
    for command in commands {
        let from_file = session.run(&arguments(command, name));
        let piped = session.run_with_input(&arguments(command, "-"), &bytes);
        let what = format!("{command:?} {name} of {} bytes", bytes.len());
        let [from_file, piped] = [shown(&from_file, name), shown(&piped, "standard input")];
        // Files are written, too, which are longer than anybody reads.
        let [first, second] = [&from_file, &piped].map(|shown| shown.chars().take(2000).collect::<String>());
        assert!(from_file == piped, "{what}:\n{first}\n{second}");
    }
}

/// Tensors of dtypes that a format has, which take more bytes than are read at once to find the format.
fn tensors(format: &Format) -> TensorMap {
    let halves: Vec<half::f16> = (0..7000).map(|at| half::f16::from_f32(at as f32 - 100.0)).collect();
    let mut strange = vec![0.0_f32; 50];
    strange[7] = f32::NAN;
    strange[9] = f32::NEG_INFINITY;
    let mut map: TensorMap = [
        ("a", weights(&[50, 100])),
        ("b", Tensor::from_slice(&halves, [7000]).unwrap()),
        ("c", Tensor::from_slice(&strange, [5, 10]).unwrap()),
        ("d", Tensor::from_slice(&[-3_i64, i64::MAX], [2]).unwrap()),
        ("e", Tensor::from_slice(&[true, false, true], [3]).unwrap()),
        ("f", Tensor::from_slice::<f32>(&[], [0, 3]).unwrap()),
        ("g", weights(&[10, 1000])),
    ]
    .into_iter()
    .filter(|(_, tensor)| format.dtypes.contains(&tensor.dtype()))
    .collect();
    if format.sparse {
        let coordinates = (0..9000).flat_map(|at| [at % 3, at % 300]).collect();
        let sparse = CooTensor::new([3, 300], coordinates, vec![2.5_f32; 9000]).unwrap();
        map.insert("sparse", sparse.to_tensor());
    }
    match format.max_tensors {
        Some(_) => [("0", weights(&[50, 1000]))].into_iter().collect(),
        None => map,
    }
}

fn session() -> Session {
    let session = Session::new();
    session.write("manifest.safetensors", &[("a", weights(&[50, 100])), ("x", weights(&[2]))].into_iter().collect());
    let manifest = session.run(&["hash", "--tensors", "manifest.safetensors"]);
    fs::write(session.path("manifest"), manifest.stdout).unwrap();
    session
}

fn written_formats() -> impl Iterator<Item = (&'static Format, String)> {
    let written = FORMATS.iter().copied();
    written.map(|format| (format, format!("piped.{}", format.extensions[0])))
}

#[test]
fn streams_give_the_output_of_files() {
    let session = session();
    for (format, name) in written_formats() {
        let file = file_of(format, &tensors(format));
        for file in [&file[..], &file[..file.len() - 1], &file[..10_000], &[&file[..], b"more"].concat()] {
            fs::write(session.path(&name), file).unwrap();
            // Only the extension tells what some files are that are cut off.
            let commands = COMMANDS.iter().map(|command| [*command, &["--from", format.name]].concat());
            let commands: Vec<Vec<&str>> = commands.collect();
            compare(&session, &name, &commands.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
}

/// Some are not in order, some have shared, quantized or strange tensors, and all are made by other software.
#[test]
fn streams_of_fixtures_give_the_output_of_files() {
    let session = session();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let mut count = 0;
    for folder in ["gguf", "numpy", "ptd", "pytorch"] {
        for entry in fs::read_dir(fixtures.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if FORMATS.iter().any(|format| format.extensions.iter().any(|end| name.ends_with(&format!(".{end}")))) {
                fs::copy(&path, session.path(name)).unwrap();
                compare(&session, name, &[&["stats", "--json", FILE], &["hash", "--json", FILE], COMMANDS[17]]);
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count} files");
}

/// The last digits of a mean depend on the pieces in which elements are added.
#[test]
fn large_tensors_are_read_in_the_pieces_of_files() {
    let session = session();
    let numbers = |count: usize| (0..count).map(|at| (at as f32 * 0.37).sin() * 1e3).collect::<Vec<f32>>();
    let dense = Tensor::from_slice(&numbers(2_200_000), [2_200_000]).unwrap();
    // The first piece ends within the values, which come after the coordinates.
    let coordinates = (0..500_001).flat_map(|at| [at % 3, at % 300]).collect();
    let sparse = CooTensor::new([3, 300], coordinates, numbers(500_001)).unwrap().to_tensor();
    session.write("large.safetensors", &[("a", weights(&[3])), ("b", dense)].into_iter().collect());
    session.write("large.btf", &[("0", sparse), ("1", weights(&[3]))].into_iter().collect());
    for name in ["large.safetensors", "large.btf"] {
        compare(&session, name, &[&["stats", "--json", FILE], &["hash", FILE]]);
    }
}

#[test]
fn wrong_elements_of_streams_are_those_of_files() {
    let session = session();
    let bools = Tensor::from_slice(&[true; 9000], [9000]).unwrap();
    session.write("wrong.safetensors", &[("a", bools), ("b", weights(&[7]))].into_iter().collect());
    let map = tensors(Format::named("btf").unwrap());
    session.write("wrong.btf", &map);
    for (name, from_end, commands) in [("wrong.safetensors", 40, COMMANDS), ("wrong.btf", 40_000, COMMANDS)] {
        let mut file = fs::read(session.path(name)).unwrap();
        let at = file.len() - from_end;
        file[at..at + 9].fill(9);
        fs::write(session.path(name), file).unwrap();
        compare(&session, name, commands);
        let output = session.run(&["verify", "--payload", name]);
        assert_eq!(output.status.code(), Some(4), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn streams_of_damaged_files_are_refused_as_files_are() {
    let session = session();
    for (format, name) in written_formats() {
        let file = file_of(format, &tensors(format));
        for (at, value) in (0..160).step_by(5).zip([0, 0x80, 1, 0xff].into_iter().cycle()) {
            let mut file = file.clone();
            file[at] ^= value;
            fs::write(session.path(&name), &file).unwrap();
            let from_file = session.run(&["hash", "--json", &name, "--from", format.name]);
            let piped = session.run_with_input(&["hash", "--json", "-", "--from", format.name], &file);
            assert_eq!(from_file.status.code(), piped.status.code(), "{name}, {at}");
            let [from_file, piped] = [shown(&from_file, &name), shown(&piped, "standard input")];
            // A number is compared with the limits first if the length of the file is not known.
            assert!(
                from_file == piped || from_file.contains("but the file has") || from_file.contains("as the file has")
            );
        }
    }
}

/// A tensor of an unknown dtype may end with the file. It is the last one, which a reader learns after long metadata.
#[test]
fn streams_that_turn_out_to_need_their_length_are_held() {
    let session = session();
    let map: TensorMap = [("y", weights(&[5000])), ("z", weights(&[32]))].into_iter().collect();
    let metadata = [("vocabulary".to_owned(), "word ".repeat(1 << 20))].into();
    let gguf = Format::named("gguf").unwrap();
    let mut file = gguf.to_vec(&map, &WriteOptions::new().metadata(metadata)).unwrap();
    let described = [&1_u64.to_le_bytes()[..], b"z", &1_u32.to_le_bytes(), &32_u64.to_le_bytes()].concat();
    let dtype = described.len() + file.windows(described.len()).position(|bytes| bytes == described).unwrap();
    file[dtype] = 99;
    fs::write(session.path("unknown.gguf"), file).unwrap();
    assert_eq!(session.run(&["ls", "unknown.gguf"]).status.code(), Some(0));
    let commands: &[&[&str]] = &[&["ls", FILE], &["stats", FILE], &["hash", FILE], &["verify", FILE]];
    compare(&session, "unknown.gguf", commands);
}

/// What each command makes of a file: its output, or the file that it writes.
const EVERY_COMMAND: &[&[&str]] = &[
    &["ls", "--json", FILE],
    &["info", FILE],
    &["show", FILE, "#0"],
    &["stats", "--json", FILE],
    &["hash", "--tensors", FILE],
    &["verify", "--payload", "--json", FILE],
    &["codegen", FILE],
    &["diff", "--json", FILE, "manifest.safetensors"],
    &["convert", FILE, "-", "--to", "ten", "--lossy"],
    &["convert", FILE, "-", "--to", "safetensors", "--lossy", "--dtype", "f64"],
];

/// Files whose payloads are not the bytes of the elements: big-endian, in another order, compressed, or of any bools.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "any numbers will do")]
fn coded_files() -> Vec<(String, Vec<u8>)> {
    /// The numbers of elements: of f32, the file is read at once, ends where the first read does, and is longer.
    const COUNTS: [usize; 3] = [3, 2016, 70_000];

    let npy = |descr: &str, is_column_major: bool, shape: &str, payload: Vec<u8>| {
        let order = if is_column_major { "True" } else { "False" };
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({shape}), }}");
        header.extend(std::iter::repeat_n(' ', 63 - (header.len() + 10) % 64));
        header.push('\n');
        let len = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), &payload].concat()
    };
    let mut files = Vec::new();
    for count in COUNTS {
        let numbers = || (0..count).map(|at| at as f64 * 1.25 - 7.0);
        let singles: Vec<u8> = numbers().flat_map(|number| (number as f32).to_be_bytes()).collect();
        files.extend([
            (">f4", false, format!("{count},"), singles),
            (">f8", true, format!("1, {count}"), numbers().flat_map(f64::to_be_bytes).collect()),
            (">i2", false, format!("{count},"), (0..count).flat_map(|at| (at as i16).to_be_bytes()).collect()),
            ("<f4", true, format!("2, {count}"), (0..2 * count).flat_map(|at| (at as f32).to_le_bytes()).collect()),
            ("|b1", false, format!("{count},"), (0..count).map(|at| (at % 256) as u8).collect()),
            (">c8", false, format!("{count},"), (0..2 * count).flat_map(|at| (at as f32).to_be_bytes()).collect()),
        ]);
    }
    let mut files: Vec<(String, Vec<u8>)> = files
        .into_iter()
        .map(|(descr, is_column_major, shape, payload)| {
            ("arr_0.npy".to_owned(), npy(descr, is_column_major, &shape, payload))
        })
        .collect();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let big_endian = fs::read(fixtures.join("gguf/big_endian.gguf")).unwrap();
    // Its elements come after the first read.
    files.push(("coded.gguf".to_owned(), [&big_endian[..], &[0; 9000]].concat()));
    files.push(("coded.gguf".to_owned(), big_endian));
    for count in COUNTS {
        let map: TensorMap = [("a", weights(&[count])), ("b", weights(&[3, count]))].into_iter().collect();
        let file = tensorfile::npz::Options::new().compress(true).to_vec(&map).unwrap();
        files.push(("coded.npz".to_owned(), file));
    }
    files
}

#[test]
fn every_command_takes_coded_payloads_from_streams() {
    let session = session();
    for (name, file) in coded_files() {
        fs::write(session.path(&name), file).unwrap();
        compare(&session, &name, EVERY_COMMAND);
    }
}

/// The same for every length: in one read, at the end of a read, or in many.
#[test]
fn every_command_gives_the_same_for_streams_of_every_format() {
    let session = session();
    for (format, _) in written_formats() {
        // The name of a tensor without one, from a stream too.
        let name = format!("arr_0.{}", format.extensions[0]);
        for map in [tensors(format), [("0", weights(&[3]))].into_iter().collect()] {
            let file = file_of(format, &map);
            fs::write(session.path(&name), &file).unwrap();
            compare(&session, &name, EVERY_COMMAND);
        }
    }
}
