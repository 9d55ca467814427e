//! `completions` and `man`: made from the definition of the command line.

use std::io::Write;
use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

use crate::Cli;
use crate::args::NoClobber;
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::output::Stdout;

/// The environment variable with which a completion script asks the program for completions.
const COMPLETE: &str = "TENSORFILE_COMPLETE";

/// Answers the completion script of a shell, and exits, if one asks.
pub fn complete() {
    CompleteEnv::with_factory(Cli::command).var(COMPLETE).complete();
}

/// Print a completion script for a shell.
///
/// The script asks `tensorfile` itself, so you can also complete the names of tensors in the files of your command
/// line.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  tensorfile completions bash > ~/.local/share/bash-completion/completions/tensorfile
  tensorfile completions zsh > ~/.zfunc/_tensorfile
  tensorfile completions fish > ~/.config/fish/completions/tensorfile.fish";

impl Completions {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        let shell = self.shell.to_string();
        let shells = Shells::builtins();
        let shell = shells.completer(&shell).ok_or_else(|| Failure::usage(format_args!("{shell}: unknown shell")))?;
        let mut script = Vec::new();
        shell.write_registration(COMPLETE, "tensorfile", "tensorfile", "tensorfile", &mut script)?;
        if self.shell == Shell::Bash {
            let of_clap = String::from_utf8_lossy(&script);
            script = of_clap.replace("-F _clap_complete_tensorfile", "-F _tensorfile").into_bytes();
            out.raw()?.write_all(JOIN_WORDS.as_bytes())?;
        }
        out.raw()?.write_all(&script)?;
        Ok(Verdict::Pass)
    }
}

/// A bash function that calls clap's function with whole words.
///
/// Bash splits words at `=` and `:`, and so hides the beginning of `f32=bf16` and of `--dtype=bf16` from that one. Of
/// the candidates, it expects only what follows the last of these.
const JOIN_WORDS: &str = r#"_tensorfile() {
    local rest=$COMP_LINE words=() index=0 joined= at
    for at in "${!COMP_WORDS[@]}"; do
        local word=${COMP_WORDS[at]} typed=${COMP_WORDS[at]} start=${rest#"${rest%%[![:space:]]*}"}
        if ((at == COMP_CWORD)) && [[ $word != [=:]* ]]; then typed=$2; fi
        if ((at > 0)) && [[ $start == "$rest" ]]; then
            words[${#words[@]} - 1]+=$typed
        else
            words+=("$typed")
        fi
        if ((at == COMP_CWORD)); then index=$((${#words[@]} - 1)); joined=${words[index]}; fi
        rest=${start#"$word"}
    done
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$index prefix=${joined%"$2"}
    _clap_complete_tensorfile "$1" "$joined" "$3"
    if ((${#COMPREPLY[@]})); then COMPREPLY=("${COMPREPLY[@]#"$prefix"}"); fi
}
"#;

/// Print a manual page, or write all of them to a directory.
#[derive(Debug, clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct Man {
    /// The command whose page is printed; by default, the page of `tensorfile` itself
    #[arg(conflicts_with = "directory")]
    command: Option<String>,
    /// Write the pages of `tensorfile` and all its commands to this directory, which is created if necessary
    #[arg(long = "out", value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    no_clobber: NoClobber,
}

const MAN_EXAMPLES: &str = "\
Examples:
  tensorfile man ls | man -l -
  tensorfile man --out ~/.local/share/man/man1";

impl Man {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        let mut program = Cli::command();
        // Gives each command the name that `man` looks up: `tensorfile-ls`.
        program.build();
        if let Some(directory) = &self.directory {
            std::fs::create_dir_all(directory).at(directory)?;
            let commands = program.get_subcommands().filter(|command| command.get_name() != "help");
            let pages = std::iter::once(&program).chain(commands).map(|command| {
                let name = command.get_display_name().unwrap_or_else(|| command.get_name());
                (directory.join(format!("{name}.1")), command)
            });
            let pages: Vec<(PathBuf, &Command)> = pages.collect();
            pages.iter().try_for_each(|(path, _)| self.no_clobber.check(path))?;
            for (path, command) in pages {
                tensorfile::file::atomic::write(&path, &page(command)?).at(&path)?;
            }
            return Ok(Verdict::Pass);
        }
        let command = match &self.command {
            None => &program,
            Some(name) => program.find_subcommand(name).ok_or_else(|| {
                Failure::usage(format_args!("unknown command `{name}`; `tensorfile --help` lists the commands"))
            })?,
        };
        out.raw()?.write_all(&page(command)?)?;
        Ok(Verdict::Pass)
    }
}

fn page(command: &Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    let title = command.get_display_name().unwrap_or_else(|| command.get_name()).to_uppercase();
    // Otherwise the pages of commands would name the command as the program: `ls 0.1.0`.
    let source = concat!("tensorfile ", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).title(title).source(source).manual("User Commands");
    man.render(&mut page)?;
    Ok(page)
}
