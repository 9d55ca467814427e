//! The derive macro of the crate `tensorfile`.
//!
//! ```text
//! tokens ─► attr: parse ─► model: understand ─► check: report mistakes ─► expand: print the impls
//!                                                                    └──► fallback: print the mistakes, and stubs
//! ```

#![forbid(unsafe_code)]

mod attr;
mod check;
mod ctxt;
mod expand;
mod fallback;
mod model;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

use ctxt::Ctxt;
use model::Model;

/// Maps a struct to named tensors.
///
/// Each field is a tensor, or a struct whose tensors have the name of the field as their prefix. The name of the field
/// is the name in the file. A struct with one unnamed field has the tensors of that field. Other tuple structs name
/// their fields `0`, `1` and so on.
///
/// Implements `TensorFile`, `Store` and `FromTensors`, and serde's `Serialize` and `Deserialize` with them.
///
/// # Struct attributes
///
/// | `#[tensor(...)]` | |
/// | --- | --- |
/// | `rename_all = "camelCase"` | Renames all fields. The rules are those of serde: `lowercase`, `UPPERCASE`, `PascalCase`, `camelCase`, `snake_case`, `SCREAMING_SNAKE_CASE`, `kebab-case`, `SCREAMING-KEBAB-CASE`. |
/// | `prefix = "bert"` | Puts a prefix before the names of all tensors: `bert.embed`, … |
/// | `allow_unknown` | Skips tensors that the struct has no field for. Without it they are an error. A list or map that finds nothing is then missing, unless it is an `Option` or has a `default`. |
/// | `cast` | Reads elements of other numeric dtypes in all fields, as `cast` on each array does. A struct inside has its own. |
/// | `write_only` | Leaves out `FromTensors` and `Deserialize`. Needed if a field can be written but not read, such as `ArrayViewMut`. |
/// | `crate = path` | The path of the crate `tensorfile`, if it is not `::tensorfile`. |
///
/// # Field attributes
///
/// | `#[tensor(...)]` | |
/// | --- | --- |
/// | `rename = "fc1.weight"` | Sets the name in the file. It may contain dots. |
/// | `alias = "out.weight"` | Adds another name to read the field by. May be repeated. |
/// | `skip` | Leaves the field out of the file. Reading sets it to `Default::default()`, or to the value of `default`. |
/// | `default`, `default = "path"` | If the file does not have the field, reading sets it to `Default::default()`, or calls a function. |
/// | `flatten` | Names the tensors of a struct, map, list or tuple as if they were fields of this struct. An `Option` is `None` if the file has none of its names. A map takes the tensors that no other field takes. One array cannot be flattened. |
/// | `cast` | Reads elements of other numeric dtypes and converts them. |
/// | `shape = [64, _]` | Sets the dims of the array: numbers, constants, or `_` for any size. As many as the rank of its type. |
/// | `transpose` | The file holds the array with its dims reversed. |
/// | `metadata` | The field is not a tensor but an entry of the file's metadata, under the name that a tensor would have: a string, number, `bool`, `char`, variant without a value, or an `Option` or newtype of one. Formats without metadata refuse it. |
/// | `tied = "embed.weight"` | The field equals the tensor of that name, which is the full name in the file. A format that can share bytes, as `ptd` can, stores them once, and a field that differs is an error. Other formats store both as they are. |
///
#[doc = include_str!("examples.md")]
// `serde` is registered so that its attributes get here and can be refused with advice.
#[proc_macro_derive(TensorFile, attributes(tensor, serde))]
pub fn derive_tensor_file(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive(&parse_macro_input!(input as DeriveInput)).into()
}

fn derive(input: &DeriveInput) -> TokenStream {
    let mut cx = Ctxt::default();
    let model = Model::new(&mut cx, input);
    if let Some(model) = &model {
        check::check(&mut cx, model);
    }
    match (model, cx.finish()) {
        (Some(model), Ok(())) => expand::expand(&model),
        (_, errors) => {
            let errors = errors.err().map(syn::Error::into_compile_error);
            let fallback = fallback::impls(input);
            quote!(#errors #fallback)
        }
    }
}
