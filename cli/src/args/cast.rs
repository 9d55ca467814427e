//! The arguments for casts, and their report on standard error.

use std::ffi::OsStr;
use std::path::Path;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};
use indexmap::{IndexMap, IndexSet};
use tensorfile::cast::{CastReport, Caster};
use tensorfile::model::{TensorRecord, TensorSink};
use tensorfile::view::{CastView, TensorCast};
use tensorfile::{Dtype, Layout, TensorInfo, Tensors};

use super::complete::dtype_rule;
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::output::numbers::{count, counted};
use crate::output::tensors::dtype_label;
use crate::output::{Progress, escape, note};
use crate::pieces::Pieces;

/// The arguments that cast tensors.
#[derive(Debug, Clone, clap::Args)]
pub struct Cast {
    /// Cast to this dtype, such as `f16`; with `FROM=TO`, only tensors of dtype FROM
    ///
    /// Floats are cast to floats and integers to integers; other tensors are not changed. One dtype of floats and one
    /// of integers can be given. Numbers are rounded to the nearest, ties to even. The numbers of changed elements and
    /// of tensors that are not cast are printed to standard error.
    #[arg(long = "dtype", value_name = "[FROM=]TO", value_delimiter = ',', value_parser = RuleParser)]
    #[arg(hide_possible_values = true, add = dtype_rule())]
    dtypes: Vec<CastRule>,
    /// Also cast integers to floats and floats to integers
    #[arg(long, requires = "dtypes")]
    cast_integers: bool,
    /// Print the number of changed elements for each tensor; they are not read with --dry-run
    #[arg(long, short, requires = "dtypes")]
    verbose: bool,
    /// Write nothing and exit with code 1 if a cast loses a number in one of these ways; the tensors are read twice
    #[arg(long, value_name = "WHAT", value_delimiter = ',', requires = "dtypes")]
    fail_on: Vec<Loss>,
}

/// A way in which a cast loses a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Loss {
    /// A number that is too large, and becomes infinite or the largest one
    Overflow,
    /// A number that is too small, and becomes zero
    Underflow,
    /// A NaN that becomes zero
    Nan,
}

