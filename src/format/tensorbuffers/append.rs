//! Adding tensors to a file.
//!
//! The metadata is at the end, where new tensors go, so a file changed in place would be broken until its last byte is
//! written. Instead a new file is written next to the old one and then renamed to it. The old data is copied unchanged,
//! by the kernel if possible.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use hashbrown::HashSet;

use super::metadata::{self, MetadataTensor};
use super::ser::{Before, Encode, OldTensor};
use super::{FORMAT, entries};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::limits::Limits;
use crate::model::{MetadataChanges, Rewritten, Tensors};
use crate::read::ReadHeader;
use crate::storage::{FileLock, FileReader, FileStorage, ReadAt, open_regular, replace};
use crate::write::Plan;

/// Adds tensors to the file at `path`.
pub(super) fn append(path: &Path, tensors: &dyn Tensors, encode: &Encode, limits: &Limits) -> Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let append = || {
        // Two appends at once read the same old file, and the one that ended last dropped what the other had added. We
        // wait instead of failing: an append is short, and scripts would only try again.
        let _lock = FileLock::acquire(path)?;
        let (old, _) = open_regular(path).map_err(named)?;
        replace(path, |new| rewrite(&old, new, tensors, encode.clone(), limits))
    };
    let appended: Result<()> = append();
    appended.map_err(|error| error.in_format(FORMAT.name))
}

/// Writes the contents of `old` and more tensors to `new`.
fn rewrite(old: &File, mut new: impl Write, tensors: &dyn Tensors, mut encode: Encode, limits: &Limits) -> Result<()> {
    let storage = FileStorage::positioned(old.try_clone()?, old.metadata()?.len());
    let before = read(&mut FileReader::new(&storage), &mut encode, limits)?;
    let kept = before.end;
    encode.before = Some(before);
    // Planning finds unsupported tensors before anything is written.
    let plan = Plan::new(tensors, Arc::new(encode))?;
    copy(old, &mut new, kept)?;
    let mut writer = plan.writer(&mut new);
    tensors.send(&mut writer)?;
    writer.finish()
}

/// Reads the contents of the file. Its model and operations are kept, unless `encode` replaces them.
fn read(file: &mut dyn ReadAt, encode: &mut Encode, limits: &Limits) -> Result<Before> {
    metadata::open(file, limits, |contents| {
        if !metadata::is_known(contents.version) {
            let what = format!("change a file of version `{}`", Short(contents.version));
            return Err(ErrorKind::Unsupported { what, instead: "1.x is known; write a new file".to_owned() }.into());
        }
        let mut names = HashSet::new();
        let mut tensors: Vec<OldTensor> = Vec::new();
        contents.each_tensor(limits, &mut |record| {
            metadata::insert_name(&mut names, &record)?;
            let MetadataTensor { id, name, header, range } = record;
            let info = match header {
                ReadHeader::New(info) => info,
                ReadHeader::Alike(index) => tensors[index].info.clone(),
            };
            tensors.push(OldTensor { id, name: name.into(), info, range });
            Ok(())
        })?;
        encode.model = encode.model.take().or_else(|| contents.model.map(str::to_owned));
        let end = contents.start;
        encode.operations = encode.operations.take().or(Some(contents.operations));
        Ok(Before { end, tensors, names })
    })
}

/// Makes the end of a file with different metadata.
pub(super) fn rewrite_metadata(file: &mut dyn ReadAt, limits: &Limits, changes: &MetadataChanges) -> Result<Rewritten> {
    let mut encode = Encode::default();
    let before = read(file, &mut encode, limits)?;
    let Encode { model, operations, .. } = &mut encode;
    changes.unset.iter().for_each(|key| entries::unset(model, operations, key));
    changes.set.iter().try_for_each(|(key, value)| entries::set(model, operations, key, value))?;
    let end = before.end;
    encode.before = Some(before);
    Ok(Rewritten { begin: Vec::new(), kept: 0..end, end: encode.old_end()? })
}

/// Copies the first `len` bytes.
fn copy(mut old: &File, new: &mut impl Write, len: u64) -> Result<()> {
    old.seek(SeekFrom::Start(0))?;
    let copied = io::copy(&mut old.take(len), new)?;
    if copied < len {
        return Err(Error::new(ErrorKind::Truncated { needed: len, left: copied }).at(0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tensorbuffers;
    use crate::tensor::{Tensor, TensorMap};

    /// A disk that is full after some bytes.
    struct Full<'a>(&'a mut Vec<u8>, usize);

    impl Write for Full<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let now = bytes.len().min(self.1 - self.0.len());
            if now == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend_from_slice(&bytes[..now]);
            Ok(now)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn map(names: &[&str]) -> TensorMap {
        names.iter().map(|&name| (name, Tensor::from_slice(name.as_bytes(), [name.len()]).unwrap())).collect()
    }

    #[cfg(unix)]
    #[test]
    fn appends_at_once_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.tbs");
        std::fs::write(&path, tensorbuffers::to_vec(&map(&["old"])).unwrap()).unwrap();
        let names: Vec<String> = (0..24).map(|index| format!("new{index:02}")).collect();
        std::thread::scope(|scope| {
            for names in names.chunks(6) {
                let path = &path;
                scope.spawn(move || {
                    names.iter().for_each(|name| tensorbuffers::append(path, &map(&[name])).unwrap());
                });
            }
        });
        let all: TensorMap = tensorbuffers::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let mut found: Vec<&str> = all.names().collect();
        found.sort_unstable();
        assert_eq!(found[..24], names);
        assert_eq!(found[24..], ["old"]);
    }

    #[test]
    fn a_cut_at_any_byte_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.tbs");
        let (old, new) = (map(&["a", "bc"]), map(&["def"]));
        let both = old.clone().into_iter().chain(new.clone()).collect::<TensorMap>();
        let bytes = tensorbuffers::to_vec(&old).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let mut whole = None;
        for cut in 0.. {
            let mut written = Vec::new();
            let old = File::open(&path).unwrap();
            let appended = replace(&path, |file| {
                let appended = rewrite(&old, Full(&mut written, cut), &new, Encode::default(), &Limits::default());
                // The bytes before the cut are in the temporary file then.
                file.write_all(&written)?;
                appended
            });
            if appended.is_ok() {
                whole = Some(cut);
                break;
            }
            let error = appended.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Io(_)), "cut at {cut}: {error}");
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "cut at {cut}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "cut at {cut}: nothing is left behind");
        }
        let file = std::fs::read(&path).unwrap();
        assert_eq!(Some(file.len()), whole);
        assert_eq!(tensorbuffers::from_slice::<TensorMap>(&file).unwrap(), both);
        assert_eq!(file, tensorbuffers::to_vec(&both).unwrap(), "as if written at once");
    }
}
