//! The program `tensorfile`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tensorfile_cli::main()
}