impl Loss {
    fn count(self, report: &CastReport) -> u64 {
        match self {
            Self::Overflow => report.overflowed,
            Self::Underflow => report.underflowed,
            Self::Nan => report.nan_to_zero,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct CastRule {
    /// `None` for every dtype.
    from: Option<Dtype>,
    to: Dtype,
}

impl FromStr for CastRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |name: &str| match name.parse::<Dtype>() {
            Ok(dtype) if is_number(dtype) => Ok(dtype),
            Ok(dtype) => Err(format!("cannot cast {dtype}; only integers and floats are cast")),
            Err(_) => Err(match meant(name) {
                Some(dtype) => format!("unknown dtype `{name}`; did you mean `{dtype}`?"),
                None => {
                    let names: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
                    format!("unknown dtype `{name}`; the dtypes are {}", names.join(", "))
                }
            }),
        };
        match text.split_once('=') {
            Some((from, to)) => Ok(Self { from: Some(number(from)?), to: number(to)? }),
            None => Ok(Self { from: None, to: number(text)? }),
        }
    }
}

/// Returns the dtype for its name in other software.
fn meant(name: &str) -> Option<Dtype> {
    let name = name.to_ascii_lowercase();
    let name = ["torch.", "numpy.", "np.", "jnp."].iter().find_map(|module| name.strip_prefix(module)).unwrap_or(&name);
    let own = match name {
        "half" => "f16",
        "bfloat" | "brain" => "bf16",
        "float" | "single" => "f32",
        "double" => "f64",
        "byte" => "u8",
        "char" => "i8",
        "short" => "i16",
        "int" => "i32",
        "long" => "i64",
        "boolean" => "bool",
        _ => name,
    };
    // `float16`, `fp16`, `bfloat16`, `int8`, `uint8` and so on.
    let (kind, bits) = own.split_at(own.find(|c: char| c.is_ascii_digit()).unwrap_or(own.len()));
    let kind = match kind {
        "float" | "fp" => "f",
        "bfloat" | "bfp" => "bf",
        "int" | "s" => "i",
        "uint" => "u",
        kind => kind,
    };
    format!("{kind}{bits}").parse().ok()
}

/// Parses rules, and lists dtypes for completions.
#[derive(Debug, Clone)]
struct RuleParser;

impl TypedValueParser for RuleParser {
    type Value = CastRule;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<CastRule, clap::Error> {
        let parse: fn(&str) -> Result<CastRule, String> = CastRule::from_str;
        parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let numbers = Dtype::ALL.iter().filter(|dtype| is_number(**dtype));
        Some(Box::new(numbers.map(|dtype| PossibleValue::new(dtype.name()))))
    }
}

/// Returns whether the elements of a tensor are of its dtype.
fn is_plain(info: &TensorInfo) -> bool {
    !matches!(info.layout, Layout::Blob | Layout::Unknown(_))
}

fn is_number(dtype: Dtype) -> bool {
    dtype.is_float() || dtype.is_integer()
}

impl Cast {
    /// Returns the tensors in their new dtypes.
    ///
    /// Fails if a rule casts between integers and floats without permission, or applies to the same tensors as another
    /// one.
    pub fn apply<'t>(&'t self, tensors: &'t dyn Tensors) -> Outcome<CastView<'t>> {
        if let Some([first, second]) = self.same_tensors() {
            let which = match first.from {
                Some(from) => from.name(),
                None if first.to.is_float() => "floats",
                None => "integers",
            };
            let message = format_args!("--dtype: {which} cannot be cast to both {} and {}", first.to, second.to);
            return Err(Failure::usage(message));
        }
        let crosses = |rule: &&CastRule| rule.from.is_some_and(|from| Caster::new(from, rule.to).is_err());
        if let Some(CastRule { from: Some(from), to }) = self.dtypes.iter().find(crosses)
            && !self.cast_integers
        {
            return Err(Failure::usage(format_args!("casting {from} to {to} needs --cast-integers")));
        }
        Ok(CastView::new(tensors, |_, info| self.target(info.dtype)))
    }

    /// Returns the first two rules for the same tensors. The second would never be used.
    fn same_tensors(&self) -> Option<[&CastRule; 2]> {
        self.dtypes.iter().enumerate().find_map(|(index, second)| {
            let first = self.dtypes[..index].iter().find(|first| {
                first.from == second.from && (first.from.is_some() || first.to.is_float() == second.to.is_float())
            });
            Some([first?, second])
        })
    }

    /// Returns the target dtype for tensors of dtype `from`. A rule for this dtype precedes general rules, and among
    /// those, float to float and integer to integer precede casts between them.
    fn target(&self, from: Dtype) -> Dtype {
        let rule = |is_for: &dyn Fn(&CastRule) -> bool| self.dtypes.iter().find(|rule| is_for(rule));
        let for_all = |rule: &CastRule| rule.from.is_none() && is_number(from);
        let rule = rule(&|rule| rule.from == Some(from))
            .or_else(|| rule(&|rule| for_all(rule) && from.is_float() == rule.to.is_float()))
            .or_else(|| rule(&|rule| for_all(rule) && self.cast_integers));
        rule.map_or(from, |rule| rule.to)
    }

