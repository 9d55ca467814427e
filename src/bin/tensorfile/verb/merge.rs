use std::path::PathBuf;

use indexmap::IndexMap;
use indexmap::map::Entry;

use tensorfile::Format;

use crate::failure::{At, Failure, Outcome, Verdict};
use crate::input::{self, format_names, name_of};
use crate::made::{Made, Planned};
use crate::out::{Out, note};
use crate::target::Target;
use crate::writing::Writing;

/// Make one file of several, or of the shards of an index.
///
/// The tensors stand in the order of the files. Two of one name are an error. So is metadata of which two files say
/// different things, unless --lossy keeps what the first one says.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Merge {
    /// The file to write, of the format that its extension tells; `-` for standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The files to read, of any formats, or the index of shards; `-` for standard input
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// Write this format, whatever the extension
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    to: Option<String>,
    #[command(flatten)]
    writing: Writing,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile merge model.ptd encoder.ptd decoder.ptd
  tensorfile merge model.ptd model.ptd.index.json";

impl Merge {
    pub fn run(&self, out: &mut Out) -> Outcome {
        let target = Target::new(&self.output, self.to.as_deref().and_then(Format::named))?;
        let mut opened = Vec::with_capacity(self.inputs.len());
        for path in &self.inputs {
            opened.push((input::open(path, None)?, name_of(path)));
        }
        let (mut tensors, mut metadata) = (Vec::new(), IndexMap::new());
        for (file, path) in &opened {
            tensors.extend(Planned::of(file, path));
            for (key, value) in file.metadata().at(path)?.entries {
                match metadata.entry(key) {
                    Entry::Vacant(vacant) => drop(vacant.insert(value)),
                    Entry::Occupied(entry) if *entry.get() == value => {}
                    Entry::Occupied(entry) => self.differs(entry.key(), path)?,
                }
            }
        }
        let output = self.writing.plan(Made::of(tensors)?, metadata, target)?;
        self.writing.write(&output, out)?;
        Ok(Verdict::Fine)
    }

    fn differs(&self, key: &str, path: &std::path::Path) -> Outcome<()> {
        let path = path.display();
        if !self.writing.is_lossy() {
            let what = format_args!("{path}: its metadata `{key}` is another one than before; --lossy keeps the first")
                .to_string();
            return Err(Failure::usage(what));
        }
        note(format_args!("{path}: dropped its metadata `{key}`, which is another one than before"));
        Ok(())
    }
}
