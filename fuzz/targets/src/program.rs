//! Runs the commands of the program on arbitrary bytes.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use tensorfile::{FORMATS, File, Tensor, TensorMap, ptd};

use crate::budget::bounded;
use crate::input::Input;
use crate::read::write;
use crate::rows::{choose, number, open};
use crate::samples;

/// Commands that print, or write one new file. `FILE` is the file in the input, `TEXT` a text in it, and `OUT` a new
/// file.
const COMMANDS: &[&[&str]] = &[
    &["info", "FILE"],
    &["info", "FILE", "--json"],
    &["ls", "FILE"],
    &["ls", "FILE", "--tree"],
    &["ls", "FILE", "--patterns"],
    &["ls", "FILE", "--json"],
    &["ls", "FILE", "--diffable", "--sort=shape"],
    &["ls", "FILE", "--filter", "TEXT"],
    &["show", "FILE", "#0"],
    &["show", "FILE", "#0", "--slice", "TEXT"],
    &["show", "FILE", "#1", "--slice", "TEXT", "--format=json"],
    &["show", "FILE", "#0", "--format=json"],
    &["show", "FILE", "#0", "--format=csv"],
    &["show", "FILE", "#0", "--full", "--precision=255"],
    // As a file of that name may exist, it is not given by position.
    &["show", "FILE", "--tensor", "TEXT"],
    &["stats", "FILE"],
    &["stats", "FILE", "--long"],
    &["stats", "FILE", "--json", "--filter", "TEXT"],
    &["verify", "FILE", "--payload"],
    &["verify", "FILE", "--json", "--for=ptd"],
    &["verify", "FILE", "--strict", "--for=npz"],
    &["hash", "FILE", "--tensors"],
    &["hash", "FILE", "--json"],
    &["codegen", "FILE"],
    &["codegen", "FILE", "--views", "--shapes"],
    &["diff", "FILE", "FILE"],
    &["diff", "FILE", "FILE", "--by-position", "--json", "--metadata"],
    &["convert", "FILE", "OUT.ptd", "--dry-run", "--rename", "TEXT"],
    &["convert", "FILE", "OUT.npz", "--dry-run", "--dtype", "f16", "--cast-integers"],
    &["convert", "FILE", "OUT.safetensors", "--dtype", "f8_e4m3fn", "--lossy"],
    &["convert", "FILE", "OUT.ten", "--lossy", "--filter", "TEXT"],
    &["report", "FILE", "--json", "--sample=1KiB"],
    &["report", "FILE", "FILE", "--output=-", "--no-values"],
];

/// Commands that change files or write several, in a separate folder. `OTHER` is a file with the tensors `a` and `1`.
/// No output is named by the text, which could be any path.
const WRITING: &[&[&str]] = &[
    &["append", "FILE", "OTHER.ptd"],
    &["append", "FILE", "OTHER.ptd", "--replace", "--lossy"],
    &["append", "OTHER.ptd", "FILE", "--json"],
    &["split", "FILE", "--max-shard-size=64", "--lossy"],
    &["split", "FILE", "--by-prefix=1"],
    // Two of these are one file.
    &["split", "FILE", "--by=TEXT=OUT.ptd", "--by=*a*=OUT.same.ptd", "--by=*=OUT.ten", "--json"],
    &["merge", "FILE", "OTHER.ptd", "OUT.tbs"],
    &["merge", "OTHER.ptd", "FILE", "--output=OUT.safetensors", "--lossy"],
    &["edit", "FILE", "--set=TEXT"],
    &["edit", "FILE", "--unset=TEXT", "--json"],
];

