//! The report for people. Findings common to the items of a list take one line, and long lists are cut.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};

use indexmap::IndexMap;

use super::pattern::{common, pattern};
use super::{Gap, LoadReport, Misfit};
use crate::error::Short;

/// The most lines for each kind of finding.
const SHOWN: usize = 20;

/// Names longer than this do not widen the column.
const WIDEST: usize = 48;

impl Display for LoadReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.summary(f)?;
        let missing = self.missing.iter().map(|missing| Finding {
            name: &missing.name,
            text: missing.expected.clone(),
            near: missing.near.first().map(String::as_str),
        });
        section(f, "missing", &mut { missing })?;
        // A suggestion for a missing tensor is not repeated for the unexpected one.
        let asked: HashSet<&str> = self.missing.iter().map(|missing| missing.name.as_str()).collect();
        let unexpected = self.unexpected.iter().map(|unexpected| Finding {
            name: &unexpected.name,
            text: unexpected.info.to_string(),
            near: unexpected.near.first().map(String::as_str).filter(|near| !asked.contains(near)),
        });
        section(f, "unexpected", &mut { unexpected })?;
        let is_castable = |misfit: &Misfit| misfit.expected.parse().is_ok_and(|dtype| misfit.found.can_cast_to(dtype));
        let cast = if self.wrong_dtype.iter().any(is_castable) { " (`#[tensor(cast)]` converts numbers)" } else { "" };
        misfits(f, &format!("wrong dtype{cast}"), &self.wrong_dtype)?;
        misfits(
            f,
            "codes of quantized weights, which `#[tensor(dequantize)]` decodes from an open `File`",
            &self.codes,
        )?;
        misfits(f, "wrong shape", &self.wrong_shape)?;
        misfits(f, "wrong layout", &self.wrong_layout)?;
        let gaps: Vec<_> = self.gaps.iter().map(gap).collect();
        section(f, "gaps in lists", &mut gaps.iter().map(|(name, text)| (name.as_str(), text.clone()).into()))?;
        let missing = self.missing_metadata.iter().map(|missing| Finding {
            name: &missing.key,
            text: missing.expected.clone(),
            near: missing.near.first().map(String::as_str),
        });
        section(f, "missing metadata", &mut { missing })?;
        let invalid = self.invalid_metadata.iter().map(|invalid| (invalid.key.as_str(), invalid.what.clone()).into());
        section(f, "invalid metadata", &mut { invalid })
    }
}

impl LoadReport {
    fn summary(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(refused) = &self.refused {
            write!(f, "{refused}; ")?;
        }
        let counts = [
            (self.missing.len(), "missing"),
            (self.unexpected.len(), "unexpected"),
            (self.wrong_dtype.len(), "wrong dtype"),
            (self.codes.len(), if self.codes.len() == 1 { "tensor of codes" } else { "tensors of codes" }),
            (self.wrong_shape.len(), "wrong shape"),
            (self.wrong_layout.len(), "wrong layout"),
            (self.gaps.len(), if self.gaps.len() == 1 { "gap in a list" } else { "gaps in lists" }),
            (self.missing_metadata.len(), "missing metadata"),
            (self.invalid_metadata.len(), "invalid metadata"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        write!(f, "{counts}{}", if counts.is_empty() { "" } else { "; " })?;
        let fit = if self.tensors == 1 { "tensor fits" } else { "tensors fit" };
        write!(f, "{} of {} {fit}", self.loaded, self.tensors)
    }
}

fn misfits(f: &mut Formatter<'_>, title: &str, misfits: &[Misfit]) -> fmt::Result {
    let text = |misfit: &Misfit| format!("{}, but expected {}", misfit.found, misfit.expected);
    section(f, title, &mut misfits.iter().map(|misfit| (misfit.name.as_str(), text(misfit)).into()))
}

/// Returns the name of the first missing item, and the description of the gap.
fn gap(Gap { list, missing }: &Gap) -> (String, String) {
    let item = |index: usize| if list.is_empty() { index.to_string() } else { format!("{list}.{index}") };
    let more = if missing.len() > 1 { format!("to `{}` ", Short(&item(missing.end - 1))) } else { String::new() };
    (item(missing.start), format!("{more}missing, but `{}` is there", Short(&item(missing.end))))
}

/// A finding: a line, or a part of a line for several findings.
struct Finding<'a> {
    name: &'a str,
    text: String,
    /// A similar name.
    near: Option<&'a str>,
}

impl<'a> From<(&'a str, String)> for Finding<'a> {
    fn from((name, text): (&'a str, String)) -> Self {
        Self { name, text, near: None }
    }
}

/// Writes findings of one kind: a title, and a line for each. Findings that differ only in the numbers of their names
/// take one line.
fn section<'a>(f: &mut Formatter<'_>, title: &str, findings: &mut dyn Iterator<Item = Finding<'a>>) -> fmt::Result {
    let mut groups: IndexMap<(String, String, Option<String>), Vec<Finding<'a>>> = IndexMap::new();
    for finding in findings {
        let key = (pattern(finding.name), finding.text.clone(), finding.near.map(pattern));
        groups.entry(key).or_default().push(finding);
    }
    if groups.is_empty() {
        return Ok(());
    }
    write!(f, "\n{title}:")?;
    let name = |group: &[Finding<'_>]| format!("`{}`", Short(&common(&mut group.iter().map(|finding| finding.name))));
    let shown = || groups.values().take(SHOWN);
    let width = shown().map(|group| name(group).chars().count()).filter(|width| *width <= WIDEST).max().unwrap_or(0);
    for group in shown() {
        write!(f, "\n  {:width$}  {}", name(group), group[0].text)?;
        if group.len() > 1 {
            write!(f, " ({} times)", group.len())?;
        }
        if group[0].near.is_some() {
            let near = &mut group.iter().filter_map(|finding| finding.near);
            write!(f, "; did you mean `{}`?", Short(&common(near)))?;
        }
    }
    match groups.values().skip(SHOWN).map(Vec::len).sum() {
        0_usize => Ok(()),
        more => write!(f, "\n  and {more} more"),
    }
}
