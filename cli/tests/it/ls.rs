use tensorfile::{FORMATS, Tensor, TensorMap};

use super::{Session, file_of, weights};

#[test]
fn lists_tensors() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "ls model.ptd",
        "ls sparse.btf",
        "ls --bytes --sort bytes --reverse --filter *.weight --filter !embed.* model.ptd",
        "ls --sort shape --filter e* model.ptd",
        "ls --filter nothing model.ptd",
    ]));
}

#[test]
fn prints_patterns_and_trees() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "ls --patterns model.ptd",
        "ls --patterns --sort bytes model.ptd",
        "ls --tree model.ptd",
        "ls -p sparse.btf",
    ]));
}

#[test]
fn prints_json_and_diffable_lines() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "ls --diffable model.ptd",
        "ls --json --filter h* model.ptd",
        "ls --json sparse.btf",
        "ls --json --filter nothing sparse.btf",
    ]));
}

#[test]
fn prints_colors_on_request() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&["ls --color always sparse.btf"]).escape_debug().to_string());
}

#[test]
fn diffable_lines_do_not_depend_on_order_and_format() {
    let session = Session::new();
    let tensors = |names: &[&str]| -> TensorMap {
        names.iter().map(|name| (*name, Tensor::from_slice(&[1_u8, 2], [2]).unwrap())).collect()
    };
    session.write("one.ptd", &tensors(&["b", "a", "long.name"]));
    session.write("other.btf", &tensors(&["a", "long.name", "b"]));
    let one = session.run(&["ls", "--diffable", "one.ptd"]);
    let other = session.run(&["ls", "--diffable", "other.btf"]);
    assert_eq!(String::from_utf8(one.stdout).unwrap(), "a u8[2] 2\nb u8[2] 2\nlong.name u8[2] 2\n");
    assert_eq!(String::from_utf8(other.stdout).unwrap(), "a u8[2] 2\nb u8[2] 2\nlong.name u8[2] 2\n");
}

#[test]
fn escapes_control_characters_in_names() {
    let session = Session::new();
    let map: TensorMap = [("a\u{1b}[31m\nb", Tensor::from_slice(&[1_u8], []).unwrap())].into_iter().collect();
    session.write("names.ptd", &map);
    for arguments in [&["ls"][..], &["ls", "--tree"], &["ls", "--patterns"], &["ls", "--diffable"], &["ls", "--json"]] {
        let output = session.run(&[arguments, &["names.ptd"]].concat());
        assert!(!output.stdout.contains(&0x1b), "{arguments:?}");
    }
    let output = session.run(&["show", "names.ptd", "a\u{1b}[31mb"]);
    assert!(!output.stderr.contains(&0x1b), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn reads_standard_input() {
    let session = Session::new();
    let format = FORMATS[0];
    let input = file_of(format, &super::sparse());
    let output = session.run_with_input(&["ls", "-"], &input);
    assert_eq!(output.stdout, session.run(&["ls", "sparse.btf"]).stdout);
}

#[test]
fn tables_fit_into_the_columns() {
    let session = Session::new();
    let run = |arguments: &[&str], columns: &str| {
        let output = session.command(arguments).env("COLUMNS", columns).output().unwrap();
        assert!(output.stderr.is_empty());
        String::from_utf8(output.stdout).unwrap()
    };
    let name = "a\u{1b}[2J\u{202e}.".repeat(20);
    session.write("long.ptd", &[(name.as_str(), weights(&[3, 4])), ("short", weights(&[2]))].into_iter().collect());
    session.write("other.ptd", &[(name.as_str(), weights(&[4, 3])), ("short", weights(&[2]))].into_iter().collect());
    for arguments in [
        &["ls", "model.ptd"][..],
        &["ls", "--tree", "model.ptd"],
        &["ls", "--patterns", "long.ptd"],
        &["ls", "long.ptd"],
        &["stats", "long.ptd"],
        &["info", "long.ptd"],
        &["convert", "--dry-run", "long.ptd", "x.ptd"],
    ] {
        for columns in [40, 60, 80] {
            let text = run(arguments, &columns.to_string());
            // The line with the sums is no row.
            let widest = text.lines().rev().skip(1).map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= columns.max(60), "{arguments:?} at {columns}:\n{text}");
        }
        let wide = [arguments, &["--wide"]].concat();
        assert_eq!(run(&wide, "40"), String::from_utf8(session.run(arguments).stdout).unwrap(), "{arguments:?}");
    }
    let diff = session.command(&["diff", "long.ptd", "other.ptd"]).env("COLUMNS", "50").output().unwrap();
    let ls = ["model.ptd", "long.ptd"].map(|file| run(&["ls", file], "50"));
    let stats = run(&["stats", "long.ptd"], "80");
    insta::assert_snapshot!(format!("{}\n{}\n{stats}\n{}", ls[0], ls[1], String::from_utf8(diff.stdout).unwrap()));
}

/// Columns go before names are cut: a name says which tensor it is.
#[test]
fn names_are_whole_in_a_narrow_terminal() {
    let session = Session::new();
    let name = "layers.10.mlp.up_proj";
    session.write("narrow.ptd", &[(name, weights(&[3, 4])), ("short", weights(&[2]))].into_iter().collect());
    for command in ["ls", "stats"] {
        let output = session.command(&[command, "narrow.ptd"]).env("COLUMNS", "40").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(name), "{command}: {text}");
        let rows: Vec<&str> = text.lines().take(3).collect();
        assert!(rows.iter().all(|row| row.chars().count() <= 40), "{command}: {text}");
    }
}

