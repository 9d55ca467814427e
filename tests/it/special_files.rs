//! Pipes, devices, sockets, links and directories in place of files: as inputs, as shards, and under the names of
//! temporary files.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tensorfile::file::atomic::{self, FileLock};
use tensorfile::file::load_tensor;
use tensorfile::{
    Category, ErrorKind, FORMATS, File, Format, Limits, OpenOptions, Tensor, TensorMap, WriteOptions, load, save,
};

use crate::support::memory::peak;

/// More than buffers take, and far less than what an endless stream would.
const LITTLE: usize = 4 << 20;

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn map(len: usize) -> TensorMap {
    let numbers: Vec<f32> = (0..len).map(|at| at as f32).collect();
    let tensor = || Tensor::from_slice(&numbers, [len]).unwrap();
    [("0", tensor())].into_iter().collect()
}

fn written() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().copied()
}

/// Runs a function that must not wait for anything.
#[track_caller]
fn at_once<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(run);
    let limit = Instant::now() + Duration::from_secs(60);
    while !thread.is_finished() {
        assert!(Instant::now() < limit, "it waits for ever");
        thread::sleep(Duration::from_millis(1));
    }
    thread.join().unwrap()
}

#[test]
fn endless_devices_are_errors_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let unknown = |path: &Path| {
        let (errors, bytes) = peak(|| {
            [
                File::open(path).map(drop).unwrap_err(),
                load::<TensorMap>(path).map(drop).unwrap_err(),
                load_tensor(path, "a").map(drop).unwrap_err(),
            ]
        });
        assert!(bytes < LITTLE, "{}: {bytes} bytes", path.display());
        for error in errors {
            assert_eq!((error.category(), error.path()), (Category::File, Some(path)), "{error}");
        }
    };
    unknown(Path::new("/dev/zero"));
    unknown(Path::new("/dev/null"));
    unknown(Path::new("/dev/urandom"));
    for format in FORMATS {
        for extension in format.extensions {
            let link = folder.path().join(format!("zeros.{extension}"));
            symlink("/dev/zero", &link).unwrap();
            unknown(&link);
        }
        let options = OpenOptions::new().format(format).limits(Limits::new().held(1 << 20));
        let (opened, bytes) = peak(|| options.open("/dev/zero"));
        let error = opened.unwrap_err();
        assert!(
            bytes < LITTLE && [Category::File, Category::Limit].contains(&error.category()),
            "{error}: {bytes} bytes"
        );
    }
}

