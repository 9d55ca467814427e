//! Finds the tensor files in a folder, for commands that accept a folder in place of its files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hashbrown::HashSet;

use super::checkpoint::{
    INDEX_EXTENSION, Instead, METADATA, begins_as_pickle, file_names, find_model, is_index_name, own_checkpoint,
};
use super::{File, OpenOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{has_known_extension, is_ambiguous, is_of_other_kind, is_training_state, may_have_tensors};

/// The tensor files of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderFiles {
    /// Paths of files to open, sorted by name. An index stands for its shards. The folder itself stands for the files
    /// of several processes in it.
    pub files: Vec<PathBuf>,
    /// Files that might have tensors but are left out: archives, files of other software, and files without tensors.
    pub left_out: Vec<PathBuf>,
    /// The file or folder with the model, if the files in this folder only have the state of a training.
    pub model: Option<PathBuf>,
}

impl OpenOptions {
    /// Returns the tensor files of a folder, as the program's commands read them.
    ///
    /// - Files with the extension of a format.
    /// - Indexes of shards, in place of the shards.
    /// - The folder itself, in place of files that several processes of a trainer saved.
    /// - Files with the extensions `.ckpt` and `.bin`, if they have tensors.
    ///
    /// Subfolders are not searched.
    ///
    /// ```
    /// use tensorfile::{OpenOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32])]);
    /// tensorfile::save(folder.path().join("a.npz"), &map)?;
    /// std::fs::copy(folder.path().join("a.npz"), folder.path().join("b.bin"))?;
    /// for name in ["c.bin", "d.onnx", "e.txt"] {
    ///     std::fs::write(folder.path().join(name), "text")?;
    /// }
    /// let found = OpenOptions::new().tensor_files(&folder)?;
    /// assert_eq!(found.files, ["a.npz", "b.bin"].map(|name| folder.path().join(name)));
    /// assert_eq!(found.left_out, ["c.bin", "d.onnx"].map(|name| folder.path().join(name)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the folder cannot be read. A file that cannot be read is not an error here.
    pub fn tensor_files(&self, folder: impl AsRef<Path>) -> Result<FolderFiles> {
        self.list_folder(folder.as_ref()).map_err(|error| error.in_file(folder.as_ref()))
    }

    fn list_folder(&self, folder: &Path) -> Result<FolderFiles> {
        let mut found = FolderFiles::default();
        let names = file_names(folder)?;
        let is_index = |name: &&PathBuf| is_index_of_tensors(name) && folder.join(name).is_file();
        let indexes: Vec<PathBuf> = names.iter().filter(is_index).map(|name| folder.join(name)).collect();
        // The shards of an unreadable index are read one by one.
        let shards = indexes.iter().filter_map(|path| self.open_quietly(path).ok());
        let shards: HashSet<PathBuf> = shards.flat_map(|file| file.shards().to_vec()).collect();
        for name in &names {
            let path = folder.join(name);
            if shards.contains(&path) || !path.is_file() {
                continue;
            }
            if is_index_of_tensors(name) || has_known_extension(name) {
                found.files.push(path);
            } else if is_ambiguous(name) {
                let list = if self.has_tensors(&path) { &mut found.files } else { &mut found.left_out };
                list.push(path);
            } else if is_of_other_kind(name) {
                found.left_out.push(path);
            }
        }
        // Trainers save other files next to the folder's metadata, which stands for the files of all processes.
        let metadata = folder.join(METADATA);
        if begins_as_pickle(&metadata) {
            found.files.push(metadata);
        }
        #[cfg(feature = "safetensors")]
        if found.files.iter().any(|path| super::checkpoint::is_rank_file(path))
            && let Ok(Some(Instead::RankFiles(names))) = own_checkpoint(folder)
        {
            let is_one = |path: &PathBuf| names.iter().any(|name| *path == folder.join(name));
            found.files.retain(|path| !is_one(path));
            found.files.push(folder.to_owned());
        }
        if found.files.is_empty()
            && let Ok(Some(Instead::File(file))) = own_checkpoint(folder)
        {
            found.left_out.retain(|path| *path != file);
            found.files.push(file);
        }
        found.files.sort_unstable();
        let is_state = |path: &PathBuf| path.file_name().and_then(OsStr::to_str).is_some_and(is_training_state);
        if !found.files.is_empty() && found.files.iter().all(is_state) {
            found.model = find_model(folder).and_then(|model| model.path).map(|path| folder.join(path));
        }
        Ok(found)
    }

    /// Opens a file without applying renames, or denying warnings.
    fn open_quietly(&self, path: &Path) -> Result<File> {
        self.open_place(self.find_path(path)?, None)
    }

    /// Returns whether the content of a file is tensors. A damaged tensor file counts.
    pub(super) fn has_tensors(&self, path: &Path) -> bool {
        match self.open_quietly(path) {
            Ok(file) => !file.is_empty(),
            Err(error) => !is_of_other_software(&error),
        }
    }
}

fn is_of_other_software(error: &Error) -> bool {
    use ErrorKind::{AmbiguousFormat, NotTensors, UnknownFormat};

    matches!(error.kind(), UnknownFormat { .. } | NotTensors { .. } | AmbiguousFormat { .. })
}

/// Returns whether a name belongs to an index of shards of a known format.
fn is_index_of_tensors(name: &Path) -> bool {
    let stem = name.to_str().and_then(|name| name.strip_suffix(INDEX_EXTENSION));
    is_index_name(name) && stem.is_some_and(|stem| may_have_tensors(Path::new(stem)))
}
