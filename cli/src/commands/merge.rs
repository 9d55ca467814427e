use std::path::{Path, PathBuf};

use indexmap::map::Entry;
use tensorfile::{File, Format, Tensors};

use crate::args::{Target, WriteArgs, display_name, format_names, open};
use crate::exit::{Failure, Outcome, Verdict};
use crate::export::{Duplicates, Export, Joined, Kept, Source};
use crate::output::{Stdout, note};

/// Merge several files, or the shards of an index, into one file.
///
/// The tensors keep the order of the files. Two tensors with the same name are an error. Metadata with the same key and
/// different values is an error too, unless --lossy keeps the value of the first file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Merge {
    /// The file to write, in the format of its extension; `-` for standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The files to read, in any formats, or the index of shards; `-` for standard input
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// Write this format instead of that of the extension
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    to: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile merge model.ptd encoder.ptd decoder.ptd
  tensorfile merge model.ptd model.ptd.index.json";

impl Merge {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        let target = Target::new(&self.output, self.to.as_deref().and_then(Format::named))?;
        let files: Vec<(File, &Path)> =
            self.inputs.iter().map(|path| Ok((open(path, None)?, display_name(path)))).collect::<Outcome<_>>()?;
        let sources: Vec<Source<'_>> = files.iter().map(|(file, path)| Source::new(file, path)).collect();
        let parts: Vec<(&dyn Tensors, &Path)> =
            sources.iter().map(|source| (source as &dyn Tensors, source.path())).collect();
        let joined = Joined::new(&parts, Duplicates::Refuse { hint: "" })?;
        let kept = self.kept(&files)?;
        Export::plan(&self.write, &joined, kept, target)?.run(&self.write, &[], out)?;
        Ok(Verdict::Pass)
    }

    fn kept(&self, files: &[(File, &Path)]) -> Outcome<Kept> {
        let ((first, path), others) = files.split_first().expect("an input is required");
        let mut kept = Kept::of(first, path)?;
        for (other, path) in others {
            let other = Kept::of(other, path)?;
            kept.join(&other);
            for (key, value) in other.entries {
                match kept.entries.entry(key) {
                    Entry::Vacant(vacant) => drop(vacant.insert(value)),
                    Entry::Occupied(entry) if *entry.get() == value => {}
                    Entry::Occupied(entry) => self.drop_metadata(entry.key(), path)?,
                }
            }
        }
        Ok(kept)
    }

    /// Fails because a file has another value for a key than the files before it, unless `--lossy` is given.
    fn drop_metadata(&self, key: &str, path: &Path) -> Outcome<()> {
        let path = path.display();
        if !self.write.lossy {
            return Err(Failure::usage(format_args!(
                "{path}: the metadata `{key}` differs from that of an earlier file; use --lossy to keep the first value"
            )));
        }
        note(format_args!("{path}: dropped the metadata `{key}`, which differs from that of an earlier file"));
        Ok(())
    }
}
