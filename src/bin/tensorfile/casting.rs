//! `--dtype`: which tensors are cast, and what that changed.

use std::str::FromStr;

use tensorfile::{CastReport, Caster, Dtype, Layout};

use crate::failure::{Failure, Outcome};
use crate::made::{Made, Planned};
use crate::out::{note, plain};
use crate::size::{count, counted};

/// How numbers are cast.
#[derive(Debug, Clone, clap::Args)]
pub struct Casting {
    /// Cast to this dtype, such as `f16`; with `FROM=TO`, only tensors of that dtype
    ///
    /// Floats are cast to floats and integers to integers; what is neither is left alone. Every number becomes the
    /// nearest one, ties to even. How many changed by that is told on standard error.
    #[arg(long = "dtype", value_name = "[FROM=]TO", value_delimiter = ',')]
    dtypes: Vec<Rule>,
    /// Cast integers to floats and floats to integers, too
    #[arg(long, requires = "dtypes")]
    cast_integers: bool,
    /// Tell what casting changed of each tensor
    #[arg(long, short, requires = "dtypes")]
    verbose: bool,
}

/// From which dtype, or from any, to which.
#[derive(Debug, Clone, Copy)]
struct Rule {
    from: Option<Dtype>,
    to: Dtype,
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |name: &str| match name.parse::<Dtype>() {
            Ok(dtype) if is_number(dtype) => Ok(dtype),
            Ok(dtype) => Err(format!("{dtype} has no numbers; only integers and floats are cast")),
            Err(_) => {
                let names: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
                Err(format!("there is no dtype `{name}`; there are {}", names.join(", ")))
            }
        };
        match text.split_once('=') {
            Some((from, to)) => Ok(Self { from: Some(number(from)?), to: number(to)? }),
            None => Ok(Self { from: None, to: number(text)? }),
        }
    }
}

fn is_number(dtype: Dtype) -> bool {
    dtype.is_float() || dtype.is_integer()
}

impl Casting {
    /// Casts what is to be cast.
    pub fn apply(&self, tensors: &mut [Planned<'_>]) -> Outcome<()> {
        let crosses = |rule: &&Rule| rule.from.is_some_and(|from| Caster::new(from, rule.to).is_err());
        if let Some(Rule { from: Some(from), to }) = self.dtypes.iter().find(crosses)
            && !self.cast_integers
        {
            return Err(Failure::usage(format_args!("to cast {from} to {to}, say --cast-integers too")));
        }
        for tensor in tensors.iter_mut().filter(|tensor| tensor.info.layout != Layout::Blob) {
            tensor.info.dtype = self.target(tensor.info.dtype);
        }
        Ok(())
    }

    /// A rule for the dtype goes before one for all.
    fn target(&self, from: Dtype) -> Dtype {
        let for_all = |rule: &&Rule| {
            rule.from.is_none() && is_number(from) && (self.cast_integers || from.is_float() == rule.to.is_float())
        };
        let rule = self.dtypes.iter().find(|rule| rule.from == Some(from)).or_else(|| self.dtypes.iter().find(for_all));
        rule.map_or(from, |rule| rule.to)
    }

    /// Tells what writing the tensors changed.
    pub fn tell(&self, made: &Made<'_>) {
        let mut total = CastReport::default();
        let (mut tensors, mut first_loss) = (0_u64, None);
        for tensor in made.tensors().iter().filter(|tensor| tensor.is_cast()) {
            let report = tensor.report();
            let name = plain(&tensor.name);
            if self.verbose {
                note(format_args!("{name}: {} to {}: {}", tensor.source.dtype(), tensor.info.dtype, changes(&report)));
            }
            tensors += 1;
            total.elements += report.elements;
            total.rounded += report.rounded;
            total.overflowed += report.overflowed;
            total.underflowed += report.underflowed;
            total.nan_to_zero += report.nan_to_zero;
            if let Some(loss) = report.first_loss {
                first_loss.get_or_insert_with(|| format!("; the first is in {name}: {loss}"));
            }
        }
        if tensors > 0 {
            let first_loss = first_loss.unwrap_or_default();
            note(format_args!("cast {}: {}{first_loss}", counted(tensors, "tensor"), changes(&total)));
        }
    }
}

/// How many numbers became others, and in what way.
fn changes(report: &CastReport) -> String {
    let kinds = [
        (report.rounded, "rounded"),
        (report.overflowed, "out of range"),
        (report.underflowed, "became zero"),
        (report.nan_to_zero, "NaN became zero"),
    ];
    let told: Vec<String> =
        kinds.iter().filter(|(found, _)| *found > 0).map(|(found, kind)| format!("{} {kind}", count(*found))).collect();
    let elements = counted(report.elements, "number");
    if told.is_empty() { format!("{elements}, all exact") } else { format!("of {elements}, {}", told.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(rules: &[&str], cast_integers: bool, from: Dtype) -> Dtype {
        let dtypes = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Casting { dtypes, cast_integers, verbose: false }.target(from)
    }

    #[test]
    fn kinds_of_numbers_are_not_mixed_unasked() {
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
            (&[], false, Dtype::F32, Dtype::F32),
        ] {
            assert_eq!(target(rules, cast_integers, from), to, "{rules:?} {from}");
        }
        assert!("f99".parse::<Rule>().unwrap_err().starts_with("there is no dtype `f99`; there are "));
        assert_eq!("bool=f32".parse::<Rule>().unwrap_err(), "bool has no numbers; only integers and floats are cast");
    }
}
