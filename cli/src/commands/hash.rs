use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tensorfile::File;
use tensorfile::digest::Digest;

use crate::args::{Decoding, MapArgs, SplitArgs, Unread, Warnings, display_name, expand, format_names};
use crate::computed::Computed;
use crate::digests::{self, Manifest, path_bytes, write_line};
use crate::exit::{At, Failure, Outcome, Verdict, for_each};
use crate::export::quoted;
use crate::output::warnings::WarningRow;
use crate::output::{Each, Stdout, escape, note};

/// Print digests of files, which are equal for equal tensors in any format.
///
/// A digest covers names, dtypes, shapes and elements. It does not depend on the format, the order of tensors, the
/// memory order of elements, or metadata. An unnamed tensor is identified by its position. Elements count as bytes: 0.0
/// differs from -0.0.
///
/// The lines look as from b3sum and sha256sum, but digest tensors, not the bytes of the file. Tensors are read in
/// pieces, unless they are sparse or not row-major.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Hash {
    /// Files, directories or patterns such as 'train-{000..123}.tar'; a directory's tensor files are read in the order
    /// of their names, and shards count as one file; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "check")]
    files: Vec<PathBuf>,
    /// Read the files as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
    #[command(flatten)]
    split: SplitArgs,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    mapping: MapArgs,
    /// Print a line for each tensor of a single file
    #[arg(long, short, conflicts_with = "split")]
    tensors: bool,
    /// Check the files listed in MANIFEST, the output of an earlier run; with --tensors, check the tensors of a file
    #[arg(long, short, value_name = "MANIFEST", conflicts_with = "split")]
    check: Option<PathBuf>,
    /// Print JSON, with the digests of files and of their tensors
    #[arg(long, conflicts_with_all = ["tensors", "check"])]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile hash model.safetensors model.ptd
  tensorfile hash *.ptd > digests && tensorfile hash --check digests
  tensorfile hash --tensors model.ptd > tensors
  tensorfile hash --tensors --check tensors model.btf
  tensorfile hash --json model.ptd | jq '.[].tensors[].name'";

impl Hash {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        self.decoding.apply();
        self.mapping.apply(false)?;
        match (&self.check, &self.files[..]) {
            (None, [file]) if self.tensors => self.print_tensors(file, out),
            (Some(manifest), [file]) if self.tensors => self.check_tensors(manifest, file, out),
            _ if self.tensors => Err(Failure::usage("--tensors takes a single file")),
            (Some(manifest), []) => self.check_files(manifest, out),
            (Some(_), _) => {
                Err(Failure::usage("--check takes the files from the manifest; use --tensors to check a given file"))
            }
            (None, _) if self.json => self.print_json(out),
            (None, files) => for_each(self.split.keep(expand(files))?, |path| {
                let path = path?;
                let (digest, verdict) = self.digest(&path)?;
                write_line(out, path_bytes(&path), digest)?;
                Ok(verdict)
            }),
        }
    }

    fn open(&self, path: &Path) -> Outcome<(File, Computed<Digest>)> {
        let mut digests = Computed::new(digests::of_passing).of_file(digests::of_tensor);
        let file = digests.open(path, self.from.as_deref(), Warnings::StandardError)?;
        digests.watch(file.tensors());
        Ok((file, digests))
    }

    /// Opens a file, and returns the digests of its tensors.
    fn digests(&self, path: &Path) -> Outcome<(File, Vec<Digest>)> {
        let (file, mut digests) = self.open(path)?;
        let digests = file.tensors().map(|tensor| digests.of(tensor).at(display_name(path))).collect::<Outcome<_>>()?;
        Ok((file, digests))
    }

    /// Returns the digest of a file. The verdict is whether it has all elements.
    fn digest(&self, path: &Path) -> Outcome<(Digest, Verdict)> {
        let (file, digests) = self.digests(path)?;
        Ok((digests::of_file(&file, &digests), check_seen(&file, path)))
    }

    fn print_tensors(&self, path: &Path, out: &mut Stdout) -> Outcome {
        let (file, mut digests) = self.open(path)?;
        for tensor in file.tensors() {
            write_line(out, tensor.name().as_bytes(), digests.of(tensor).at(display_name(path))?)?;
        }
        Ok(check_seen(&file, path))
    }

    fn print_json(&self, out: &mut Stdout) -> Outcome {
        out.expect_json(true);
        let files = self.split.keep(expand(&self.files))?;
        out.json_list(|list| {
            for_each(files, |path| {
                let read = path.and_then(|path| Ok((self.digests(&path)?, path)));
                let ((file, digests), path) = match read {
                    Ok(read) => read,
                    Err(failure) => {
                        if let Some((file, error)) = failure.unlisted() {
                            list.push(&Unread { file, error })?;
                        }
                        return Err(failure);
                    }
                };
                let names = file.tensors().map(|tensor| tensor.name());
                let rows = names.zip(&digests).map(|(name, digest)| DigestRow { name, digest: *digest });
                list.push(&FileRow {
                    file: display_name(&path).display().to_string(),
                    format: file.format().name,
                    digest: digests::of_file(&file, &digests),
                    warnings: WarningRow::of_file(&file),
                    tensors: Each(rows),
                })?;
                Ok(check_seen(&file, &path))
            })
        })?
    }

    fn check_files(&self, manifest: &Path, out: &mut Stdout) -> Outcome {
        for_each(Manifest::read(manifest)?.entries(), |entry| {
            let (digest, seen) = self.digest(&entry.path())?;
            let verdict = match (digest == entry.digest, seen) {
                (false, _) => "differs",
                (true, Verdict::Fail) => "not checked",
                (true, Verdict::Pass) => "ok",
            };
            writeln!(out, "{}: {verdict}", entry.text())?;
            Ok(Verdict::from_pass(verdict == "ok"))
        })
    }

    fn check_tensors(&self, manifest: &Path, path: &Path, out: &mut Stdout) -> Outcome {
        let manifest = Manifest::read(manifest)?;
        let (file, mut digests) = self.open(path)?;
        let path = display_name(path);
        let found = file.tensors().map(|tensor| Ok((tensor.name(), digests.of(tensor).at(path)?)));
        let differences = manifest.differences(found)?;
        let path = path.display().to_string();
        for difference in differences.each() {
            writeln!(out, "{}: {}", escape(&path), escape(&difference))?;
        }
        let seen = check_seen(&file, Path::new(&path));
        if differences.is_empty() && seen == Verdict::Pass {
            writeln!(out, "{}: ok", escape(&path))?;
        }
        Ok(if differences.is_empty() { seen } else { Verdict::Fail })
    }
}

/// Reports the tensors whose elements no digest has.
fn check_seen(file: &File, path: &Path) -> Verdict {
    let unseen = digests::unseen(file);
    if unseen.is_empty() {
        return Verdict::Pass;
    }
    let (path, tensors) = (display_name(path).display(), quoted(&unseen));
    note(format_args!("{path}: the digest has no elements of {tensors}, which are not stored in one place"));
    Verdict::Fail
}

#[derive(Serialize)]
#[serde(bound(serialize = "Each<I>: Serialize"))]
struct FileRow<I> {
    file: String,
    format: &'static str,
    digest: Digest,
    warnings: Vec<WarningRow>,
    tensors: Each<I>,
}

#[derive(Serialize)]
struct DigestRow<'f> {
    name: &'f str,
    digest: Digest,
}
