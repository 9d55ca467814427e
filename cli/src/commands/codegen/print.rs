//! Prints structs as Rust code.

use std::collections::BTreeSet;
use std::fmt::Write;

use tensorfile::Dtype;

use super::struct_names::struct_names;
use super::structs::{Field, Structs, Type};
use super::tree::{Kind, Leaf};

/// Options of the generated code.
#[derive(Debug, Clone, Copy)]
pub struct Style<'a> {
    /// The name of the outermost struct.
    pub root: &'a str,
    /// Borrow arrays from the file.
    pub views: bool,
    /// Dtypes whose arrays are owned nevertheless.
    pub owned: &'a [Dtype],
    /// The target dtype of floats. Cast arrays cannot be borrowed.
    pub cast: Option<Dtype>,
    /// Require the shapes of this file.
    pub shapes: bool,
    /// Skip tensors without a field.
    pub allow_unknown: bool,
    /// The documentation of the outermost struct.
    pub docs: &'a [String],
}

/// The line width of rustfmt.
const WIDTH: usize = 100;
/// The width of an attribute's arguments from which rustfmt breaks the line.
const ATTRIBUTE_WIDTH: usize = 70;

/// Generates the code of the structs.
pub fn print(structs: &Structs, style: &Style<'_>) -> String {
    let names = struct_names(structs, style.root);
    let mut printer =
        StructPrinter { structs, style, names: vec![""; names.len()], borrows: Vec::new(), imports: BTreeSet::new() };
    for (index, name) in &names {
        printer.names[*index] = name;
    }
    // A struct comes after the structs of its fields.
    for known in &structs.structs {
        let borrows = known.fields.iter().any(|field| printer.borrows(&field.ty));
        printer.borrows.push(borrows);
    }
    let mut text = String::new();
    for (index, _) in &names {
        printer.declare(*index, &mut text);
    }
    printer.imports() + &text
}

struct StructPrinter<'a> {
    structs: &'a Structs,
    style: &'a Style<'a>,
    /// The names of the structs.
    names: Vec<&'a str>,
    /// A flag for each struct: set if it borrows from the file.
    borrows: Vec<bool>,
    /// The types in use, by module.
    imports: BTreeSet<(&'static str, String)>,
}

