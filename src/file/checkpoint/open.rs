//! Opens any file or folder: recognizes its kind, then opens it.

use super::absent::only_in_folder;
#[cfg(feature = "pytorch")]
use super::dcp::is_metadata;
#[cfg(feature = "safetensors")]
use super::shards::{is_index, part_names};
use crate::error::{Error, Result};
use crate::file::place::Place;
use crate::file::quantized::Quantization;
use crate::file::{File, OpenOptions};
use crate::storage::FileReader;

/// The kind of a file or folder at a place.
#[derive(Debug, Clone, Copy)]
enum PlaceKind {
    /// A single tensor file. Its index says whether it is a numbered part of a model.
    File,
    /// An index of shards.
    #[cfg(feature = "safetensors")]
    Index,
    /// The metadata of a folder that a trainer saved.
    #[cfg(feature = "pytorch")]
    SavedFolder,
    /// A folder with a file for each process of a trainer, and no file that lists them.
    #[cfg(feature = "safetensors")]
    RankFiles,
}

impl OpenOptions {
    /// Opens the file or folder at a place. With `only`, the returned file may have just the tensor with this name or
    /// position.
    pub(in crate::file) fn open_place(&self, place: Place, only: Option<&str>) -> Result<File> {
        let (name, has_path, siblings) = (place.name.clone(), place.has_path, place.siblings.clone());
        let open = || {
            // The bytes read to find the format are not read again for the index.
            let mut reader = FileReader::with_index(&place.storage);
            match self.recognize(&place, &mut reader)? {
                PlaceKind::File => {
                    let reader = match only {
                        None => reader,
                        Some(name) => match self.contents_of(reader, &place.name, name)? {
                            // With the hint that more of the file follows, the system would read on past the tensor.
                            Some(contents) => {
                                return Ok(self.file_at_random(place.storage, Some(&place.name), contents));
                            }
                            None => FileReader::with_index(&place.storage),
                        },
                    };
                    let contents = self.contents(reader, &place.storage, Some(&place.name));
                    let contents = contents.map_err(|error| only_in_folder(&place.name).unwrap_or(error))?;
                    let file = self.file(place.storage, Some(&place.name), contents);
                    #[cfg(feature = "safetensors")]
                    if let Some(names) = file.part.and_then(|part| part_names(&place.name, &part, &*place.siblings)) {
                        return self.open_parts(file, &place.name, &names, &*place.siblings);
                    }
                    Ok(file)
                }
                #[cfg(feature = "safetensors")]
                PlaceKind::Index => self.open_index(place, only),
                #[cfg(feature = "pytorch")]
                PlaceKind::SavedFolder => self.open_saved_folder(&place, only),
                #[cfg(feature = "safetensors")]
                PlaceKind::RankFiles => self.open_rank_files(&place),
            }
        };
        let opened = open().map_err(|error: Error| error.in_file(&name));
        let quantization = Quantization::beside(siblings, self.config.clone());
        opened.map(|file| File { has_path, progress: self.progress.clone(), quantization, ..file })
    }

    /// Recognizes the kind of a place from its name and its first bytes.
    #[cfg_attr(not(feature = "safetensors"), expect(unused_variables, reason = "a name tells what is off"))]
    fn recognize(&self, place: &Place, reader: &mut FileReader<'_>) -> Result<PlaceKind> {
        #[cfg(feature = "safetensors")]
        if !place.rank_files.is_empty() {
            return Ok(PlaceKind::RankFiles);
        }
        #[cfg(feature = "pytorch")]
        if is_metadata(reader, &place.storage, &place.name)? {
            return Ok(PlaceKind::SavedFolder);
        }
        #[cfg(not(feature = "pytorch"))]
        if place.name.file_name().is_some_and(|name| name == super::directory::METADATA) {
            return Err(crate::format::saved_folder_off());
        }
        #[cfg(feature = "safetensors")]
        if is_index(reader, &place.storage, &place.name, self.format.is_some())? {
            return Ok(PlaceKind::Index);
        }
        #[cfg(not(feature = "safetensors"))]
        if super::directory::is_index_name(&place.name) {
            return Err(crate::format::shards_off());
        }
        Ok(PlaceKind::File)
    }
}
