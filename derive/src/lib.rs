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

/// Maps a struct to named tensors, so that you can `load` and `save` it.
///
/// An array field is one tensor, and the name of the field is the tensor's name in the file. A struct field puts its
/// name and a dot before the names of its own fields: `layer.weight`, `layer.bias`. A struct with one unnamed field
/// adds no name. Other tuple structs call their fields `0`, `1` and so on.
///
/// You get impls of `TensorFile`, `Store` and `FromTensors`, and of serde's `Serialize` and `Deserialize`.
///
/// # Struct attributes
///
/// | `#[tensor(...)]` | |
/// | --- | --- |
/// | `rename_all = "camelCase"` | Renames all fields by one of serde's rules: `lowercase`, `UPPERCASE`, `PascalCase`, `camelCase`, `snake_case`, `SCREAMING_SNAKE_CASE`, `kebab-case`, `SCREAMING-KEBAB-CASE`. |
/// | `prefix = "bert"` | Puts a prefix before the names of all tensors: `bert.embed`, … |
/// | `allow_unknown` | Skips tensors without a field; by default they are an error. A list or map without tensors then counts as missing: make it an `Option` or give it a `default`. |
/// | `cast` | Converts other numeric dtypes in all arrays of the struct, as if each had `cast`. Structs inside need their own `cast`. |
/// | `dequantize` | Decodes quantized weights in all arrays of the struct, as if each had `dequantize`. Structs inside need their own. |
/// | `write_only` | Leaves out `FromTensors` and `Deserialize`. You need it for fields that can only be written, such as `ArrayViewMut`. |
/// | `crate = path` | The path of the crate `tensorfile`, if you do not depend on it as `::tensorfile`. |
///
/// # Field attributes
///
/// | `#[tensor(...)]` | |
/// | --- | --- |
/// | `rename = "fc1.weight"` | Sets the name in the file. The name may contain dots. |
/// | `alias = "out.weight"` | Adds another name that the field may have in a file. You can give several. |
/// | `skip` | Leaves the field out of the file. Reading sets it to `Default::default()`, or to the value of `default`. |
/// | `default`, `default = "path"` | Fills the field if the file does not have it: with `Default::default()`, or the result of your function. |
/// | `flatten` | Drops the field's name: the contents of a struct, map, list or tuple are named as if they stood in this struct. An `Option` is `None` if the file has none of its names. A map takes all tensors without another field. You cannot flatten a single array. |
/// | `cast` | Reads elements of other numeric dtypes and converts them. |
/// | `dequantize` | Decodes the field if the file stores it as codes with scales, and reads it as usual otherwise: to the dtype of the array if that is f32, bf16 or f16, else to f32. An open `File` decodes, with the Cargo feature `quant`; a slice or a stream refuses codes. |
/// | `shape = [64, _]` | Sets the dims of the array. Write a number, a constant or `_` (any size) for each. |
/// | `transpose` | The file holds the array with its dims reversed. |
/// | `metadata` | Stores the field as an entry of the file's metadata, not as a tensor. Its type is a string, number, `bool`, `char`, variant without a value, or an `Option` or newtype of one. Formats without metadata refuse it. |
/// | `tied = "embed.weight"` | Ties the field to another tensor, by its full name in the file. A format that can share bytes, such as `ptd`, stores them once, and refuses a field that differs. Other formats store both. |
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