    /// Prints the tensors left uncast by a general rule, or the reason why none is cast. `tensors` are all tensors as
    /// written.
    pub fn report_uncast(&self, casts: &[TensorCast], tensors: &[(String, TensorInfo)]) {
        if self.dtypes.is_empty() {
            return;
        }
        let infos = tensors.iter().map(|(_, info)| info);
        if casts.is_empty() {
            return self.report_none(infos.map(|info| info.dtype));
        }
        for CastRule { from, to } in &self.dtypes {
            if let Some(from) = from.filter(|from| *from != *to && casts.iter().all(|cast| cast.from != *from)) {
                note(format_args!("--dtype {from}={to} changes no tensor"));
            }
        }
        /// The maximum number of dtypes to list.
        const SHOWN: usize = 5;
        // By label, in file order. Tensors already in a target dtype need no cast.
        let mut uncast: IndexMap<&str, usize> = IndexMap::new();
        let mut has_numbers = false;
        for info in infos.filter(|info| self.dtypes.iter().all(|rule| rule.to != info.dtype || !is_plain(info))) {
            *uncast.entry(dtype_label(info)).or_default() += 1;
            has_numbers |= is_plain(info) && is_number(info.dtype);
        }
        if uncast.is_empty() || self.dtypes.iter().all(|rule| rule.from.is_some()) {
            return;
        }
        let tensors = counted(uncast.values().sum::<usize>(), "tensor");
        let kinds = match uncast.first() {
            Some((dtype, _)) if uncast.len() == 1 => format!("of {dtype}"),
            _ => {
                let kind = |(dtype, tensors): (&&str, &usize)| format!("{} {dtype}", count(*tensors as u64));
                let shown = uncast.iter().take(SHOWN).map(kind).collect::<Vec<_>>().join(", ");
                match uncast.len().saturating_sub(SHOWN) {
                    0 => format!("({shown})"),
                    more => format!("({shown} and {})", counted(more, "more dtype")),
                }
            }
        };
        let advice = if has_numbers && !self.cast_integers { "; see --cast-integers" } else { "" };
        note(format_args!("not cast: {tensors} {kinds}{advice}"));
    }

    /// Prints the reason why no tensor is cast. `dtypes` are the dtypes of the tensors.
    fn report_none(&self, dtypes: impl Iterator<Item = Dtype> + Clone) {
        let is_crossed = |rule: &CastRule, dtype: Dtype| {
            rule.from.is_none() && is_number(dtype) && dtype.is_float() != rule.to.is_float()
        };
        let all = match &self.dtypes[..] {
            [CastRule { from: None, to }] if dtypes.clone().all(|dtype| dtype == *to) => {
                format!(": all are {to} already")
            }
            [rule @ CastRule { to, .. }]
                if dtypes.clone().any(|dtype| is_crossed(rule, dtype)) && !self.cast_integers =>
            {
                let kind =
                    if to.is_float() { "integers are not cast to floats" } else { "floats are not cast to integers" };
                format!(": {kind} without --cast-integers")
            }
            [CastRule { from: None, .. }] if dtypes.clone().next().is_some() && !dtypes.clone().any(is_number) => {
                let names: IndexSet<&str> = dtypes.map(Dtype::name).collect();
                let names: Vec<&str> = names.into_iter().collect();
                format!(": all are {}", names.join(" or "))
            }
            _ => String::new(),
        };
        note(format_args!("--dtype changes no tensor{all}"));
    }

    /// Casts all tensors, if losses must be found before anything is written, and prints the ones with losses of
    /// `--fail-on`.
    pub fn check(&self, tensors: &CastView<'_>, path: &Path) -> Outcome {
        /// Reads tensors only for the report of their cast.
        struct Read(Progress);

        impl TensorSink for Read {
            fn tensor(&mut self, tensor: &TensorRecord<'_>) -> tensorfile::Result<()> {
                let mut read = Pieces(|piece: &[u8]| {
                    self.0.advance(piece.len());
                    Ok(())
                });
                Ok(tensor.data.write_to(&mut read)?)
            }
        }

        if self.fail_on.is_empty() {
            return Ok(Verdict::Pass);
        }
        tensors.send(&mut Read(Progress::stream())).at(path)?;
        let mut passes = true;
        for TensorCast { name, from, to, report, .. } in tensors.casts() {
            if self.fail_on.iter().all(|loss| loss.count(&report) == 0) {
                continue;
            }
            passes = false;
            let loss = report.first_loss.as_ref().map(|loss| format!("; first loss: {loss}")).unwrap_or_default();
            note(format_args!("{name}: {from} to {to}: {}{loss}", changes(&report)));
        }
        Ok(Verdict::from_pass(passes))
    }

