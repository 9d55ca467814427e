//! Replaces files atomically: a new file is written, flushed and renamed over the old one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::temporary::{Folder, Temporary};
use crate::error::{Error, Result};
use crate::storage::url::refuse_url;

/// Replaces or creates the file at `path` with the contents written by `fill`: complete and durable, or the old file
/// stays.
///
/// The new file is written next to the old one, with its permissions, is flushed to disk and then renamed. Without an
/// old file, the permissions are the default ones. If the path is a symbolic link, its target is replaced. Temporary
/// files left by killed processes for the same path are removed.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    replace_with(path, Durability::Flushed, false, fill)
}

/// As [`replace`], but flushing to disk is optional, and so is replacing an old file.
pub(crate) fn replace_with(
    path: &Path,
    durability: Durability,
    no_replace: bool,
    fill: impl FnOnce(&mut File) -> Result<()>,
) -> Result<()> {
    refuse_url(path)?;
    if no_replace {
        return Staged::in_steps(path, durability, fill, &mut |_| Ok(()))?.put_new();
    }
    replace_in_steps(path, durability, fill, &mut |_| Ok(()))
}

/// The state of a new file when it has its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The file is on disk.
    #[default]
    Flushed,
    /// The file is in the system's memory. The system writes it to disk later.
    Cached,
}

impl Durability {
    pub(crate) fn flush(self, file: &File) -> io::Result<()> {
        match self {
            Self::Flushed => file.sync_all(),
            Self::Cached => Ok(()),
        }
    }

    /// Flushes the name of a file.
    pub(crate) fn flush_folder(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Flushed => sync_folder(path),
            Self::Cached => Ok(()),
        }
    }
}

/// Fails if there is a file at `path`. A symbolic link is one, even if it leads nowhere.
pub(crate) fn refuse_existing(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(named(path, error).into()),
        Ok(_) => Err(exists(path).into()),
    }
}

fn exists(path: &Path) -> io::Error {
    named(path, io::Error::new(io::ErrorKind::AlreadyExists, "exists, and is not replaced"))
}

/// The steps of a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplaceStep {
    Create,
    Permit,
    Sync,
    Rename,
    SyncFolder,
}

/// As [`replace`], with a call before each step, which may fail in place of it.
fn replace_in_steps(
    path: &Path,
    durability: Durability,
    fill: impl FnOnce(&mut File) -> Result<()>,
    before: &mut dyn FnMut(ReplaceStep) -> io::Result<()>,
) -> Result<()> {
    Staged::in_steps(path, durability, fill, before)?.put_in_steps(None, before)
}

/// A new file that is written bit by bit, and then renamed. Dropping it before that removes the file.
#[derive(Debug)]
pub(crate) struct StagedFile {
    file: File,
    staged: Staged,
}

impl StagedFile {
    /// Creates an empty file next to `path`, as [`replace`] does.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let (file, staged) = Staged::create(path, Durability::Flushed, &mut |_| Ok(()))?;
        Ok(Self { file, staged })
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Flushes the file to disk, and renames it. With `no_replace`, an existing file is an error.
    pub(crate) fn put(self, no_replace: bool) -> Result<()> {
        let Self { file, staged } = self;
        staged.durability.flush(&file).map_err(|error| named(&staged.named, error))?;
        // Windows does not rename open files.
        drop(file);
        if no_replace { staged.put_new() } else { staged.put_in_steps(None, &mut |_| Ok(())) }
    }
}

/// A file before its rename. Dropping it before that removes the file.
#[derive(Debug)]
pub(super) struct Staged {
    /// The path given by the caller.
    named: PathBuf,
    /// The path after following symbolic links.
    path: PathBuf,
    new: Temporary,
    durability: Durability,
}

impl Staged {
    /// Writes the new file, as [`replace`] does, without renaming it.
    pub(super) fn in_steps(
        given: &Path,
        durability: Durability,
        fill: impl FnOnce(&mut File) -> Result<()>,
        before: &mut dyn FnMut(ReplaceStep) -> io::Result<()>,
    ) -> Result<Self> {
        let (mut file, staged) = Self::create(given, durability, before)?;
        fill(&mut file).map_err(|error| in_path(given, error))?;
        before(ReplaceStep::Sync)?;
        durability.flush(&file).map_err(|error| named(given, error))?;
        Ok(staged)
    }

