//! `--split`: one of several processes that share the files.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use tensorfile_datasets::Error;
use tensorfile_datasets::splits::Planner;

use super::location;
use crate::exit::{Failure, Outcome};
use crate::output::note;

/// The argument of commands that several processes run on the same files.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct SplitArgs {
    /// Take the share of one of several processes: K of N, such as 3/40
    ///
    /// Each process is given the same files, and finds the same shares of about the same size.
    #[arg(long, value_name = "K/N")]
    split: Option<SplitNumber>,
}

/// The number of a split, from 1 on, and the number of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitNumber {
    pub number: usize,
    pub of: usize,
}

impl FromStr for SplitNumber {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("a split is K/N, where K is from 1 to N"),
        }
    }
}

impl SplitArgs {
    /// All files, for commands without the argument.
    pub const ALL: Self = Self { split: None };

    pub fn number(self) -> Option<SplitNumber> {
        self.split
    }

    /// Keeps the files of the split, in the order of their paths.
    pub fn keep(self, files: Vec<Outcome<PathBuf>>) -> Outcome<Vec<Outcome<PathBuf>>> {
        let Some(split) = self.split else { return Ok(files) };
        let locations = files.into_iter().map(|file| location(&file?)).collect::<Outcome<Vec<_>>>()?;
        let plan = Planner::by_count(split.of).whole_files(true).plan(&locations);
        let plan = plan.map_err(|error| planning_failed(&error))?;
        let Some(own) = split.choose(&plan) else { return Ok(Vec::new()) };
        Ok(own.pieces.iter().map(|piece| Ok(piece.location.clone().into())).collect())
    }
}

/// Returns the failure of a plan: an error about a file, or else about the command line.
pub fn planning_failed(error: &Error) -> Failure {
    match error.shard() {
        Some(file) => Failure::from_shards(Path::new(file), error),
        None => Failure::usage(error),
    }
}

impl SplitNumber {
    /// Returns the split of this number, unless there are fewer.
    pub fn choose<T>(self, plan: &[T]) -> Option<&T> {
        let own = plan.get(self.number - 1);
        if own.is_none() {
            note(format_args!("split {}/{} is empty: there is work for {}", self.number, self.of, plan.len()));
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_numbered_from_1() {
        assert_eq!("3/40".parse(), Ok(SplitNumber { number: 3, of: 40 }));
        for text in ["0/4", "5/4", "1", "/", "a/b", "-1/4", "1/4/4", "1/0", "1/99999999999999999999999"] {
            assert!(text.parse::<SplitNumber>().is_err(), "{text}");
        }
    }
}
