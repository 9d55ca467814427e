use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tensorfile::{Category, Dtype, File, FileTensor, Format, InvalidTensor, Layout, Result};

use super::info::{is_misaligned, storage};
use crate::digests;
use crate::failure::{At, Failure, Outcome, Verdict, for_each};
use crate::input::{format_names, name_of, open};
use crate::manifest::{self, Manifest};
use crate::out::{Out, plain};
use crate::size::counted;
use crate::storable::obstacles;
use crate::writing::OF_THE_FILE;

/// Check files: that they are well-formed, and what else is asked for.
///
/// Always checked are the structure, with what the format says of alignment, and the limits on what a file may ask for.
/// What is odd but can be read is a warning: elements that are not aligned, holes between payloads, and what the format
/// has to say of its files. NaN is not looked for.
///
/// A line is printed for each problem, or `ok`. The exit code is 4 where a file is malformed, 1 where it is not what was
/// asked for.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// The files; `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Take the files for ones of this format, whatever they look like
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
    /// Read every payload to its end: that it is there, that a bool is 0 or 1, that coordinates lie in the shape, and
    /// the checksums of what is compressed
    #[arg(long, short)]
    payload: bool,
    /// Compare the tensors with the lines that `hash --tensors` printed; `-` for standard input
    #[arg(long, value_name = "MANIFEST")]
    manifest: Option<PathBuf>,
    /// Tell what stands against storing the tensors in this format
    #[arg(long = "for", value_name = "FORMAT", value_parser = format_names())]
    target: Option<String>,
    /// Take warnings for problems
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile verify --payload *.ptd
  tensorfile verify --for btf model.safetensors
  tensorfile hash --tensors model.safetensors | tensorfile verify --manifest - model.ptd
  tensorfile verify --strict --json model.ptd | jq '.[].problems[]'";

/// What was found of a file.
#[derive(Debug, Default, Serialize)]
struct Report {
    file: String,
    ok: bool,
    /// Whether it is no file of its format, or has a payload that is none of its dtype.
    malformed: bool,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Verify {
    pub fn run(&self, out: &mut Out) -> Outcome {
        let manifest = self.manifest.as_deref().map(manifest::read).transpose()?;
        let mut reports = Vec::new();
        let outcome = for_each(&self.files, |path| {
            let report = self.report(path, manifest.as_ref())?;
            let (is_ok, is_malformed) = (report.ok, report.malformed);
            match self.json {
                true => reports.push(report),
                false => print(&report, out)?,
            }
            if is_malformed { Err(Failure::told_malformed()) } else { Ok(Verdict::of(is_ok)) }
        });
        if self.json {
            out.json(&reports)?;
        }
        outcome
    }

    fn report(&self, path: &Path, manifest: Option<&Manifest>) -> Outcome<Report> {
        let mut report = Report { file: name_of(path).display().to_string(), ..Report::default() };
        if let Err(failure) = self.look(path, manifest, &mut report) {
            let Some(problem) = failure.about_file(name_of(path)) else { return Err(failure) };
            report.malformed = true;
            // Where payloads were read before, it may have been told.
            if !report.problems.iter().any(|told| told == problem) {
                report.problems.push(problem.to_owned());
            }
        }
        if self.strict {
            report.problems.append(&mut report.warnings);
        }
        report.ok = report.problems.is_empty();
        Ok(report)
    }

    fn look(&self, path: &Path, manifest: Option<&Manifest>, report: &mut Report) -> Outcome<()> {
        let file = open(path, self.from.as_deref())?;
        let path = name_of(path);
        let metadata = file.metadata().at(path)?;
        report.warnings.extend(metadata.warnings);
        report.warnings.extend(oddities(&file));
        if let Some(format) = self.target.as_deref().and_then(Format::named) {
            let found = obstacles(&file, format);
            report.problems.extend(found.problems);
            report.warnings.extend(found.warnings);
            for key in metadata.entries.keys().filter(|key| !format.keeps_metadata(key)) {
                let lost = format!("{} has no place for the metadata `{key}`", format.name);
                // As `convert` has it.
                if key == OF_THE_FILE { report.warnings.push(lost) } else { report.problems.push(lost) }
            }
        }
        if self.payload {
            for tensor in file.tensors() {
                match check_payload(tensor) {
                    Ok(()) => {}
                    Err(error) if error.category() == Category::File => {
                        report.malformed = true;
                        report.problems.push(error.to_string());
                    }
                    Err(error) => return Err(error).at(path),
                }
            }
        }
        if let Some(manifest) = manifest {
            report.problems.extend(manifest::differences(&digests::of_tensors(&file, path)?, manifest));
        }
        Ok(())
    }
}

/// What is odd about where payloads lie.
fn oddities(file: &File) -> impl Iterator<Item = String> {
    /// More than the head of a record takes.
    const HEAD: u64 = 4096;
    let mut misaligned = file.tensors().filter(is_misaligned);
    let misaligned = misaligned.next().map(|first| {
        let (tensors, name) = (counted(1 + misaligned.count() as u64, "tensor"), first.name());
        format!("{tensors} cannot be borrowed, as the elements are not aligned; the first is `{name}`")
    });
    let storage = storage(file);
    let padding = storage.alignment.unwrap_or(1).saturating_add(HEAD);
    let hole = (storage.largest_gap >= padding)
        .then(|| format!("between payloads there is a hole of {}", counted(storage.largest_gap, "byte")));
    misaligned.into_iter().chain(hole)
}

/// Reads a payload to its end.
fn check_payload(tensor: FileTensor<'_>) -> Result<()> {
    let mut before_elements = 0;
    if let Layout::Coo { entries } = tensor.layout() {
        // Reading it whole looks at the coordinates.
        tensor.read()?;
        let elements = tensor.dtype().bytes_for(*entries).unwrap_or_default() as u64;
        before_elements = usize::try_from(tensor.payload_bytes() - elements).unwrap_or(usize::MAX);
    }
    let mut done = 0;
    tensor.pour(&mut |piece| {
        let elements = piece.get(before_elements..).unwrap_or_default();
        before_elements = before_elements.saturating_sub(piece.len());
        if tensor.dtype() == Dtype::Bool
            && let Some(at) = elements.iter().position(|&byte| byte > 1)
        {
            return Err(InvalidTensor::Value { dtype: Dtype::Bool, element: done + at, found: elements[at] }.into());
        }
        done += elements.len();
        Ok(())
    })
}

fn print(report: &Report, out: &mut Out) -> io::Result<()> {
    let file = plain(&report.file);
    for problem in &report.problems {
        writeln!(out, "{file}: {}", plain(problem))?;
    }
    for warning in &report.warnings {
        writeln!(out, "{file}: warning: {}", plain(warning))?;
    }
    if report.ok {
        writeln!(out, "{file}: ok")?;
    }
    Ok(())
}
