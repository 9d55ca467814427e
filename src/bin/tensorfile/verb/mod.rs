//! The verbs, in the order of the help: one file and one line each.
//!
//! A verb is a struct of arguments with a method `run(&self, out: &mut Out) -> Outcome`. Its doc comment is its help, and
//! `#[command(after_help = …)]` has its examples.

use crate::failure::Outcome;
use crate::out::Out;

/// Declares the modules, the subcommands and the call of each.
macro_rules! verbs {
    ($($module:ident::$verb:ident),* $(,)?) => {
        $(mod $module;)*

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
