//! Generates Rust structs for loading a file.
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
use tensorfile::file::FileTensor;
use tensorfile::view::is_aligned;
use tensorfile::{Dtype, File, Layout};

use crate::args::{Decoding, Filter, Input, MapArgs};
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::export::quoted;
use crate::output::tensors::{is_unknown, verdict};
use crate::output::warnings::WarningRow;
use crate::output::{Stdout, escape, note};
use crate::repeated;

use names::is_type_name;
use print::Style;
use structs::Structs;
use tree::{Leaf, Node};
use unify::Fields;

/// Print Rust structs that load a file.
///
/// Each prefix of names becomes a struct with `#[derive(TensorFile)]`, and numbered layers become a `Vec`. Equal
/// structs are printed once. A tensor in only some of the layers becomes an `Option`. A comment on each field shows
/// dtype and shape, with `_` for dims that differ between the tensors of the field. From a file without names you get
/// fields matched by position.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Codegen {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    mapping: MapArgs,
    /// The name of the outermost struct
    #[arg(long, value_name = "NAME", default_value = "Model")]
    root: String,
    /// Borrow arrays from the file, except those of bools: `ArrayView` instead of `Array`
    ///
    /// If the file is compressed, big-endian, encoded otherwise or not aligned, arrays of the dtypes that it cannot
    /// lend are owned.
    #[arg(long)]
    views: bool,
    /// Load floats as this dtype, such as f32, whatever float dtype the file has
    #[arg(long, value_name = "DTYPE", value_parser = parse_float)]
    cast: Option<Dtype>,
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
  tensorfile codegen --views model.btf
  tensorfile codegen --cast f32 --filter 'encoder.*' model.safetensors";

/// Parses a float dtype that Rust or the library can compute with.
fn parse_float(name: &str) -> Result<Dtype, &'static str> {
    let floats = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];
    floats.into_iter().find(|dtype| dtype.name() == name).ok_or("expected f16, bf16, f32 or f64")
}

impl Codegen {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        self.decoding.apply();
        self.mapping.apply(false)?;
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
        let load = if self.views {
            format!("`File::open({path:?})?.load::<{root}>()`")
        } else {
            format!("`tensorfile::load::<{root}>({path:?})`")
        };
        let mut docs = vec![
            format!("The tensors of `{}`, by `tensorfile codegen`.", escape(&path)),
            String::new(),
            format!("{load} loads them."),
        ];
        let has_names = file.tensors().any(|tensor| tensor.has_name());
        // A struct without fields loads nothing, and tensors without names are matched by position, so all are needed.
        let takes_unknown = !has_names || file.tensors().all(|tensor| is_unknown(tensor.info()));
        let is_left_out = |tensor: &FileTensor<'_>| !takes_unknown && is_unknown(tensor.info());
        let is_chosen = |tensor: &FileTensor<'_>| !is_left_out(tensor) && self.filter.matches(tensor.name());
        let unknown = file.tensors().filter(is_left_out);
        let unknown: Vec<String> = unknown.map(|tensor| escape(tensor.name()).into_owned()).collect();
        if !unknown.is_empty() {
            docs.extend([String::new(), format!("Without {}, whose elements cannot be read.", quoted(&unknown))]);
        }
        let chosen = file.tensors().filter(is_chosen).count();
        self.filter.expect_some(chosen)?;
        if chosen < file.len() - unknown.len() {
            if !has_names {
                let why = "--filter: the file has no names, so its tensors are matched by position, and all are needed";
                return Err(Failure::usage_at(self.input.path(), why));
            }
            docs.extend([String::new(), format!("Only {chosen} of {} tensors are loaded.", file.len())]);
        }
        let owned = if self.views { Owned::of(&file, &is_chosen) } else { Owned::default() };
        if let Some(why) = owned.why() {
            note(format_args!("{path}: --views: {why}"));
            docs.extend([String::new(), format!("Not all arrays are borrowed: {}.", escape(&why))]);
        }
        let allow_unknown = chosen < file.len();
        let style = Style {
            root,
            views: self.views,
            owned: &owned.dtypes,
            cast: self.cast,
            shapes: self.shapes,
            allow_unknown,
            docs: &docs,
        };
        let mut tree = Node::default();
        for tensor in file.tensors().filter(is_chosen) {
            let leaf = Leaf::new(tensor.info(), verdict(tensor), self.cast);
            match has_names {
                true => tree.insert(tensor.name(), leaf),
                // They are matched by position.
                false => tree.insert(&format!("t{}", tensor.name()), leaf),
            }
        }
        file.tensors().filter(|tensor| !is_chosen(tensor)).for_each(|tensor| tree.leave_out(tensor.name()));
        let code = generate(tree, &style);
        if self.json {
            out.json_list(|list| {
                list.push(&Generated { file: &path, warnings: WarningRow::of_file(&file), code: &code })
            })??
        } else {
            out.write_all(code.as_bytes())?
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

/// Dtypes with arrays that cannot all be borrowed from the file.
#[derive(Debug, Default)]
struct Owned {
    dtypes: Vec<Dtype>,
    /// For each reason, the tensors.
    reasons: Vec<(&'static str, Vec<String>)>,
}

impl Owned {
    fn of(file: &File, is_chosen: &dyn Fn(&FileTensor<'_>) -> bool) -> Self {
        let mut owned = Self::default();
        for tensor in file.tensors().filter(|tensor| is_chosen(tensor)) {
            let is_dense = matches!(tensor.layout(), Layout::RowMajor | Layout::DimOrder(_));
            let reason = match () {
                () if !is_dense || tensor.payload_bytes() == 0 || tensor.dtype() == Dtype::Bool => continue,
                () if tensor.is_compressed() => "compressed",
                () if tensor.is_big_endian() => "big-endian",
                () if tensor.is_encoded() => "encoded",
                () if matches!(verdict(tensor), tensorfile::quant::Verdict::Decoded(_)) => "stored as codes",
                () if !is_aligned(&tensor) => "not aligned",
                () => continue,
            };
            if !owned.dtypes.contains(&tensor.dtype()) {
                owned.dtypes.push(tensor.dtype());
            }
            let index = owned.reasons.iter().position(|(known, _)| *known == reason).unwrap_or_else(|| {
                owned.reasons.push((reason, Vec::new()));
                owned.reasons.len() - 1
            });
            owned.reasons[index].1.push(tensor.name().to_owned());
        }
        owned
    }

    /// Describes what cannot be borrowed, and why.
    fn why(&self) -> Option<String> {
        let reason = |(reason, names): &(&str, Vec<String>)| {
            format!("{} {} {reason} in the file", quoted(names), if names.len() == 1 { "is" } else { "are" })
        };
        let reasons: Vec<String> = self.reasons.iter().map(reason).collect();
        let dtypes: Vec<&str> = self.dtypes.iter().map(|dtype| dtype.name()).collect();
        let end = format!("so arrays of {} are owned", dtypes.join(", "));
        (!reasons.is_empty()).then(|| format!("{}, {end}", reasons.join(", ")))
    }
}

/// Generates the code for a tree of tensors.
fn generate(tree: Node, style: &Style<'_>) -> String {
    print::print(&Structs::new(&Fields::of(tree)), style)
}
