//! Receipts of mapped files, and the proof that nothing is lost: the way back gives the same digests.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};
use tensorfile::digest::Digest;
use tensorfile::file::atomic::NewFile;
use tensorfile::report::ReceiptTotals;
use tensorfile::{File, LayoutMap, Receipt};

use crate::digests;
use crate::exit::{At, Outcome};
use crate::output::numbers::counted;
use crate::output::{Progress, Stdout};

/// The digests of the tensors of a file.
pub struct FileDigests {
    /// Of all of them.
    pub all: Digest,
    by_name: BTreeMap<String, Digest>,
}

/// The comparison of a source with what the way back made.
pub struct Proof {
    tensors: usize,
    /// The names of tensors that differ, or that only one of them has.
    pub differences: Vec<String>,
}

impl FileDigests {
    /// Reads all tensors of a file.
    pub fn of(file: &File, path: &Path) -> Outcome<Self> {
        let mut progress = Progress::bytes(file.tensors().map(|tensor| tensor.payload_bytes()).sum());
        let mut digest = |tensor| digests::of_tensor(tensor, &mut progress).at(path);
        let found: Vec<Digest> = file.tensors().map(&mut digest).collect::<Outcome<_>>()?;
        let all = digests::of_file(file, &found);
        let by_name = file.tensors().map(|tensor| tensor.name().to_owned()).zip(found).collect();
        Ok(Self { all, by_name })
    }
}

impl Proof {
    pub fn new(source: &FileDigests, back: &FileDigests) -> Self {
        let (one, other) = (&source.by_name, &back.by_name);
        let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        let differs = |name: &&String| one.get(*name) != other.get(*name);
        Self { tensors: one.len(), differences: names.into_iter().filter(differs).cloned().collect() }
    }

    /// Returns a line about the result.
    pub fn line(&self) -> String {
        let digests = counted(self.tensors, "digest");
        match &self.differences[..] {
            [] => format!("proved: {digests} equal after the way back"),
            [first, ..] => {
                format!(
                    "not proved: {} of {digests} differ after the way back, such as `{first}`",
                    self.differences.len()
                )
            }
        }
    }
}

/// Prints a receipt.
pub fn print(receipt: &Receipt, casts: usize, out: &mut Stdout) -> Outcome<()> {
    writeln!(out, "{receipt}, {casts} cast")?;
    Ok(())
}

/// Writes a receipt as JSON; `-` is standard output.
pub fn write(path: &Path, receipt: &Value, out: &mut Stdout) -> Outcome<()> {
    let text = serde_json::to_string_pretty(receipt).expect("names and numbers are JSON") + "\n";
    if crate::args::is_stdout(path) {
        out.write_all(text.as_bytes())?;
        return Ok(());
    }
    let mut file = NewFile::create(path).at(path)?;
    file.write_all(text.as_bytes())?;
    file.put(false).at(path)
}

/// Returns a receipt as JSON. `files` are the source and the target, with their digests if they are known.
pub fn to_json(
    map: &LayoutMap,
    receipt: &Receipt,
    files: [(&Path, Option<&FileDigests>); 2],
    casts: Vec<Value>,
    proof: Option<&Proof>,
) -> Value {
    let boxes = |ranges: &[Vec<Range<u64>>]| -> Vec<Vec<[u64; 2]>> {
        let pairs = |ranges: &Vec<Range<u64>>| ranges.iter().map(|range| [range.start, range.end]).collect();
        ranges.iter().map(pairs).collect()
    };
    let side = |totals: &ReceiptTotals, (path, digests): (&Path, Option<&FileDigests>)| {
        json!({
            "location": path.display().to_string(),
            "tensors": totals.tensors,
            "elements": totals.elements,
            "bytes": totals.bytes,
            "digest": digests.map(|digests| digests.all.to_string()),
        })
    };
    let sets: BTreeMap<&str, u64> = map.sets().iter().map(|(name, number)| (name.as_str(), *number)).collect();
    let rule = |rule: &tensorfile::report::RuleReceipt| {
        json!({
            "line": rule.line,
            "instances": rule.instances,
            "from": rule.from,
            "to": rule.to,
            "elements": rule.elements,
        })
    };
    let made = |made: &tensorfile::report::MadeElements| json!({ "name": made.name, "ranges": boxes(&made.ranges), "elements": made.elements, "line": made.line });
    let left = |left: &tensorfile::report::LeftElements| json!({ "name": left.name, "ranges": boxes(&left.ranges), "elements": left.elements, "why": left.why });
    let copied = |(from, to, elements): &(String, String, u64)| json!({ "from": from, "to": to, "elements": elements });
    let [source, target] = files;
    json!({
        "map": {
            "file": map.name(),
            "digest": map.digest().to_string(),
            "inverted": map.is_inverted(),
            "sets": sets,
        },
        "source": side(&receipt.source, source),
        "target": side(&receipt.target, target),
        "rules": receipt.rules.iter().map(rule).collect::<Vec<_>>(),
        "kept": { "tensors": receipt.kept[0], "elements": receipt.kept[1] },
        "copied": receipt.copied.iter().map(copied).collect::<Vec<_>>(),
        "made": receipt.made.iter().map(made).collect::<Vec<_>>(),
        "left": receipt.left.iter().map(left).collect::<Vec<_>>(),
        "casts": casts,
        "proved": proof.map(|proof| json!({ "tensors": proof.tensors, "differences": proof.differences })),
    })
}
