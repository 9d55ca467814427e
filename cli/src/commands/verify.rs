use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indexmap::{IndexMap, IndexSet};
use serde::Serialize;
use tensorfile::digest::Digest;
use tensorfile::digest::TensorDigester;
use tensorfile::model::TensorData;
use tensorfile::report::WarningKind;
use tensorfile::view::SaveReport;
use tensorfile::{Category, ErrorKind, File, Format, Layout, TensorInfo, Warning};

use crate::args::{MapArgs, SplitArgs, Warnings, display_name, expand, format_names, written_format_names};
use crate::computed::Computed;
use crate::digests::{self, Manifest};
use crate::exit::{At, Failure, Outcome, Verdict, for_each, in_own_words};
use crate::export::{FILE_METADATA, quoted};
use crate::output::numbers::counted;
use crate::output::warnings::WarningRow;
use crate::output::{FAINT, Stdout, escape};
use crate::pieces::Pieces;

/// Check that files are well-formed, match a manifest, or can be stored in another format.
///
/// You get three kinds of findings:
///
/// Problems: the structure of the file is wrong, it exceeds the limits of the library, or a tensor is damaged, even
/// if you can read the others.
///
/// Warnings: you can read the file, but something is missing or different, such as parts left out, tensors of unknown
/// dtypes, or repeated names. Other commands print these too, to standard error.
///
/// Notes: how the bytes are arranged, such as unaligned elements, gaps between payloads, and the order of tensors.
///
/// Each finding has a kind, in parentheses after it. To fail on some kinds, pass `--deny unknown-dtype,alignment`. NaN
/// is not reported here; see `stats --fail-on`.
///
/// Each problem is a line; a file without problems is `ok`. The exit code is 4 if a file is malformed, and 1 if a
/// tensor is damaged or a check you asked for failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// Files, directories or patterns such as 'train-{000..123}.tar'; a directory's tensor files are read in the order
    /// of their names, and shards count as one file; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read the files as this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    from: Option<String>,
    #[command(flatten)]
    split: SplitArgs,
    #[command(flatten)]
    mapping: MapArgs,
    /// Read all payloads, and check bools and the checksums of npz and PyTorch files
    #[arg(long, short)]
    payload: bool,
    /// Compare the tensors with MANIFEST, the output of `hash --tensors`; `-` for standard input
    #[arg(long, value_name = "MANIFEST")]
    manifest: Option<PathBuf>,
    /// Report all tensors, names and metadata that this format cannot store
    #[arg(long = "for", value_name = "FORMAT", value_parser = written_format_names())]
    target: Option<String>,
    /// Treat warnings and notes of these kinds as problems
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = warning_kinds())]
    deny: Vec<WarningKind>,
    /// Treat all warnings as problems, but not notes
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
  tensorfile verify --deny left-out,part,unknown-dtype model.pt
  tensorfile hash --tensors model.safetensors | tensorfile verify --manifest - model.ptd
  tensorfile verify --strict --json model.ptd | jq '.[].problems[]'";

/// The layout number of sparse tensors in the BTF specification.
const SPECIFIED_COO: u8 = 2;

#[derive(Debug, Default, Serialize)]
struct VerifyReport {
    file: String,
    ok: bool,
    malformed: bool,
    problems: Vec<String>,
    warnings: Vec<WarningRow>,
    notes: Vec<WarningRow>,
    /// The reason that the file could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Returns a parser of the names of kinds.
fn warning_kinds() -> impl TypedValueParser<Value = WarningKind> {
    let names = PossibleValuesParser::new(WarningKind::ALL.iter().map(|kind| kind.name()));
    names.map(|name| name.parse().expect("the parser takes no other names"))
}

impl VerifyReport {
    fn warn(&mut self, kind: WarningKind, text: String) {
        self.warnings.push(Warning::new(kind, text).into());
    }
}

impl Verify {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        out.expect_json(self.json);
        self.mapping.apply(false)?;
        let manifest = self.manifest.as_deref().map(Manifest::read).transpose()?;
        let mut reports = Vec::new();
        let outcome = for_each(self.split.keep(expand(&self.files))?, |path| {
            let report = path.and_then(|path| self.report(&path, manifest.as_ref()));
            if let Err(failure) = &report
                && self.json
                && let Some((file, error)) = failure.unlisted()
            {
                reports.push(VerifyReport { file, error: Some(error), ..VerifyReport::default() });
            }
            let report = report?;
            let (ok, malformed) = (report.ok, report.malformed);
            if self.json {
                reports.push(report)
            } else {
                print(&report, out)?
            }
            if malformed { Err(Failure::reported_malformed()) } else { Ok(Verdict::from_pass(ok)) }
        });
        if self.json {
            out.json(&reports)?;
        }
        outcome
    }

