//! Prints the impls. Nothing can fail here, and nothing is decided here.
//!
//! ```text
//! impl TensorFile for Mlp               fn node: the names and types       schema
//!                                       fn store: to a serializer          ser
//! impl<'de> FromTensors<'de> for Mlp    fn load: from a deserializer       de, key
//! impl Serialize, Deserialize for Mlp   the same, for serde                serde
//! ```

mod de;
mod env;
mod key;
mod layer;
mod newtype;
mod schema;
mod ser;
mod serde;
mod slot;

use proc_macro2::TokenStream;
use quote::quote;

use crate::model::{Model, Style};
pub(crate) use env::Env;
use layer::Layer;

/// The impls of a struct that has no mistakes.
pub(crate) fn expand(model: &Model<'_>) -> TokenStream {
    let env = Env::of_model(model);
    let prefix = model.attrs.prefix.as_ref().map(|prefix| prefix.value.value());
    let impls = match (prefix, model.style) {
        (None, Style::Newtype) => newtype::impls(&env, model),
        (None, _) => Layer::of_struct(&env, model).impls(&env),
        (Some(prefix), Style::Newtype) => Layer::of_newtype(&env, model, &prefix).impls(&env),
        (Some(prefix), _) => {
            let definition = layer::body_definition();
            let around = Layer::around_body(&env, model, &prefix).impls(&env);
            let body = Layer::body(&env, model).impls(&env);
            quote!(#definition #around #body)
        }
    };
    let serde = serde::impls(&env);
    in_const(&quote!(#impls #serde))
}

/// Keeps the helper types to themselves.
pub(crate) fn in_const(items: &TokenStream) -> TokenStream {
    quote! {
        #[doc(hidden)]
        #[allow(deprecated, non_upper_case_globals, unused_qualifications)]
        const _: () = { #items };
    }
}
