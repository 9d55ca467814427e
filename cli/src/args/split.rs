//! `--split`: one of several processes that share the files.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use tensorfile_datasets::Error;
use tensorfile_datasets::splits::{Extent, Piece, Planner, Split, files};

use super::{display_name, is_stdin, location};
use crate::exit::{At, Failure, Outcome};
use crate::output::note;

/// The arguments of commands that several processes run on the same files.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct SplitArgs {
    /// Take the share of one of several processes: K of N, such as 3/40
    ///
    /// Give each process the same files. It finds the same shares, of about equal size.
    #[arg(long, value_name = "K/N")]
    split: Option<SplitNumber>,
    /// Take the share from a plan: FILE is what `splits --json` printed
    ///
    /// Without a plan, each process asks for the length of each file. If the length of a file has changed since the
    /// plan, you get an error.
    #[arg(long, requires = "split")]
    plan: bool,
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
    /// All files, for commands without the arguments.
    pub const ALL: Self = Self { split: None, plan: false };

    pub fn is_given(self) -> bool {
        self.split.is_some()
    }

    /// Returns the number of the split, and of all splits.
    pub fn numbers(self) -> Option<(usize, usize)> {
        self.split.map(|SplitNumber { number, of }| (number, of))
    }

    /// Returns whether the file is a plan.
    pub fn is_planned(self) -> bool {
        self.plan
    }

    /// Returns the share of long and short files, unless it is empty or all files are to be taken. The file may be a
    /// folder, a pattern or a plan.
    pub fn own(self, file: &Path) -> Outcome<Option<Split>> {
        let Some(number) = self.split else { return Ok(None) };
        if self.plan {
            return number.read_plan(file);
        }
        let planned = files(&[location(file)?]).and_then(|files| Planner::by_count(number.of).plan(&files));
        number.choose(planned)
    }

    /// Keeps the files of the split, in the order of their paths.
    pub fn keep(self, files: Vec<Outcome<PathBuf>>) -> Outcome<Vec<Outcome<PathBuf>>> {
        let Some(number) = self.split else { return Ok(files) };
        let locations = files.into_iter().map(|file| location(&file?)).collect::<Outcome<Vec<_>>>()?;
        if !self.plan {
            let planned = Planner::by_count(number.of).whole_files(true).plan(&locations);
            let own = number.choose(planned)?;
            let pieces = own.into_iter().flat_map(|split| split.pieces);
            return Ok(pieces.map(|piece| Ok(piece.location.into())).collect());
        }
        let [plan] = &locations[..] else { return Err(Failure::usage("--plan takes one FILE, the plan")) };
        let own = number.read_plan(plan.as_ref())?;
        let pieces: Vec<Piece> = own.into_iter().flat_map(|split| split.pieces).collect();
        if pieces.iter().any(|piece| piece.extent != Extent::All) {
            let message = "the plan divides files, which this command reads whole: plan with --whole-files";
            return Err(Failure::usage_at(plan.as_ref(), message));
        }
        let check = |piece: Piece| {
            let path = PathBuf::from(&piece.location);
            piece.check().map_err(|error| Failure::from_shards(&path, &error)).map(|()| path)
        };
        Ok(pieces.into_iter().map(check).collect())
    }
}

/// Returns the failure of a plan: an error about a file, or else about the command line.
pub fn planning_failed(error: &Error) -> Failure {
    let inner = error.as_tensorfile();
    match (error.shard(), inner.path()) {
        (Some(file), _) => Failure::from_shards(Path::new(file), error),
        (None, Some(file)) => Failure::from_error(file.display(), inner),
        (None, None) => Failure::usage(error),
    }
}

impl SplitNumber {
    /// Returns the split of this number, unless there are fewer.
    fn choose(self, planned: Result<Vec<Split>, Error>) -> Outcome<Option<Split>> {
        let mut plan = planned.map_err(|error| planning_failed(&error))?;
        if plan.len() < self.number {
            self.note_empty(plan.len());
            return Ok(None);
        }
        Ok(Some(plan.swap_remove(self.number - 1)))
    }

    fn note_empty(self, of: usize) {
        note(format_args!("split {}/{} is empty: there is work for {of}", self.number, self.of));
    }

    /// Reads the split of this number from a plan, unless it has fewer.
    fn read_plan(self, path: &Path) -> Outcome<Option<Split>> {
        let name = display_name(path);
        let file: Box<dyn Read> =
            if is_stdin(path) { Box::new(io::stdin()) } else { Box::new(File::open(path).at(path)?) };
        let mut found = ChosenSplit { number: self.number, count: 0, split: None };
        let mut json = serde_json::Deserializer::from_reader(BufReader::new(file));
        json.deserialize_seq(&mut found).and_then(|()| json.end()).map_err(|error| match error.io_error_kind() {
            Some(_) => Err::<(), _>(io::Error::from(error)).at(path).expect_err("it is an error"),
            None => Failure::malformed(name, format_args!("is not what `splits --json` prints: {error}")),
        })?;
        let ChosenSplit { count, split, .. } = found;
        if count > self.of {
            return Err(Failure::usage_at(name, format_args!("the plan has {count} splits, not {}", self.of)));
        }
        match split {
            Some(split) if (split.number, split.of) == (self.number, count) => Ok(Some(split)),
            Some(Split { number, of, .. }) => {
                let message = format_args!("split {} of {count} is called {number} of {of}", self.number);
                Err(Failure::malformed(name, message))
            }
            None => {
                self.note_empty(count);
                Ok(None)
            }
        }
    }
}

/// One split of a list. The others are not held: there may be a million.
struct ChosenSplit {
    number: usize,
    /// The number of splits so far.
    count: usize,
    split: Option<Split>,
}

impl<'de> Visitor<'de> for &mut ChosenSplit {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of splits")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        loop {
            if self.count + 1 == self.number {
                self.split = list.next_element()?;
                if self.split.is_none() {
                    return Ok(());
                }
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
            self.count += 1;
        }
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