#[test]
fn endless_readers_are_errors_at_once() {
    macro_rules! check {
        ($($(#[$feature:meta])? $format:ident),*) => {
            $($(#[$feature])? {
                let options = tensorfile::$format::Options::new().limits(Limits::new().held(1 << 20).payload(1 << 20));
                let (read, bytes) = peak(|| options.from_reader::<TensorMap>(io::repeat(0)));
                let name = stringify!($format);
                assert!(bytes < LITTLE, "{name}: {bytes} bytes");
                match read {
                    // A count of 0, and what follows is not looked at.
                    Ok(map) => assert!(map.is_empty() && name == "btf", "{name}"),
                    Err(error) => assert!([Category::File, Category::Limit].contains(&error.category()), "{name}: {error}"),
                }
            })*
        };
    }
    check!(
        btf,
        ten,
        #[cfg(feature = "ptd")]
        ptd,
        #[cfg(feature = "tensorbuffers")]
        tensorbuffers,
        #[cfg(feature = "safetensors")]
        safetensors,
        #[cfg(feature = "npy")]
        npy,
        #[cfg(feature = "npz")]
        npz,
        #[cfg(feature = "pytorch")]
        pytorch,
        #[cfg(feature = "gguf")]
        gguf
    );
}

#[test]
fn pipes_are_read_as_files() {
    for format in written() {
        for len in [2, 100_000] {
            let folder = tempfile::tempdir().unwrap();
            let map = map(len);
            let bytes = format.to_vec(&map, &WriteOptions::new()).unwrap();
            for name in [format!("pipe.{}", format.extensions[0]), "pipe".to_owned()] {
                let path = folder.path().join(name);
                mkfifo(&path);
                let (to, bytes) = (path.clone(), bytes.clone());
                let writer = thread::spawn(move || fs::write(to, bytes));
                assert_eq!(load::<TensorMap>(&path).unwrap(), map, "{}", format.name);
                writer.join().unwrap().unwrap();
            }
        }
    }
}

#[test]
fn what_follows_a_file_in_a_pipe_is_not_held() {
    for format in written().filter(|format| !["npz", "pytorch", "tensorbuffers"].contains(&format.name)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("pipe.{}", format.extensions[0]));
        mkfifo(&path);
        let (to, bytes) = (path.clone(), format.to_vec(&map(10_000), &WriteOptions::new()).unwrap());
        let writer = thread::spawn(move || {
            let mut pipe = fs::OpenOptions::new().write(true).open(to)?;
            pipe.write_all(&bytes)?;
            // Until the reader goes.
            io::copy(&mut io::repeat(0), &mut pipe)
        });
        let (opened, bytes) = peak(|| OpenOptions::new().limits(Limits::new().held(8 << 20)).open(&path));
        assert!(bytes < 24 << 20, "{}: {bytes} bytes", format.name);
        let error = opened.unwrap_err();
        assert!([Category::File, Category::Limit].contains(&error.category()), "{}: {error}", format.name);
        assert_eq!(writer.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

#[test]
fn a_long_pipe_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe.ten");
    mkfifo(&path);
    let (to, bytes) = (path.clone(), Format::named("ten").unwrap().to_vec(&map(10_000), &WriteOptions::new()).unwrap());
    let writer = thread::spawn(move || fs::write(to, bytes));
    let error = OpenOptions::new().limits(Limits::new().held(20_000)).open(&path).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { limit: 20_000, .. }), "{error}");
    let _ = writer.join().unwrap();
}

#[test]
fn sockets_and_directories_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("model.ten");
    let _listener = UnixListener::bind(&socket).unwrap();
    for error in [File::open(&socket).map(drop), load_tensor(&socket, "a").map(drop)].map(Result::unwrap_err) {
        assert_eq!(error.to_string(), format!("{}: is a socket, not a regular file", socket.display()));
    }
    assert!(File::open(folder.path()).unwrap_err().to_string().contains("is a directory without"));
}

