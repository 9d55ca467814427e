use proc_macro2::TokenStream;
use quote::quote;

use super::env::Env;
use super::layer::Layer;

/// `__Key`, which reads a name as the position of its slot, and a name that is unknown and allowed as one more than the
/// last.
pub(super) fn definition(env: &Env, layer: &Layer<'_>) -> TokenStream {
    let private = &env.private;
    let serde = quote!(#private::serde::de);
    let len = layer.slots.len();
    let first_names = layer.slots.iter().map(|slot| &slot.name);
    let arms = layer.slots.iter().enumerate().map(|(at, slot)| {
        let (name, aliases) = (&slot.name, &slot.aliases);
        quote!(#name #(| #aliases)* => ::core::result::Result::Ok(#at),)
    });
    let unknown = |error: TokenStream| match layer.model.attrs.allow_unknown {
        Some(_) => quote!(::core::result::Result::Ok(#len)),
        None => quote!(::core::result::Result::Err(#error)),
    };
    let unknown_name = unknown(quote!(__E::unknown_field(__name, &[#(#first_names),*])));
    let unknown_index = unknown(quote!(__E::invalid_value(#serde::Unexpected::Unsigned(__index), &self)));
    let unknown_bytes = unknown(quote!(__E::invalid_value(#serde::Unexpected::Bytes(__name), &self)));
    quote! {
        struct __Key;
        #[automatically_derived]
        impl<'de> #serde::Visitor<'de> for __Key {
            type Value = usize;
            fn expecting(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Formatter::write_str(__f, "the name of a tensor")
            }
            fn visit_u64<__E: #serde::Error>(self, __index: u64) -> ::core::result::Result<usize, __E> {
                match ::core::convert::TryFrom::try_from(__index) {
                    ::core::result::Result::Ok(__index) if __index < #len => ::core::result::Result::Ok(__index),
                    _ => #unknown_index,
                }
            }
            fn visit_str<__E: #serde::Error>(self, __name: &str) -> ::core::result::Result<usize, __E> {
                match __name {
                    #(#arms)*
                    _ => #unknown_name,
                }
            }
            fn visit_bytes<__E: #serde::Error>(self, __name: &[u8]) -> ::core::result::Result<usize, __E> {
                match ::core::str::from_utf8(__name) {
                    ::core::result::Result::Ok(__name) => #serde::Visitor::visit_str(self, __name),
                    ::core::result::Result::Err(_) => #unknown_bytes,
                }
            }
        }
        #[automatically_derived]
        impl<'de> #serde::DeserializeSeed<'de> for __Key {
            type Value = usize;
            fn deserialize<__D: #private::serde::Deserializer<'de>>(
                self,
                __deserializer: __D,
            ) -> ::core::result::Result<usize, __D::Error> {
                #private::serde::Deserializer::deserialize_identifier(__deserializer, self)
            }
        }
    }
}
