mod coverage;
mod data;
mod heat_map;
mod page;
mod values;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use crate::args::{Filter, NoClobber, display_name, expand, format_names, is_stdin, is_stdout, parse_bytes};
use crate::commands::diff::Diff;
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::identity::is_same_file;
use crate::output::Stdout;
use crate::output::numbers::count;

use data::{Choice, DiffData, FileData, Page, SourceFile};

/// Write a page that shows files in a browser: modules, dtypes, bytes and values.
///
/// The page is one file and needs no network. You see a map and a tree of the modules with their sizes, a table to
/// search and sort, and which parts of the file are payload, shared or padding. Each file has a section. If you pass
/// two files, they are also compared, as by `diff`, and all of their values are read.
///
/// For statistics, histograms and heat maps, the values of the largest tensors are read. If a tensor is larger than
/// --sample, only a sample of this size is read, and the page says so. With --filter, only matching tensors are read
/// and compared, but all are listed.
///
/// A page lists up to 200,000 tensors. If there are more, you see the largest, and the sums of the others.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub struct Report {
    /// Files, directories or patterns such as 'train-{000..123}.tar'; a directory's tensor files are read in the order
    /// of their names, and shards count as one file; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read the files as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
    /// The page to write, .html or .htm; `-` for standard output
    #[arg(long, short, value_name = "PAGE", required_unless_present = "json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    no_clobber: NoClobber,
    #[command(flatten)]
    filter: Filter,
    /// Read the values of at most this number of tensors, the largest, of all files together
    #[arg(long, value_name = "COUNT", default_value_t = 128, value_parser = RangedU64ValueParser::<usize>::new().range(..=10_000))]
    charts: usize,
    /// Read at most this much of a tensor, such as 4MiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    sample: u64,
    /// Read no values, and compare only names, dtypes and shapes
    #[arg(long, conflicts_with_all = ["charts", "sample"])]
    no_values: bool,
    /// Print the data of the page as JSON instead of writing the page
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

const USAGE: &str = "\
tensorfile report [OPTIONS] --output <PAGE> <FILE>...
       tensorfile report [OPTIONS] --json <FILE>...";

const EXAMPLES: &str = "\
Examples:
  tensorfile report model.safetensors -o report.html
  tensorfile report old.ptd new.ptd -o changes.html
  tensorfile report --filter '*.attention.*' --charts 500 model.ptd -o attention.html
  tensorfile report --no-values model.safetensors.index.json -o index.html
  tensorfile report --json model.ptd | jq '.files[].values[].stats.max'";

/// The most files of a page.
const MAX_FILES: usize = 64;

impl Report {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        let outcome = self.report(out);
        if let Err(failure) = &outcome
            && self.json
            && let Some((file, error)) = failure.unlisted()
        {
            out.json(&Unreported { file, error })?;
        }
        outcome
    }

    fn report(&self, out: &mut Stdout) -> Outcome {
        let paths = expand(&self.files).into_iter().collect::<Outcome<Vec<_>>>()?;
        // Checked before tensors are read, which may take long.
        if let Some(output) = &self.output {
            self.check_output(output, &paths, out)?;
        }
        if paths.len() > MAX_FILES {
            let found = count(paths.len() as u64);
            return Err(Failure::usage(format_args!("a report shows up to {MAX_FILES} files, but there are {found}")));
        }
        if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err(Failure::usage("only one of the files can be standard input"));
        }
        let sources = paths.into_iter().map(|path| SourceFile::open(path, self.from.as_deref()));
        let sources: Vec<SourceFile> = sources.collect::<Outcome<_>>()?;
        let names = sources.iter().flat_map(|source| source.file.tensors()).map(|tensor| tensor.name());
        self.filter.expect_some(names.filter(|name| self.filter.matches(name)).count())?;
        let page = self.page(&sources)?;
        let Some(output) = &self.output else {
            out.json(&page)?;
            return Ok(Verdict::Pass);
        };
        let page = page::page(&page)?;
        if is_stdout(output) {
            out.raw()?.write_all(&page)?;
        } else {
            tensorfile::file::atomic::write(output, &page).at(output)?;
        }
        Ok(Verdict::Pass)
    }

    /// Fails if the page cannot be written there. A file that is read is not replaced.
    fn check_output(&self, output: &Path, inputs: &[PathBuf], out: &Stdout) -> Outcome<()> {
        if is_stdout(output) {
            return if out.is_terminal() {
                Err(Failure::usage("refusing to write a page to a terminal; redirect standard output"))
            } else {
                Ok(())
            };
        }
        let shown = display_name(output).display();
        let extension = output.extension().and_then(OsStr::to_str).unwrap_or_default();
        if !["html", "htm"].iter().any(|own| extension.eq_ignore_ascii_case(own)) {
            return Err(Failure::usage(format_args!("--output {shown}: the extension must be .html or .htm")));
        }
        if inputs.iter().any(|input| is_same_file(input, output)) {
            return Err(Failure::usage(format_args!("--output {shown}: is one of the files to read")));
        }
        self.no_clobber.check(output)
    }

    fn page<'f>(&self, sources: &'f [SourceFile]) -> Outcome<Page<'f>> {
        let choice = Choice {
            filter: &self.filter,
            sample: Some(self.sample).filter(|_| !self.no_values),
            charts: self.charts / sources.len().max(1),
            files: sources.len(),
        };
        let files = sources.iter().map(|source| FileData::of(source, choice)).collect::<Outcome<_>>()?;
        let diff = match sources {
            [a, b] => {
                let paths = [a, b].map(|source| source.path.clone());
                let diff = Diff::between(paths, self.filter.clone(), self.no_values);
                Some(DiffData::of(diff.report(&a.file, &b.file)?, !self.filter.is_empty()))
            }
            _ => None,
        };
        let program = concat!("tensorfile ", env!("CARGO_PKG_VERSION"));
        Ok(Page { program, sample: choice.sample, files, diff })
    }
}

/// A page that could not be made.
#[derive(Serialize)]
struct Unreported {
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
    error: String,
}
