//! Folders of files as shards, and shards as folders of files.

use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Component, Path, PathBuf};

use tensorfile::report::WarningKind;
use tensorfile::{ErrorKind, Limits, Warning};

use crate::archive::{NO_END, Next, ends_early, goes_on, goes_on_in, read_head, split};
use crate::compression::ShardRead;
use crate::error::{Error, Result};
use crate::shard::{Bytes, pass_padding};
use crate::writer::ShardWriter;

/// Counts of a packed folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packed {
    /// The number of samples.
    pub samples: u64,
    /// Files that belong to no sample: without an extension, or hidden.
    pub left_out: Vec<PathBuf>,
}

/// Writes all files of a folder, and of the folders in it, as samples sorted by path. Links are not followed.
///
/// ```
/// use tensorfile_datasets::{ShardWriter, pack, unpack};
///
/// # let folder = tempfile::tempdir()?;
/// let (from, to) = (folder.path().join("from"), folder.path().join("to"));
/// std::fs::create_dir(&from)?;
/// std::fs::write(from.join("0001.cls"), "7")?;
/// std::fs::write(from.join("0001.txt"), "seven")?;
///
/// let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar"))?;
/// assert_eq!(pack(&from, &mut writer)?.samples, 1);
/// let shards = writer.finish()?;
/// assert_eq!(unpack(shards[0].path.to_str().expect("it is text"), &to)?.files, 2);
/// assert_eq!(std::fs::read(to.join("0001.txt"))?, b"seven");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`ShardWriter::write_files`], and [`ErrorKind::Io`] if a file cannot be read.
pub fn pack(folder: &Path, writer: &mut ShardWriter) -> Result<Packed> {
    let (mut packed, mut paths) = (Packed::default(), Vec::new());
    list(folder, "", &mut paths)?;
    paths.sort();
    // Sorting brings the files of one key together: no other key sorts between `a.x` and `a.y`.
    let mut files = Vec::new();
    for path in paths {
        match split(&path) {
            Some((key, extension)) => files.push((key.to_owned(), extension.to_owned())),
            None => packed.left_out.push(folder.join(path)),
        }
    }
    files.sort();
    for sample in files.chunk_by(|one, other| one.0 == other.0) {
        let key = &sample[0].0;
        let read = |(key, extension): &(String, String)| {
            let path = folder.join(format!("{key}.{extension}"));
            Ok((extension.clone(), fs::read(&path).map_err(|error| in_path(&path, &error))?))
        };
        let contents: Vec<(String, Vec<u8>)> = sample.iter().map(read).collect::<Result<_>>()?;
        writer.write_files(key, contents.iter().map(|(extension, bytes)| (extension.as_str(), bytes)))?;
        packed.samples += 1;
    }
    Ok(packed)
}

/// Adds the paths of the files below a folder, relative to it, with slashes.
fn list(folder: &Path, prefix: &str, paths: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| in_path(folder, &error))? {
        let entry = entry.map_err(|error| in_path(folder, &error))?;
        let kind = entry.file_type().map_err(|error| in_path(&entry.path(), &error))?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|_| ErrorKind::Message(format!("the path {} is not UTF-8", entry.path().display())))?;
        if kind.is_dir() {
            list(&entry.path(), &format!("{prefix}{name}/"), paths)?;
        } else if kind.is_file() {
            paths.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}

fn in_path(path: &Path, error: &io::Error) -> Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display())).into()
}

/// Counts and warnings of an unpacked shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unpacked {
    /// The number of files.
    pub files: u64,
    /// Warnings about files left out, such as hard links, and about the end of the shard, as in
    /// [`Shard::warnings`](crate::Shard::warnings).
    pub warnings: Vec<Warning>,
}

/// Writes the files of a shard to a folder. Once complete, each file replaces an existing one.
///
/// Only plain files are written, with the mode of new files. Empty folders and symbolic links are left out. Files that
/// a sample cannot have, such as hard links, devices and sparse files, are left out with a warning.
///
/// # Errors
///
/// As [`Shard::open`](crate::Shard::open). [`ErrorKind::Malformed`] if a name leads out of the folder; it is checked
/// before its file is created. [`ErrorKind::Io`] if a file cannot be written.
pub fn unpack(location: &str, folder: &Path) -> Result<Unpacked> {
    let in_shard = |error: Error| error.in_shard(location);
    let mut reader = Bytes::open(location, &Limits::default()).map_err(in_shard)?.into_reader();
    let (mut offset, mut unpacked) = (0, Unpacked::default());
    loop {
        let head = match read_head(&mut reader, offset > 0).map_err(|error| in_shard(error.at(offset)))? {
            Next::Member(head) => head,
            Next::Nothing => {
                unpacked.warnings.push(Warning::new(WarningKind::LeftOut, NO_END));
                return Ok(unpacked);
            }
            Next::End => {
                if goes_on_in(reader).map_err(|error| in_shard(error.at(offset)))? {
                    unpacked.warnings.push(Warning::new(WarningKind::LeftOut, goes_on(offset)));
                }
                return Ok(unpacked);
            }
        };
        let blame = |error: Error| in_shard(head.blame(error.at(offset)));
        let mut data = (&mut reader).take(head.size);
        if let Some(why) = &head.refused {
            let left_out = Warning::new(WarningKind::LeftOut, format!("a file is left out: {why} (at byte {offset})"));
            unpacked.warnings.push(left_out.at(offset));
        }
        if let (Some(path), None) = (&head.path, &head.refused) {
            let target = target(folder, path).map_err(|error| in_shard(error.at(offset)))?;
            write(&target, &mut data).map_err(blame)?;
            unpacked.files += 1;
        } else {
            copy(&mut data, &mut io::sink()).map_err(|error| blame(error.into()))?;
        }
        pass_padding(&mut reader, head.size).map_err(blame)?;
        offset = head.total().and_then(|total| offset.checked_add(total)).unwrap_or(u64::MAX);
    }
}

/// Returns the path of a file, or an error if it would not lie in the folder.
fn target(folder: &Path, path: &str) -> Result<PathBuf> {
    let refuse = |why: &str| Err(Error::malformed(format!("the name `{}` {why}", path.escape_debug())));
    let mut target = folder.to_owned();
    // These characters have a meaning on Windows.
    if path.contains(['\\', ':']) && cfg!(windows) {
        return refuse("is not one of a file on this system");
    }
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => continue,
            Component::Normal(name) => target.push(name),
            _ => return refuse("leaves the folder"),
        }
        if fs::symlink_metadata(&target).is_ok_and(|metadata| metadata.is_symlink()) {
            return refuse("leads through a symbolic link");
        }
    }
    if target == folder { refuse("is not one of a file") } else { Ok(target) }
}

fn write(target: &Path, data: &mut io::Take<&mut ShardRead>) -> Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|error| in_path(parent, &error))?;
    }
    tensorfile::file::atomic::write_with(target, &mut |out| {
        let mut out = io::BufWriter::with_capacity(256 << 10, out);
        copy(data, &mut out)?;
        Ok(out.flush()?)
    })?;
    Ok(())
}

/// Writes the data of a member. An archive that ends early is an error.
fn copy(data: &mut io::Take<&mut ShardRead>, out: &mut dyn io::Write) -> tensorfile::Result<()> {
    let size = data.limit();
    let copied = io::copy(data, out).map_err(|error| Error::from(error).into_tensorfile())?;
    if copied < size { Err(ends_early(size, copied).into_tensorfile()) } else { Ok(()) }
}
