//! The arguments for input files, and running a command on each file.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use serde::Serialize;
use tensorfile::File;
use tensorfile::file::shown_url;

use super::SplitArgs;
use super::complete::{path_or_tensor_name, tensor_name};
use super::opening::{PassOver, Warnings, display_name, format_names, is_shard, open, open_in_order, options};
use super::patterns::{expand, has_extension};
use super::standard_input::is_stdin;
use crate::exit::{Outcome, Verdict, for_each};
use crate::output::{HEADER, JsonList, Stdout, escape, note};

/// The argument of commands that read one file.
#[derive(Debug, Clone, clap::Args)]
pub struct Input {
    /// The file, or the directory of a checkpoint of Hugging Face; `-` for standard input
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

    /// Returns whether the file is a WebDataset shard.
    pub fn is_shard(&self) -> bool {
        is_shard(&self.file, self.from.as_deref())
    }

    /// Returns the path or URL as it was given.
    pub fn location(&self) -> &Path {
        &self.file
    }

    /// Returns the path as messages show it.
    pub fn path(&self) -> &Path {
        display_name(&self.file)
    }
}

/// The argument of commands that read several files.
#[derive(Debug, Clone, clap::Args)]
pub struct Inputs {
    /// Files, directories or patterns such as 'train-{000..123}.tar'; a directory's tensor files are read in the order
    /// of their names, and shards count as one file; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read the files as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
}

impl Inputs {
    /// Runs a command on the index of each file.
    pub fn for_each_index(
        &self,
        warnings: Warnings,
        json: bool,
        out: &mut Stdout,
        run: &mut OnFile<'_, File>,
    ) -> Outcome {
        let mut open = |path: &Path| open_in_order(path, self.from.as_deref(), warnings, &mut PassOver);
        for_each_file(&self.files, SplitArgs::ALL, &mut open, None, json, out, run)
    }

    /// Runs a command on the index of each file, and prints files with a single tensor as one table.
    pub fn for_each_in_table(
        &self,
        table: &mut dyn FileTable<File>,
        out: &mut Stdout,
        run: &mut OnFile<'_, File>,
    ) -> Outcome {
        let mut open = |path: &Path| open_in_order(path, self.from.as_deref(), Warnings::StandardError, &mut PassOver);
        for_each_file(&self.files, SplitArgs::ALL, &mut open, Some(table), false, out, run)
    }
}

/// The arguments of commands that read tensors of several files.
#[derive(Debug, Clone, clap::Args)]
pub struct NamedInputs {
    /// A file, directory or pattern such as 'train-{000..123}.tar'; a directory's tensor files are read in the order of
    /// their names, and shards count as one file; `-` is standard input
    #[arg(value_name = "FILE")]
    first: PathBuf,
    /// More files, and the names of tensors, or their positions in the file, such as `#3`
    ///
    /// An argument is a file if it exists, is `-`, or ends in the extension of a format, unless the first file has a
    /// tensor of that name. An argument that begins with `./` or `/` is always a file. With --tensor, all arguments are
    /// files.
    #[arg(value_name = "FILE|NAME", add = path_or_tensor_name())]
    more: Vec<OsString>,
    /// The name of a tensor, or its position in the file, such as `#3`
    #[arg(long, short, value_name = "NAME", add = tensor_name())]
    tensor: Vec<String>,
    /// Read the files as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
    /// For each of `more`, whether it is a file.
    #[arg(skip)]
    are_files: OnceLock<Vec<bool>>,
}

impl NamedInputs {
    /// Returns the names of tensors.
    pub fn names(&self) -> Vec<String> {
        let names = self.more.iter().zip(self.are_files()).filter(|(_, is_file)| !**is_file);
        let names = names.map(|(name, _)| name.to_string_lossy().into_owned());
        names.chain(self.tensor.iter().cloned()).collect()
    }

    /// Returns whether a single file is read.
    pub fn is_single(&self) -> bool {
        expand(&self.files()).len() == 1
    }

    /// Runs a command on each file, opened by `open` in the given format.
    pub fn for_each<O>(
        &self,
        open: impl Fn(&Path, Option<&str>) -> Outcome<O>,
        split: SplitArgs,
        json: bool,
        out: &mut Stdout,
        run: &mut OnFile<'_, O>,
    ) -> Outcome {
        for_each_file(&self.files(), split, &mut |path| open(path, self.from.as_deref()), None, json, out, run)
    }

    /// Runs a command on each file, and prints files with a single tensor as one table.
    pub fn for_each_in_table<O>(
        &self,
        open: impl Fn(&Path, Option<&str>) -> Outcome<O>,
        split: SplitArgs,
        table: &mut dyn FileTable<O>,
        out: &mut Stdout,
        run: &mut OnFile<'_, O>,
    ) -> Outcome {
        for_each_file(&self.files(), split, &mut |path| open(path, self.from.as_deref()), Some(table), false, out, run)
    }

