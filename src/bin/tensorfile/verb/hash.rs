use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tensorfile::Digest;

use crate::digests;
use crate::failure::{Failure, Outcome, Verdict, for_each};
use crate::input::{format_names, name_of, open};
use crate::manifest::{self, write_line};
use crate::out::{Out, plain};

/// Print the digests of files: the same for the same tensors, whatever the format.
///
/// A digest is of names, dtypes, shapes and elements. Formats, the order of tensors, the order of elements in memory and
/// metadata are not in it. A tensor without a name is called by its position. Elements count as bytes: 0.0 is not -0.0.
///
/// The lines are those of b3sum and sha256sum, but the digest is not of the file's bytes. The memory is that of a piece
/// of a tensor; a tensor that is sparse or not in row-major order is read whole.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Hash {
    /// The files; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "check")]
    files: Vec<PathBuf>,
    /// Take the files for ones of this format, whatever they look like
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
    /// Print a line for each tensor of one file
    #[arg(long, short)]
    tensors: bool,
    /// Compare with the lines that were printed before, and tell what differs: with the files that they name, or with
    /// --tensors, with the tensors of a file
    #[arg(long, short, value_name = "MANIFEST")]
    check: Option<PathBuf>,
    /// Print JSON, with the digests of files and of their tensors
    #[arg(long, conflicts_with_all = ["tensors", "check"])]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile hash model.safetensors model.ptd
  tensorfile hash *.ptd > digests && tensorfile hash --check digests
  tensorfile hash --tensors model.ptd > tensors && tensorfile hash --tensors --check tensors model.btf
  tensorfile hash --json model.ptd | jq '.[].tensors[].name'";

impl Hash {
    pub fn run(&self, out: &mut Out) -> Outcome {
        match (&self.check, &self.files[..]) {
            (None, [file]) if self.tensors => self.print_tensors(file, out),
            (Some(manifest), [file]) if self.tensors => self.check_tensors(manifest, file, out),
            _ if self.tensors => Err(Failure::usage("--tensors is for one file")),
            (Some(manifest), []) => self.check_files(manifest, out),
            (Some(_), _) => {
                Err(Failure::usage("the files to check are those of the manifest; --tensors checks a file"))
            }
            (None, _) if self.json => self.print_json(out),
            (None, files) => for_each(files, |path| {
                write_line(out, &path.display().to_string(), self.digest(path)?)?;
                Ok(Verdict::Fine)
            }),
        }
    }

    fn digest(&self, path: &Path) -> Outcome<Digest> {
        let file = open(path, self.from.as_deref())?;
        Ok(digests::of_all(&digests::of_tensors(&file, name_of(path))?))
    }

    fn print_tensors(&self, path: &Path, out: &mut Out) -> Outcome {
        let file = open(path, self.from.as_deref())?;
        for (name, digest) in digests::of_tensors(&file, name_of(path))? {
            write_line(out, name, digest)?;
        }
        Ok(Verdict::Fine)
    }

    fn print_json(&self, out: &mut Out) -> Outcome {
        let mut rows = Vec::new();
        let outcome = for_each(&self.files, |path| {
            let file = open(path, self.from.as_deref())?;
            let tensors = digests::of_tensors(&file, name_of(path))?;
            rows.push(Row {
                file: path.display().to_string(),
                format: file.format().name,
                digest: digests::of_all(&tensors),
                tensors: tensors
                    .iter()
                    .map(|(name, digest)| TensorRow { name: (*name).to_owned(), digest: *digest })
                    .collect(),
            });
            Ok(Verdict::Fine)
        });
        out.json(&rows)?;
        outcome
    }

    fn check_files(&self, manifest: &Path, out: &mut Out) -> Outcome {
        for_each(manifest::read(manifest)?, |(name, expected)| {
            let is_equal = self.digest(Path::new(&name))? == expected;
            writeln!(out, "{}: {}", plain(&name), if is_equal { "ok" } else { "differs" })?;
            Ok(Verdict::of(is_equal))
        })
    }

    fn check_tensors(&self, manifest: &Path, path: &Path, out: &mut Out) -> Outcome {
        let manifest = manifest::read(manifest)?;
        let file = open(path, self.from.as_deref())?;
        let differences = manifest::differences(&digests::of_tensors(&file, name_of(path))?, &manifest);
        let path = name_of(path).display().to_string();
        for difference in &differences {
            writeln!(out, "{}: {}", plain(&path), plain(difference))?;
        }
        if differences.is_empty() {
            writeln!(out, "{}: ok", plain(&path))?;
        }
        Ok(Verdict::of(differences.is_empty()))
    }
}

#[derive(Serialize)]
struct Row {
    file: String,
    format: &'static str,
    digest: Digest,
    tensors: Vec<TensorRow>,
}

#[derive(Serialize)]
struct TensorRow {
    name: String,
    digest: Digest,
}
