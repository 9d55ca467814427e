//! Files at URLs: their places, and loading them in one stream.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::OpenOptions;
use super::checkpoint::{INDEX_EXTENSION, METADATA, NAMES, PICKLE, no_checkpoint_among};
use super::place::{Place, Siblings};
use crate::error::{Category, Result};
use crate::find::Deserializer;
use crate::format::detect;
use crate::limits::Limits;
use crate::model::{Node, Source};
use crate::remote::{self, ListedFolder, Location, RemoteFile, RemoteFolder, RemoteSource};
use crate::storage::{FileReader, FileStorage, ReadAt, ReadRanges, scheme_of};

/// Loads a value from any file.
type LoadAny<'l> = &'l mut dyn FnMut(&mut (dyn Source<'_> + '_)) -> Result<()>;

impl OpenOptions {
    /// Finds the place of a URL.
    pub(super) fn find_url(&self, url: &str) -> Result<Place> {
        let find = |url: &str| match remote::open(url, &self.limits)? {
            Location::Path(path) => self.find_path(&path).map_err(|error| error.in_file(&path)),
            Location::Ranges(file) => self.place_of(file),
            Location::Folder(folder) => self.find_in_folder(folder),
        };
        let found = match find(url) {
            // A checkpoint saved to this URL in shards is opened by its index.
            Err(error) if error.is_not_found() && remote::is_saved_to(url) && !url.ends_with('/') => {
                find(&format!("{url}{INDEX_EXTENSION}")).map_err(|_| error)
            }
            found => found,
        };
        // A web server cannot list a folder, and may send any page for it.
        let is_page = |place: &Place| place.name.to_string_lossy().ends_with('/');
        if url.ends_with('/')
            && matches!(scheme_of(url), Some(("http" | "https", _)))
            && found.as_ref().map_or(true, is_page)
            && let Ok(metadata) = find(&format!("{url}{METADATA}"))
            && begins_as_pickle(&metadata.storage)
        {
            return Ok(metadata);
        }
        found
    }

    /// Finds what to open in a folder, as in a directory on disk.
    fn find_in_folder(&self, listed: ListedFolder) -> Result<Place> {
        let ListedFolder { name, folder, names, error } = listed;
        let name = PathBuf::from(name);
        let open = |file: &str| folder.open(file, &self.limits);
        let has = |file: &&str| names.iter().any(|name| name == file);
        let source = match NAMES.into_iter().find(has) {
            Some(found) => Some(open(found)?),
            None if has(&METADATA) => Some(open(METADATA)?).filter(|source| {
                // Other software also uses this file name.
                FileStorage::ranges(source.clone()).is_ok_and(|storage| begins_as_pickle(&storage))
            }),
            None => None,
        };
        if let Some(source) = source {
            return self.place_of(RemoteFile { source, folder });
        }
        #[cfg(feature = "safetensors")]
        let rank_files: Vec<String> =
            names.iter().filter(|name| super::checkpoint::is_rank_file(Path::new(name))).cloned().collect();
        #[cfg(not(feature = "safetensors"))]
        let rank_files = Vec::new();
        if rank_files.is_empty() {
            return Err(error.unwrap_or_else(|| no_checkpoint_among(&names).in_file(&name)));
        }
        let siblings = Arc::new(UrlFolder { folder, limits: self.limits.clone() });
        let storage = FileStorage::Memory(Box::new([]));
        Ok(Place { name, has_path: false, storage, rank_files, siblings, version: None, source: None })
    }

    fn place_of(&self, file: RemoteFile) -> Result<Place> {
        let RemoteFile { source, folder } = file;
        let name = PathBuf::from(&*source.name());
        self.check_begin(&source, &name).map_err(|error| error.in_file(&name))?;
        let storage = FileStorage::ranges(source.clone())?;
        let siblings = Arc::new(UrlFolder { folder, limits: self.limits.clone() });
        let (rank_files, version, source) = (Vec::new(), None, Some(source));
        Ok(Place { name, has_path: false, storage, rank_files, siblings, version, source })
    }

    /// Fails if the length of a file is unknown and it does not begin like a tensor file, because it may be endless.
    fn check_begin(&self, source: &RemoteSource, name: &Path) -> Result<()> {
        // The pickle of a trainer's folder does not begin like a tensor file.
        match source.begin_of_endless().filter(|_| name.file_name().is_none_or(|name| name != METADATA)) {
            Some(begin) => self.format_of_begin(&begin, name).map(drop),
            None => Ok(()),
        }
    }

    /// Loads a file at a URL in one stream, if each of its headers is found by the one before it. Returns `false` if
    /// another way of reading the index is faster, or if the type skips or decodes tensors. Also returns `false` after an error,
    /// because opening the file gives a better message.
    pub(super) fn load_in_order(&self, place: &Place, node: fn() -> Node, load: LoadAny<'_>) -> Result<bool> {
        let Some(source) = &place.source else { return Ok(false) };
        let skips = matches!(node().inner(), Node::Struct(def) if def.allow_unknown) || node().dequantizes();
        // A stream holds the payloads that it passes, if they may be needed later.
        if skips || place.storage.len() > self.limits.most_held() {
            return Ok(false);
        }
        let detected = detect(&mut FileReader::with_index(&place.storage), Some(&place.name));
        let Ok(format) = detected else { return Ok(false) };
        if !(format.reading.index_reader)().is_chained() {
            return Ok(false);
        }
        let Some(stream) = source.stream() else { return Ok(false) };
        let mut deserializer = Deserializer::with_reader(&format.reading, stream, self.limits.clone());
        match deserializer.load_with(node, &mut |source| load(source)).and_then(|()| deserializer.end()) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.category(), Category::Io) => Err(error.in_format(format.name)),
            Err(_) => Ok(false),
        }
    }
}

fn begins_as_pickle(storage: &FileStorage) -> bool {
    let mut begin = [0];
    FileReader::with_index(storage).read_at(0, &mut begin).is_ok() && begin == [PICKLE]
}

/// The files next to a file at a URL.
struct UrlFolder {
    folder: Box<dyn RemoteFolder>,
    limits: Limits,
}

impl Siblings for UrlFolder {
    fn open(&self, name: &str) -> Result<(FileStorage, PathBuf)> {
        let source = self.folder.open(name, &self.limits)?;
        let path = PathBuf::from(&*source.name());
        Ok((FileStorage::ranges(source)?, path))
    }

    fn has(&self, _: &str) -> Option<bool> {
        None
    }

    fn shown(&self, name: &str) -> String {
        name.to_owned()
    }

    fn at_once(&self) -> usize {
        // Each file takes a connection, and some need many reads for their headers.
        8
    }
}
