//! Rules for all commands: exit codes, messages and pipes.

use std::io::Read;
use std::process::Stdio;

use super::{Session, skipped};

/// Returns the exit code and the message of a command that fails.
fn failure(session: &Session, arguments: &[&str]) -> (i32, String) {
    let output = session.run(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?}: output despite a failure");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the names of the commands, in the order of the help.
pub fn commands(session: &Session) -> Vec<String> {
    let help = String::from_utf8(session.run(&["--help"]).stdout).unwrap();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // The help of a command may go on in a line that is indented more.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<String> = names.map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!((&names[0][..], names.last().unwrap().as_str()), ("ls", "help"));
    // `help` has no help.
    names.into_iter().filter(|name| name != "help").collect()
}

#[test]
fn exit_codes_follow_the_cause() {
    let session = Session::new();
    std::fs::write(session.path("empty.ptd"), []).unwrap();
    std::fs::write(session.path("text.txt"), "hello, hello, hello, hello").unwrap();
    std::fs::create_dir(session.path("folder")).unwrap();
    for command in
        [&["ls"][..], &["info"], &["show"], &["stats"], &["diff", "model.ptd"], &["hash"], &["report", "-o", "x.html"]]
    {
        let name: &[&str] = if command == ["show"] { &["a"] } else { &[] };
        for (file, expected_code, start) in [
            ("missing.ptd", 3, "tensorfile: missing.ptd: "),
            ("folder", 3, "tensorfile: folder: is a directory"),
            ("empty.ptd", 4, "tensorfile: empty.ptd: the file is empty"),
            ("text.txt", 4, "tensorfile: text.txt: the file is text; it begins with "),
            ("--nonsense", 2, "error: unexpected argument '--nonsense'"),
        ] {
            let (code, message) = failure(&session, &[command, &[file], name].concat());
            assert_eq!(code, expected_code, "{command:?} {file}: {message}");
            assert!(message.starts_with(start), "{command:?} {file}: {message}");
        }
    }
    let (code, message) = failure(&session, &["show", "model.ptd", "head.wieght"]);
    assert_eq!(code, 1, "{message}");
    assert!(
        message.starts_with("tensorfile: model.ptd: ptd: missing tensor `head.wieght`; the file has "),
        "{message}"
    );
}

#[test]
fn prints_help_without_arguments() {
    let session = Session::new();
    let (code, message) = failure(&session, &[]);
    assert_eq!(code, 2);
    assert!(message.contains("Usage: tensorfile [OPTIONS] <COMMAND>"), "{message}");
}

#[test]
fn help_goes_to_standard_output() {
    let session = Session::new();
    for command in commands(&session) {
        let output = session.run(&[&command, "--help"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{command}");
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("\nExamples:\n  tensorfile "), "{help}");
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{command}: {widest}");
    }
}

#[test]
fn from_overrides_detection() {
    let session = Session::new();
    std::fs::copy(session.path("sparse.btf"), session.path("unknown")).unwrap();
    let output = session.run(&["ls", "--from", "btf", "unknown"]);
    assert_eq!(output.stdout, session.run(&["ls", "sparse.btf"]).stdout);
    let (code, message) = failure(&session, &["ls", "--from", "ten", "sparse.btf"]);
    assert_eq!(code, 4);
    assert!(message.starts_with("tensorfile: sparse.btf: ten: "), "{message}");
}

/// As in `tensorfile … | head -c 1`.
#[test]
fn closed_pipes_are_not_errors() {
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
fn reports_a_full_device() {
    let session = Session::new();
    for arguments in
        [&["ls", "model.ptd"][..], &["show", "model.ptd", "embed.weight", "--format", "raw"], &["stats", "model.ptd"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = session.command(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.starts_with("tensorfile: ") && message.contains("No space left on device"), "{message}");
    }
}

/// Returns the program's completions of the last of `words`, asked for like the script of `fish`.
fn completions(session: &Session, words: &[&str]) -> Vec<String> {
    let mut command = session.command(&["--", "tensorfile"]);
    let output = command.args(words).env("TENSORFILE_COMPLETE", "fish").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    // A tab is before the help of a candidate.
    lines.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn completes_names_of_tensors_dtypes_and_formats() {
    let session = Session::new();
    assert_eq!(completions(&session, &["show", "model.ptd", "embed.w"]), ["embed.weight"]);
    assert_eq!(completions(&session, &["stats", "model.ptd", "--tensor", "head."]), ["head.weight"]);
    assert_eq!(completions(&session, &["ls", "model.ptd", "--filter", "embed.w"]), ["embed.weight"]);
    assert_eq!(completions(&session, &["show", "mod"]), ["model.ptd"]);
    assert_eq!(completions(&session, &["convert", "model.ptd", "--dtype", "bf"]), ["bf16"]);
    assert_eq!(completions(&session, &["convert", "model.ptd", "--dtype", "f64=bf"]), ["f64=bf16"]);
    assert_eq!(completions(&session, &["convert", "model.ptd", "--dtype", "i64=i16,u16=u3"]), ["i64=i16,u16=u32"]);
    assert_eq!(completions(&session, &["convert", "model.ptd", "--dtype", "bool=f"]), [""; 0]);
    assert_eq!(completions(&session, &["convert", "model.ptd", "--rename", "embed.w"]), ["embed.weight="]);
    let new = completions(&session, &["convert", "model.ptd", "--rename", "embed.weight="]);
    assert_eq!(new, ["embed.weight=embed.weight"]);
    assert_eq!(completions(&session, &["convert", "model.ptd", "--to", "safet"]), ["safetensors"]);
    assert_eq!(completions(&session, &["show", "missing.ptd", "embed.w"]), [""; 0]);
}

#[test]
fn completes_keys_of_metadata() {
    let session = Session::new();
    let metadata = [("author".to_owned(), "me".to_owned()), ("$(touch x)".to_owned(), String::new())];
    let options = tensorfile::WriteOptions::new().metadata(metadata.into());
    let file = tensorfile::safetensors::FORMAT.to_vec(&tensorfile::TensorMap::new(), &options).unwrap();
    std::fs::write(session.path("model.safetensors"), file).unwrap();
    assert_eq!(completions(&session, &["edit", "model.safetensors", "--unset", ""]), ["author"]);
    assert_eq!(completions(&session, &["edit", "model.safetensors", "--set", "au"]), ["author="]);
    assert_eq!(completions(&session, &["edit", "model.safetensors", "--set", "b"]), [""; 0]);
}

/// A shell inserts candidates as they are, so a name that is a command must not be one.
#[test]
fn names_that_a_shell_would_run_are_not_completed() {
    let session = Session::new();
    let names = ["ok", "$(touch x)", "`touch x`", "a;touch x", "a b", "a\nb", "-a", "a'b", "a\"b", "a|b", "~a", "a*"];
    let tensors = tensorfile::TensorMap::from_iter(names.map(|name| (name, ndarray::array![1.0_f32])));
    tensorfile::save(session.path("hostile.safetensors"), &tensors).unwrap();
    assert_eq!(completions(&session, &["show", "hostile.safetensors", ""])[..1], ["ok"]);
    let offered = completions(&session, &["show", "hostile.safetensors", ""]);
    assert!(names[1..].iter().all(|name| !offered.iter().any(|candidate| candidate == name)), "{offered:?}");
}

#[test]
fn writes_completion_scripts() {
    let session = Session::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = session.run(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("TENSORFILE_COMPLETE"), "{shell}: {script}");
    }
}

/// Returns bash's completions of `line`. Its words are split by bash; the last is the text before the cursor.
fn completions_of_bash(session: &Session, line: &str, words: &[&str]) -> Option<String> {
    const TYPED: &str = r#"
        source <("$0" completions bash)
        tensorfile() { "$program" "$@"; }
        COMP_LINE=$1 COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2)) COMP_TYPE=9
        word=${COMP_WORDS[COMP_CWORD]}
        command=$(complete -p tensorfile | sed 's/.*-F \([^ ]*\).*/\1/')
        "$command" tensorfile "${word#=}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;

    let program = env!("CARGO_BIN_EXE_tensorfile");
    let mut bash = std::process::Command::new("bash");
    bash.current_dir(session.path("")).env("program", program).args(["-c", TYPED, program, line]).args(words);
    let output = bash.output().ok()?;
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn bash_completes_whole_words() {
    let session = Session::new();
    for (line, words, expected) in [
        ("tensorfile show model.ptd embed.w", &["show", "model.ptd", "embed.w"][..], "embed.weight"),
        ("tensorfile ls model.ptd --filter=embed.w", &["ls", "model.ptd", "--filter", "=", "embed.w"], "embed.weight"),
        ("tensorfile convert a b --dtype=bf", &["convert", "a", "b", "--dtype", "=", "bf"], "bf16"),
        ("tensorfile convert a b --dtype f64=bf", &["convert", "a", "b", "--dtype", "f64", "=", "bf"], "bf16"),
        (
            "tensorfile convert a  b --dtype u16=",
            &["convert", "a", "b", "--dtype", "u16", "="],
            "i8 i16 i32 i64 u8 u32 u64",
        ),
        (
            "tensorfile convert model.ptd b --rename embed.weight=e",
            &["convert", "model.ptd", "b", "--rename", "embed.weight", "=", "e"],
            "embed.weight",
        ),
    ] {
        let Some(offered) = completions_of_bash(&session, line, &[&["tensorfile"], words].concat()) else {
            skipped("there is no bash; the package `bash` of most systems installs it");
            return;
        };
        assert_eq!(offered.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{line}");
    }
}

#[test]
fn writes_manual_pages() {
    let session = Session::new();
    assert!(session.run(&["man", "--out", "pages"]).status.success());
    let pages = commands(&session).into_iter().map(|command| format!("tensorfile-{command}.1"));
    for page in std::iter::once("tensorfile.1".to_owned()).chain(pages) {
        let written = std::fs::read_to_string(session.path("pages").join(&page)).unwrap();
        assert!(written.contains(".SH DESCRIPTION"), "{page}");
    }
    let page = std::fs::read(session.path("pages/tensorfile-ls.1")).unwrap();
    assert_eq!(session.run(&["man", "ls"]).stdout, page);
    assert_eq!(failure(&session, &["man", "nothing"]).0, 2);
}

#[test]
fn help_is_plain_english() {
    let session = Session::new();
    let lines: Vec<String> = commands(&session).iter().map(|command| format!("{command} --help")).collect();
    let lines: Vec<&str> = std::iter::once("--help").chain(lines.iter().map(String::as_str)).collect();
    insta::assert_snapshot!(session.transcript(&lines));
}
