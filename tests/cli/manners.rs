//! What every verb does alike: exit codes, messages, pipes.

use std::io::Read;
use std::process::Stdio;

use super::Session;

/// The exit code and what was said.
fn failure(session: &Session, arguments: &[&str]) -> (i32, String) {
    let output = session.run(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?}: data where there is a failure");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn exit_codes_tell_whose_fault_it_was() {
    let session = Session::new();
    std::fs::write(session.path("empty.ptd"), []).unwrap();
    std::fs::write(session.path("text.txt"), "hello, hello, hello, hello").unwrap();
    std::fs::create_dir(session.path("folder")).unwrap();
    for verb in [&["ls"][..], &["info"], &["show"], &["stats"], &["diff", "model.ptd"], &["hash"]] {
        let name: &[&str] = if verb == ["show"] { &["a"] } else { &[] };
        for (file, code, message) in [
            ("missing.ptd", 3, "tensorfile: missing.ptd: "),
            ("folder", 3, "tensorfile: folder: is a directory\n"),
            ("empty.ptd", 4, "tensorfile: empty.ptd: ptd: needs "),
            ("text.txt", 4, "tensorfile: text.txt: begins with "),
            ("--nonsense", 2, "error: unexpected argument '--nonsense'"),
        ] {
            let (found, said) = failure(&session, &[verb, &[file], name].concat());
            assert_eq!(found, code, "{verb:?} {file}: {said}");
            assert!(said.starts_with(message), "{verb:?} {file}: {said}");
        }
    }
    let (code, said) = failure(&session, &["show", "model.ptd", "head.wieght"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.starts_with("tensorfile: model.ptd: ptd: missing tensor `head.wieght`; the file has "), "{said}");
}

#[test]
fn without_arguments_there_is_help() {
    let session = Session::new();
    let (code, said) = failure(&session, &[]);
    assert_eq!(code, 2);
    assert!(said.contains("Usage: tensorfile [OPTIONS] <COMMAND>"), "{said}");
}

#[test]
fn help_is_data() {
    let session = Session::new();
    let looking = ["ls", "info", "show", "stats", "diff", "verify", "hash"];
    let making = ["convert", "append", "split", "merge", "completions", "man"];
    for verb in looking.into_iter().chain(making) {
        let output = session.run(&[verb, "--help"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{verb}");
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("\nExamples:\n  tensorfile "), "{help}");
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{verb}: {widest}");
    }
}

#[test]
fn a_format_can_be_forced() {
    let session = Session::new();
    std::fs::copy(session.path("sparse.btf"), session.path("unknown")).unwrap();
    let output = session.run(&["ls", "--from", "btf", "unknown"]);
    assert_eq!(output.stdout, session.run(&["ls", "sparse.btf"]).stdout);
    let (code, said) = failure(&session, &["ls", "--from", "ten", "sparse.btf"]);
    assert_eq!(code, 4);
    assert!(said.starts_with("tensorfile: sparse.btf: ten: "), "{said}");
}

/// As `tensorfile … | head -c 1` does it.
#[test]
fn a_closed_pipe_is_quiet() {
    let session = Session::new();
    session.write("large.ptd", &[("large", super::weights(&[1000, 300]))].into_iter().collect());
    for format in ["text", "json", "csv", "raw"] {
        let mut command = session.command(&["show", "large.ptd", "large", "--full", "--format", format]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert!(output.stderr.is_empty(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_a_failure() {
    let session = Session::new();
    for arguments in
        [&["ls", "model.ptd"][..], &["show", "model.ptd", "embed.weight", "--format", "raw"], &["stats", "model.ptd"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = session.command(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("tensorfile: ") && said.contains("No space left on device"), "{said}");
    }
}

#[test]
fn completions_and_pages_are_written() {
    let session = Session::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = session.run(&["completions", shell]);
        assert!(output.status.success() && !output.stdout.is_empty(), "{shell}");
    }
    assert!(session.run(&["man", "--out", "pages"]).status.success());
    for page in ["tensorfile.1", "tensorfile-ls.1", "tensorfile-show.1"] {
        let written = std::fs::read_to_string(session.path("pages").join(page)).unwrap();
        assert!(written.contains(".SH DESCRIPTION"), "{page}");
    }
    let page = std::fs::read(session.path("pages/tensorfile-ls.1")).unwrap();
    assert_eq!(session.run(&["man", "ls"]).stdout, page);
    assert_eq!(failure(&session, &["man", "nothing"]).0, 2);
}