    /// Prints the changes by casts.
    pub fn report(&self, casts: &[TensorCast]) {
        let mut total = CastReport::default();
        let mut first_loss = None;
        for TensorCast { name, from, to, report, .. } in casts {
            let name = escape(name);
            if self.verbose {
                note(format_args!("{name}: {from} to {to}: {}", changes(report)));
            }
            total.elements += report.elements;
            total.rounded += report.rounded;
            total.overflowed += report.overflowed;
            total.underflowed += report.underflowed;
            total.nan_to_zero += report.nan_to_zero;
            if let Some(loss) = &report.first_loss {
                first_loss.get_or_insert_with(|| format!("; first loss in {name}: {loss}"));
            }
        }
        if !casts.is_empty() {
            let first_loss = first_loss.unwrap_or_default();
            note(format_args!("cast {}: {}{first_loss}", counted(casts.len(), "tensor"), changes(&total)));
        }
    }
}

/// Formats the counts of a report.
fn changes(report: &CastReport) -> String {
    let kinds = [
        (report.rounded, "rounded"),
        (report.overflowed, "overflowed"),
        (report.underflowed, "underflowed to zero"),
        (report.nan_to_zero, "NaN to zero"),
    ];
    let changed = kinds.iter().filter(|(changed, _)| *changed > 0);
    let changed: Vec<String> = changed.map(|(changed, kind)| format!("{} {kind}", count(*changed))).collect();
    let elements = counted(report.elements, "element");
    if changed.is_empty() { format!("{elements}, all exact") } else { format!("{elements}, {}", changed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(rules: &[&str], cast_integers: bool) -> Cast {
        let dtypes = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Cast { dtypes, cast_integers, verbose: false, fail_on: Vec::new() }
    }

    fn target(rules: &[&str], cast_integers: bool, from: Dtype) -> Dtype {
        cast(rules, cast_integers).target(from)
    }

    #[test]
    fn rules_for_the_same_tensors_are_found() {
        for (rules, has_two) in [
            (&["f16", "bf16"][..], true),
            (&["i16", "f16", "u8"], true),
            (&["f32=f16", "i8=i16", "f32=f16"], true),
            (&["f16", "i16", "f32=bf16", "f64=bf16"], false),
        ] {
            assert_eq!(cast(rules, false).same_tensors().is_some(), has_two, "{rules:?}");
        }
    }

    #[test]
    fn integers_and_floats_are_mixed_only_on_request() {
        for (rules, cast_integers, from, to) in [
            (&["f16"][..], false, Dtype::F32, Dtype::F16),
            (&["f16"], false, Dtype::I64, Dtype::I64),
            (&["f16"], true, Dtype::I64, Dtype::F16),
            (&["f16"], true, Dtype::Bool, Dtype::Bool),
            (&["i32"], false, Dtype::F32, Dtype::F32),
            (&["i32"], false, Dtype::I64, Dtype::I32),
            (&["f32=bf16"], false, Dtype::F64, Dtype::F64),
            (&["f16", "f32=bf16", "i64=i32"], false, Dtype::F32, Dtype::Bf16),
            (&["f16", "i32"], false, Dtype::I8, Dtype::I32),
            (&["f16", "i32"], true, Dtype::I8, Dtype::I32),
            (&["f16", "i32"], true, Dtype::F64, Dtype::F16),
            (&[], false, Dtype::F32, Dtype::F32),
        ] {
            assert_eq!(target(rules, cast_integers, from), to, "{rules:?} {from}");
        }
    }

    #[test]
    fn rejects_dtypes_that_cannot_be_cast() {
        assert!("f99".parse::<CastRule>().unwrap_err().starts_with("unknown dtype `f99`; the dtypes are "));
        assert_eq!("bool=f32".parse::<CastRule>().unwrap_err(), "cannot cast bool; only integers and floats are cast");
    }
}