    fn files(&self) -> Vec<PathBuf> {
        let more = self.more.iter().zip(self.are_files()).filter(|(_, is_file)| **is_file);
        std::iter::once(self.first.clone()).chain(more.map(|(path, _)| path.into())).collect()
    }

    fn are_files(&self) -> &[bool] {
        self.are_files.get_or_init(|| {
            // Opened only if a text may be both.
            let first = OnceCell::new();
            self.more.iter().map(|text| self.is_file(text, &first)).collect()
        })
    }

    fn is_file(&self, text: &OsStr, first: &OnceCell<Option<File>>) -> bool {
        let path = Path::new(text);
        if !self.tensor.is_empty() || is_stdin(path) || shown_url(path).is_some() {
            return true;
        }
        let (exists, is_named_so) = (path.exists(), has_extension(path));
        let is_relative = matches!(path.components().next(), Some(Component::Normal(_)));
        // Explicitly named files are the usual case.
        if exists == is_named_so || !is_relative {
            return exists;
        }
        // A pipe can be read once only.
        let is_repeatable = self.first.is_file() || self.first.is_dir() || shown_url(&self.first).is_some();
        let open = || if is_repeatable { options().open(&self.first).ok() } else { None };
        let Some(file) = first.get_or_init(open) else { return true };
        let text = text.to_string_lossy();
        if file.position(&text).is_none() {
            return true;
        }
        if exists {
            let first = display_name(&self.first).display();
            note(format_args!("`{text}` is a tensor of {first}; the file of that name is `./{text}`"));
        }
        false
    }
}

/// A command on one of several open files.
pub type OnFile<'a, O> = dyn FnMut(&Path, O, &mut Printer<'_, '_>) -> Outcome + 'a;

/// A table of files with one unnamed tensor each, such as numpy's `.npy` files. Each file is a row, under the name of
/// the file.
pub trait FileTable<O> {
    /// Adds a file, or returns it if it is not a row.
    fn add(&mut self, path: &Path, file: O) -> Outcome<Result<Verdict, O>>;

    /// Returns whether rows were added since the last ones were printed.
    fn has_rows(&self) -> bool;

    /// Prints the added rows.
    fn print(&mut self, out: &mut Stdout) -> Outcome<()>;
}

/// Returns whether a file has one tensor, and no name for it.
pub fn is_one_tensor(file: &File) -> bool {
    file.len() == 1 && file.tensors().all(|tensor| !tensor.has_name())
}

/// The output of a command on one of several files.
pub enum Printer<'a, 'o> {
    Text(&'a mut Stdout),
    /// A list with an item for each file.
    Json(&'a mut JsonList<'o>),
}

/// The item for an unreadable file.
#[derive(Serialize)]
pub struct Unread {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    pub error: String,
}

/// Opens each file, also inside directories, and runs a command on it. With several files, a line with the path
/// precedes the text of each, except for rows of the table.
fn for_each_file<O>(
    files: &[PathBuf],
    split: SplitArgs,
    open: &mut dyn FnMut(&Path) -> Outcome<O>,
    table: Option<&mut dyn FileTable<O>>,
    json: bool,
    out: &mut Stdout,
    run: &mut OnFile<'_, O>,
) -> Outcome {
    let paths = expand(files);
    let has_titles = paths.len() > 1 || files.len() > 1 || split.is_planned();
    out.expect_json(json);
    let paths = split.keep(paths)?;
    if json {
        return out.json_list(|list| {
            for_each(paths, |path| {
                let outcome = path.and_then(|path| {
                    run(display_name(&path), open(&path)?, &mut Printer::Json(list)).map_err(|error| error.or_in(&path))
                });
                if let Err(failure) = &outcome
                    && let Some((file, error)) = failure.unlisted()
                {
                    list.push(&Unread { file, error })?;
                }
                outcome
            })
        })?;
    }
    let mut is_first = true;
    let mut separate = |out: &mut Stdout| if std::mem::take(&mut is_first) { Ok(()) } else { writeln!(out) };
    let mut table = table.filter(|_| has_titles);
    let outcome = for_each(paths, |path| {
        let path = path?;
        // Earlier output appears before the messages of this file.
        out.flush()?;
        let mut file = open(&path)?;
        if let Some(table) = &mut table {
            file = match table.add(display_name(&path), file).map_err(|failure| failure.or_in(&path))? {
                Ok(verdict) => return Ok(verdict),
                Err(file) => file,
            };
            if table.has_rows() {
                separate(out)?;
                table.print(out)?;
            }
        }
        if has_titles {
            separate(out)?;
            let line = format!("{}:", escape(&display_name(&path).display().to_string()));
            writeln!(out, "{}", out.styled(HEADER, &line).into_owned())?;
        }
        let ran = run(display_name(&path), file, &mut Printer::Text(out));
        ran.map_err(|failure| if has_titles { failure.or_in(&path) } else { failure })
    });
    if let Some(table) = table.filter(|table| table.has_rows()) {
        separate(out)?;
        table.print(out)?;
    }
    outcome
}
