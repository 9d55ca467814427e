//! The arguments for casts, and their report on standard error.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};
use indexmap::IndexMap;
use tensorfile::cast::{CastReport, Caster};
use tensorfile::model::{TensorRecord, TensorSink};
use tensorfile::view::{CastView, TensorCast};
use tensorfile::{Dtype, Format, Layout, TensorInfo, Tensors};

use super::Glob;
use super::complete::dtype_rule;
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::export::list;
use crate::output::numbers::{count, counted};
use crate::output::tensors::dtype_label;
use crate::output::{Progress, escape, note};
use crate::pieces::Pieces;

/// The arguments that cast tensors.
#[derive(Debug, Clone, clap::Args)]
pub struct Cast {
    /// Cast to this dtype, such as `f16`; with `FROM=TO`, only tensors of dtype FROM, or whose new name matches the
    /// glob FROM
    ///
    /// Floats are cast to floats and integers to integers; other tensors are not changed. One dtype of floats and one
    /// of integers can be given, and several rules, separated by commas: one for the name of a tensor precedes one for
    /// its dtype. Numbers are rounded to the nearest, ties to even. The numbers of changed elements and of tensors that
    /// are not cast are printed to standard error. If no tensor is cast, nothing is written, unless --lossy is given.
    ///
    /// In gguf, floats of rank 1 become f32, whatever the dtype for others: llama.cpp takes no other norms and biases.
    /// A rule for their names casts them.
    #[arg(long = "dtype", value_name = "[FROM=]TO", value_parser = RulesParser)]
    #[arg(hide_possible_values = true, add = dtype_rule())]
    dtypes: Vec<CastRules>,
    /// Also cast integers to floats and floats to integers
    #[arg(long, requires = "dtypes")]
    cast_integers: bool,
    /// Also cast codes and scales of quantized weights, as if they were the weights
    ///
    /// Without it, such a cast is refused: codes mean nothing without their scales, and rounded scales change every weight.
    #[arg(long, requires = "dtypes")]
    as_stored: bool,
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

/// Rules separated by commas.
#[derive(Debug, Clone)]
struct CastRules(Vec<CastRule>);

#[derive(Debug, Clone)]
struct CastRule {
    from: From,
    to: Dtype,
}

/// The tensors of a rule.
#[derive(Debug, Clone)]
enum From {
    All,
    Dtype(Dtype),
    Names { text: String, glob: Glob },
}

impl fmt::Display for CastRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            From::All => write!(f, "{}", self.to),
            From::Dtype(from) => write!(f, "{from}={}", self.to),
            From::Names { text, .. } => write!(f, "{text}={}", self.to),
        }
    }
}

impl FromStr for CastRules {
    type Err = String;

