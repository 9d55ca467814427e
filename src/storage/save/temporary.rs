//! Temporary files next to the file they will replace.
//!
//! Each is locked exclusively by its writer, and the system releases the lock when the process ends. An unlocked file
//! was left by a killed process, and the next save to the same path removes it. Files that become visible together are
//! in a temporary folder, locked as a whole.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::lock::{Lock, is_at, try_lock, wait_for_lock};
#[cfg(unix)]
use crate::storage::special::non_blocking;

/// The search for leftover files ends after this many unused names. Later names are only used if more saves to one path
/// run at once.
const SEARCHED: u32 = 8;

/// The journal of a temporary folder: it lists the files to be placed and replaced.
const JOURNAL: &str = "tensorfile.journal";

/// The temporary files and folders of a process, and the files to remove with them.
///
/// Files are created, renamed and removed under this lock, so its holder knows all of them. An unlisted name may
/// already belong to another process.
struct Live {
    /// The process, or 0 if no process has been set.
    process: AtomicU32,
    paths: Mutex<Vec<PathBuf>>,
}

/// The lists of this process and of its ancestors by forking.
///
/// When a process forks, a thread of the parent may hold the lock of its list, and nobody would release it in the
/// child. The child therefore has its own list, and removes no files of its parent.
static LIVE: [Live; GENERATIONS] =
    [const { Live { process: AtomicU32::new(0), paths: Mutex::new(Vec::new()) } }; GENERATIONS];

/// After more nested forks, a process shares a list with its parent.
const GENERATIONS: usize = 32;

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    let own = std::process::id();
    let is_own = |live: &&Live| {
        // Another thread may claim the first free list at the same time.
        let found = live.process.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
        found.map_or_else(|process| process == own, |_| true)
    };
    let live = LIVE.iter().find(is_own).unwrap_or(&LIVE[GENERATIONS - 1]);
    live.paths.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A locked file, removed on drop.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
    /// The path may already belong to another temporary file.
    is_renamed: bool,
    /// The open file, which keeps the lock. There is none on Windows, which cannot rename open files.
    #[cfg(unix)]
    _lock: File,
}

impl Temporary {
    /// Creates an empty file in the folder of `target`. If it is `private`, only its owner may read it.
    ///
    /// Files left there by killed processes for the same target are removed.
    pub(crate) fn create(target: &Path, private: bool) -> io::Result<(File, Self)> {
        let mut live = live();
        let names = Names::of(target);
        names.remove_left();
        let mut index = 0;
        loop {
            let path = names.get(index);
            index = index.checked_add(1).ok_or(io::ErrorKind::AlreadyExists)?;
            if let Some(created) = Self::create_at(path, private, &mut live)? {
                return Ok(created);
            }
        }
    }

    /// Creates a file; `None` if it exists, possibly while another process writes it.
    fn create_at(path: PathBuf, private: bool, live: &mut Vec<PathBuf>) -> io::Result<Option<(File, Self)>> {
        let file = match create_file(&path, private) {
            Ok(file) if is_ours(&file, &path) => file,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        live.push(path.clone());
        #[cfg(unix)]
        let _lock = file.try_clone().inspect_err(|_| discard(live, &path))?;
        let temporary = Self {
            path,
            is_renamed: false,
            #[cfg(unix)]
            _lock,
        };
        Ok(Some((file, temporary)))
    }

    /// Waits until nobody else has the first temporary file for `target`, and creates it.
    ///
    /// Returns `None` if files cannot be locked here, or if something else has this name.
    pub(super) fn wait(target: &Path) -> io::Result<Option<Self>> {
        let path = Names::of(target).get(0);
        loop {
            {
                let mut live = live();
                if remove_left(&path) == LeftFile::Foreign {
                    return Ok(None);
                }
                if let Some((_, temporary)) = Self::create_at(path.clone(), true, &mut live)? {
                    return Ok(Some(temporary));
                }
            }
            match open_without_effect(&path, true) {
                // It is unlocked now, or was left by a killed process.
                Ok(file) if is_ours_to_remove(&file.metadata()?) && wait_for_lock(&file) => {}
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // The file belongs to somebody else.
                Err(_) => return Ok(None),
            }
        }
    }

    /// Renames the file. This makes the files of `with` permanent, and the files they replace are removed later.
    pub(super) fn rename(&mut self, target: &Path, with: Option<&mut Folder>) -> io::Result<()> {
        let mut live = live();
        fs::rename(&self.path, target)?;
        self.is_renamed = true;
        live.retain(|path| *path != self.path);
        if let Some(folder) = with {
            live.retain(|path| !folder.placed.contains(path));
            folder.placed = std::mem::take(&mut folder.replaced);
            live.extend(folder.placed.iter().cloned());
        }
        Ok(())
    }

    /// Renames the file, unless there is one at `target`.
    pub(super) fn rename_new(&mut self, target: &Path) -> io::Result<()> {
        let mut live = live();
        rename_new(&self.path, target)?;
        self.is_renamed = true;
        live.retain(|path| *path != self.path);
        Ok(())
    }
}

/// Renames a file, unless a file with the new name exists.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use io::ErrorKind::{AlreadyExists, PermissionDenied, Unsupported};

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;

        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // NFS and some other file systems cannot do this.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            renamed => return Ok(renamed?),
        }
    }
    // Other than `rename`, a second name fails if there is a file.
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        // The file system has no hard links.
        Err(error) if matches!(error.kind(), PermissionDenied | Unsupported) => {
            if to.symlink_metadata().is_ok() {
                Err(AlreadyExists.into())
            } else {
                fs::rename(from, to)
            }
        }
        Err(error) => Err(error),
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            discard(&mut live(), &self.path);
        }
    }
}

