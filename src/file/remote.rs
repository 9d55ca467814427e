//! Opens files on servers, and the shards next to them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::checkpoint::METADATA;
use super::{File, FileTensor, OpenOptions, checkpoint};
use crate::error::{Category, Error, ErrorKind, Result};
use crate::find::Deserializer;
use crate::format::detect;
use crate::model::{Node, Source};
use crate::remote::{self, Location, RemoteFile};
use crate::storage::{FileReader, FileStorage, ReadRanges, shown_url};
use crate::tensor::Tensor;
use crate::threads::at_once;

/// Loads a value from any file.
type LoadAny<'l> = &'l mut dyn FnMut(&mut (dyn Source<'_> + '_)) -> Result<()>;

impl OpenOptions {
    pub(super) fn open_location(&self, url: &str) -> Result<File> {
        let open = |url: &str| self.open_found(remote::open(url, &self.limits)?);
        let opened = match open(url) {
            // A server may send any page for a folder.
            Err(error) if url.ends_with('/') => open(&format!("{url}{METADATA}")).map_err(|_| error),
            opened => opened,
        };
        opened.map_err(Error::without_beginning)
    }

    fn open_found(&self, location: Location) -> Result<File> {
        match location {
            Location::Path(path) => self.open_path(&path).map_err(|error| error.in_file(&path)),
            Location::Ranges(found) => self.open_remote(found),
        }
    }

    /// Reads a tensor, and only the part of the index that leads to it, if the format allows.
    pub(super) fn tensor_at_url(&self, url: &str, name: &str) -> Result<Tensor> {
        if self.needs_index() || url.ends_with('/') {
            return self.open_url(url)?.tensor(name);
        }
        let read = remote::open(url, &self.limits).and_then(|location| match location {
            Location::Path(path) => self.tensor(&path, name),
            Location::Ranges(found) => self.tensor_in_remote(found, name),
        });
        read.map_err(|error| error.without_beginning().in_file(&PathBuf::from(shown_url(url))))
    }

    /// Loads all of a file, in one stream if each of its headers is found by the one before it.
    pub(super) fn load_at_url(&self, url: &str, node: fn() -> Node, load: LoadAny<'_>) -> Result<()> {
        if url.ends_with('/') {
            return self.open_url(url)?.load_with(node, &mut |source| load(source));
        }
        let mut opened = || {
            let location = remote::open(url, &self.limits)?;
            if let Location::Ranges(found) = &location
                && self.load_in_order(found, node, load)?
            {
                return Ok(None);
            }
            self.finish(self.open_found(location)?).map(Some)
        };
        match opened().map_err(|error| error.without_beginning().in_file(&PathBuf::from(shown_url(url))))? {
            Some(file) => file.load_with(node, &mut |source| load(source)),
            None => Ok(()),
        }
    }

