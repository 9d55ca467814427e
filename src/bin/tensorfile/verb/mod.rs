//! The verbs: a file and two lines each.
//!
//! A verb is a struct of arguments with a method `run(&self, out: &mut Out) -> Outcome`. Its doc comment is its help, and
//! `#[command(after_help = …)]` has its examples.

mod append;
mod codegen;
mod completions;
mod convert;
mod diff;
mod hash;
mod info;
mod ls;
mod man;
mod merge;
mod show;
mod split;
mod stats;
mod verify;

use crate::failure::Outcome;
use crate::out::Out;

/// Declares the subcommands, in the order of the help, and the call of each.
macro_rules! verbs {
    ($($module:ident::$verb:ident),* $(,)?) => {
        #[derive(Debug, clap::Subcommand)]
        pub enum Verb {
            $($verb($module::$verb),)*
        }

        impl Verb {
            /// Runs the verb.
            pub fn run(&self, out: &mut Out) -> Outcome {
                match self { $(Self::$verb(verb) => verb.run(out),)* }
            }
        }
    };
}

verbs! {
    ls::Ls,
    info::Info,
    show::Show,
    stats::Stats,
    diff::Diff,
    verify::Verify,
    hash::Hash,
    codegen::Codegen,
    convert::Convert,
    append::Append,
    split::Split,
    merge::Merge,
    completions::Completions,
    man::Man,
}
