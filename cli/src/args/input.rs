use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use tensorfile::{Backend, FORMATS, File, Format, OpenOptions};

use crate::exit::{At, Outcome};
use crate::output::note;

/// The argument of commands that read one file.
#[derive(Debug, Clone, clap::Args)]
pub struct Input {
    /// The file, or `-` for standard input
    file: PathBuf,
    /// Read the file as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
}

impl Input {
    /// Opens the file and reads its index.
    pub fn open(&self) -> Outcome<File> {
        open(&self.file, self.from.as_deref())
    }

    pub fn is_stdin(&self) -> bool {
        is_stdin(&self.file)
    }

    /// Returns the path as messages show it.
    pub fn path(&self) -> &Path {
        display_name(&self.file)
    }
}

/// Returns a parser that accepts the names of formats.
pub fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|format| format.name))
}

/// Opens a file, or standard input, and reads its index.
pub fn open(path: &Path, from: Option<&str>) -> Outcome<File> {
    // A mapped file could change while the program runs, and its pages would count as memory of the program.
    let mut options = OpenOptions::new().backend(Backend::Positioned);
    if let Some(format) = from.and_then(Format::named) {
        options = options.format(format);
    }
    let file = match is_stdin(path) {
        true => options.from_bytes(read(path)?).at(display_name(path)),
        false => options.open(path).at(path),
    }?;
    if let Some(named) = file.misnamed_as().filter(|_| from.is_none()) {
        let (path, format) = (path.display(), file.format().name);
        note(format_args!("{path}: the file is {format}, but its extension is that of {}", named.name));
    }
    Ok(file)
}

/// Reads a file, or standard input, into memory.
pub fn read(path: &Path) -> Outcome<Vec<u8>> {
    if !is_stdin(path) {
        return fs::read(path).at(path);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).at(display_name(path))?;
    Ok(bytes)
}

/// Returns the path as messages show it.
pub fn display_name(path: &Path) -> &Path {
    if is_stdin(path) { Path::new("standard input") } else { path }
}

/// Returns whether the path is `-`.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}
