use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde::{Deserialize, de::DeserializeOwned};
use tensorfile_datasets::splits::{
    Extent, Part, Piece, Planner, RankPart, Split, commit, commit_by_length, commit_ranks, files,
};

use crate::args::{display_name, parse_bytes, planning_failed, read_lines};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::numbers::{count, counted};
use crate::output::{Stdout, escape};

/// Divide files into splits, for jobs of many processes, and finish such a job.
///
/// A split is some files, or ranges of long ones: tensors, as in `FILE#0..5`, or the samples of a WebDataset shard in
/// some bytes, as in `FILE@0..5120`. Only lengths and the headers of long files are read. The same files give the same
/// splits in any order.
///
/// Pass `--split K/N` to `hash`, `stats`, `verify` and `convert`, and N processes share the work; start them with any
/// scheduler, and start a failed one again. Each process plans by itself. If you have many files, it is faster to give
/// all of them the JSON of this command with --plan.
///
/// `convert --split` writes the file `part-0000K-of-0000N` and prints a line about it. Give these lines, in any order,
/// to `splits --commit`. It reads all parts, and writes an index if every split is there once, with the length and the
/// digest of its line. With --by-length, it compares only the lengths. The lines of `convert --to dcp --split` are given to
/// it in the same way, and complete the folder.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Splits {
    /// Files, folders, and patterns such as 'train-{000..123}.tar'; with --commit, files with the lines of all parts,
    /// or `-`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// The number of splits; there are fewer if there is not as much to divide
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// The most bytes of a split, such as 64MiB, unless one tensor or sample has more; by default 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with = "count")]
    target_size: Option<u64>,
    /// Leave files whole, as --split of `hash`, `stats` and `verify` does
    #[arg(long)]
    whole_files: bool,
    /// Finish a job that wrote to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["count", "target_size", "whole_files"])]
    commit: Option<PathBuf>,
    /// With --commit, compare only the lengths of files, not their digests, and do not read them
    #[arg(long, requires = "commit")]
    by_length: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile splits --count 40 --json 'train-{000..999}.tar' > plan.json
  tensorfile convert plan.json out --plan --split 3/40 > lines/3
  tensorfile verify --payload --split $SLURM_ARRAY_TASK_ID/40 models
  tensorfile convert 'train-{000..999}.tar' out --split 3/40 > lines/3
  cat lines/* | tensorfile splits --commit out -";

impl Splits {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        out.expect_json(self.json);
        if let Some(folder) = &self.commit {
            let (mut parts, mut jobs) = (Vec::new(), Vec::new());
            for path in &self.files {
                read_parts(path.as_ref(), &mut parts, &mut jobs)?;
            }
            if !jobs.is_empty() {
                return self.commit_jobs(folder, &jobs, parts.is_empty(), out);
            }
            let committed = if self.by_length { commit_by_length(folder, parts) } else { commit(folder, parts) };
            let committed = committed.map_err(|error| Failure::from_shards(folder, &error))?;
            if self.json {
                out.json(&committed)?;
            } else {
                let (files, rows) = (counted(committed.files.len(), "file"), count(committed.rows));
                let index = committed.index.display().to_string();
                writeln!(out, "{}: {files}, {rows} rows, {} bytes", escape(&index), count(committed.bytes))?;
            }
            return Ok(Verdict::Pass);
        }
        let planner = match self.count {
            Some(count) => Planner::by_count(count as usize),
            None => Planner::by_bytes(self.target_size.unwrap_or(64 << 20)),
        };
        let planned = files(&self.files).and_then(|files| planner.whole_files(self.whole_files).plan(&files));
        let plan = planned.map_err(|error| planning_failed(&error))?;
        if self.json {
            out.json(&plan)?;
        } else {
            plan.iter().try_for_each(|split| print(split, out))?;
        }
        Ok(Verdict::Pass)
    }
}

impl Splits {
    /// Completes a folder with a file for each process of a trainer.
    fn commit_jobs(&self, folder: &Path, jobs: &[RankPart], is_alone: bool, out: &mut Stdout) -> Outcome {
        if !is_alone {
            return Err(Failure::usage("the lines are of two jobs: a folder of ranks, and parts of files"));
        }
        commit_ranks(folder, jobs, !self.by_length).map_err(|error| Failure::from_shards(folder, &error))?;
        let written: BTreeMap<&str, u64> =
            jobs.iter().flat_map(|job| &job.files).map(|file| (file.name.as_str(), file.bytes)).collect();
        let bytes = written.values().sum::<u64>();
        if self.json {
            out.json(
                &serde_json::json!({"folder": folder.display().to_string(), "files": written.len(), "bytes": bytes}),
            )?;
        } else {
            let name = folder.display().to_string();
            writeln!(out, "{}: {}, {} bytes", escape(&name), counted(written.len(), "file"), count(bytes))?;
        }
        Ok(Verdict::Pass)
    }
}

/// Reads lines of both kinds.
fn read_parts(path: &Path, parts: &mut Vec<Part>, jobs: &mut Vec<RankPart>) -> Outcome<()> {
    /// What tells the lines apart.
    #[derive(Deserialize)]
    struct Kind {
        job: Option<IgnoredAny>,
    }

    let mut number = 0_u64;
    read_lines(path, &mut |line| {
        number += 1;
        let kind: Kind = parse(line, path, number)?;
        match kind.job {
            Some(IgnoredAny) => jobs.push(parse(line, path, number)?),
            None => parts.push(parse(line, path, number)?),
        }
        Ok(())
    })
}

fn parse<T: DeserializeOwned>(line: &[u8], path: &Path, number: u64) -> Outcome<T> {
    serde_json::from_slice(line).map_err(|error| {
        let message = format!("line {number} is not one that `convert --split` prints: {error}");
        Failure::malformed(display_name(path), message)
    })
}

fn print(split: &Split, out: &mut Stdout) -> std::io::Result<()> {
    let pieces: Vec<String> = split.pieces.iter().map(name_of).collect();
    writeln!(out, "{}/{}  {}", split.number, split.of, pieces.join(" "))
}

/// Returns the path of a file, and its range.
fn name_of(piece: &Piece) -> String {
    let path = display_name(piece.location.as_ref()).display().to_string();
    let path = escape(&path);
    match &piece.extent {
        Extent::All => path.into_owned(),
        Extent::Tensors(range) => format!("{path}#{}..{}", range.start, range.end),
        Extent::Bytes(range) => format!("{path}@{}..{}", range.start, range.end),
    }
}
