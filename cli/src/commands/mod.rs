//! The commands.
//!
//! A command is a struct of arguments with a method `run(&self, out: &mut Stdout) -> Outcome`. Its doc comment is its
//! help, and `#[command(after_help = …)]` has its examples. To add one, write its file and add it to the list below.

mod append;
mod codegen;
mod convert;
mod diff;
mod edit;
mod hash;
mod info;
mod ls;
mod merge;
mod report;
mod setup;
mod show;
mod split;
mod splits;
mod stats;
mod verify;

use crate::exit::Outcome;
use crate::output::Stdout;

pub use setup::complete;

/// Declares the subcommands, in the order of the help.
macro_rules! commands {
    ($($module:ident::$command:ident),* $(,)?) => {
        #[derive(Debug, clap::Subcommand)]
        pub enum Command {
            $($command($module::$command),)*
        }

        impl Command {
            pub fn run(&self, out: &mut Stdout) -> Outcome {
                match self { $(Self::$command(command) => command.run(out),)* }
            }
        }
    };
}

commands! {
    ls::Ls,
    info::Info,
    show::Show,
    stats::Stats,
    diff::Diff,
    verify::Verify,
    hash::Hash,
    report::Report,
    codegen::Codegen,
    convert::Convert,
    append::Append,
    edit::Edit,
    split::Split,
    merge::Merge,
    splits::Splits,
    setup::Completions,
    setup::Man,
}
