use std::io::Write;

use crate::codegen::{Style, is_type_name, of_named, of_nameless};
use crate::failure::{Failure, Outcome, Verdict};
use crate::input::Input;
use crate::out::{Out, plain};

/// Print the Rust structs that load a file.
///
/// Each prefix of the names becomes a struct with `#[derive(TensorFile)]`, equal structs become one, and numbered layers
/// a `Vec`. What some layers lack is an `Option`. Above each field stands what the tensor is in this file, with `_` for
/// dims that differ between those that share the field. A file without names gives fields by position.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Codegen {
    #[command(flatten)]
    input: Input,
    /// The name of the outermost struct
    #[arg(long, value_name = "NAME", default_value = "Model")]
    root: String,
    /// Borrow from the file: `ArrayView` in place of `Array`
    #[arg(long)]
    views: bool,
    /// Let arrays be read with the dims of this file only
    #[arg(long)]
    shapes: bool,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile codegen model.ptd > src/model.rs
  tensorfile codegen --root Bert --shapes model.tbs
  tensorfile codegen --views model.btf";

impl Codegen {
    pub fn run(&self, out: &mut Out) -> Outcome {
        let root = self.root.as_str();
        if !is_type_name(root) {
            return Err(Failure::usage(format_args!("`{root}` cannot be the name of the struct")));
        }
        let file = self.input.open()?;
        let path = self.input.path().display().to_string();
        let load = match self.views {
            true => format!("`File::open({path:?})?.load::<{root}>()`"),
            false => format!("`tensorfile::load::<{root}>({path:?})`"),
        };
        let docs = [format!("The tensors of `{}`, by `tensorfile codegen`.", plain(&path)), String::new(), format!("{load} loads them.")];
        let style = Style { root, views: self.views, shapes: self.shapes, docs: &docs };
        let code = match file.tensors().any(|tensor| tensor.has_name()) {
            true => of_named(file.tensors().map(|tensor| (tensor.name(), tensor.info())), &style),
            false => of_nameless(file.tensors().map(|tensor| tensor.info()), &style),
        };
        out.write_all(code.as_bytes())?;
        Ok(Verdict::Fine)
    }
}