#[cfg(feature = "safetensors")]
#[test]
fn shards_are_regular_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    save(path("1.safetensors"), &map(2)).unwrap();
    mkfifo(&path("pipe.safetensors"));
    symlink("/dev/zero", path("device.safetensors")).unwrap();
    fs::create_dir(path("folder.safetensors")).unwrap();
    let _listener = UnixListener::bind(path("socket.safetensors")).unwrap();
    symlink("1.safetensors", path("link.safetensors")).unwrap();
    let index = path("model.safetensors.index.json");
    for (shard, found) in [
        ("pipe", Some("is a pipe, not a regular file")),
        ("device", Some("is a device, not a regular file")),
        ("socket", Some("is a socket, not a regular file")),
        ("folder", Some("is a directory")),
        ("link", None),
    ] {
        fs::write(&index, format!(r#"{{"weight_map": {{"0": "{shard}.safetensors"}}}}"#)).unwrap();
        let index = index.clone();
        let opened = at_once(move || {
            let loaded = load_tensor(&index, "0");
            File::open(&index).and_then(|file| file.tensor("0")).map(|tensor| assert_eq!(tensor, loaded.unwrap()))
        });
        match found {
            None => opened.unwrap(),
            Some(found) => {
                let message = opened.unwrap_err().to_string();
                let index = path("model.safetensors.index.json");
                let index = index.display();
                let expected = format!("{index}: the index says that `0` is in `{shard}.safetensors`, which {found}");
                assert_eq!(message, expected);
            }
        }
    }
}

/// Makes something at a path.
type Make<'a> = &'a dyn Fn(&Path);

/// Others have put something in place of the temporary files of a save.
fn obstacles(folder: &Path, names: &[&str]) -> Vec<(PathBuf, fs::FileType)> {
    let make: [(&str, Make<'_>); 6] = [
        ("pipe", &mkfifo),
        ("link", &|path| symlink("victim", path).unwrap()),
        ("dangling", &|path| symlink("nowhere", path).unwrap()),
        ("link to a device", &|path| symlink("/dev/zero", path).unwrap()),
        ("folder", &|path| {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(path.join("thesis.txt"), "of years").unwrap();
        }),
        ("hard link", &|path| fs::hard_link(folder.join("victim"), path).unwrap()),
    ];
    fs::write(folder.join("victim"), "kept").unwrap();
    let mut made = Vec::new();
    for name in names {
        for (number, (_, make)) in make.iter().enumerate() {
            let path = folder.join(format!(".{name}.{number}.tmp"));
            make(&path);
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            made.push((path, kind));
        }
    }
    made
}

#[track_caller]
fn check_obstacles(folder: &Path, made: &[(PathBuf, fs::FileType)]) {
    for (path, kind) in made {
        let found = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!((found.file_type(), kind.is_fifo()), (*kind, found.file_type().is_fifo()), "{}", path.display());
        if kind.is_dir() {
            assert_eq!(fs::read_to_string(path.join("thesis.txt")).unwrap(), "of years");
        }
    }
    assert_eq!(fs::read_to_string(folder.join("victim")).unwrap(), "kept");
    assert!(!folder.join("nowhere").exists());
    let left = fs::read_dir(folder).unwrap().count();
    assert!(left <= made.len() + 5, "{left} files for {}", made.len());
}

#[test]
fn what_has_the_name_of_a_temporary_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    let made = obstacles(folder.path(), &["model.ten"]);
    for _ in 0..2 {
        let path = path.clone();
        at_once(move || {
            save(&path, &map(3)).unwrap();
            atomic::write_with(&path, &mut |out| Ok(out.write_all(b"text")?)).unwrap();
            drop(FileLock::acquire(&path).unwrap());
        });
        check_obstacles(folder.path(), &made);
        assert_eq!(fs::metadata(folder.path().join("model.ten")).unwrap().nlink(), 1);
    }
}

#[cfg(feature = "safetensors")]
#[test]
fn what_has_the_name_of_a_temporary_file_of_shards_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    let names = ["model.ten", "model.ten.turn", "model.ten.index.json"];
    // The file of turns has one name only, so each obstacle has to be the first.
    for first in 0..6 {
        let made = obstacles(folder.path(), &names);
        if first > 0 {
            let turn = |number| folder.path().join(format!(".model.ten.turn.{number}.tmp"));
            let (one, other, between) = (turn(0), turn(first), folder.path().join("between"));
            fs::rename(&one, &between).unwrap();
            fs::rename(&other, &one).unwrap();
            fs::rename(&between, &other).unwrap();
        }
        let made: Vec<_> = made
            .into_iter()
            .map(|(path, _)| (path.clone(), fs::symlink_metadata(&path).unwrap().file_type()))
            .collect();
        let model: TensorMap = (0..3).map(|at| (format!("t{at}"), map(10)["0"].clone())).collect();
        let to = path.clone();
        let saved = model.clone();
        at_once(move || tensorfile::SaveOptions::new().max_shard_bytes(100).save(&to, &saved).unwrap());
        assert_eq!(load::<TensorMap>(&path).unwrap(), model);
        check_obstacles(folder.path(), &made);
        fs::read_dir(folder.path()).unwrap().map(Result::unwrap).for_each(|entry| {
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap()
            } else {
                fs::remove_file(entry.path()).unwrap()
            }
        });
    }
}