    /// Parses rules. A comma in brackets belongs to a glob.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut depth = 0_usize;
        let rules = text.split(|letter| {
            match letter {
                '{' | '[' => depth += 1,
                '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        });
        rules.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
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
        // A name may have `=`, and a dtype has none.
        let Some((from, to)) = text.rsplit_once('=') else { return Ok(Self { from: From::All, to: number(text)? }) };
        let to = number(to)?;
        // The name of a dtype, of this library or another, is not a glob.
        let from = if from.parse::<Dtype>().is_ok() || meant(from).is_some() {
            From::Dtype(number(from)?)
        } else {
            let glob = from.parse::<Glob>().map_err(|error| error.to_string())?;
            From::Names { text: from.to_owned(), glob }
        };
        Ok(Self { from, to })
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
struct RulesParser;

impl TypedValueParser for RulesParser {
    type Value = CastRules;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<CastRules, clap::Error> {
        let parse: fn(&str) -> Result<CastRules, String> = CastRules::from_str;
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
    /// Returns the tensors in the dtypes in which `format` stores them.
    ///
    /// Fails if a rule casts between integers and floats without permission, or applies to the same tensors as another
    /// one.
    pub fn apply<'t>(&'t self, tensors: &'t dyn Tensors, format: &'static Format) -> Outcome<CastView<'t>> {
        if let Some([first, second]) = self.same_tensors() {
            let which = match &first.from {
                From::Dtype(from) => from.name(),
                From::Names { text, .. } => text,
                From::All if first.to.is_float() => "floats",
                From::All => "integers",
            };
            let message = format_args!("--dtype: {which} cannot be cast to both {} and {}", first.to, second.to);
            return Err(Failure::usage(message));
        }
        let crosses = |rule: &CastRule| match rule.from {
            From::Dtype(from) => Some(from).filter(|from| Caster::new(*from, rule.to).is_err()),
            _ => None,
        };
        if let Some((from, to)) = self.rules().find_map(|rule| crosses(rule).map(|from| (from, rule.to)))
            && !self.cast_integers
        {
            return Err(Failure::usage(format_args!("casting {from} to {to} needs --cast-integers")));
        }
        let cast = CastView::new(tensors, move |name, info| self.target(name, info, format));
        Ok(if self.as_stored { cast.as_stored() } else { cast })
    }

    /// Returns whether tensors are to be cast.
    pub fn is_given(&self) -> bool {
        !self.dtypes.is_empty()
    }

    fn rules(&self) -> impl Iterator<Item = &CastRule> + Clone {
        self.dtypes.iter().flat_map(|rules| &rules.0)
    }

    /// Returns the first two rules for the same tensors. The second would never be used.
    fn same_tensors(&self) -> Option<[&CastRule; 2]> {
        self.rules().enumerate().find_map(|(index, second)| {
            let first = self.rules().take(index).find(|first| match (&first.from, &second.from) {
                (From::All, From::All) => first.to.is_float() == second.to.is_float(),
                (From::Dtype(first), From::Dtype(second)) => first == second,
                (From::Names { text: first, .. }, From::Names { text: second, .. }) => first == second,
                _ => false,
            });
            Some([first?, second])
        })
    }

    /// Returns the rule for a tensor. Rules for its name precede rules for its dtype, and these precede general ones.
    /// Among those, float to float and integer to integer precede casts between them.
    fn rule(&self, name: &str, from: Dtype) -> Option<&CastRule> {
        let is_alike = |rule: &CastRule| is_number(from) && from.is_float() == rule.to.is_float();
        let may_cross = |rule: &CastRule| is_number(from) && (self.cast_integers || is_alike(rule));
        let find = |is_for: &dyn Fn(&CastRule) -> bool| self.rules().find(|rule| is_for(rule));
        find(&|rule| may_cross(rule) && matches!(&rule.from, From::Names { glob, .. } if glob.matches(name)))
            .or_else(|| find(&|rule| matches!(rule.from, From::Dtype(dtype) if dtype == from)))
            .or_else(|| find(&|rule| matches!(rule.from, From::All) && is_alike(rule)))
            .or_else(|| find(&|rule| matches!(rule.from, From::All) && may_cross(rule)))
    }

    /// Returns the dtype in which `format` stores a tensor.
    fn target(&self, name: &str, info: &TensorInfo, format: &Format) -> Dtype {
        match self.rule(name, info.dtype) {
            None => info.dtype,
            Some(rule @ CastRule { from: From::Names { .. }, .. }) => rule.to,
            Some(rule) => format.usual_dtype(info, rule.to),
        }
    }

    /// Returns whether any tensor is cast.
    pub fn casts_any(&self, tensors: &CastView<'_>) -> Outcome<bool> {
        if self.is_given() {
            list(tensors)?;
        }
        Ok(!tensors.casts().is_empty())
    }

    /// Prints the tensors left uncast. `tensors` are all tensors as written.
    ///
    /// Fails if no tensor has a dtype that was asked for, as the file would be a copy, unless that is allowed.
    pub fn check_uncast(
        &self,
        casts: &[TensorCast],
        tensors: &[(String, TensorInfo)],
        allows_none: bool,
    ) -> Outcome<()> {
        for rule @ CastRule { from, to } in self.rules() {
            let (is_used, reason) = match from {
                From::All => continue,
                From::Dtype(from) => (*from == *to || casts.iter().any(|cast| cast.from == *from), String::new()),
                From::Names { glob, .. } => match tensors.iter().find(|(name, _)| glob.matches(name)) {
                    None => (false, ": no tensor has such a name".to_owned()),
                    Some((_, info)) => {
                        let is_alike = |(name, info): &(String, TensorInfo)| info.dtype == *to && glob.matches(name);
                        let what = format!(": it is not for {}", dtype_label(info));
                        (tensors.iter().any(is_alike), what)
                    }
                },
            };
            if !is_used && (!casts.is_empty() || !reason.is_empty()) {
                note(format_args!("--dtype {rule} changes no tensor{reason}"));
            }
        }
        let cast_from: HashMap<&str, Dtype> = casts.iter().map(|cast| (&*cast.name, cast.from)).collect();
        // The rank decided.
        let kept = |(name, info): &&(String, TensorInfo)| {
            let dtype = cast_from.get(name.as_str()).copied().unwrap_or(info.dtype);
            let general = self.rule(name, dtype).filter(|rule| !matches!(rule.from, From::Names { .. }));
            general.is_some_and(|rule| rule.to != info.dtype && is_plain(info))
        };
        let kept: Vec<&(String, TensorInfo)> = tensors.iter().filter(kept).collect();
        let kept_names: HashSet<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
        if let Some((first, info)) = kept.first() {
            let are = if kept.len() == 1 { "is" } else { "are" };
            note(format_args!(
                "{} of rank 1 {are} {}, as llama.cpp needs; `--dtype 'GLOB=TO'` casts them by name; the first is `{first}`",
                counted(kept.len(), "tensor"),
                info.dtype
            ));
        }
        let is_target = |(name, info): &(String, TensorInfo)| {
            let is_for = |rule: &CastRule| match &rule.from {
                From::Names { glob, .. } => glob.matches(name),
                From::All | From::Dtype(_) => true,
            };
            is_plain(info) && self.rules().any(|rule| rule.to == info.dtype && is_for(rule))
        };
        let others = tensors.iter().filter(|tensor| !is_target(tensor) && !kept_names.contains(tensor.0.as_str()));
        let uncast = Uncast::new(others.map(|(_, info)| info));
        if casts.iter().any(|cast| !kept_names.contains(cast.name.as_str())) {
            if !uncast.dtypes.is_empty() && self.rules().any(|rule| matches!(rule.from, From::All)) {
                let advice = if uncast.has_numbers && !self.cast_integers { "; see --cast-integers" } else { "" };
                note(format_args!("not cast: {uncast}{advice}"));
            }
            return Ok(());
        }
        if tensors.iter().any(is_target) {
            let rest = if uncast.dtypes.is_empty() {
                ": all are cast already".to_owned()
            } else {
                format!("; not cast: {uncast}")
            };
            note(format_args!("--dtype changes no tensor{rest}"));
            return Ok(());
        }
        let crosses = |info: &TensorInfo| {
            let is_crossed = |rule: &CastRule| info.dtype.is_float() != rule.to.is_float();
            is_plain(info) && is_number(info.dtype) && self.rules().all(is_crossed)
        };
        let reason = if uncast.dtypes.is_empty() {
            String::new()
        } else if !self.cast_integers && tensors.iter().any(|(_, info)| crosses(info)) {
            let to_floats = self.rules().any(|rule| rule.to.is_float());
            let kind = if to_floats { "integers are not cast to floats" } else { "floats are not cast to integers" };
            format!(": {kind} without --cast-integers; not cast: {uncast}")
        } else {
            format!(": not cast: {uncast}")
        };
        if allows_none {
            note(format_args!("--dtype changes no tensor{reason}"));
            return Ok(());
        }
        Err(Failure::usage(format_args!("--dtype changes no tensor{reason}; --lossy converts the file without a cast")))
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

/// The tensors that are not cast, by dtype, in file order.
struct Uncast<'i> {
    dtypes: IndexMap<&'i str, usize>,
    has_numbers: bool,
}

impl<'i> Uncast<'i> {
    fn new(infos: impl Iterator<Item = &'i TensorInfo>) -> Self {
        let mut uncast = Self { dtypes: IndexMap::new(), has_numbers: false };
        for info in infos {
            *uncast.dtypes.entry(dtype_label(info)).or_default() += 1;
            uncast.has_numbers |= is_plain(info) && is_number(info.dtype);
        }
        uncast
    }
}

impl fmt::Display for Uncast<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The maximum number of dtypes to list.
        const SHOWN: usize = 5;
        let tensors = counted(self.dtypes.values().sum::<usize>(), "tensor");
        if let (Some((dtype, _)), 1) = (self.dtypes.first(), self.dtypes.len()) {
            return write!(f, "{tensors} of {dtype}");
        }
        let kind = |(dtype, tensors): (&&str, &usize)| format!("{} {dtype}", count(*tensors as u64));
        let shown = self.dtypes.iter().take(SHOWN).map(kind).collect::<Vec<_>>().join(", ");
        match self.dtypes.len().saturating_sub(SHOWN) {
            0 => write!(f, "{tensors} ({shown})"),
            more => write!(f, "{tensors} ({shown} and {})", counted(more, "more dtype")),
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
        let dtypes = rules.iter().map(|rules| rules.parse().unwrap()).collect();
        Cast { dtypes, cast_integers, as_stored: false, verbose: false, fail_on: Vec::new() }
    }

    fn target(rules: &[&str], cast_integers: bool, from: Dtype) -> Dtype {
        let ptd = Format::named("ptd").unwrap();
        cast(rules, cast_integers).target("name", &TensorInfo::new(from, [2, 2]), ptd)
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
    fn rules_for_names_come_first_and_vectors_of_gguf_are_f32() {
        let [gguf, ptd] = ["gguf", "ptd"].map(|name| Format::named(name).unwrap());
        let cast = cast(&["f16,norm.*=bf16", "{a,b}.bias=f64", "f64=f16"], false);
        for (name, from, rank, format, to) in [
            ("a.weight", Dtype::F32, 2, gguf, Dtype::F16),
            ("a.scale", Dtype::F32, 1, gguf, Dtype::F32),
            ("a.scale", Dtype::Bf16, 1, gguf, Dtype::F32),
            ("a.scale", Dtype::F64, 1, gguf, Dtype::F32),
            ("a.scale", Dtype::F32, 1, ptd, Dtype::F16),
            ("norm.weight", Dtype::F32, 1, gguf, Dtype::Bf16),
            ("b.bias", Dtype::F32, 1, ptd, Dtype::F64),
            ("norm.weight", Dtype::I64, 1, ptd, Dtype::I64),
        ] {
            let shape: &[usize] = &[2; 2][..rank];
            assert_eq!(cast.target(name, &TensorInfo::new(from, shape), format), to, "{name} {from}");
        }
    }

    #[test]
    fn rejects_dtypes_that_cannot_be_cast() {
        assert!("f99".parse::<CastRule>().unwrap_err().starts_with("unknown dtype `f99`; the dtypes are "));
        assert_eq!("bool=f32".parse::<CastRule>().unwrap_err(), "cannot cast bool; only integers and floats are cast");
    }
}
