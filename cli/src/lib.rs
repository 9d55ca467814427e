//! The program `tensorfile`: lists, shows, compares, checks and converts tensor files.
//!
//! It is a library so that fuzz targets and the Python package can call it. Nothing else should: what is public here
//! changes at any time.
//!
//! - [`commands`]: a file or folder for each command.
//! - [`args`]: groups of arguments of several commands.
//! - [`output`]: tables, numbers, charts and messages.
//! - [`exit`]: exit codes and failures.
//! - [`export`]: writes tensors of one or more files to another.
//! - [`identity`]: whether two paths name one file.
//! - [`signals`]: signals that would leave temporary files.
//! - [`digests`]: digests of tensors, and lists of them.
//! - [`receipt`]: what became of each element of a mapped file.
//! - [`repeated`]: names shared by several tensors of a file.
//! - [`computed`]: values computed from the payload of each tensor, of a file or of a stream.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod computed;
mod digests;
mod exit;
mod export;
mod identity;
mod output;
mod pieces;
mod receipt;
mod repeated;
mod signals;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use args::{Decoding, Printer, parse_bytes, set_config, set_map, set_max_memory};
use commands::Command;
use exit::{Failure, Verdict};
use output::Stdout;

#[doc(hidden)]
pub use args::{Axis, Filter, InvalidGlob, Slice};

/// List, show, compare, check and convert tensor files.
///
/// You need not name the format: it is detected from the content of the file and its name. Wherever a file is read you
/// may pass a URL: `https://…`, `http://…`, or `hf://OWNER/NAME[@REVISION][/PATH]` on the Hugging Face hub.
///
/// Pass `-` for standard input. `ls`, `info`, `stats`, `hash` and `verify` read a pipe once, and hold only its index
/// and a piece of a tensor. Other commands hold a pipe in memory, or in a temporary file if it is longer than 64 MiB.
/// So do all commands if the tensors are not in order, or the index is at the end, as in npz, tensorbuffers and pytorch
/// files.
///
/// Results go to standard output, messages to standard error.
#[derive(Debug, Parser)]
#[command(name = "tensorfile", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    color: colorchoice_clap::Color,
    /// Use up to this much memory for tensors held at once, such as 8GiB
    ///
    /// Most commands hold a piece of a tensor, however large the tensor is. By default, they hold at most the size of
    /// the file, and 16 GiB or 64 times that size more if tensors share bytes or are compressed. Pass a larger number
    /// for files whose tensors share more bytes. The number also limits how much of a file is held if its server has no
    /// ranges.
    #[arg(long, value_name = "SIZE", global = true, value_parser = parse_bytes)]
    max_memory: Option<u64>,
    /// Take this configuration for that of the model, instead of the `config.json` beside it
    ///
    /// It says how quantized weights are stored: bits, groups and versions. The numbers of a --map come from it.
    #[arg(long, value_name = "PATH", global = true)]
    config: Option<PathBuf>,
    /// Print how many requests servers answered, and how many bytes they sent
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success; also if the reader of the output closes it early
  1  files differ, a check failed, or a tensor was not found
  2  the command line is wrong
  3  a file cannot be read or written
  4  a file is malformed
  129, 130, 143  stopped by SIGHUP, SIGINT or SIGTERM; files that were being written are unchanged";

/// Runs the program with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    main_with(std::env::args_os()).into()
}

/// Runs the program with other arguments. The first is its name. Returns the exit code.
#[must_use]
pub fn main_with(args: impl Iterator<Item = OsString>) -> u8 {
    commands::complete();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        // Help and version are errors to clap, but go to standard output.
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Failure::USAGE } else { 0 };
        }
    };
    cli.color.write_global();
    set_max_memory(cli.max_memory);
    set_config(cli.config);
    Decoding::default().apply();
    set_map(None);
    signals::handle();
    check_threads();

    let mut out = Stdout::new();
    let outcome = cli.command.run(&mut out);
    if let Err(failure) = &outcome {
        // If this fails, flushing does too.
        let _ = out.fail(failure);
    }
    // Output written before a failure appears before its message.
    let flushed = out.finish().map_err(Failure::from);
    if cli.verbose {
        print_traffic();
    }
    match outcome.and_then(|verdict| flushed.map(|()| verdict)) {
        Ok(Verdict::Pass) => 0,
        Ok(Verdict::Fail) => Failure::FAIL,
        Err(failure) => failure.report(),
    }
}