/// A locked folder for files that become visible together. Dropping it removes the folder. Before the index is renamed,
/// the new files are removed too; afterwards, the files they replaced.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    #[cfg(unix)]
    _lock: File,
    /// The files moved out of the folder, to be removed if the save fails.
    placed: Vec<PathBuf>,
    /// The files to remove instead of them later.
    replaced: Vec<PathBuf>,
}

impl Folder {
    /// Limits removal to files inside the folder.
    pub(super) fn keep_files(&mut self) {
        live().retain(|path| !self.placed.contains(path));
        self.placed.clear();
    }
}

impl Folder {
    /// Creates an empty folder next to `target`, private to its owner.
    ///
    /// Files left there by killed processes for the same target are removed.
    pub(super) fn create(target: &Path) -> io::Result<Self> {
        let mut options = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut options, 0o700);
        let mut live = live();
        let names = Names::of(target);
        names.remove_left();
        let mut index = 0;
        loop {
            let path = names.get(index);
            index = index.checked_add(1).ok_or(io::ErrorKind::AlreadyExists)?;
            match options.create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            #[cfg(unix)]
            let _lock = match open_without_effect(&path, false) {
                Ok(folder) if is_ours(&folder, &path) => folder,
                Ok(_) => continue,
                // Another process took it for a leftover before it was locked.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let _ = fs::remove_dir(&path);
                    return Err(error);
                }
            };
            live.push(path.clone());
            return Ok(Self {
                path,
                #[cfg(unix)]
                _lock,
                placed: Vec::new(),
                replaced: Vec::new(),
            });
        }
    }

    /// Creates an empty file in the folder. If it is `private`, only its owner may read it.
    pub(super) fn create_file(&self, name: &str, private: bool) -> io::Result<File> {
        // The process may be about to remove the folder.
        let _live = live();
        create_file(&self.path.join(name), private)
    }

    /// Sets the final paths `placed` of the files in this folder, and the files `replaced` to remove afterwards. The
    /// journal records both, so that the next save can clean up if the process is killed.
    pub(super) fn set_replaced(&mut self, placed: &[PathBuf], replaced: Vec<PathBuf>) -> io::Result<()> {
        let entry = |mark: u8, path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_str().unwrap_or_default();
            [&[mark], name.as_bytes(), b"\0"].concat()
        };
        let journal = placed.iter().map(|path| entry(b'+', path)).chain(replaced.iter().map(|path| entry(b'-', path)));
        fs::write(self.path.join(JOURNAL), journal.collect::<Vec<_>>().concat())?;
        self.replaced = replaced;
        Ok(())
    }

    /// Moves a file out of the folder.
    pub(super) fn place(&mut self, name: &str, target: &Path) -> io::Result<()> {
        let mut live = live();
        fs::rename(self.path.join(name), target)?;
        live.push(target.to_owned());
        self.placed.push(target.to_owned());
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let mut live = live();
        self.placed.iter().for_each(|path| discard(&mut live, path));
        discard(&mut live, &self.path);
    }
}

fn create_file(path: &Path, private: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = private;
    options.open(path)
}

/// Locks a new file or folder. Returns `false` if another process took it for a leftover before it was locked, and
/// removes it.
fn is_ours(file: &File, path: &Path) -> bool {
    match try_lock(file) {
        Lock::Taken => is_at(file, path),
        Lock::Busy => false,
        Lock::Unsupported => true,
    }
}

/// Removes a file or folder of this process, if it is listed.
fn discard(live: &mut Vec<PathBuf>, path: &Path) {
    if let Some(index) = live.iter().position(|other| other == path) {
        live.swap_remove(index);
        remove(path);
    }
}

/// Removes a file, or a folder with the files created in it by [`Folder`]. Returns `false` if it is still there. An
/// error here would hide the original one.
fn remove(path: &Path) -> bool {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { remove_folder(path) } else { fs::remove_file(path) };
    removed.is_ok()
}