#[test]
fn pipes_are_listed_as_files_are() {
    let session = Session::new();
    let map: TensorMap =
        [("a", weights(&[50, 100])), ("b", weights(&[3])), ("c", weights(&[10, 1000]))].into_iter().collect();
    for format in FORMATS {
        let map = match format.max_tensors {
            Some(_) => [("0", weights(&[50, 1000]))].into_iter().collect(),
            None => map.clone(),
        };
        let name = format!("model.{}", format.extensions[0]);
        let file = file_of(format, &map);
        for len in [file.len(), file.len() - 1, 20_000, 9_000] {
            std::fs::write(session.path(&name), &file[..len]).unwrap();
            for arguments in [&["ls"][..], &["ls", "--json"], &["info"], &["info", "--json"]] {
                let from_file = session.run(&[arguments, &[&name, "--from", format.name]].concat());
                let piped = session.run_with_input(&[arguments, &["-"]].concat(), &file[..len]);
                let shown = |output: &[u8], path: &str| {
                    let text = String::from_utf8_lossy(output).replace(path, "FILE");
                    // Only an extension tells which archive is cut off.
                    let text = text.replace("pytorch: the zip archive is", "the zip archive is");
                    text.replace("npz: the zip archive is", "the zip archive is")
                };
                for (own, piped) in [(&from_file.stdout, &piped.stdout), (&from_file.stderr, &piped.stderr)] {
                    let what = format!("{arguments:?} {name} of {len} bytes");
                    assert_eq!(shown(own, &name), shown(piped, "standard input"), "{what}");
                }
                assert_eq!(piped.status.code(), from_file.status.code());
            }
        }
    }
}

/// A shell makes such a pipe for `<(command)`.
#[cfg(unix)]
#[test]
fn named_pipes_are_read_as_standard_input_is() {
    let session = Session::new();
    session.write("model.npz", &[("a", weights(&[50, 100]))].into_iter().collect());
    for (command, file) in
        [("ls", "model.ptd"), ("info", "model.npz"), ("hash --tensors", "model.ptd"), ("stats", "model.ptd")]
    {
        let script = format!("mkfifo pipe && (cat {file} > pipe & \"$program\" {command} pipe) && rm pipe");
        let mut shell = std::process::Command::new("sh");
        shell.current_dir(session.path("")).env("program", env!("CARGO_BIN_EXE_tensorfile")).args(["-c", &script]);
        let output = shell.output().unwrap();
        let expected = session.run(&[&command.split(' ').collect::<Vec<_>>()[..], &[file]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout), String::from_utf8(expected.stdout), "{command}");
    }
}

#[test]
fn an_empty_file_is_called_empty_whatever_its_name() {
    let session = Session::new();
    for name in ["safetensors", "npy", "npz", "gguf", "pt", "ptd", "tbs", "btf", "unknown"] {
        let name = &format!("model.{name}");
        std::fs::write(session.path(name), b"").unwrap();
        let output = session.run(&["ls", name]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(message, format!("tensorfile: {name}: the file is empty (at byte 0)\n"));
        assert_eq!(output.status.code(), Some(4));
    }
}
