//! The commands of the program that print, on arbitrary bytes.

use std::ffi::OsStr;

use crate::budget::bounded;
use crate::input::Input;
use crate::read::write;
use crate::rows::choose;
use crate::samples;

/// The commands, without the file. `{}` is a text of the input. Those after the dash print names and must not control a
/// terminal.
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

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(format) = choose(&mut input) else { return };
    let command = COMMANDS[input.below(COMMANDS.len())];
    let text = String::from_utf8_lossy(input.before_nul()).into_owned();
    let len = input.0.len();
    let name = format!("file.{}", format.extensions[0]);
    let file = write(&name, input.0);
    let mut args = vec!["tensorfile".into()];
    for arg in command {
        args.push(match *arg {
            "FILE" => file.clone().into_os_string(),
            "TEXT" => text.clone().into(),
            arg => match arg.strip_prefix("OUT.") {
                Some(extension) => file.with_file_name("out").with_extension(extension).into_os_string(),
                None => arg.into(),
            },
        });
    }
    let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
    // A number of one byte is printed with up to 30 characters, and is more as a cell of a table.
    let output = bounded(command[0], 8 * (len + text.len()) + (1 << 16), || tensorfile_cli::run(&args));
    let Ok(output) = output else { return };
    let is_text = !command.contains(&"--format=raw");
    if is_text {
        let output = String::from_utf8(output).unwrap();
        let control = output.chars().find(|c| c.is_control() && *c != '\n');
        assert!(control.is_none(), "{args:?} prints {control:?}: {output:?}");
    }
}

/// A row, a command, a text, and a file.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = ["*", "a", "::-1", "0:1, ...", "a=b", "layers.*=*"];
    let mut seeds = Vec::new();
    for (at, file) in samples::files().into_iter().enumerate() {
        let (row, file) = file.split_first().unwrap();
        let head = [*row, (at % COMMANDS.len()) as u8];
        seeds.push([&head[..], texts[at % texts.len()].as_bytes(), &[0], file].concat());
    }
    seeds
}