    fn report(&self, path: &Path, manifest: Option<&Manifest>) -> Outcome<VerifyReport> {
        let mut report = VerifyReport { file: display_name(path).display().to_string(), ..VerifyReport::default() };
        if let Err(failure) = self.check(path, manifest, &mut report) {
            let Some(problem) = failure.malformed_message() else { return Err(failure) };
            report.malformed = true;
            report.problems.push(problem.to_owned());
        }
        let denies = |kind: WarningKind| {
            kind == WarningKind::Damaged || self.strict && !kind.is_note() || self.deny.contains(&kind)
        };
        let is_denied = |warning: &mut WarningRow| denies(warning.kind);
        report.problems.extend(report.warnings.extract_if(.., is_denied).map(|warning| warning.text));
        report.notes.extend(report.warnings.extract_if(.., |warning| warning.kind.is_note()));
        report.ok = report.problems.is_empty();
        Ok(report)
    }

    fn check(&self, path: &Path, manifest: Option<&Manifest>, report: &mut VerifyReport) -> Outcome<()> {
        let checks = Checks { payload: self.payload, digest: manifest.is_some() };
        let mut computed = Computed::new(move |info, data| checks.read(info, data));
        let file = computed.open(path, self.from.as_deref(), Warnings::Results)?;
        let path = display_name(path);
        let metadata = file.metadata().at(path)?;
        report.warnings.extend(metadata.warnings.iter().cloned().map(WarningRow::from));
        if let Some(format) = self.target.as_deref().and_then(Format::named) {
            check_format(&file, format, !self.json, report).at(path)?;
            if format.name == "btf" && metadata.coo_layouts.contains(&SPECIFIED_COO) {
                let skips =
                    "TFRT's code skips sparse tensors with layout number 2, which is that of the BTF specification";
                report.warn(WarningKind::Version, format!("{skips}; `convert --tfrt-coo` writes 1"));
            }
            let lost = metadata.entries.keys().filter(|key| !format.keeps_metadata(key)).cloned();
            // `convert` drops these entries without `--lossy`: the one that describes the file, and all of a
            // checkpoint.
            let has_values = file.format().has_values() || file.format().read_only;
            let is_dropped = |key: &String| key == FILE_METADATA || has_values;
            let (dropped, others): (Vec<String>, Vec<String>) = lost.partition(is_dropped);
            let message = |keys: &[String]| format!("{} cannot store the metadata {}", format.name, quoted(keys));
            let together = if self.json { 1 } else { dropped.len().max(1) };
            dropped.chunks(together).for_each(|keys| report.warn(WarningKind::Metadata, message(keys)));
            // Few lines are read more easily; JSON has each finding by itself.
            let together = if self.json { 1 } else { usize::MAX };
            report.problems.extend(others.chunks(together).map(message));
        }
        let mut digests = Vec::new();
        computed.watch(file.tensors());
        for tensor in file.tensors() {
            let checked =
                computed.of(tensor).map(|digest| digests.extend(digest.map(|digest| (tensor.name(), digest))));
            add_malformed(checked, report).at(path)?;
        }
        if self.payload {
            add_malformed(file.check_other_checksums(), report).at(path)?;
        }
        // A tensor that cannot be read has no digest, and is a problem already.
        if let Some(manifest) = manifest.filter(|_| digests.len() == file.len()) {
            let differences = manifest.differences(digests.into_iter().map(Ok))?;
            report.problems.extend(if self.json { differences.each() } else { differences.grouped() });
            let unseen = digests::unseen(&file);
            if !unseen.is_empty() {
                let tensors = quoted(&unseen);
                let reason = "whose elements are not stored in one place";
                report.problems.push(format!("cannot compare {tensors} with the manifest, {reason}"));
            }
        }
        Ok(())
    }
}

