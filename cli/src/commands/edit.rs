use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use indexmap::IndexMap;
use serde::Serialize;
use tensorfile::file::MetadataEdit;
use tensorfile::file::atomic::{self, FileLock};
use tensorfile::{FORMATS, File, Result};

use super::info::{MAX_VALUE, cut};
use crate::args::{Input, NoClobber, file_at, is_stdout, metadata_key, open_output_stream};
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::export::Advancing;
use crate::output::{Progress, Stdout, escape};

/// Change the metadata of a safetensors, gguf or tensorbuffers file.
///
/// The tensors stay as they are, byte by byte, and so do the other entries of the metadata. A new file is written, and
/// replaces the old one when it is complete. If you run several of these commands on one file at the same time, they
/// wait for each other.
///
/// In gguf, an existing entry keeps its type, and your new value must fit it. A new entry is a string.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Edit {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    changes: Changes,
    /// Write this file and leave FILE as it is; `-` for standard output
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    no_clobber: NoClobber,
    /// Check and print what the metadata would be, but write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the metadata that the file has then, as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Changes {
    /// Add an entry, or give it another value; the first `=` ends the key
    #[arg(long, value_name = "KEY=VALUE", add = metadata_key("="))]
    set: Vec<Entry>,
    /// Remove an entry
    #[arg(long, value_name = "KEY", add = metadata_key(""))]
    unset: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile edit model.safetensors --set author=me --set 'license=Apache 2.0'
  tensorfile edit model.gguf --set general.name=tiny --unset general.url
  tensorfile edit model.safetensors --unset format -o clean.safetensors
  tensorfile edit model.safetensors --set epochs=3 --dry-run";

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    value: String,
}

impl FromStr for Entry {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match text.split_once('=') {
            Some(("", _)) => Err("the key is empty"),
            Some((key, value)) => Ok(Self { key: key.to_owned(), value: value.to_owned() }),
            None => Err("expected KEY=VALUE"),
        }
    }
}

impl Edit {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        let edit = self.edit()?;
        let input = file_at(self.input.path())?;
        let target = self.output.as_deref().unwrap_or(&input);
        let to_stdout = self.output.as_deref().is_some_and(is_stdout);
        if self.output.is_none() && self.input.is_stdin() {
            return Err(Failure::usage("standard input cannot be changed; `-o OUT` writes a file"));
        }
        if to_stdout && self.json && !self.dry_run {
            return Err(Failure::usage("--json and the file cannot both go to standard output"));
        }
        out.expect_json(self.json);
        self.no_clobber.check(target)?;
        // Otherwise two commands would read the same old file, and the later one would drop the change of the other.
        let is_changed = !self.dry_run && self.output.is_none();
        let _lock = is_changed.then(|| FileLock::acquire(target)).transpose().at(target)?;
        let file = self.input.open()?;
        let path = self.input.path();
        check_extension(&file, target)?;

        let entries = edit.entries(&file).at(path)?;
        if !self.dry_run {
            if to_stdout && out.is_terminal() {
                return Err(Failure::usage("refusing to write binary data to a terminal; redirect standard output"));
            }
            if to_stdout {
                write(&edit, &file, out.raw()?).at(Path::new("standard output"))?;
            } else if let Some(mut stream) = open_output_stream(target)? {
                write(&edit, &file, &mut stream).at(target)?;
            } else {
                // As `MetadataEdit::save` does, with a progress bar.
                atomic::write_with(target, &mut |out| write(&edit, &file, out)).at(target)?;
            }
        }
        if self.json {
            let edited = Edited {
                file: target.display().to_string(),
                format: file.format().name,
                written: !self.dry_run,
                metadata: &entries,
            };
            out.json_list(|list| list.push(&edited))??;
        } else if self.dry_run {
            for (key, value) in &entries {
                writeln!(out, "{} = {}", escape(key), escape(&cut(value, MAX_VALUE)))?;
            }
        }
        Ok(Verdict::Pass)
    }

    fn edit(&self) -> Outcome<MetadataEdit> {
        let Changes { set, unset } = &self.changes;
        let keys = set.iter().map(|entry| &entry.key).chain(unset);
        let mut seen = std::collections::HashSet::new();
        for key in keys {
            if !seen.insert(key) {
                return Err(Failure::usage(format_args!("the key `{key}` is given twice")));
            }
        }
        let set = set.iter().fold(MetadataEdit::new(), |edit, Entry { key, value }| edit.set(key, value));
        Ok(unset.iter().fold(set, MetadataEdit::unset))
    }
}

fn write(edit: &MetadataEdit, file: &File, out: &mut dyn Write) -> Result<()> {
    let mut progress = Progress::bytes(file.file_bytes());
    edit.to_writer(file, &mut Advancing { out, advance: &mut |bytes| progress.advance(bytes) })
}

/// Fails if a file has the extension of another format.
fn check_extension(file: &File, target: &Path) -> Outcome<()> {
    let extension = target.extension().unwrap_or_default();
    let has = |format: &tensorfile::Format| format.extensions.iter().any(|own| extension.eq_ignore_ascii_case(own));
    let own = file.format();
    match FORMATS.iter().find(|format| has(format)).filter(|_| !has(own)) {
        Some(other) if file.path() != Some(target) => {
            let (path, own, other) = (target.display(), own.name, other.name);
            let message = format_args!("{path}: the file stays {own}, but this is an extension of {other}");
            Err(Failure::usage(message))
        }
        _ => Ok(()),
    }
}

/// The file, in the output of `--json`.
#[derive(Serialize)]
struct Edited<'e> {
    file: String,
    format: &'static str,
    written: bool,
    metadata: &'e IndexMap<String, String>,
}
