//! Generates the Rust structs that load a file.
//!
//! ```text
//! names and infos -> tree: branches at dots -> unify: lists, and the type of their items
//!                 -> structs: each type once -> struct_names -> print: source code
//! ```

mod names;
mod print;
mod struct_names;
mod structs;
mod tree;
mod unify;

#[cfg(test)]
mod tests;

use std::io::Write;

use serde::Serialize;
use tensorfile::{FileTensor, TensorInfo};

use crate::args::Input;
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::export::quoted;
use crate::output::tensors::is_unknown;
use crate::output::warnings::WarningRow;
use crate::output::{Stdout, escape};
use crate::repeated;

use names::is_type_name;
use print::Style;
use structs::Structs;
use tree::Node;
use unify::Fields;

/// Print Rust structs that load a file.
///
/// Each prefix of names becomes a struct with `#[derive(TensorFile)]`, and numbered layers become a `Vec`. Equal structs are
/// printed once. A tensor that only some layers have becomes an `Option`. A comment on each field shows dtype and shape,
/// with `_` for dims that differ between the tensors of the field. Files without names give fields that are matched by
/// position.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Codegen {
    #[command(flatten)]
    input: Input,
    /// The name of the outermost struct
    #[arg(long, value_name = "NAME", default_value = "Model")]
    root: String,
    /// Borrow arrays from the file, except those of bools: `ArrayView` instead of `Array`
    #[arg(long)]
    views: bool,
    /// Require the shapes of this file when loading
    #[arg(long)]
    shapes: bool,
    /// Print JSON: a list with the file and the code
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile codegen model.ptd > src/model.rs
  tensorfile codegen --root Bert --shapes model.tbs
  tensorfile codegen --views model.btf";

impl Codegen {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        out.expect_json(self.json);
        let root = self.root.as_str();
        if !is_type_name(root) {
            return Err(Failure::usage(format_args!("--root: `{root}` cannot be the name of a struct")));
        }
        let file = self.input.open()?;
        if let Some(name) = repeated::names(&file).first() {
            // No struct can load it: fields are found by name. The error says what can.
            file.get(name).at(self.input.path())?;
        }
        let path = self.input.path().display().to_string();
        let load = match self.views {
            true => format!("`File::open({path:?})?.load::<{root}>()`"),
            false => format!("`tensorfile::load::<{root}>({path:?})`"),
        };
        let mut docs = vec![
            format!("The tensors of `{}`, by `tensorfile codegen`.", escape(&path)),
            String::new(),
            format!("{load} loads them."),
        ];
        let is_known = |tensor: &FileTensor<'_>| !is_unknown(tensor.info());
        let unknown =
            file.tensors().filter(|tensor| !is_known(tensor)).map(|tensor| escape(tensor.name()).into_owned());
        let unknown: Vec<String> = unknown.collect();
        if !unknown.is_empty() {
            let noun = if unknown.len() == 1 { "a tensor of unknown dtype" } else { "tensors of unknown dtypes" };
            docs.extend([String::new(), format!("Without {}, {noun}.", quoted(&unknown))]);
        }
        let allow_unknown = !unknown.is_empty();
        let style = Style { root, views: self.views, shapes: self.shapes, allow_unknown, docs: &docs };
        let tensors = file.tensors().filter(is_known);
        let code = match file.tensors().any(|tensor| tensor.has_name()) {
            true => of_named(tensors.map(|tensor| (tensor.name(), tensor.info())), &style),
            false => of_nameless(tensors.map(|tensor| tensor.info()), &style),
        };
        match self.json {
            true => out.json_list(|list| {
                list.push(&Generated { file: &path, warnings: WarningRow::of_file(&file), code: &code })
            })??,
            false => out.write_all(code.as_bytes())?,
        }
        Ok(Verdict::Pass)
    }
}

#[derive(Serialize)]
struct Generated<'a> {
    file: &'a str,
    warnings: Vec<WarningRow>,
    code: &'a str,
}

/// Generates the code for tensors with names.
fn of_named<'a>(tensors: impl Iterator<Item = (&'a str, &'a TensorInfo)>, style: &Style<'_>) -> String {
    let mut root = Node::default();
    for (name, info) in tensors {
        root.insert(name, info);
    }
    print::print(&Structs::new(&Fields::of(root)), style)
}

/// Generates the code for tensors without names, which are matched by position.
fn of_nameless<'a>(infos: impl Iterator<Item = &'a TensorInfo>, style: &Style<'_>) -> String {
    let tensors: Vec<_> = infos.enumerate().map(|(at, info)| (format!("t{at}"), info)).collect();
    of_named(tensors.iter().map(|(name, info)| (name.as_str(), *info)), style)
}
