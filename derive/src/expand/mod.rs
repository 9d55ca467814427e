//! Prints the impls. Nothing here can fail: `check` has checked all rules.
//!
//! ```text
//! impl TensorFile for Mlp               const NODE: the names and types    node
//! impl Store for Mlp                    one call with all fields           value
//! impl<'de> FromTensors<'de> for Mlp    one closure for all fields         value
//! impl Serialize, Deserialize for Mlp   one call each                      here
//! ```
//!
//! Every struct of a user pays for this code at compile time, so it is short. Code that does not depend on the types of
//! fields is in functions of `src/private.rs`.

mod env;
mod node;
mod value;

use proc_macro2::TokenStream;
use quote::quote;

pub(crate) use env::Env;

use crate::model::Model;

/// Returns the impls of a struct without mistakes.
pub(crate) fn expand(model: &Model<'_>) -> TokenStream {
    let env = Env::of_model(model);
    let node = node::impls(&env, model);
    let value = value::impls(&env, model);
    let serde = serde_impls(&env);
    in_const(&quote!(#node #value #serde))
}

fn serde_impls(env: &Env) -> TokenStream {
    let Env { private, de, .. } = env;
    let serialize = env.writing.header(&quote!(#private::serde::Serialize));
    let deserialize = env.reading.as_ref().map(|reading| {
        let deserialize = reading.header(&quote!(#private::serde::Deserialize<#de>));
        quote! {
            #deserialize {
                fn deserialize<__D: #private::serde::Deserializer<#de>>(
                    __deserializer: __D,
                ) -> ::core::result::Result<Self, __D::Error> {
                    #private::deserialize_load(__deserializer)
                }
            }
        }
    });
    quote! {
        #serialize {
            fn serialize<__S: #private::serde::Serializer>(
                &self,
                __serializer: __S,
            ) -> ::core::result::Result<__S::Ok, __S::Error> {
                #private::serialize_store(self, __serializer)
            }
        }
        #deserialize
    }
}

/// Wraps the impls, so that they cause no warnings in the user's crate.
pub(crate) fn in_const(items: &TokenStream) -> TokenStream {
    quote! {
        #[doc(hidden)]
        #[allow(deprecated, non_upper_case_globals, unused_qualifications)]
        const _: () = { #items };
    }
}
