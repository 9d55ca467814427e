//! The arguments of commands that write files.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use tensorfile::file::RankFolder;
use tensorfile::format::READ_FORMATS;
use tensorfile::{FORMATS, Format};

use super::opening::{DCP, is_named_shard, refuse_url};
use super::rename::Unnamed;
use super::standard_input::is_stream;
use crate::exit::{At, Failure, Outcome};
use crate::output::Wide;
use crate::output::numbers::Sizes;

/// The arguments of commands that write files.
#[derive(Debug, Clone, clap::Args)]
pub struct WriteArgs {
    /// Store names in this way. By default, they are embedded if the format cannot store all of them
    #[arg(long, value_name = "HOW", value_enum)]
    pub names: Option<Names>,
    /// Write names of 64 to 127 bytes to gguf, which only some programs read
    ///
    /// llama.cpp reads up to 63 bytes, stable-diffusion.cpp up to 127.
    #[arg(long)]
    pub long_names: bool,
    /// Align payloads to this number of bytes
    #[arg(long, value_name = "BYTES")]
    pub align: Option<u64>,
    /// Store tensors in the order of their memory, such as NHWC, if the format can
    ///
    /// Otherwise they are stored row-major. A file in the format of its inputs always keeps the order.
    #[arg(long)]
    pub keep_dim_order: bool,
    /// Write tensors to safetensors in the order of the inputs
    ///
    /// Otherwise tensors of several dtypes are sorted, wide dtypes first and then by name, so that each is aligned.
    #[arg(long)]
    pub keep_order: bool,
    /// Write sparse tensors as TFRT's code reads them, not as the BTF specification says: with layout number 1 instead
    /// of 2
    ///
    /// BTF files made of BTF files with this number always keep it. Other formats have no sparse tensors.
    #[arg(long)]
    pub tfrt_coo: bool,
    /// Drop names, metadata, blobs and tensors of unknown dtypes that the format cannot store, and print what was
    /// dropped
    ///
    /// With --map, padding that is not zero is dropped too.
    #[arg(long)]
    pub lossy: bool,
    /// Leave writing to the disk to the system, as cp does: faster, but the file is lost if the power fails soon after
    ///
    /// A killed process still leaves the old file or the new one.
    #[arg(long)]
    pub no_flush: bool,
    /// Check and print what would be written, but write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON about the files that were written, or would be
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub sizes: Sizes,
    #[command(flatten)]
    pub wide: Wide,
}

impl WriteArgs {
    /// Returns the names for unnamed tensors in a file of `format`. `is_named` is set if other tensors have names.
    ///
    /// Formats without names store names taken from files only if they store names anyway, in an additional tensor.
    pub fn unnamed(&self, format: &Format, is_named: bool) -> Unnamed {
        let stores_names = match self.names {
            Some(Names::Embed) => true,
            Some(Names::Index) => false,
            None => format.max_name != Some(0) || is_named && format.max_tensors.is_none(),
        };
        if stores_names { Unnamed::AfterFile } else { Unnamed::Numbered(0) }
    }
}

/// The argument of commands that create files.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct NoClobber {
    /// Fail if a file to write exists, instead of replacing it
    #[arg(long, short = 'n')]
    no_clobber: bool,
}

impl NoClobber {
    /// Returns whether the argument is given.
    pub fn is_given(self) -> bool {
        self.no_clobber
    }

