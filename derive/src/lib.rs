//! The derive macro of the crate `tensorfile`.
//!
//! ```text
//! tokens -> attr: parse -> model: understand -> check: judge -> expand: print
//!                                                     |-------> fallback: print stubs, and the errors
//! ```

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
/// Implements `TensorFile` and `FromTensors`, and serde's `Serialize` and `Deserialize` with them. Each field is a
/// tensor, or a prefix for the tensors of another struct, and its name is the name in the file. A newtype struct is
/// what its field is. The fields of other tuple structs are named `0`, `1` and so on.
///
/// # Attributes of the struct
///
/// | `#[tensor(...)]` | |
/// | --- | --- |
/// | `rename_all = "camelCase"` | Spells the names of the fields by a rule. The rules are those of serde: `lowercase`, `UPPERCASE`, `PascalCase`, `camelCase`, `snake_case`, `SCREAMING_SNAKE_CASE`, `kebab-case`, `SCREAMING-KEBAB-CASE`. |
/// | `prefix = "bert"` | All tensors of the struct lie under this name: `bert.embed`, … |
/// | `allow_unknown` | Reading passes over tensors that the struct has no field for. Without it they are an error. |
/// | `write_only` | The struct is not read. Needed if a field can only be written, as `ArrayViewMut`. |
/// | `crate = path` | Where the crate `tensorfile` is, if it is not `::tensorfile`. |
///
/// # Attributes of a field
///
/// | `#[tensor(...)]` | |
/// | --- | --- |
/// | `rename = "fc1.weight"` | The name in the file. It may have dots. |
/// | `alias = "out.weight"` | Another name to read the field by. May be given several times. |
/// | `skip` | The field is not in the file. Reading sets it to its `Default`, or to the value of `default`. |
/// | `default`, `default = "path"` | If the file does not have the field, it is its `Default`, or what a function returns. |
/// | `flatten` | The tensors of the field have the names that they would have as fields of this struct. |
/// | `cast` | Reading converts the elements of other numeric types. |
/// | `shape = [64, _]` | The dims that the array has, wherever a number or a constant stands. |
/// | `transpose` | The file holds the array with its dims reversed. |
/// | `tied = "embed.weight"` | The field is the same as the tensor of that name, counted from the top of the file: formats that can, such as `ptd`, store the bytes once. Writing refuses a field that is not equal. |
// `serde` is registered so that its attributes reach us: the compiler would only say that it does not know them.
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
