//! Temporary files next to the file that they are to replace.
//!
//! Their writer holds an exclusive lock on them, which the system releases when the process ends. A file that can be locked
//! was left by a process that was killed, and the next save to the same path removes it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::lock::{Lock, is_at, try_lock};

/// Names that are searched for files that were left. More are only taken if more saves to one path run at once.
const SEARCHED: u32 = 8;

/// The temporary files of this process.
///
/// Files are created, renamed and removed while this is locked, so that whoever locks it knows all of them. A name that is
/// not listed may already belong to another process.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A locked file that is removed when this goes out of scope.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
    /// Keeps the lock. Windows does not rename open files, and has no lock.
    #[cfg(unix)]
    _lock: File,
}

impl Temporary {
    /// Creates an empty file in the folder of `target`. If it is `private`, only its owner may read it.
    ///
    /// Files that killed processes left there for the same target are removed.
    pub(super) fn create(target: &Path, private: bool) -> io::Result<(File, Self)> {
        let stem = stem(target.file_name().unwrap_or_default());
        let name = |at: u32| {
            let mut name = stem.clone();
            name.push(format!(".{at}.tmp"));
            target.with_file_name(name)
        };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if private {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        #[cfg(not(unix))]
        let _ = private;

        let mut live = live();
        (0..SEARCHED).for_each(|at| remove_left(&name(at)));
        let mut at = 0;
        loop {
            let path = name(at);
            at = at.checked_add(1).ok_or(io::ErrorKind::AlreadyExists)?;
            let file = match options.open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            match try_lock(&file) {
                Lock::Taken if is_at(&file, &path) => {}
                Lock::Unsupported => {}
                // Another process took it for one that was left, before it was locked, and removes it.
                Lock::Taken | Lock::Busy => continue,
            }
            live.push(path.clone());
            let temporary = Self {
                path,
                #[cfg(unix)]
                _lock: match file.try_clone() {
                    Ok(lock) => lock,
                    Err(error) => {
                        discard(&mut live, &name(at - 1));
                        return Err(error);
                    }
                },
            };
            return Ok((file, temporary));
        }
    }

    /// Renames the file.
    pub(super) fn rename(self, target: &Path) -> io::Result<()> {
        let mut live = live();
        let renamed = fs::rename(&self.path, target);
        if renamed.is_ok() {
            live.retain(|path| *path != self.path);
        }
        // Dropping this locks the list again.
        drop(live);
        renamed
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        discard(&mut live(), &self.path);
    }
}

/// Removes a file of this process, if it is listed.
fn discard(live: &mut Vec<PathBuf>, path: &Path) {
    if let Some(at) = live.iter().position(|other| other == path) {
        live.swap_remove(at);
        // An error here would hide the one that led to this.
        let _ = fs::remove_file(path);
    }
}

/// Removes all temporary files of this process and ends it.
pub(crate) fn exit_without_saving(code: i32) -> ! {
    // Stays locked, so that other threads neither create nor rename a file before the end.
    let live = live();
    for path in live.iter() {
        let _ = fs::remove_file(path);
    }
    std::process::exit(code)
}

/// Removes a temporary file whose writer does not live.
fn remove_left(path: &Path) {
    if !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return;
    }
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return };
    if try_lock(&file) == Lock::Taken && is_at(&file, path) {
        let _ = fs::remove_file(path);
    }
}

/// Returns the beginning of the names of temporary files. A long name is replaced by its beginning and a hash.
fn stem(name: &OsStr) -> OsString {
    /// File systems allow 255 bytes, some of which encrypt names 143.
    const MAX_BYTES: usize = 120;

    let mut stem = OsString::from(".");
    if name.len() <= MAX_BYTES {
        stem.push(name);
        return stem;
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let text = name.to_string_lossy();
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| *end <= MAX_BYTES - 17).last().unwrap_or_default();
    stem.push(text.get(..end).unwrap_or_default());
    stem.push(format!("~{:016x}", hasher.finish()));
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[cfg(unix)]
    #[test]
    fn removes_files_that_were_left_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("file");
        let (_file, first) = Temporary::create(&target, false).unwrap();
        let others = [".file.x.tmp", ".file.9999.tmp", ".file2.0.tmp", ".file.0.tmp.0.tmp", "file.0.tmp"];
        for name in [".file.1.tmp", ".file.3.tmp"].iter().chain(&others) {
            fs::write(folder.path().join(name), "left").unwrap();
        }
        let (_file, second) = Temporary::create(&target, false).unwrap();
        let mut expected = others.map(str::to_owned).to_vec();
        expected.extend([".file.0.tmp".to_owned(), ".file.1.tmp".to_owned()]);
        expected.sort();
        assert_eq!(names(folder.path()), expected);
        drop((first, second));
        assert_eq!(names(folder.path()).len(), others.len());
    }

    #[test]
    fn names_are_short() {
        let long = "é".repeat(127);
        let (one, other) = (stem(OsStr::new(&format!("{long}a"))), stem(OsStr::new(&format!("{long}b"))));
        assert!(one != other && one.len() <= 121, "{one:?}");
        assert_eq!(stem(OsStr::new("model.ptd")), ".model.ptd");
    }
}