/// Removes a folder, unless it contains anything not created by [`Folder`], which makes regular files named by numbers,
/// and the journal.
fn remove_folder(path: &Path) -> io::Result<()> {
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    let is_number = |name: &OsStr| {
        name.to_str().is_some_and(|name| name == JOURNAL || name.bytes().all(|byte| byte.is_ascii_digit()))
    };
    for entry in &entries {
        if !is_number(&entry.file_name()) || !entry.file_type()?.is_file() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
    }
    entries.iter().try_for_each(|entry| fs::remove_file(entry.path()))?;
    fs::remove_dir(path)
}

/// Removes all temporary files of this process and ends it.
pub(crate) fn exit_without_saving(code: i32) -> ! {
    // Held until the process ends, so that other threads neither create nor rename a file before.
    let live = live();
    live.iter().for_each(|path| _ = remove(path));
    std::process::exit(code)
}

/// Removes the temporary files and folders left for `target` by dead writers.
pub(crate) fn remove_left_for(target: &Path) {
    Names::of(target).remove_left();
}

/// The files that a set places and replaces, as recorded in its folder.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The names of the new files.
    pub(crate) placed: Vec<String>,
    /// The names of the old files.
    pub(crate) replaced: Vec<String>,
}

impl Journal {
    /// Reads the journal of a folder; `None` if there is none.
    fn read(folder: &Path) -> Option<Self> {
        /// More bytes than the names in the longest index of shards.
        const MAX_BYTES: u64 = 1 << 27;

        let path = folder.join(JOURNAL);
        fs::symlink_metadata(&path).ok().filter(|metadata| metadata.is_file() && metadata.len() <= MAX_BYTES)?;
        let mut journal = Self::default();
        for entry in String::from_utf8(fs::read(path).ok()?).ok()?.split_terminator('\0') {
            match entry.split_at_checked(1)? {
                ("+", name) => journal.placed.push(name.to_owned()),
                ("-", name) => journal.replaced.push(name.to_owned()),
                _ => return None,
            }
        }
        Some(journal)
    }

    fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.replaced.is_empty()
    }
}

/// Calls `finish` with the journal of each set for `target` whose process was killed after it began to place files, and
/// removes the rest of the set.
pub(crate) fn finish_left_sets(target: &Path, finish: &mut dyn FnMut(&Journal)) {
    let _live = live();
    Names::of(target).search(&mut |path| {
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        // The journal is read while we hold the lock. Without the lock, its writer could change the journal and be
        // killed.
        if metadata.is_dir()
            && is_ours_to_remove(&metadata)
            && let Ok(folder) = open_without_effect(path, false)
            && try_lock(&folder) == Lock::Taken
            && is_at(&folder, path)
            && let Some(journal) = Journal::read(path).filter(|journal| !journal.is_empty())
        {
            finish(&journal);
            remove(path);
        }
        true
    });
}

/// Returns whether [`finish_left_sets`] may have something to do.
pub(crate) fn has_left_sets(target: &Path) -> bool {
    let mut found = false;
    Names::of(target).search(&mut |path| {
        let metadata = fs::symlink_metadata(path);
        let is_folder = metadata.as_ref().is_ok_and(fs::Metadata::is_dir);
        found |= is_folder && Journal::read(path).is_some_and(|journal| !journal.is_empty());
        metadata.is_ok()
    });
    found
}

/// The state of a temporary path, after removing a leftover file of a killed process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftFile {
    /// No file was there.
    Missing,
    Removed,
    /// The file's writer still runs.
    Busy,
    /// The file was not made here, or cannot be removed.
    Foreign,
}

/// Removes a temporary file or folder of a dead writer.
///
/// Links, pipes and files of other users are not followed, opened or removed, nor are folders with anything but
/// temporary files.
fn remove_left(path: &Path) -> LeftFile {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return LeftFile::Missing,
        Err(_) => return LeftFile::Foreign,
    };
    if !is_ours_to_remove(&metadata) {
        return LeftFile::Foreign;
    }
    // Files that are already visible belong to a folder with a journal.
    let has_journal = || metadata.is_dir() && Journal::read(path).is_some_and(|journal| !journal.is_empty());
    if has_journal() {
        return LeftFile::Busy;
    }
    #[cfg(test)]
    if metadata.is_dir() {
        failpoint::reach(path);
    }
    // NFS only locks files opened for writing. The permissions are copied from the file to be replaced.
    let opened = if metadata.is_dir() {
        open_without_effect(path, false)
    } else {
        open_without_effect(path, true).or_else(|_| open_for_writing(path))
    };
    let Ok(file) = opened else { return LeftFile::Foreign };
    match try_lock(&file) {
        Lock::Busy => LeftFile::Busy,
        Lock::Unsupported => LeftFile::Foreign,
        Lock::Taken if !is_at(&file, path) => LeftFile::Busy,
        // The writer placed its files in the meantime, and was killed.
        Lock::Taken if has_journal() => LeftFile::Busy,
        Lock::Taken if remove(path) => LeftFile::Removed,
        Lock::Taken => LeftFile::Foreign,
    }
}

