//! The file that a verb looks into.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use tensorfile::{Backend, FORMATS, File, Format, OpenOptions};

use crate::failure::{At, Outcome};

/// The argument for a file that is read.
#[derive(Debug, Clone, clap::Args)]
pub struct Input {
    /// The file; `-` for standard input, which is read into memory
    file: PathBuf,
    /// Take the file for one of this format, whatever it looks like
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
}

/// The names of formats, as the values of an argument.
pub fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|format| format.name))
}

/// Opens a file: reads its index, no payload.
pub fn open(path: &Path, from: Option<&str>) -> Outcome<File> {
    // Not mapped: others may change the file while we run, and pages once looked at would count as our memory.
    let mut options = OpenOptions::new().backend(Backend::Positioned);
    if let Some(format) = from.and_then(Format::named) {
        options = options.format(format);
    }
    if !is_stdin(path) {
        return options.open(path).at(path);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).at(name_of(path))?;
    options.from_vec(bytes).at(name_of(path))
}

/// What messages call a file.
pub fn name_of(path: &Path) -> &Path {
    if is_stdin(path) { Path::new("standard input") } else { path }
}

/// Whether a path means standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

impl Input {
    /// Opens the file: reads its index, no payload.
    pub fn open(&self) -> Outcome<File> {
        open(&self.file, self.from.as_deref())
    }

    /// Whether it has a path.
    pub fn is_file(&self) -> bool {
        !is_stdin(&self.file)
    }

    /// What messages call the file.
    pub fn path(&self) -> &Path {
        name_of(&self.file)
    }
}