    /// Fails if the argument is given and there is a file at `path`. A symbolic link is one. An object in a store is
    /// looked for when it is saved.
    pub fn check(self, path: &Path) -> Outcome<()> {
        refuse_url(path)?;
        if self.no_clobber && !is_stdout(path) && !is_stream(path) && path.symlink_metadata().is_ok() {
            return Err(Failure::exists(path));
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Names {
    /// In an additional tensor of btf and ten files, which this program and the library `tensorfile` read; other
    /// formats store names as they always do
    Embed,
    /// Not at all: tensors are identified by position
    Index,
}

/// Returns whether the path is `-`, or another name of standard output.
pub fn is_stdout(path: &Path) -> bool {
    const NAMES: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

    NAMES.iter().any(|name| path == Path::new(name))
}

/// Opens a pipe or a device to write to, such as `/dev/stderr` and `>(command)`; `None` if the path is of none.
pub fn open_output_stream(path: &Path) -> Outcome<Option<fs::File>> {
    if !is_stream(path) {
        return Ok(None);
    }
    let file = fs::OpenOptions::new().write(true).open(path).at(path)?;
    if file.is_terminal() {
        return Err(Failure::usage_at(path, "refusing to write binary data to a terminal"));
    }
    Ok(Some(file))
}

/// A file to write.
#[derive(Debug)]
pub struct Target {
    /// The path; `-` is standard output.
    pub path: PathBuf,
    pub format: &'static Format,
    /// The maximum size of a shard in bytes, if the file may be split into shards.
    pub max_shard: Option<u64>,
    /// Fail if the file, or one of its shards, exists.
    pub no_replace: bool,
    /// A file at the path stays if shards are written. It has the same tensors.
    pub keeps_single: bool,
    /// The path is of a folder, with a file for each process of a trainer. The name is that of its kind.
    pub ranks: Option<(RankFolder, &'static str)>,
}

impl Target {
    /// Returns a file in `format`, or in the format of the extension.
    pub fn new(path: &Path, format: Option<&'static Format>) -> Outcome<Self> {
        refuse_url(path)?;
        let format = format.or_else(|| Format::for_path(path)).ok_or_else(|| {
            let extensions: Vec<&str> = FORMATS.iter().flat_map(|format| format.extensions).copied().collect();
            let given = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            if let Some(read) = READ_FORMATS.iter().find(|format| format.extensions.contains(&given.as_str())) {
                return Failure::usage_at(path, format_args!("{} files are read, not written", read.name));
            }
            let is_alike = |own: &&&str| own.starts_with(&given) || given.starts_with(**own);
            if is_stdout(path) {
                return Failure::usage("standard output needs --to, the format to write");
            }
            if path.is_dir() {
                return Failure::usage_at(path, "is a directory; name a file");
            }
            if is_named_shard(path) {
                let name = path.to_string_lossy();
                let stem = &name[..name.to_ascii_lowercase().rfind(".t").unwrap_or(name.len())];
                let command = format!("`tensorfile convert FOLDER '{stem}-{{000000..}}.tar'`");
                return Failure::usage_at(path, format_args!("shards of samples are packed from a folder: {command}"));
            }
            if let Some(own) = extensions.iter().find(is_alike).filter(|_| !given.is_empty()) {
                return Failure::usage_at(path, format_args!("unknown extension; did you mean `.{own}`?"));
            }
            let extensions = extensions.join(", .");
            Failure::usage_at(path, format_args!("unknown extension; use --to, or one of .{extensions}"))
        })?;
        Ok(Self { path: path.to_owned(), format, max_shard: None, no_replace: false, keeps_single: false, ranks: None })
    }

    /// Returns a folder of a kind, with a file for each process of a trainer.
    pub fn folder(path: &Path, ranks: RankFolder, kind: &'static str) -> Outcome<Self> {
        refuse_url(path)?;
        if is_stdout(path) || is_stream(path) {
            return Err(Failure::usage(format_args!("--to {kind} writes a folder, not a stream")));
        }
        let format = if kind == DCP { "pytorch" } else { "safetensors" };
        let format = Format::named(format).expect("the program has all formats");
        Ok(Self { ranks: Some((ranks, kind)), ..Self::new(path, Some(format))? })
    }

    /// Returns the name of the format, as in `--to`.
    pub fn format_name(&self) -> &'static str {
        self.ranks.as_ref().map_or(self.format.name, |(_, kind)| kind)
    }

    /// Splits the file into shards of at most `max_shard` bytes.
    pub fn in_shards(self, max_shard: Option<u64>) -> Self {
        Self { max_shard, ..self }
    }

    /// Keeps a file at the path when shards are written.
    pub fn keep_single(self, keep: bool) -> Self {
        Self { keeps_single: keep, ..self }
    }

    /// Fails if the file exists and is not to be replaced. The names of shards are not known yet.
    pub fn guard(self, no_clobber: NoClobber) -> Outcome<Self> {
        if self.max_shard.is_none() {
            no_clobber.check(&self.path)?;
        }
        Ok(Self { no_replace: no_clobber.no_clobber, ..self })
    }

    pub fn is_stdout(&self) -> bool {
        is_stdout(&self.path)
    }
}

/// Parses a size: `5GB`, `512MiB` or `1000`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim_start().to_ascii_lowercase().as_str() {
        _ if number.is_empty() => None,
        "" | "b" => Some(1),
        "kb" => Some(1000),
        "mb" => Some(1000_u64.pow(2)),
        "gb" => Some(1000_u64.pow(3)),
        "tb" => Some(1000_u64.pow(4)),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "gib" => Some(1 << 30),
        "tib" => Some(1 << 40),
        _ => None,
    };
    let unit = unit.ok_or("expected a size, such as 5GB, 512MiB or 1000")?;
    // All digits, so parsing only fails if the number is too large.
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(0) => Err("expected a size of at least 1 byte, such as 5GB".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err("too large: the largest size is 18446744073709551615 bytes, about 18446744TB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in
            [("1", 1), ("5GB", 5_000_000_000), ("5 gb", 5_000_000_000), ("2MiB", 2 << 20), ("7B", 7)]
        {
            assert_eq!(parse_bytes(text), Ok(expected));
        }
        for wrong in ["", "0", "-1", "GB", "1.5GB", "5XB", "99999999TB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
