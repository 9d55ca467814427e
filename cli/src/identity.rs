//! The identity of files: whether two paths name one file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::args::is_stdout;
use crate::exit::{Failure, Outcome};

/// A file that is or can be at a path. Links, spellings of the path and hard links make no difference.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Identity {
    /// The device and the number of a file.
    #[cfg(unix)]
    Inode(u64, u64),
    /// A missing file, by its directory.
    Name(Box<Identity>, OsString),
    /// Only the path is known.
    Path(PathBuf),
}

impl Identity {
    fn of(path: &Path) -> Self {
        /// As many as Linux follows.
        const LINKS: u32 = 40;

        let mut path = if is_stdout(path) { PathBuf::from("/dev/stdout") } else { path.to_owned() };
        for _ in 0..LINKS {
            if let Some(identity) = Self::of_existing(&path) {
                return identity;
            }
            match fs::read_link(&path) {
                Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
                Err(_) => break,
            }
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match (Self::of_existing(folder), path.file_name()) {
            (Some(folder), Some(name)) => Self::Name(Box::new(folder), name.to_owned()),
            _ => Self::Path(path),
        }
    }

    fn of_existing(path: &Path) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;

            fs::metadata(path).ok().map(|metadata| Self::Inode(metadata.dev(), metadata.ino()))
        }
        #[cfg(not(unix))]
        path.canonicalize().ok().map(Self::Path)
    }
}

/// Returns whether two paths name one file. It need not exist.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    Identity::of(one) == Identity::of(other)
}

/// Fails if two of several files to write are one.
pub fn check_distinct<'p>(paths: impl Iterator<Item = &'p Path>) -> Outcome<()> {
    let mut seen = HashMap::new();
    for path in paths {
        match seen.entry(Identity::of(path)) {
            Entry::Vacant(vacant) => drop(vacant.insert(path)),
            Entry::Occupied(first) => {
                let first = first.get().display();
                return Err(Failure::usage_at(
                    path,
                    format_args!("is the same file as `{first}`, which is written too"),
                ));
            }
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn spellings_and_links_are_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("d")).unwrap();
        fs::write(path("old"), "").unwrap();
        fs::hard_link(path("old"), path("hard")).unwrap();
        for (link, target) in
            [("link", "old"), ("dangling", "new"), ("twice", "dangling"), ("folder", "d"), ("circle", "circle")]
        {
            symlink(target, path(link)).unwrap();
        }
        for (one, other) in [
            ("old", "./old"),
            ("old", "d/../old"),
            ("old", "link"),
            ("old", "hard"),
            ("new", "d/../new"),
            ("new", "dangling"),
            ("new", "twice"),
            ("d/new", "folder/new"),
            ("circle", "circle"),
        ] {
            assert!(is_same_file(&path(one), &path(other)), "{one} {other}");
            let paths = [path("other"), path(one), path(other)];
            let message = check_distinct(paths.iter().map(PathBuf::as_path)).unwrap_err().to_string();
            assert!(message.contains("is the same file as"), "{message}");
        }
        for (one, other) in [("old", "new"), ("d/new", "new"), ("d", "d/d"), ("no/a", "no/b")] {
            assert!(!is_same_file(&path(one), &path(other)), "{one} {other}");
        }
    }
}
