//! Processes that fork while their threads save, as data loaders do.

#![expect(unsafe_code, reason = "a process can only be forked without a guarantee that its locks are free")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tensorfile::{Tensor, TensorMap, load, save};

use crate::support::child;

const FOLDER: &str = "TENSORFILE_TEST_FOLDER";

fn map() -> TensorMap {
    [("a", Tensor::from_slice(&[1.0_f32; 100], [100]).unwrap())].into_iter().collect()
}

#[test]
fn forked_processes_save() {
    let folder = tempfile::tempdir().unwrap();
    let task = [(FOLDER, folder.path().to_str().unwrap())];
    let output = child::command("fork::forks_while_threads_save", &task).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[ignore = "a process of its own is forked"]
fn forks_while_threads_save() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    let is_done = AtomicBool::new(false);
    let map = map();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (map, is_done) = (&map, &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    save(folder.join(format!("{thread}.ten")), map).unwrap();
                }
            });
        }
        let mut stuck = 0;
        for number in 0..150 {
            // SAFETY: the child only calls the library, which takes no lock that another thread may hold but the
            // allocator's, and that is free in a child.
            let process = unsafe { libc::fork() };
            assert!(process >= 0, "{}", std::io::Error::last_os_error());
            if process == 0 {
                // SAFETY: these only change this process. It dies if it waits for ever.
                unsafe { libc::alarm(20) };
                let path = folder.join(format!("child-{number}.ten"));
                let saved = save(&path, &map).is_ok() && load::<TensorMap>(&path).is_ok_and(|loaded| loaded == map);
                // SAFETY: as above.
                unsafe { libc::_exit(i32::from(!saved)) };
            }
            let mut status = 0;
            // SAFETY: the pointer is to a number that lives long enough.
            assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
            stuck += usize::from(status != 0);
            if stuck > 2 {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(stuck, 0, "children that did not save");
    });
}

#[cfg(feature = "http")]
const URL: &str = "TENSORFILE_TEST_URL";

#[cfg(feature = "http")]
#[test]
fn forked_processes_read_urls() {
    let map: TensorMap =
        (0..9_u8).map(|i| (format!("t{i}"), Tensor::from_slice(&[i; 70_000], [70_000]).unwrap())).collect();
    let server = crate::support::server::Server::new();
    let by_ranges = server.put("/m.ten", tensorfile::ten::to_vec(&map).unwrap());
    // The rest of the file is on its way when the process forks.
    let whole = server.put("/m.safetensors", tensorfile::safetensors::to_vec(&map).unwrap());
    server.change("/m.safetensors", |object| object.always = Some(crate::support::server::Fault::Whole));
    for url in [by_ranges, whole] {
        let output = child::command("fork::forks_with_open_connections", &[(URL, &url)]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{url}: {text}{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[cfg(feature = "http")]
#[test]
#[ignore = "a process of its own is forked"]
fn forks_with_open_connections() {
    let Ok(url) = std::env::var(URL) else { return };
    let file = tensorfile::File::open(url).unwrap();
    let is_right = |i: u8| {
        let read = file.tensor(&format!("t{i}"));
        read.is_ok_and(|tensor| tensor.as_bytes().iter().all(|byte| *byte == i))
    };
    assert!(is_right(0));
    let children: Vec<libc::pid_t> = (1..8)
        .map(|i| {
            // SAFETY: the child only calls the library, and no other thread runs.
            let process = unsafe { libc::fork() };
            if process == 0 {
                // SAFETY: these only change this process. It dies if it waits for ever.
                unsafe { libc::alarm(20) };
                let right = (0..4).all(|_| is_right(i));
                // SAFETY: as above.
                unsafe { libc::_exit(i32::from(!right)) };
            }
            assert!(process > 0, "{}", std::io::Error::last_os_error());
            process
        })
        .collect();
    // The connections of the parent are its own.
    assert!((0..9).all(is_right));
    for process in children {
        let mut status = 0;
        // SAFETY: the pointer is to a number that lives long enough.
        assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
        assert_eq!(status, 0, "a child did not read what is there");
    }
}
