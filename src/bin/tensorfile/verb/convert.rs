use std::path::PathBuf;

use tensorfile::Format;

use crate::casting::Casting;
use crate::failure::{At, Outcome, Verdict};
use crate::filter::Filter;
use crate::input::{Input, format_names};
use crate::made::{Made, Planned};
use crate::out::Out;
use crate::rename::Renaming;
use crate::target::{Target, bytes};
use crate::writing::Writing;

/// Convert a file to another format, or to other dtypes and names.
///
/// Tensors go from one file to the other piece by piece. What is not to be converted stays as it is: nothing is dropped
/// without --lossy, but for the `format` of safetensors, which tells the library that the old file was for. A file that is there already is replaced once the new one is whole, which may be the file that is
/// read.
///
/// In formats without names, or with room for short ones only, names are embedded in one more tensor.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    #[command(flatten)]
    input: Input,
    /// The file to write, of the format that its extension tells; `-` for standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Write this format, whatever the extension
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    to: Option<String>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    renaming: Renaming,
    #[command(flatten)]
    casting: Casting,
    /// Write shards of up to this size, such as 5GB, and an index of them; what fits one is one file
    ///
    /// A tensor that is larger by itself has a shard of its own.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max_shard_size: Option<u64>,
    #[command(flatten)]
    writing: Writing,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile convert model.ptd model.tbs
  tensorfile convert model.ptd half.ptd --dtype f16
  tensorfile convert model.ptd mixed.ptd --dtype f32=bf16,i64=i32 -v
  tensorfile convert model.ptd encoder.ptd --filter 'encoder.*' --rename 'encoder.*=*'
  tensorfile convert model.ptd model.tbs --max-shard-size 5GB --dry-run
  tensorfile convert model.ptd - --to ten | ssh host 'cat > model.ten'";

impl Convert {
    pub fn run(&self, out: &mut Out) -> Outcome {
        let matcher = self.filter.build()?;
        let target =
            Target::new(&self.output, self.to.as_deref().and_then(Format::named))?.in_shards(self.max_shard_size);
        let file = self.input.open()?;
        let path = self.input.path();

        let mut tensors: Vec<_> = Planned::of(&file, path).filter(|tensor| matcher.keeps(&tensor.name)).collect();
        self.renaming.apply(&mut tensors)?;
        self.casting.apply(&mut tensors)?;
        let output = self.writing.plan(Made::of(tensors)?, file.metadata().at(path)?.entries, target)?;
        self.writing.write(&output, out)?;
        if !self.writing.is_dry() {
            self.casting.tell(output.made());
        }
        Ok(Verdict::Fine)
    }
}
