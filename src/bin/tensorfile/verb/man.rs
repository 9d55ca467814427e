use std::io::Write;
use std::path::PathBuf;

use clap::{Command, CommandFactory};

use crate::Cli;
use crate::failure::{At, Failure, Outcome, Verdict};
use crate::out::Out;

/// Print a manual page, or write all of them to a folder.
///
/// Without a verb, it is the page of the program itself.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Man {
    /// The verb whose page is printed
    #[arg(conflicts_with = "folder")]
    verb: Option<String>,
    /// Write the pages of the program and of each verb to this folder, which is made if it is not there
    #[arg(long = "out", value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile man ls | man -l -
  tensorfile man --out ~/.local/share/man/man1";

impl Man {
    pub fn run(&self, out: &mut Out) -> Outcome {
        let command = page_names(Cli::command());
        if let Some(folder) = &self.folder {
            std::fs::create_dir_all(folder).at(folder)?;
            for command in std::iter::once(&command).chain(command.get_subcommands()) {
                let path = folder.join(format!("{}.1", page_name(command)));
                std::fs::write(&path, page(command)?).at(&path)?;
            }
            return Ok(Verdict::Fine);
        }
        let command = match &self.verb {
            None => &command,
            Some(verb) => command.find_subcommand(verb).ok_or_else(|| {
                Failure::usage(format_args!("there is no verb `{verb}`; `tensorfile --help` lists them"))
            })?,
        };
        out.write_all(&page(command)?)?;
        Ok(Verdict::Fine)
    }
}

fn page(command: &Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Names the page of each verb as `man` looks it up, `tensorfile-ls`.
fn page_names(mut command: Command) -> Command {
    command.build();
    command
}