/// The most tensors of a file that is split: each new file takes a while.
const MOST_TO_SPLIT: usize = 50;

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(format) = choose(&mut input) else { return };
    let at = input.below(COMMANDS.len() + WRITING.len());
    let text = String::from_utf8_lossy(input.before_nul()).into_owned();
    let name = format!("file.{}", format.extensions[0]);
    if let Some(command) = COMMANDS.get(at) {
        let file = write(&name, input.0);
        let _ = call(command, &file, &text, input.0.len());
        return;
    }
    let command = WRITING[at - COMMANDS.len()];
    let opened = open(format, input.0.len()).from_bytes(input.0.to_vec());
    if command[0] == "split" && opened.is_ok_and(|file| file.len() > MOST_TO_SPLIT) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, input.0).unwrap();
    let one = |value| Tensor::from_slice(&[value], [1]).unwrap();
    let other = ptd::to_vec(&TensorMap::from_iter([("a", one(1.0_f32)), ("1", one(2.0))])).unwrap();
    fs::write(file.with_file_name("other.ptd"), other).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("out.ptd", folder.path().join("out.same.ptd")).unwrap();
    let old = files(folder.path());
    let result = call(command, &file, &text, input.0.len());
    let new = files(folder.path());
    match result {
        // Other files that were complete before a failure may stay.
        Err(error) => assert!(old.iter().all(|old| new.contains(old)), "{command:?} changes files: {error}"),
        Ok(()) => {
            let mut tensors = 0;
            for (name, _) in new.iter().filter(|file| !old.contains(file)) {
                let written = File::open(folder.path().join(name));
                let written = written.unwrap_or_else(|error| panic!("{command:?} writes {name}: {error}"));
                tensors += written.len();
            }
            if command[..2] == ["split", "FILE"] && command[2].starts_with("--by") {
                let split = File::open(&file).unwrap().len();
                assert_eq!(tensors, split, "{command:?} loses tensors");
            }
        }
    }
    // Names of temporary files begin with a dot.
    assert!(new.iter().all(|(name, _)| !name.starts_with('.')), "{command:?} leaves {new:?}");
}

/// Returns the files of a folder, without links, with their bytes.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let entries = entries.filter(|entry| entry.file_type().unwrap().is_file());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Runs a command, and checks its output. Returns the message if it fails.
fn call(command: &[&str], file: &Path, text: &str, len: usize) -> Result<(), String> {
    let sibling = |name: &str| file.with_file_name(name).into_os_string().into_string().unwrap();
    // The first `=` of an argument ends its glob.
    let glob = text.split('=').next().unwrap_or_default();
    let mut args = vec!["tensorfile".to_owned()];
    args.extend(command.iter().map(|arg| match *arg {
        "FILE" => sibling(file.file_name().unwrap().to_str().unwrap()),
        "OTHER.ptd" => sibling("other.ptd"),
        "TEXT" => text.to_owned(),
        arg => {
            let arg = arg.replace("OUT.", &sibling("out."));
            match arg.strip_prefix("--by=TEXT") {
                Some(out) => format!("--by={glob}{out}"),
                None => arg.replace("=TEXT", &format!("={text}")),
            }
        }
    }));
    let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
    // A number of one byte is printed with up to 30 characters, and is more as a cell of a table.
    let output = bounded(command[0], 8 * (len + text.len()) + (1 << 16), || tensorfile_cli::run(&args).into_output())?;
    let output = String::from_utf8(output).unwrap();
    let control = output.chars().find(|c| c.is_control() && *c != '\n');
    assert!(control.is_none(), "{args:?} prints {control:?}: {output:?}");
    Ok(())
}

/// A row, a command, a text, and a file.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = ["*", "a", "::-1", "0:1, ...", "a=b", "layers.*=*"];
    let seed = |row: u8, command: usize, text: &str, file: &[u8]| {
        [&[row, command as u8][..], text.as_bytes(), &[0], file].concat()
    };
    let mut seeds = Vec::new();
    for (at, file) in samples::files().into_iter().enumerate() {
        let (row, file) = file.split_first().unwrap();
        seeds.push(seed(*row, at % (COMMANDS.len() + WRITING.len()), texts[at % texts.len()], file));
    }
    for format in FORMATS {
        // Not the first ones, which are the shortest.
        let file = samples::files_of(format).swap_remove(3);
        seeds.extend((0..WRITING.len()).map(|at| seed(number(format), COMMANDS.len() + at, "a=b", &file)));
    }
    seeds
}
