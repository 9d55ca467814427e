use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;

/// Replaces a file by one that `fill` makes of it: whole and durable, or the old one stays.
///
/// The new file is written beside the old one, reaches the disk, gets the old one's permissions and then its name.
/// Where the path is a symbolic link, the file that it leads to is replaced.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&File, &mut File) -> Result<()>) -> Result<()> {
    replace_in_steps(path, fill, |_| Ok(()))
}

/// What is about to happen to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Create,
    Permit,
    Sync,
    Rename,
    SyncFolder,
}

/// As [`replace`], with a call before each step, which may fail in its place.
fn replace_in_steps(
    path: &Path,
    fill: impl FnOnce(&File, &mut File) -> Result<()>,
    mut before: impl FnMut(Step) -> io::Result<()>,
) -> Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let path = fs::canonicalize(path).map_err(named)?;
    let old = File::open(&path).map_err(named)?;
    before(Step::Create)?;
    let (mut new, beside) = create_beside(&path).map_err(named)?;
    before(Step::Permit)?;
    permit(&new, &old.metadata()?)?;
    fill(&old, &mut new)?;
    before(Step::Sync)?;
    new.sync_all()?;
    drop((old, new));
    before(Step::Rename)?;
    fs::rename(&beside.0, &path)?;
    std::mem::forget(beside);
    before(Step::SyncFolder)?;
    Ok(sync_folder(&path)?)
}

/// A file that is removed when this goes out of scope.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Whatever made us give up is reported; that this failed too would hide it.
        let _ = fs::remove_file(&self.0);
    }
}

/// Creates an empty file in the same folder, which only its owner may read.
fn create_beside(path: &Path) -> io::Result<(File, Temporary)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);

    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}-{count}.tmp", std::process::id()));
        let beside = path.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&beside) {
            Ok(file) => return Ok((file, Temporary(beside))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Gives a file the permissions of another, and its owner where that is allowed.
fn permit(file: &File, like: &fs::Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};

        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            // Only the superuser may give files away. A file that is ours is better than none.
            let _ = fchown(file, Some(like.uid()), Some(like.gid()));
        }
    }
    file.set_permissions(like.permissions())
}

/// Sees to it that the name reaches the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn fill(_: &File, new: &mut File) -> Result<()> {
        Ok(new.write_all(b"new")?)
    }

    #[test]
    fn a_failure_at_any_step_leaves_a_whole_file_and_nothing_else() {
        for fault in [Step::Create, Step::Permit, Step::Sync, Step::Rename, Step::SyncFolder] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            fs::write(&path, "old").unwrap();
            let fail = |step| if step == fault { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) };
            replace_in_steps(&path, fill, fail).unwrap_err();
            let expected = if fault == Step::SyncFolder { "new" } else { "old" };
            assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{fault:?}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{fault:?}");
        }
    }

    #[test]
    fn a_crash_before_the_rename_leaves_the_old_file() {
        for fault in [Step::Permit, Step::Sync, Step::Rename] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            fs::write(&path, "old").unwrap();
            // What a process that dies leaves behind, seen at the moment of its death.
            let look = |step| {
                if step == fault {
                    assert_eq!(fs::read_to_string(&path)?, "old", "{fault:?}");
                }
                Ok(())
            };
            replace_in_steps(&path, fill, look).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        }
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
    }
}
