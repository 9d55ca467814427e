//! Says which tests are skipped because software is missing.

use std::fmt::Display;
use std::io::Write;

/// Prints why a test is skipped.
pub fn skipped(reason: impl Display) {
    // The test harness hides what passing tests print with `println!` and `eprintln!`.
    std::io::stderr().write_all(format!("skipped: {reason}\n").as_bytes()).expect("stderr is open");
}
