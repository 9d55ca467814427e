//! Files left behind if the program is stopped while it writes, or cannot write more.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tensorfile::{FORMATS, Format};

use super::writing::{WriteCommand, Writing};

fn spawn(writing: &Writing, command: &WriteCommand) -> Child {
    writing.session.command(&command.arguments()).stderr(Stdio::null()).spawn().unwrap()
}

/// Sends a signal some time after there is a temporary file; `None` if the program was faster.
fn interrupted(writing: &Writing, command: &WriteCommand, signal: Signal, after: Duration) -> Option<ExitStatus> {
    let mut child = spawn(writing, command);
    let limit = Instant::now() + Duration::from_secs(60);
    while !writing.has_temporary() {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success() && Instant::now() < limit, "{}", command.line);
            return None;
        }
    }
    std::thread::sleep(after);
    kill_process(Pid::from_child(&child), signal).unwrap();
    let status = child.wait().unwrap();
    (!status.success()).then_some(status)
}

#[test]
fn sigint_and_sigterm_remove_temporary_files() {
    let mut signals = vec![(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];
    // Elsewhere, or under `nohup`, the program leaves SIGHUP alone.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    if mask.is_none_or(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1) {
        signals.pop();
    }
    for format in FORMATS {
        let writing = Writing::new(format);
        for command in writing.long_commands() {
            let line = &command.line;
            writing.reset();
            writing.run(&command.arguments());
            let new = writing.files();
            let mut before = writing.reset();
            let mut stopped = 0;
            // Later and later, until it was stopped by each signal.
            for attempt in 0.. {
                assert!(attempt < 100, "{line} is too fast to be stopped");
                let (signal, code) = signals[stopped];
                let after = Duration::from_micros(attempt * 1300 % 9000);
                let status = interrupted(&writing, &command, signal, after);
                let left = writing.files();
                if let Some(status) = status {
                    assert_eq!(status.code(), Some(code), "{line}");
                    // The new files may just have been put in place.
                    assert!(left == before || left == new, "{line}: {:?}", left.keys());
                    stopped += 1;
                }
                if stopped == signals.len() {
                    break;
                }
                if left != before {
                    before = writing.reset();
                }
            }
        }
    }
}

#[test]
fn a_command_removes_what_killed_ones_left() {
    let format = Format::named("ten").unwrap();
    let writing = Writing::new(format);
    for command in writing.long_commands() {
        let line = &command.line;
        writing.reset();
        let mut left = 0;
        for round in 0..15 {
            let after = Duration::from_micros(round * 5000 % 17_000);
            if round % 2 == 0 {
                // It may have ended, or not have begun.
                let mut child = spawn(&writing, &command);
                std::thread::sleep(after);
                let _ = child.kill();
                child.wait().unwrap();
            } else {
                // While it writes, however long it takes to begin.
                interrupted(&writing, &command, Signal::KILL, after / 10);
            }
            left += usize::from(writing.has_temporary());
            for whole in ["old.ten", "old.ten.index.json"] {
                let output = writing.session.run(&["verify", "--payload", whole]);
                let text = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{line}, round {round}: {text}");
            }
            let after = writing.save_again();
            assert!(!writing.has_temporary(), "{line}, round {round}: {:?}", after.keys());
        }
        assert!(left > 0, "{line}");
    }
}

#[test]
fn a_limit_of_the_file_size_is_an_error() {
    for format in FORMATS {
        let writing = Writing::new(format);
        let before = writing.reset();
        for command in writing.commands() {
            // In units of 512 bytes: at the beginning, and where payloads are written.
            for limit in [1, 100].into_iter().take(if command.is_long { 2 } else { 1 }) {
                let line = &command.line;
                let script = format!("ulimit -f {limit}; exec '{}' {line}", env!("CARGO_BIN_EXE_tensorfile"));
                let mut shell = Command::new("sh");
                let output = shell.args(["-c", &script]).current_dir(writing.session.folder.path()).output().unwrap();
                let message = String::from_utf8(output.stderr).unwrap();
                assert_eq!(output.status.code(), Some(3), "{line}: {message}");
                let expected = format!("tensorfile: {}: ", command.output);
                assert!(message.starts_with(&expected) && message.contains("File too large"), "{line}: {message}");
                assert!(writing.files() == before, "{line}: {:?}", writing.files().keys());
            }
        }
    }
}

#[test]
fn signals_that_are_ignored_stop_nothing() {
    let writing = Writing::new(FORMATS[0]);
    let command = writing.long_commands().remove(0);
    // As `nohup` does, and a shell for a job in the background of a script.
    for (name, signal) in [("HUP", Signal::HUP), ("INT", Signal::INT), ("TERM", Signal::TERM)] {
        let mut was_sent = false;
        for _ in 0..20 {
            writing.reset();
            let mut program = Command::new("sh");
            let script = format!("trap '' {name}; exec \"$0\" \"$@\"");
            program.args(["-c", &script, env!("CARGO_BIN_EXE_tensorfile")]);
            program.args(command.arguments()).current_dir(writing.session.path(""));
            let mut child = program.stderr(Stdio::null()).spawn().unwrap();
            // It may end before, or be in any of its steps.
            while !writing.has_temporary() && child.try_wait().unwrap().is_none() {}
            if child.try_wait().unwrap().is_none() {
                kill_process(Pid::from_child(&child), signal).unwrap();
                was_sent = true;
            }
            assert!(child.wait().unwrap().success(), "{name}: {}", command.line);
            if was_sent {
                break;
            }
        }
        assert!(was_sent, "{} is too fast to be signalled", command.line);
    }
}

/// `timeout` runs a program in the background, where reading a terminal stops it.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_a_program_in_the_background_that_reads_a_terminal() {
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !has("script") || !has("timeout") {
        super::skipped("`script` or `timeout` is missing; `apt install bsdutils coreutils` installs them");
        return;
    }
    let program = env!("CARGO_BIN_EXE_tensorfile");
    for command in ["ls -", "hash --check -"] {
        // Before and after it begins to read. The outer one kills what stays stopped.
        for milliseconds in [1, 3, 10, 20, 40, 200] {
            let limit = f64::from(milliseconds) / 1000.0;
            let line = format!("timeout --signal=KILL 60 timeout {limit} {program} {command}; echo code $?");
            let output =
                Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("code 124"), "{command}: {text}");
        }
    }
}
