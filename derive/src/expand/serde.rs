use proc_macro2::TokenStream;
use quote::quote;

use super::env::Env;

/// serde's own traits, on top of ours.
pub(super) fn impls(env: &Env) -> TokenStream {
    let Env { krate, private, de, .. } = env;
    let serialize = env.writing.header(&quote!(#private::serde::Serialize));
    let deserialize = env.reading.as_ref().map(|reading| {
        let deserialize = reading.header(&quote!(#private::serde::Deserialize<#de>));
        quote! {
            #deserialize {
                fn deserialize<__D: #private::serde::Deserializer<#de>>(
                    __deserializer: __D,
                ) -> ::core::result::Result<Self, __D::Error> {
                    <Self as #krate::FromTensors<#de>>::load(__deserializer, &#private::Adapt::NONE)
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
                #krate::TensorFile::store(self, __serializer, &#private::Adapt::NONE)
            }
        }
        #deserialize
    }
}