/// Lets a test act between two steps, as another process could.
#[cfg(test)]
pub(crate) mod failpoint {
    use std::cell::RefCell;
    use std::path::Path;

    pub(crate) type Action = Box<dyn FnMut(&Path)>;

    thread_local! {
        static ACTION: RefCell<Option<Action>> = const { RefCell::new(None) };
    }

    /// Sets what the next call of [`reach`] in this thread does.
    pub(crate) fn set(action: Action) {
        ACTION.set(Some(action));
    }

    pub(super) fn reach(path: &Path) {
        if let Some(mut action) = ACTION.take() {
            action(path);
        }
    }
}

/// Returns whether a process of this user can have made a file or folder here.
fn is_ours_to_remove(metadata: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;

        // A folder is private to its owner, and a file has one link. For the superuser, a file has the owner of the
        // file it was to replace.
        let is_owner = metadata.uid() == rustix::process::geteuid().as_raw();
        match metadata.file_type() {
            kind if kind.is_file() => metadata.nlink() <= 1,
            kind if kind.is_dir() => is_owner && metadata.mode() & 0o777 == 0o700,
            _ => false,
        }
    }
    #[cfg(not(unix))]
    {
        metadata.is_file() || metadata.is_dir()
    }
}

/// Opens a file or folder, without following a link or waiting for the other end of a pipe.
fn open_without_effect(path: &Path, write: bool) -> io::Result<File> {
    open_options().read(true).write(write).open(path)
}

fn open_for_writing(path: &Path) -> io::Result<File> {
    open_options().write(true).open(path)
}

fn open_options() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there are no flags to set"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        let flags = non_blocking() | rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    options
}

/// The paths of temporary files for a target, by number: the path up to the number. Each save looks for dozens of them.
struct Names(OsString);

impl Names {
    fn of(target: &Path) -> Self {
        let mut beginning = target.with_file_name(stem(target.file_name().unwrap_or_default())).into_os_string();
        beginning.push(".");
        Self(beginning)
    }

    fn get(&self, index: u32) -> PathBuf {
        let mut path = OsString::new();
        self.put(index, &mut path);
        path.into()
    }

    /// Replaces a path, in its memory.
    fn put(&self, index: u32, path: &mut OsString) {
        path.clear();
        path.push(&self.0);
        path.push(index.to_string());
        path.push(".tmp");
    }

    /// Calls `is_used` with one path after the other, until many in a row are not used.
    fn search(&self, is_used: &mut dyn FnMut(&Path) -> bool) {
        let (mut path, mut index, mut unused) = (OsString::new(), 0, 0);
        while unused < SEARCHED {
            self.put(index, &mut path);
            unused = if is_used(path.as_ref()) { 0 } else { unused + 1 };
            index += 1;
        }
    }

    fn remove_left(&self) {
        self.search(&mut |path| remove_left(path) != LeftFile::Missing);
    }
}

/// Returns the beginning of the names of temporary files. A long name is replaced by its beginning and a hash.
fn stem(name: &OsStr) -> OsString {
    /// File systems allow 255 bytes, and some encrypting ones 143.
    const MAX_BYTES: usize = 120;

    let mut stem = OsString::from(".");
    if name.len() <= MAX_BYTES {
        stem.push(name);
        return stem;
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let text = name.to_string_lossy();
    let ends = text.char_indices().map(|(index, c)| index + c.len_utf8());
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
    fn a_renamed_file_gives_its_name_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("file");
        let (_file, mut first) = Temporary::create(&target, false).unwrap();
        first.rename(&target, None).unwrap();
        let (_file, mut second) = Temporary::create(&target, false).unwrap();
        assert_eq!(first.path, second.path);
        drop(first);
        second.rename(&target, None).unwrap();
        drop(second);
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_file_is_put_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("file");
        let (_file, mut first) = Temporary::create(&target, false).unwrap();
        let (_file, mut second) = Temporary::create(&target, false).unwrap();
        first.rename_new(&target).unwrap();
        assert_eq!(second.rename_new(&target).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop((first, second));
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn names_are_short() {
        let long = "é".repeat(127);
        let (one, other) = (stem(OsStr::new(&format!("{long}a"))), stem(OsStr::new(&format!("{long}b"))));
        assert!(one != other && one.len() <= 121, "{one:?}");
        assert_eq!(stem(OsStr::new("model.ptd")), ".model.ptd");
    }
}
