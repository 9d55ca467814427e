//! Pipes, devices, sockets and links as inputs, outputs and shards of the program.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

use super::{Session, weights};

/// Runs a command line of a shell in 2 GB of address space. `tensorfile` is the program. It must end by itself.
#[track_caller]
fn sh(session: &Session, script: &str) -> Output {
    let script = format!("ulimit -v 2000000\ntensorfile() {{ \"$PROGRAM\" \"$@\"; }}\n{script}");
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-c", &script]).current_dir(session.folder.path());
    let output = command.env("PROGRAM", env!("CARGO_BIN_EXE_tensorfile")).stdin(Stdio::null()).output().unwrap();
    assert_ne!(output.status.code(), Some(124), "{script} does not end");
    output
}

#[track_caller]
fn fails(session: &Session, script: &str, code: i32, message: &str) {
    let output = sh(session, script);
    // `verify` prints the problem as its result.
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{script}: {text}");
    assert!(text.contains(message), "{script}: {text}");
}

#[test]
fn endless_devices_are_errors_at_once() {
    let session = Session::new();
    for extension in ["ten", "btf", "ptd", "npy", "npz", "pt", "safetensors", "gguf", "tbs"] {
        symlink("/dev/zero", session.path(&format!("zeros.{extension}"))).unwrap();
    }
    let zeros = "the file is not a model: its first 512 bytes are zeros (at byte 0)";
    for command in ["ls", "info", "stats", "hash", "verify", "show", "codegen", "diff model.ptd", "report -o page.html"]
    {
        for file in ["/dev/zero", "zeros.btf", "zeros.ten", "zeros.npz", "- < /dev/zero", "<(cat /dev/zero)"] {
            fails(&session, &format!("tensorfile {command} {file}"), 4, zeros);
        }
    }
    for command in [
        "convert zeros.btf out.ptd",
        "merge zeros.ten out.ptd",
        "append model.ptd zeros.ptd",
        "split zeros.npy --by-prefix 1",
    ] {
        fails(&session, &format!("tensorfile {command}"), 4, zeros);
    }
    fails(&session, "tensorfile hash --check /dev/zero", 4, "/dev/zero: a line is longer than 16 MiB");
    fails(&session, "tensorfile verify --manifest /dev/zero model.ptd", 4, "/dev/zero: a line is longer than 16 MiB");
    fails(&session, "tensorfile ls /dev/null", 4, "/dev/null: the file");
    fails(&session, "tensorfile append /dev/zero model.ptd", 4, zeros);
}

#[test]
fn shards_are_regular_files() {
    let session = Session::new();
    let map = [("a", weights(&[2]))].into_iter().collect();
    session.write("1.safetensors", &map);
    symlink("/dev/zero", session.path("zero.safetensors")).unwrap();
    assert!(sh(&session, "mkfifo pipe.safetensors").status.success());
    for (shard, found) in [("zero", "is a device, not a regular file"), ("pipe", "is a pipe, not a regular file")] {
        let index = format!(r#"{{"weight_map": {{"a": "{shard}.safetensors"}}}}"#);
        fs::write(session.path("m.safetensors.index.json"), index).unwrap();
        for command in ["ls", "stats", "verify", "show"] {
            fails(&session, &format!("tensorfile {command} m.safetensors.index.json"), 4, found);
        }
    }
}

/// The names of open pipes and files are streams within limits, as `-` is.
#[test]
fn names_of_standard_input_are_streams() {
    let session = Session::new();
    for (name, extension) in [("a.safetensors", "safetensors"), ("a.npz", "npz"), ("a.npy", "npy")] {
        session.write(name, &[("0", weights(&[3000]))].into_iter().collect());
        for command in ["ls", "stats", "show", "verify"] {
            let expected = sh(&session, &format!("tensorfile {command} - < {name}"));
            assert!(expected.status.success(), "{command} {extension}: {expected:?}");
            for input in [
                "/dev/stdin < NAME",
                "/dev/fd/0 < NAME",
                "/proc/self/fd/0 < NAME",
                "- < <(cat NAME)",
                "/dev/stdin < <(cat NAME)",
            ] {
                let script = format!("tensorfile {command} {}", input.replace("NAME", name));
                let output = sh(&session, &script);
                assert_eq!(
                    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap()),
                    (
                        String::from_utf8(expected.stdout.clone()).unwrap(),
                        String::from_utf8(expected.stderr.clone()).unwrap()
                    ),
                    "{script}"
                );
            }
            let output = sh(&session, &format!("tensorfile {command} <(cat {name})"));
            assert!(output.status.success(), "{command} {extension}: {output:?}");
        }
    }
}

#[test]
fn names_of_standard_output_are_streams() {
    let session = Session::new();
    session.write("a.safetensors", &[("a", weights(&[300]))].into_iter().collect());
    for format in ["npz", "npy", "safetensors", "ptd", "tensorbuffers", "gguf", "ten", "btf"] {
        let names = if format == "npy" { "--names index" } else { "" };
        let convert = format!("tensorfile convert a.safetensors {names} --to {format}");
        let expected = sh(&session, &format!("{convert} - | cat")).stdout;
        assert!(!expected.is_empty(), "{format}");
        for output in [
            "/dev/stdout | cat",
            "/dev/fd/1 | cat",
            "/proc/self/fd/1 | cat",
            "/dev/stdout > out && cat out",
            "/dev/stderr 2>&1 >/dev/null | cat",
            "/dev/fd/2 2>&1 >/dev/null | cat",
            ">(cat > out) && wait $! && cat out",
        ] {
            if format == "btf" && output.contains('2') {
                // The note about names goes there too.
                continue;
            }
            fs::remove_file(session.path("out")).ok();
            let script = format!("{convert} {output}");
            let found = sh(&session, &script);
            assert!(found.stdout == expected, "{script}: {}", String::from_utf8_lossy(&found.stderr));
        }
    }
    fs::remove_file(session.path("out")).ok();
    for command in
        ["merge a.safetensors -o OUT --to npz", "edit a.safetensors --set k=v -o OUT", "report a.safetensors -o OUT"]
    {
        let expected = sh(&session, &format!("tensorfile {} | cat", command.replace("OUT", "-")));
        let found = sh(&session, &format!("tensorfile {} | cat", command.replace("OUT", "/dev/stdout")));
        assert!(!expected.stdout.is_empty() && expected.stdout == found.stdout, "{command}: {found:?}");
    }
    fails(&session, "tensorfile convert a.safetensors /dev/stderr --to npz --max-shard-size 1 2> >(cat >&2)", 2, "");
}
