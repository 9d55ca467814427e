//! Arguments without an effect: the program refuses them, or says so.

use super::Session;

/// The exit code of the program, and its output to standard error.
#[track_caller]
fn check(lines: &[(&str, i32, &str)]) {
    let session = Session::new();
    for (line, code, expected) in lines {
        let output = session.run(&line.split_whitespace().collect::<Vec<_>>());
        let found = String::from_utf8(output.stderr).unwrap();
        assert!(found.contains(expected), "{line}: {found}");
        assert_eq!(output.status.code(), Some(*code), "{line}: {found}");
    }
}

#[test]
fn arguments_that_exclude_each_other() {
    let other = |other: &str| format!("cannot be used with '{other}'");
    let [atol, rtol] = [other("--atol <X>"), other("--rtol <Y>")];
    check(&[
        ("diff model.ptd sparse.btf --no-values --atol 1", 2, &atol),
        ("diff model.ptd sparse.btf --names-only --rtol 1", 2, &rtol),
        ("diff model.ptd sparse.btf --names-only --ignore-dtype", 2, &other("--ignore-dtype")),
        ("stats model.ptd --diffable --bins 3", 2, &other("--bins <COUNT>")),
        ("show model.ptd steps --json --precision 3", 2, &other("--precision <DIGITS>")),
        ("show model.ptd steps --format csv --precision 3", 2, "--precision is for text"),
        ("show model.ptd steps --format text --full --precision 3", 0, ""),
    ]);
}

#[test]
fn rules_that_change_nothing() {
    check(&[
        ("convert model.ptd new.ptd --dtype f16,bf16", 2, "--dtype: floats cannot be cast to both f16 and bf16"),
        ("convert model.ptd new.ptd --dtype i8,f16,i8", 2, "--dtype: integers cannot be cast to both i8 and i8"),
        ("convert model.ptd new.ptd --dtype f32=f16,f32=f64", 2, "--dtype: f32 cannot be cast to both f16 and f64"),
        ("convert model.ptd new.ptd --dtype f32=f16,i8=i16", 0, "--dtype i8=i16 changes no tensor"),
        ("convert model.ptd new.ptd --dtype i8=i16", 2, "--dtype changes no tensor"),
        ("convert model.ptd new.ptd --dtype i8=i16 --lossy", 0, "--dtype changes no tensor"),
        ("convert model.ptd new.ptd --dtype nowhere=f16", 2, "--dtype changes no tensor"),
        (
            "convert model.ptd new.ptd --dtype f32=f16,nowhere=f64",
            0,
            "--dtype nowhere=f64 changes no tensor: no tensor has such a name",
        ),
        ("convert model.ptd new.ptd --rename nowhere=b", 1, "--rename: no tensor matches `nowhere`"),
        ("convert model.ptd new.ptd --filter nowhere", 1, "--filter: no tensor matches"),
        ("split model.ptd --by nowhere=a.ptd --by *=b.ptd", 1, "--by: no tensor matches `nowhere`"),
        (
            "split model.ptd --by *=b.ptd --by steps=a.ptd",
            1,
            "--by: no tensor matches `steps`, or all of them match an earlier",
        ),
        ("split sparse.btf --by [01]=a.btf --by *=b.btf --dry-run", 0, ""),
    ]);
}

#[test]
fn a_number_of_threads_that_is_none() {
    let session = Session::new();
    for (threads, expected) in
        [("2", ""), ("", ""), ("0", "`0` is not a number of threads"), ("\u{1b}x", "`\\u{1b}x` is not")]
    {
        let output = session.command(&["ls", "model.ptd"]).env("TENSORFILE_THREADS", threads).output().unwrap();
        let found = String::from_utf8(output.stderr).unwrap();
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{threads}: {found}");
        assert!(output.status.success());
    }
}

#[test]
fn files_are_equal_by_what_was_compared() {
    let session = Session::new();
    session.run(&["convert", "model.ptd", "half.ptd", "--dtype", "f16"]);
    let equal = |arguments: &str| {
        let arguments = format!("diff model.ptd half.ptd {arguments}");
        let output = session.run(&arguments.split_whitespace().collect::<Vec<_>>());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(equal("--names-only"), (Some(0), "13 tensors equal by name\n".to_owned()));
    assert_eq!(equal("--no-values").0, Some(1));
    assert_eq!(equal("--no-values --ignore-dtype"), (Some(0), "13 tensors equal by name and shape\n".to_owned()));
}
