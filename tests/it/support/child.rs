//! Processes for tests to stop. A test starts this program again, and lets it run one ignored test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// A process that runs one test. It is killed when this goes out of scope.
pub struct Child(std::process::Child);

impl Child {
    /// Starts a test by its name, and waits until it calls [`ready`].
    pub fn start(test: &str, task: &[(&str, &str)]) -> Self {
        let mut command = command(test, task);
        let mut child = Self(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, READY, "{test} failed");
        child
    }

    /// Kills it, as it would not end by itself.
    pub fn kill(mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "it ended too early");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const READY: &str = "ready\n";

/// Tells the process that started this one that the test has begun.
pub fn ready() {
    // The test harness hides what passing tests print with `eprintln!`.
    std::io::stderr().write_all(READY.as_bytes()).unwrap();
}

/// The command that runs one test, which finds its task in variables of the environment.
pub fn command(test: &str, task: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]).envs(task.iter().copied());
    command
}
