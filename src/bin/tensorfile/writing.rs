//! How a verb writes a file, and with what of the old one.

use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use indexmap::IndexMap;
use tensorfile::{Collection, SaveOptions, WriteOptions};

use crate::failure::{Failure, Outcome};
use crate::listed;
use crate::made::{Made, Planned};
use crate::out::{HEADER, Out, note, plain};
use crate::size::{Sizes, counted};
use crate::table::{Column, Table};
use crate::target::Target;

/// How files are written, for verbs that write some.
#[derive(Debug, Clone, clap::Args)]
pub struct Writing {
    /// What becomes of names; without it, they are embedded where the format has no place for them
    #[arg(long, value_name = "HOW", value_enum)]
    names: Option<Names>,
    /// Align payloads to so many bytes
    #[arg(long, value_name = "BYTES")]
    align: Option<u64>,
    /// Drop what the format has no place for, and say what that was
    #[arg(long)]
    lossy: bool,
    /// Say what would be written, and check that it could be, but write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    sizes: Sizes,
}

/// The metadata of safetensors that is about the file, not the tensors: the library whose names and layouts these are.
/// Nearly every file has it, and no other format needs it.
pub const OF_THE_FILE: &str = "format";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Names {
    /// Written into one more tensor, which this program and its library read
    Embed,
    /// Dropped: tensors are known by their positions
    Index,
}

/// A file that could be written.
#[derive(Debug)]
pub struct Output<'f> {
    made: Made<'f>,
    target: Target,
    options: WriteOptions,
    /// The length of the file, or of all shards were they one.
    bytes: u64,
}

impl Writing {
    /// Decides what becomes of names and metadata, and checks that the file could be written.
    pub fn plan<'f>(
        &self,
        mut made: Made<'f>,
        mut metadata: IndexMap<String, String>,
        target: Target,
    ) -> Outcome<Output<'f>> {
        if made.is_empty() {
            return Err(Failure::finding(format_args!("{}: there are no tensors to write", target.path.display())));
        }
        self.drop_metadata(&mut metadata, &target)?;
        let mut options = WriteOptions::new().embed_names(self.embeds(&mut made, &target)?).metadata(metadata);
        if let Some(bytes) = self.align {
            options = options.alignment(bytes);
        }
        let bytes = target.format.file_bytes(&made as &dyn Collection, &options);
        let bytes = made.blame(bytes, &target.path)?;
        Ok(Output { made, target, options, bytes })
    }

    /// Writes a file, or says what it would be.
    pub fn write(&self, output: &Output<'_>, out: &mut Out) -> Outcome<()> {
        if self.dry_run { self.tell(output, out) } else { output.write(out) }
    }

    /// Whether what has no place may be dropped.
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// Whether nothing is written.
    pub fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// What cannot be kept is lost only where that is asked for.
    fn drop(&self, target: &Target, what: &str) -> Outcome<()> {
        let (path, format) = (target.path.display(), target.format.name);
        if !self.lossy {
            return Err(Failure::usage(format_args!("{path}: {what} would be lost in {format}; --lossy drops them")));
        }
        note(format_args!("{path}: dropped {what}"));
        Ok(())
    }

    /// Drops what the format has no place for, if that may be.
    fn drop_metadata(&self, metadata: &mut IndexMap<String, String>, target: &Target) -> Outcome<()> {
        let lost: Vec<String> = metadata.keys().filter(|key| !target.format.keeps_metadata(key)).cloned().collect();
        let (of_file, of_tensors): (Vec<String>, _) = lost.iter().cloned().partition(|key| key == OF_THE_FILE);
        if !of_tensors.is_empty() {
            self.drop(target, &format!("the metadata {}", list(&of_tensors)))?;
        }
        for key in of_file {
            let (path, value) = (target.path.display(), &metadata[&key]);
            note(format_args!("{path}: dropped the metadata `{key}` = `{value}`, which is about the old file"));
        }
        metadata.retain(|key, _| !lost.contains(key));
        Ok(())
    }

    /// Whether names are embedded. Drops them where they are not to be kept.
    fn embeds(&self, made: &mut Made<'_>, target: &Target) -> Outcome<bool> {
        let (path, format) = (target.path.display(), target.format);
        let says_more = |(at, tensor): (usize, &Planned<'_>)| tensor.name != at.to_string();
        let says_more = made.tensors().iter().enumerate().any(says_more);
        if self.names == Some(Names::Embed) {
            return Ok(true);
        }
        // The names would be one tensor more.
        let has_room = format.max_tensors.is_none();
        if self.names == Some(Names::Index) {
            made.drop_names();
            return Ok(false);
        }
        if format.max_name == Some(0) && !has_room {
            // Where there are too many tensors, that is what is to be told.
            if says_more && Some(made.len()) == format.max_tensors {
                self.drop(target, "the names of tensors")?;
            }
            made.drop_names();
            return Ok(false);
        }
        let is_needed = match format.max_name {
            None => false,
            // The shards of a file without names have them.
            Some(0) => says_more || target.max_shard.is_some(),
            Some(most) => made.tensors().iter().any(|tensor| !(1..=most).contains(&tensor.name.len())),
        };
        if is_needed {
            note(format_args!("{path}: names are embedded, as {} has no place for all of them", format.name));
        }
        Ok(is_needed)
    }

    /// Says what would be written.
    fn tell(&self, output: &Output<'_>, out: &mut Out) -> Outcome<()> {
        let Output { made, target, bytes, .. } = output;
        let mut table = Table::new([("name", Column::Left), ("tensor", Column::Left), ("bytes", Column::Right)]);
        for tensor in made.tensors() {
            let (from, to) = (tensor.source.dtype(), listed::kind(&tensor.info));
            let kind = if tensor.is_cast() { format!("{from} -> {to}") } else { to };
            let len = tensor.info.payload_bytes().unwrap_or_default() as u64;
            table.row([tensor.name.as_str(), &kind, &self.sizes.cell(len)]);
        }
        table.print(out)?;
        let (path, format) = (target.path.display().to_string(), target.format.name);
        let tensors = counted(made.len() as u64, "tensor");
        let line = format!("{}: {format}, {tensors}, {}", plain(&path), self.sizes.phrase(*bytes));
        writeln!(out, "{}", out.styled(HEADER, &line).into_owned())?;
        Ok(())
    }
}

impl<'f> Output<'f> {
    /// What is written.
    pub fn made(&self) -> &Made<'f> {
        &self.made
    }

    fn write(&self, out: &mut Out) -> Outcome<()> {
        let Self { made, target, options, .. } = self;
        let collection = made as &dyn Collection;
        if !target.is_stdout() {
            let mut save = SaveOptions::new().format(target.format).write(options.clone());
            if let Some(bytes) = target.max_shard {
                save = save.max_shard_bytes(bytes);
            }
            return made.blame(save.save(&target.path, collection), &target.path);
        }
        if target.max_shard.is_some() {
            return Err(Failure::usage("standard output is one file; shards are several"));
        }
        if out.is_terminal() {
            return Err(Failure::usage("bytes are not printed to a terminal; send them to a file or a pipe"));
        }
        made.blame(target.format.to_writer(out, collection, options), Path::new("standard output"))
    }
}

/// A few names, and how many more there are.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
