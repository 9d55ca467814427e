//! The program `tensorfile`: looks into tensor files of every format, on the public API of the crate.
//!
//! A verb is one file in `verb` and one line in `verb/mod.rs`. What verbs share stands beside them: how a file is opened
//! (`input`), how a run ends (`failure`), what goes to standard output (`out`), and the pieces that are printed.

mod bars;
mod casting;
mod codegen;
mod compare;
mod digests;
mod failure;
mod figure;
mod filter;
mod input;
mod listed;
mod lockstep;
mod made;
mod manifest;
mod out;
mod patterns;
mod pixels;
mod plot;
mod print;
mod progress;
mod rename;
mod scalar;
mod select;
mod size;
mod slice;
mod sparse;
mod storable;
mod storage;
mod survey;
mod table;
mod target;
mod tree;
mod verb;
mod writing;

use std::process::ExitCode;

use clap::Parser;

use failure::{Failure, Verdict};
use out::Out;

/// Looks into tensor files: lists them, shows their numbers, compares them, and says what they are.
///
/// The format of a file is found out from its content and its name. `-` in place of a file is standard input, which is
/// read into memory.
///
/// Data goes to standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(name = "tensorfile", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    color: colorchoice_clap::Color,
    #[command(subcommand)]
    verb: verb::Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  fine; also where the reader of the output closes it early
  1  a finding: what was looked for is not so: files differ, do not verify, or lack a tensor
  2  the command line is wrong
  3  a file cannot be read or written
  4  a file is malformed";

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are no failures; they go to standard output.
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Failure::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    cli.color.write_global();

    let mut out = Out::new();
    let ran = cli.verb.run(&mut out);
    // What was written before a failure is shown before the message.
    let flushed = out.finish().map_err(Failure::from);
    match ran.and_then(|verdict| flushed.map(|()| verdict)) {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Finding) => Failure::FINDING.into(),
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_has_examples() {
        for verb in Cli::command().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = format!("  tensorfile {} ", verb.get_name());
            assert!(help.starts_with("Examples:\n") && help.contains(&example), "{}: {help}", verb.get_name());
            assert!(verb.get_about().is_some_and(|about| !about.to_string().is_empty()), "{}", verb.get_name());
        }
    }
}