    /// Loads a file in one stream. Returns `false` if its index is found better, if not all of it is read, or if something
    /// is wrong: opening it says what.
    fn load_in_order(&self, remote: &RemoteFile, node: fn() -> Node, load: LoadAny<'_>) -> Result<bool> {
        // A stream holds what it passes, if that is needed later.
        let most = self.limits.most_held();
        self.check_begin(remote)?;
        let skips = matches!(node().inner(), Node::Struct(def) if def.allow_unknown);
        if skips || remote.source.len()? > most {
            return Ok(false);
        }
        let storage = FileStorage::ranges(remote.source.clone())?;
        let path = PathBuf::from(&*remote.source.name());
        let Ok(format) = detect(&mut FileReader::with_index(&storage), Some(&path)) else { return Ok(false) };
        if !(format.reading.index_reader)().is_chained() {
            return Ok(false);
        }
        let Some(stream) = remote.source.stream() else { return Ok(false) };
        let mut deserializer = Deserializer::with_reader(&format.reading, stream, self.limits.clone());
        match deserializer.load_with(node, &mut |source| load(source)).and_then(|()| deserializer.end()) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.category(), Category::Io) => Err(error.in_format(format.name)),
            Err(_) => Ok(false),
        }
    }

    /// Fails if a file without an end known begins as none of tensors: it may be endless.
    fn check_begin(&self, remote: &RemoteFile) -> Result<()> {
        // The pickle of a trainer's folder is no file of tensors.
        match remote.source.begin_of_endless().filter(|_| !remote.source.name().ends_with(METADATA)) {
            Some(begin) => self.format_of_begin(&begin, Path::new(&*remote.source.name())).map(drop),
            None => Ok(()),
        }
    }

    fn open_remote(&self, remote: RemoteFile) -> Result<File> {
        let name = PathBuf::from(&*remote.source.name());
        self.check_begin(&remote).map_err(|error| error.in_file(&name))?;
        let storage = FileStorage::ranges(remote.source.clone())?;
        let opened = || {
            #[cfg(feature = "pytorch")]
            if checkpoint::is_metadata(&storage, &name)? {
                return self.open_remote_folder(&storage, &remote, &name, None);
            }
            let mut reader = FileReader::with_index(&storage);
            if checkpoint::is_index(&mut reader, &storage, &name, self.format.is_some())? {
                return self.open_remote_shards(&storage, &remote, &name);
            }
            let contents = self.contents(reader, &storage, Some(&name))?;
            let file = File { has_path: false, ..self.file(storage, Some(&name), contents) };
            if let Some(names) = file.part.and_then(|part| checkpoint::part_names(&name, &part)) {
                return self.open_remote_parts(file, &remote, &names, &name);
            }
            Ok(file)
        };
        opened().map_err(|error| error.in_file(&name))
    }

    fn tensor_in_remote(&self, remote: RemoteFile, name: &str) -> Result<Tensor> {
        let path = PathBuf::from(&*remote.source.name());
        self.check_begin(&remote)?;
        let storage = FileStorage::ranges(remote.source.clone())?;
        #[cfg(feature = "pytorch")]
        if checkpoint::is_metadata(&storage, &path)? {
            let read = self.open_remote_folder(&storage, &remote, &path, Some(name)).and_then(|file| file.tensor(name));
            // The whole folder says which names there are, and what is wrong.
            return read.or_else(|_| self.open_remote(remote)?.tensor(name));
        }
        let mut reader = FileReader::with_index(&storage);
        if checkpoint::is_index(&mut reader, &storage, &path, self.format.is_some())? {
            let index = checkpoint::read(&storage, &self.limits)?;
            return match index.shard_of(name) {
                Some(shard) => self.open_remote_shard(&remote, shard)?.tensor(name),
                None => self.open_remote(remote)?.tensor(name),
            };
        }
        match self.contents_of(reader, &path, name)? {
            Some(contents) => FileTensor::new(&self.file_at_random(storage, Some(&path), contents), 0).read(),
            None => self.open_remote(remote)?.tensor(name),
        }
        .map_err(|error| error.in_file(&path))
    }

    /// Opens the shards of an index, several at once.
    fn open_remote_shards(&self, storage: &FileStorage, remote: &RemoteFile, path: &Path) -> Result<File> {
        let index = checkpoint::read(storage, &self.limits)?;
        let listed = index.shards();
        let names: Vec<&str> = listed.iter().map(|(shard, _)| *shard).collect();
        let files = self.open_siblings(remote, &names).map_err(|(number, error)| {
            let tensor = listed[number].1[0];
            match error.kind() {
                ErrorKind::Io(io) => {
                    let message = format!("{}: {io}; the index says that `{tensor}` is in it", names[number]);
                    io::Error::new(io.kind(), message).into()
                }
                _ => error,
            }
        })?;
        let file = checkpoint::join(index, files, path, &self.limits)?;
        Ok(File { progress: self.progress.clone(), ..file })
    }

    /// Opens the remaining numbered files of a model. If one is not there, the file stays alone.
    fn open_remote_parts(&self, open: File, remote: &RemoteFile, names: &[String], path: &Path) -> Result<File> {
        let own = open.part.as_ref().map_or(0, |part| part.index);
        let others: Vec<&str> =
            (0..).zip(names).filter(|(number, _)| *number != own).map(|(_, name)| &**name).collect();
        let mut files = match self.open_siblings(remote, &others) {
            Ok(files) => files,
            Err((_, error)) if error.is_not_found() => return Ok(open),
            Err((_, error)) => return Err(error),
        };
        files.insert(usize::try_from(own).unwrap_or(usize::MAX).min(files.len()), open);
        for (number, file) in (0..).zip(&files) {
            let checked = checkpoint::check_part(file, number, names.len() as u64);
            let shard = file.location.clone().unwrap_or_default();
            checked.map_err(|error| error.in_format(file.format.name).in_shard(&shard, 0))?;
        }
        let file = checkpoint::join_parts(files, path, &self.limits)?;
        Ok(File { progress: self.progress.clone(), ..file })
    }

    /// Opens files next to a file. An error comes with the position of the name.
    fn open_siblings(&self, remote: &RemoteFile, names: &[&str]) -> Result<Vec<File>, (usize, Error)> {
        each_at_once(names, &|name| self.open_remote_shard(remote, name))
    }

    /// Opens the folder of a metadata file. With `only`, the file has just the tensor of this name.
    #[cfg(feature = "pytorch")]
    fn open_remote_folder(
        &self,
        metadata: &FileStorage,
        remote: &RemoteFile,
        path: &Path,
        only: Option<&str>,
    ) -> Result<File> {
        let folder = self.saved_folder(metadata, only)?;
        let names: Vec<&str> = folder.files.iter().map(String::as_str).collect();
        let open = |name: &str| {
            let source = remote.siblings.open(name, &self.limits)?;
            let path = PathBuf::from(&*source.name());
            Ok((FileStorage::ranges(source)?, path))
        };
        let opened = each_at_once(&names, &open).map_err(|(number, error)| match error.kind() {
            ErrorKind::Io(io) => checkpoint::absent(&folder, names[number], io),
            _ => error,
        })?;
        let (files, paths) = opened.into_iter().unzip();
        self.join_saved(folder, files, (path.to_owned(), false), paths)
    }

    fn open_remote_shard(&self, remote: &RemoteFile, name: &str) -> Result<File> {
        let source = remote.siblings.open(name, &self.limits)?;
        let path = PathBuf::from(&*source.name());
        let read = || self.read(FileStorage::ranges(source)?, Some(&path));
        let file = read().map_err(|error| error.in_shard(&path, 0))?;
        Ok(File { has_path: false, ..file })
    }
}

/// Opens files, several at once. An error comes with the position of the name.
fn each_at_once<T: Send + Sync>(
    names: &[&str],
    open: &(dyn Fn(&str) -> Result<T> + Sync),
) -> Result<Vec<T>, (usize, Error)> {
    /// Each opens a connection, and some read headers in many places.
    const AT_ONCE: usize = 8;

    let files: Vec<OnceLock<T>> = names.iter().map(|_| OnceLock::new()).collect();
    at_once(names.len(), AT_ONCE, &|number| {
        let file = open(names[number]).map_err(|error| (number, error))?;
        files[number].set(file).map_err(|_| ()).expect("each file is opened once");
        Ok(())
    })?;
    Ok(files.into_iter().filter_map(OnceLock::into_inner).collect())
}