    /// Creates the new file.
    fn create(
        given: &Path,
        durability: Durability,
        before: &mut dyn FnMut(ReplaceStep) -> io::Result<()>,
    ) -> Result<(File, Self)> {
        let path = follow(given).map_err(|error| named(given, error))?;
        let mut old = look(&path).map_err(|error| named(given, error))?;
        if old.is_none() && path != given {
            // The target of a link to an open pipe, such as `/dev/stdout`, is not a path.
            old = look(given).map_err(|error| named(given, error))?;
        }
        before(ReplaceStep::Create)?;
        let created = Temporary::create(&path, old.is_some());
        let (file, new) = created.map_err(|error| named(given, creation_failed(error)))?;
        before(ReplaceStep::Permit)?;
        if let Some(old) = old {
            make_like(&file, &old, &path).map_err(|error| named(given, error))?;
        }
        Ok((file, Self { named: given.to_owned(), path, new, durability }))
    }

    /// Renames the file, unless there is one by now.
    fn put_new(mut self) -> Result<()> {
        refuse_existing(&self.named)?;
        self.new.rename_new(&self.path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.named),
            _ => named(&self.named, error),
        })?;
        Ok(self.durability.flush_folder(&self.path).map_err(|error| named(&self.named, error))?)
    }

    /// Renames the file, with a call before each step, which may fail in place of it. This makes the files of `with`
    /// permanent; the files they replace are removed once the new name is on disk.
    pub(super) fn put_in_steps(
        self,
        mut with: Option<Folder>,
        before: &mut dyn FnMut(ReplaceStep) -> io::Result<()>,
    ) -> Result<()> {
        let Self { named: given, path, mut new, durability } = self;
        before(ReplaceStep::Rename)?;
        new.rename(&path, with.as_mut()).map_err(|error| named(&given, error))?;
        let synced = before(ReplaceStep::SyncFolder)
            .and_then(|()| durability.flush_folder(&path).map_err(|error| named(&given, error)));
        if let (Err(_), Some(folder)) = (&synced, &mut with) {
            // Either name may be on disk, so both the old and the new files are needed.
            folder.keep_files();
        }
        Ok(synced?)
    }
}

/// Names the file in an error of writing it.
pub(super) fn in_path(path: &Path, error: Error) -> Error {
    match error.into_io() {
        Ok(error) => named(path, error).into(),
        Err(error) => error,
    }
}

pub(super) fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Follows symbolic links. The last one may be dangling.
fn follow(path: &Path) -> io::Result<PathBuf> {
    /// The number of links followed by Linux.
    const LINKS: usize = 40;

    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // It is not a link, or does not exist.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("leads through too many symbolic links"))
}

/// Returns the metadata of the file to be replaced, if there is one.
pub(crate) fn look(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        // Renaming needs the permission of the folder only, so that the file's own would count for nothing. The
        // superuser is refused too: read-only means that nobody writes.
        Ok(old) if old.is_file() && old.permissions().readonly() => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "is read-only; make it writable or remove it to replace it",
        )),
        Ok(old) if old.is_file() => Ok(Some(old)),
        Ok(old) if old.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is not a regular file, so it cannot be replaced; write to it instead",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Explains that the folder does not exist, or is not writable.
pub(super) fn creation_failed(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::NotFound {
        return io::Error::new(error.kind(), "the directory of the file does not exist");
    }
    io::Error::new(error.kind(), format!("cannot create a file next to it, to replace it: {error}"))
}

/// Copies permissions and attributes from an old file, given by its metadata and path.
pub(super) fn make_like(file: &File, old: &fs::Metadata, path: &Path) -> io::Result<()> {
    permit(file, old)?;
    copy_attributes(file, path);
    Ok(())
}

/// Copies the permissions of an old file, and its owner if allowed.
fn permit(file: &File, like: &fs::Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};

        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            // Only the superuser may change the owner. A file of ours is better than none, but another group than the
            // old one must not get access.
            let is_ours = fchown(file, Some(like.uid()), Some(like.gid())).is_err();
            if is_ours && own.gid() != like.gid() && fchown(file, None, Some(like.gid())).is_err() {
                use std::os::unix::fs::PermissionsExt;

                return file.set_permissions(fs::Permissions::from_mode(like.permissions().mode() & 0o707));
            }
        }
    }
    file.set_permissions(like.permissions())
}

