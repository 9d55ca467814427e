//! The arguments of folders with a file for each process of a trainer.

use tensorfile::file::RankFolder;

use super::glob::Glob;
use super::opening::{DCP, HF_SHARDED};
use super::split::SplitArgs;
use super::write::parse_bytes;
use crate::exit::{Failure, Outcome};

/// The arguments of folders with a file for each process of a trainer.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RankArgs {
    /// Write a folder for this number of processes, with --to dcp or hf-sharded [default: 1]
    ///
    /// Each tensor is cut along its first dim, as FSDP does. Trainers read the folder into any number of processes.
    #[arg(long, value_name = "N")]
    ranks: Option<usize>,
    /// Put all tensors under this key of the state dict, such as `model`, with --to dcp or hf-sharded
    #[arg(long, value_name = "KEY")]
    prefix: Option<String>,
    /// Keep tensors of less than this size whole, such as 64KiB, with --to dcp or hf-sharded
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    replicate: Option<u64>,
    /// Cut tensors whose names match along another dim, such as '*.embed.weight=1', with --to dcp or
    /// hf-sharded
    #[arg(long, value_name = "GLOB=DIM", value_parser = parse_dim)]
    shard_dim: Vec<(Glob, usize)>,
}

impl RankArgs {
    /// Returns the division of the folder, and the name of its kind, if the format is one of folders.
    pub fn folder(&self, format: Option<&str>, split: SplitArgs) -> Outcome<Option<(RankFolder, &'static str)>> {
        let Self { ranks, prefix, replicate, shard_dim } = self;
        let Some(kind) = [DCP, HF_SHARDED].into_iter().find(|kind| format == Some(*kind)) else {
            let given = [
                ("--ranks", ranks.is_some()),
                ("--prefix", prefix.is_some()),
                ("--replicate", replicate.is_some()),
                ("--shard-dim", !shard_dim.is_empty()),
            ];
            return match given.iter().find(|(_, is_given)| *is_given) {
                Some((name, _)) => Err(Failure::usage(format_args!(
                    "{name} is for folders of trainers: --to {DCP}, --to {HF_SHARDED}"
                ))),
                None => Ok(None),
            };
        };
        let mut division = RankFolder::new(ranks.unwrap_or(1)).replicate(replicate.unwrap_or(0));
        if let Some(prefix) = prefix {
            division = division.prefix(prefix);
        }
        if let Some((number, of)) = split.numbers() {
            division = division.job(number, of);
        }
        let dims = shard_dim.clone();
        let division = division.shard_dim(move |name| {
            // The last one counts, as with other options.
            dims.iter().rfind(|(glob, _)| glob.matches(name)).map_or(0, |(_, dim)| *dim)
        });
        Ok(Some((division, kind)))
    }
}

fn parse_dim(text: &str) -> Result<(Glob, usize), String> {
    let expected = || "expected a glob and a dim, such as '*.embed.weight=1'".to_owned();
    let (glob, dim) = text.rsplit_once('=').ok_or_else(expected)?;
    Ok((glob.parse::<Glob>().map_err(|error| error.to_string())?, dim.parse().map_err(|_| expected())?))
}
