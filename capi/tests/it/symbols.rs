//! The library exports the functions of the header, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::root;

#[test]
#[cfg(target_os = "linux")]
fn only_functions_of_the_header_are_exported() {
    // In the folder of the test program.
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap();
    let library = folder.join("libtensorfile_c.so");
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() else {
        println!("NOTE: no `nm` here: the exported symbols are not compared");
        return;
    };
    assert!(output.status.success(), "{}: {}", library.display(), String::from_utf8_lossy(&output.stderr));
    let symbols = String::from_utf8(output.stdout).unwrap();
    // The checksums of stores are a crate with an interface for C of its own, which Rust exports from every library.
    let is_of_cloud = |name: &str| cfg!(feature = "cloud") && name.starts_with("crc_fast_");
    let names = symbols.lines().filter_map(|line| line.split_whitespace().nth(2));
    let exported: BTreeSet<&str> = names.filter(|name| !is_of_cloud(name)).collect();
    let header = fs::read_to_string(root().join("include/tensorfile.h")).unwrap();
    let declared: BTreeSet<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}']) && !line.starts_with("static") && line.contains('('))
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("tf_"))
        .collect();
    assert!(declared.len() > 30, "{declared:?}");
    assert_eq!(exported, declared);
}