impl StructPrinter<'_> {
    fn borrows(&self, ty: &Type) -> bool {
        match ty {
            Type::Tensor(Kind::Dense(dtype), _) => self.borrows_arrays_of(*dtype),
            Type::Tensor(Kind::Sparse(_) | Kind::Blob | Kind::Unknown | Kind::Any, _) | Type::TensorMap => false,
            Type::Struct(index) => self.borrows[*index],
            Type::List(ty) | Type::Map(ty) | Type::Option(ty) => self.borrows(ty),
        }
    }

    /// Bools cannot be borrowed from a mapped file, because another process could change them to other bytes.
    fn borrows_arrays_of(&self, dtype: Dtype) -> bool {
        let is_owned = dtype == Dtype::Bool || self.style.owned.contains(&dtype) || self.style.cast == Some(dtype);
        self.style.views && !is_owned && element(dtype).is_some()
    }

    fn declare(&mut self, index: usize, text: &mut String) {
        text.push('\n');
        if index + 1 == self.structs.structs.len() {
            self.style.docs.iter().for_each(|line| push(text, format_args!("/// {line}").to_string().trim_end()));
        }
        self.import("tensorfile", "TensorFile");
        let (name, lifetime) = (self.names[index], if self.borrows[index] { "<'a>" } else { "" });
        push(text, "#[derive(Debug, TensorFile)]");
        if self.style.allow_unknown {
            push(text, "#[tensor(allow_unknown)]");
        }
        let fields = &self.structs.structs[index].fields;
        if fields.is_empty() {
            return push(text, &format!("pub struct {name}{lifetime} {{}}"));
        }
        push(text, &format!("pub struct {name}{lifetime} {{"));
        fields.iter().for_each(|field| self.field(field, text));
        push(text, "}");
    }

    fn field(&mut self, field: &Field, text: &mut String) {
        match &field.leaf {
            Some(leaf) => push(text, &format!("    /// {leaf}")),
            None if field.ty == Type::TensorMap => push(text, "    /// Tensors whose names no field can have."),
            None => {}
        }
        let mut attributes = Vec::new();
        match &field.name {
            Some(name) if name != field.ident.trim_start_matches("r#") => attributes.push(format!("rename = {name:?}")),
            Some(_) => {}
            None => attributes.push("flatten".to_owned()),
        }
        if field.leaf.as_ref().is_some_and(|leaf| leaf.is_cast) {
            attributes.push("cast".to_owned());
        }
        if field.leaf.as_ref().is_some_and(|leaf| leaf.decoded.is_some()) {
            attributes.push("dequantize".to_owned());
        }
        if let Some(shape) = field.leaf.as_ref().filter(|_| self.style.shapes).and_then(attribute) {
            attributes.push(shape);
        }
        self.attributes(&attributes, text);
        let (ident, ty) = (&field.ident, self.ty(&field.ty));
        let line = format!("    pub {ident}: {ty},");
        if line.chars().count() <= WIDTH {
            push(text, &line)
        } else {
            push(text, &format!("    pub {ident}:\n        {ty},"))
        }
    }

    fn attributes(&self, attributes: &[String], text: &mut String) {
        let arguments = attributes.join(", ");
        let line = format!("    #[tensor({arguments})]");
        // rustfmt keeps a single argument on its line if it fits.
        let is_long = arguments.chars().count() > ATTRIBUTE_WIDTH && attributes.len() > 1;
        if is_long || line.chars().count() > WIDTH {
            push(text, "    #[tensor(");
            push(text, &format!("        {}", attributes.join(",\n        ")));
            push(text, "    )]");
        } else if !attributes.is_empty() {
            push(text, &line);
        }
    }

    fn ty(&mut self, ty: &Type) -> String {
        match ty {
            Type::Tensor(kind, rank) => self.tensor(*kind, *rank),
            Type::Struct(index) => format!("{}{}", self.names[*index], if self.borrows[*index] { "<'a>" } else { "" }),
            Type::List(item) => format!("Vec<{}>", self.ty(item)),
            Type::Map(item) => {
                self.import("std::collections", "BTreeMap");
                format!("BTreeMap<usize, {}>", self.ty(item))
            }
            Type::Option(ty) => format!("Option<{}>", self.ty(ty)),
            Type::TensorMap => self.import("tensorfile", "TensorMap"),
        }
    }

    fn tensor(&mut self, kind: Kind, rank: Option<usize>) -> String {
        match kind {
            Kind::Dense(dtype) => {
                let (view, lifetime) = if self.borrows_arrays_of(dtype) { ("View", "'a, ") } else { ("", "") };
                let Some(element) = element(dtype) else { return self.tensor(Kind::Any, rank) };
                // `ndarray` has names for ranks up to 6.
                let rank = rank.filter(|rank| *rank <= 6).map_or("D".to_owned(), |rank| rank.to_string());
                let array = self.import("tensorfile::ndarray", &format!("Array{view}{rank}"));
                format!("{array}<{lifetime}{element}>")
            }
            Kind::Sparse(dtype) => {
                let Some(element) = element(dtype) else { return self.tensor(Kind::Any, rank) };
                format!("{}<{element}>", self.import("tensorfile", "CooTensor"))
            }
            Kind::Blob => self.import("tensorfile", "Blob"),
            // One of the tensors may hold bools.
            Kind::Unknown | Kind::Any => self.import("tensorfile", "Tensor"),
        }
    }

    fn import(&mut self, module: &'static str, name: &str) -> String {
        self.imports.insert((module, name.to_owned()));
        name.to_owned()
    }

    fn imports(&self) -> String {
        let mut text = String::new();
        let names_of = |module: &str| -> Vec<&str> {
            self.imports.iter().filter(|(of, _)| *of == module).map(|(_, name)| name.as_str()).collect()
        };
        let mut modules: Vec<&str> = self.imports.iter().map(|(module, _)| *module).collect();
        modules.dedup();
        // As rustfmt sorts them: `tensorfile::TensorFile`, `tensorfile::ndarray` and then `tensorfile::{…}`.
        modules
            .sort_by_key(|module| (module.split("::").next(), *module == "tensorfile" && names_of(module).len() > 1));
        for module in modules {
            let names = names_of(module);
            let (line, names) = match names.as_slice() {
                [name] => (format!("use {module}::{name};"), String::new()),
                names => (format!("use {module}::{{{}}};", names.join(", ")), names.join(", ")),
            };
            match line.len() <= WIDTH {
                true => push(&mut text, &line),
                // The names of every module fit on one line.
                false => push(&mut text, &format!("use {module}::{{\n    {names},\n}};")),
            }
        }
        text
    }
}

/// Returns the attribute for the known dims of an array.
fn attribute(leaf: &Leaf) -> Option<String> {
    let is_known = leaf.dims.as_ref()?.iter().any(Option::is_some);
    // A dtype without an element becomes a `Tensor`, which takes no shape.
    let is_array = matches!(leaf.kind, Kind::Dense(dtype) if element(dtype).is_some());
    (is_known && is_array).then(|| format!("shape = {}", leaf.shape()))
}

fn push(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a `String` does not fail");
}

/// Returns the Rust type of an element, as a path without an import.
fn element(dtype: Dtype) -> Option<&'static str> {
    use tensorfile::Dtype;

    Some(match dtype {
        Dtype::Bool | Dtype::F32 | Dtype::F64 => dtype.name(),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => dtype.name(),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => dtype.name(),
        Dtype::F16 => "tensorfile::half::f16",
        Dtype::Bf16 => "tensorfile::half::bf16",
        Dtype::F8E5M2 => "tensorfile::scalar::F8E5M2",
        Dtype::F8E4M3Fn => "tensorfile::scalar::F8E4M3Fn",
        Dtype::F8E5M2Fnuz => "tensorfile::scalar::F8E5M2Fnuz",
        Dtype::F8E4M3Fnuz => "tensorfile::scalar::F8E4M3Fnuz",
        Dtype::QInt8 => "tensorfile::scalar::QInt8",
        Dtype::QUint8 => "tensorfile::scalar::QUint8",
        Dtype::QInt32 => "tensorfile::scalar::QInt32",
        Dtype::QUint4x2 => "tensorfile::scalar::QUint4x2",
        Dtype::QUint2x4 => "tensorfile::scalar::QUint2x4",
        Dtype::Bits16 => "tensorfile::scalar::Bits16",
        Dtype::F8E8M0 => "tensorfile::scalar::F8E8M0",
        Dtype::C64 => "tensorfile::num_complex::Complex<f32>",
        Dtype::C128 => "tensorfile::num_complex::Complex<f64>",
        _ => return None,
    })
}