/// Adds the tensors and names that a format cannot store to the report; those with the same reason on one line, if they
/// are to be `grouped`.
fn check_format(
    file: &File,
    format: &'static Format,
    grouped: bool,
    report: &mut VerifyReport,
) -> tensorfile::Result<()> {
    /// The beginning of the errors of tensors that cannot be stored.
    const STORE: &str = "store ";

    let mut save = SaveReport::new(file, format)?;
    if grouped {
        // By what can be stored instead: the names, and what cannot be stored.
        let mut reasons: IndexMap<String, (Vec<String>, IndexSet<String>)> = IndexMap::new();
        for (name, error) in std::mem::take(&mut save.tensors) {
            let (what, reason) = match error.kind() {
                ErrorKind::Unsupported { what, instead } if what.starts_with(STORE) => {
                    (Some(what[STORE.len()..].to_owned()), in_own_words(instead))
                }
                kind => (None, in_own_words(kind)),
            };
            let (names, whats) = reasons.entry(reason).or_default();
            names.push(name);
            whats.extend(what);
        }
        report.problems.extend(reasons.iter().map(|(reason, (names, whats))| {
            let subject = match &names[..] {
                [name] => format!("tensor {}", quoted(std::slice::from_ref(name))),
                names => format!("{} ({})", counted(names.len(), "tensor"), quoted(names)),
            };
            let whats = whats.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            if whats.is_empty() {
                format!("{subject}: {reason}")
            } else {
                format!("{subject}: cannot store {whats}; {reason}")
            }
        }));
    }
    report.problems.extend(save.problems());
    if save.unstored_names > 0 {
        let names = counted(save.unstored_names, "name");
        if save.can_embed_names() {
            let text = format!("{} cannot store {names}, which would be embedded", format.name);
            report.warn(WarningKind::Name, text);
        } else if format.max_name == Some(0) && save.wrong_count.is_none() {
            // A format with shorter names refuses them, which is among the problems.
            report.problems.push(format!("{} cannot store {names}; `convert --lossy` drops them", format.name));
        }
    }
    Ok(())
}

/// Adds the reason that a file is malformed to the report. Other errors are returned.
fn add_malformed(checked: tensorfile::Result<()>, report: &mut VerifyReport) -> tensorfile::Result<()> {
    match checked {
        Err(error) if error.category() == Category::File => {
            report.malformed = true;
            report.problems.push(in_own_words(&error.without_path()));
            Ok(())
        }
        checked => checked,
    }
}

/// The checks of a payload.
#[derive(Clone, Copy)]
struct Checks {
    /// Whether to make the optional checks.
    payload: bool,
    digest: bool,
}

impl Checks {
    /// Reads a payload, if there is something to check. Returns its digest, if that is needed.
    fn read(self, info: &TensorInfo, data: &dyn TensorData) -> tensorfile::Result<Option<Digest>> {
        // The coordinates of sparse tensors are always checked, as they are read.
        if !matches!(info.layout, Layout::Coo { .. }) && !self.payload && !self.digest {
            return Ok(None);
        }
        let mut digester = self.digest.then(|| TensorDigester::new(info));
        data.write_to(&mut Pieces(|piece: &[u8]| {
            if let Some(digester) = &mut digester {
                digester.update(piece);
            }
            Ok(())
        }))?;
        Ok(digester.map(TensorDigester::finish).transpose()?)
    }
}

fn print(report: &VerifyReport, out: &mut Stdout) -> io::Result<()> {
    let file = escape(&report.file);
    let [red, yellow, green] = [AnsiColor::Red, AnsiColor::Yellow, AnsiColor::Green].map(|color| color.on_default());
    for problem in &report.problems {
        writeln!(out, "{}: {}", out.styled(red, &file).into_owned(), escape(problem))?;
    }
    let warnings = report.warnings.iter().map(|warning| ("warning:", yellow, warning));
    for (label, color, row) in warnings.chain(report.notes.iter().map(|note| ("note:", FAINT, note))) {
        let kind = out.styled(FAINT, &format!("({})", row.kind)).into_owned();
        writeln!(out, "{file}: {} {} {kind}", out.styled(color, label).into_owned(), escape(&row.text))?;
    }
    if report.ok {
        writeln!(out, "{file}: {}", out.styled(green, "ok").into_owned())?;
    }
    Ok(())
}