/// Prints the numbers of requests and bytes, if servers were asked.
#[cfg(any(feature = "http", feature = "cloud"))]
fn print_traffic() {
    let traffic = tensorfile::file::traffic();
    if traffic.requests > 0 {
        let requests = output::numbers::counted(usize::try_from(traffic.requests).unwrap_or(usize::MAX), "request");
        output::note(format_args!("{requests}, {} bytes from servers", output::numbers::count(traffic.bytes)));
    }
}

#[cfg(not(any(feature = "http", feature = "cloud")))]
fn print_traffic() {}

/// Prints that the number of threads in the environment is ignored, if it is not a number.
fn check_threads() {
    const NAME: &str = "TENSORFILE_THREADS";

    let Some(value) = std::env::var_os(NAME).filter(|value| !value.is_empty()) else { return };
    if value.to_str().is_none_or(|value| value.parse::<std::num::NonZeroUsize>().is_err()) {
        let value = value.to_string_lossy();
        let value = output::escape(&value);
        let threads = tensorfile::threads::max_threads();
        output::note(format_args!("{NAME}: `{value}` is not a number of threads, at least 1; using {threads}"));
    }
}

/// The end of a [`run`] with its output in memory.
#[doc(hidden)]
#[derive(Debug)]
pub struct ProgramRun {
    /// The exit code.
    pub code: u8,
    pub output: Vec<u8>,
    /// The message of a failure.
    pub message: Option<String>,
}

/// Runs the program on other arguments, with its output in memory and without messages.
#[doc(hidden)]
pub fn run(args: &[impl AsRef<OsStr>]) -> ProgramRun {
    output::be_quiet();
    let cli = match Cli::try_parse_from(args.iter().map(AsRef::as_ref)) {
        Ok(cli) => cli,
        Err(error) => return ProgramRun { code: Failure::USAGE, output: Vec::new(), message: Some(error.to_string()) },
    };
    set_max_memory(cli.max_memory);
    set_config(cli.config);
    Decoding::default().apply();
    set_map(None);
    let mut out = Stdout::to_memory();
    let (code, message) = match cli.command.run(&mut out) {
        Ok(Verdict::Pass) => (0, None),
        Ok(Verdict::Fail) => (Failure::FAIL, None),
        Err(failure) => (failure.code(), Some(failure.to_string()).filter(|message| !message.is_empty())),
    };
    ProgramRun { code, output: out.into_memory(), message }
}

/// Returns whether a path leads to a WebDataset shard: a tar archive, compressed or not.
#[doc(hidden)]
pub fn is_shard(path: &Path) -> bool {
    args::is_shard(path, None)
}

/// Returns the table that `ls` prints of an open file, with the line of sums.
#[doc(hidden)]
pub fn table(file: &tensorfile::File) -> String {
    let mut out = Stdout::to_memory();
    if let Command::Ls(ls) = Cli::parse_from(["tensorfile", "ls", "-"]).command {
        // Memory takes everything, and no filter was given.
        let _ = ls.list(Path::new(""), file, &mut Printer::Text(&mut out));
    }
    String::from_utf8_lossy(&out.into_memory()).trim_end().to_owned()
}

impl ProgramRun {
    /// Returns the output, or the reason why there is none.
    #[doc(hidden)]
    pub fn into_output(self) -> Result<Vec<u8>, String> {
        // Differences are no failure.
        if self.code <= Failure::FAIL && self.message.is_none() {
            Ok(self.output)
        } else {
            Err(self.message.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = format!("  tensorfile {} ", command.get_name());
            assert!(help.starts_with("Examples:\n") && help.contains(&example), "{}: {help}", command.get_name());
            assert!(command.get_about().is_some_and(|about| !about.to_string().is_empty()), "{}", command.get_name());
        }
    }
}