/// Copies the user's extended attributes and the access control list of an old file.
///
/// Failures are ignored: attributes are not worth failing to save for. System and security attributes depend on the
/// place of the new file.
fn copy_attributes(file: &File, like: &Path) {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
    {
        use rustix::fs::{XattrFlags, fsetxattr, getxattr, listxattr};

        /// Linux allows no longer values and lists.
        const MAX_BYTES: usize = 1 << 16;

        let mut names = vec![0; MAX_BYTES];
        let Ok(len) = listxattr(like, &mut names) else { return };
        let mut value = Vec::new();
        for name in names.get(..len).unwrap_or_default().split(|byte| *byte == 0) {
            let is_kept = if cfg!(target_os = "macos") {
                !name.is_empty() && !name.starts_with(b"com.apple.")
            } else {
                name.starts_with(b"user.") || name == b"system.posix_acl_access"
            };
            if !is_kept {
                continue;
            }
            value.resize(MAX_BYTES, 0);
            if let Ok(len) = getxattr(like, name, &mut value) {
                let _ = fsetxattr(file, name, value.get(..len).unwrap_or_default(), XattrFlags::empty());
            }
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos")))]
    let _ = (file, like);
}

/// Flushes the new name to disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        // The file is already renamed. If the folder may not be read, or its file system cannot do this, the system
        // flushes it later.
        use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
        match synced {
            Err(error) if matches!(error.kind(), PermissionDenied | InvalidInput | Unsupported) => Ok(()),
            synced => synced,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn fill(new: &mut File) -> Result<()> {
        Ok(new.write_all(b"new")?)
    }

    #[test]
    fn a_failure_at_any_step_leaves_a_whole_file_and_nothing_else() {
        for fault in
            [ReplaceStep::Create, ReplaceStep::Permit, ReplaceStep::Sync, ReplaceStep::Rename, ReplaceStep::SyncFolder]
        {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            fs::write(&path, "old").unwrap();
            let fail = |step| if step == fault { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) };
            replace_in_steps(&path, Durability::Flushed, fill, &mut { fail }).unwrap_err();
            let expected = if fault == ReplaceStep::SyncFolder { "new" } else { "old" };
            assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{fault:?}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{fault:?}");
        }
    }

    #[test]
    fn a_crash_before_the_rename_leaves_the_old_file() {
        for fault in [ReplaceStep::Permit, ReplaceStep::Sync, ReplaceStep::Rename] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            fs::write(&path, "old").unwrap();
            // The state on disk if the process dies here.
            let look = |step| {
                if step == fault {
                    assert_eq!(fs::read_to_string(&path)?, "old", "{fault:?}");
                }
                Ok(())
            };
            replace_in_steps(&path, Durability::Flushed, fill, &mut { look }).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        }
    }

    #[test]
    fn a_file_that_comes_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let late = |new: &mut File| {
            fs::write(&path, "late")?;
            fill(new)
        };
        let error = replace_with(&path, Durability::Flushed, true, late).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: exists, and is not replaced", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "late");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn replaces_files_with_the_longest_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n".repeat(255));
        replace(&path, fill).unwrap();
        replace(&path, fill).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn keeps_permissions_and_links() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        replace(&link, fill).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);

        fs::remove_file(&path).unwrap();
        replace(&link, fill).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new", "a dangling link is followed");
        let fresh = folder.path().join("fresh");
        fs::write(&fresh, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&fresh), "a new file has the permissions of any new file");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn keeps_extended_attributes() {
        use rustix::fs::{XattrFlags, getxattr, setxattr};

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        // Not all file systems have them.
        if setxattr(&path, "user.origin", b"here", XattrFlags::empty()).is_ok() {
            setxattr(&path, "user.empty", b"", XattrFlags::empty()).unwrap();
            replace(&path, fill).unwrap();
            let mut value = [0; 8];
            assert_eq!(getxattr(&path, "user.origin", &mut value), Ok(4));
            assert_eq!(&value[..4], b"here");
            assert_eq!(getxattr(&path, "user.empty", &mut value), Ok(0));
        }
    }

    #[test]
    fn rejects_read_only_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let writable = fs::metadata(&path).unwrap().permissions();
        let mut permissions = writable.clone();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        let error = replace(&path, |_| unreachable!("there is nothing to write to")).unwrap_err();
        let message = format!("{}: is read-only; make it writable or remove it to replace it", path.display());
        assert_eq!(error.to_string(), message);
        assert_eq!(error.into_io().unwrap().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::set_permissions(&path, writable).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn rejects_paths_that_cannot_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, circle) = (folder.path().join("no/file"), folder.path().join("circle"));
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        for (path, expected) in [
            (Path::new("/dev/null"), "is not a regular file, so it cannot be replaced; write to it instead"),
            (&missing, "the directory of the file does not exist"),
            (&circle, "leads through too many symbolic links"),
            (folder.path(), "is a directory"),
        ] {
            let error = replace(path, |_| unreachable!("there is nothing to write to")).unwrap_err();
            assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));
        }
    }
}
