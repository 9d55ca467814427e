use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;
use crate::failure::{Outcome, Verdict};
use crate::out::Out;

/// Print a script that completes command lines in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell that the script is for
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile completions bash > ~/.local/share/bash-completion/completions/tensorfile
  tensorfile completions zsh > ~/.zfunc/_tensorfile
  tensorfile completions fish > ~/.config/fish/completions/tensorfile.fish";

impl Completions {
    pub fn run(&self, out: &mut Out) -> Outcome {
        use std::io::Write;

        // Written to memory first: the generator takes a closed pipe for a bug.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tensorfile", &mut script);
        out.write_all(&script)?;
        Ok(Verdict::Fine)
    }
}
