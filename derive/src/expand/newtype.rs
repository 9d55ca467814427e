use proc_macro2::TokenStream;
use quote::quote;

use super::env::Env;
use super::slot::Slot;
use crate::model::Model;

/// The impls of a struct that is what its only field is.
pub(super) fn impls(env: &Env, model: &Model<'_>) -> TokenStream {
    let Env { krate, private, de, .. } = env;
    let ident = model.ident;
    let Slot { ty, adapt, question, is_adapted, .. } = Slot::of_field(env, &model.fields[0]);
    let writing = env.writing.header(&quote!(#krate::TensorFile));
    let adaptable = is_adapted.then(|| quote!(#private::check_adaptable::<#ty>();));
    let reading = env.reading.as_ref().map(|reading| {
        let reading = reading.header(&quote!(#krate::FromTensors<#de>));
        quote! {
            #reading {
                fn load<__D: #private::serde::Deserializer<#de>>(
                    __deserializer: __D,
                    _: &#private::Adapt,
                ) -> ::core::result::Result<Self, __D::Error> {
                    #question
                    let __value = <#ty as #krate::FromTensors<#de>>::load(__deserializer, #adapt)?;
                    ::core::result::Result::Ok(#ident { 0: __value })
                }
            }
        }
    });
    quote! {
        #writing {
            fn node() -> #private::Node {
                #question
                #adaptable
                #private::Node::adapted(<#ty as #krate::TensorFile>::node(), #adapt)
            }
            fn store<__S: #private::serde::Serializer>(
                &self,
                __serializer: __S,
                _: &#private::Adapt,
            ) -> ::core::result::Result<__S::Ok, __S::Error> {
                #question
                <#ty as #krate::TensorFile>::store(&self.0, __serializer, #adapt)
            }
        }
        #reading
    }
}
