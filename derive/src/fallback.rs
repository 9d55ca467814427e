use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::attr::Container;
use crate::ctxt::Ctxt;
use crate::expand::{Env, in_const};

/// Returns impls that do nothing, for a struct with a mistake. With them, code that uses the struct does not add
/// messages about missing impls.
pub(crate) fn impls(input: &DeriveInput) -> TokenStream {
    let attrs = Container::parse(&mut Ctxt::default(), &input.attrs);
    let env = Env::new(&input.ident, &input.generics, &attrs);
    let Env { krate, private, de, .. } = &env;
    let stub = quote!({ ::core::unreachable!() });
    let tensor_file = env.writing.header(&quote!(#krate::TensorFile));
    let store = env.writing.header(&quote!(#krate::model::Store));
    let serialize = env.writing.header(&quote!(#private::serde::Serialize));
    let reading = env.reading.as_ref().map(|reading| {
        let from_tensors = reading.header(&quote!(#krate::model::FromTensors<#de>));
        let deserialize = reading.header(&quote!(#private::serde::Deserialize<#de>));
        quote! {
            #from_tensors {
                fn load(
                    _: &mut dyn #private::Source<#de>,
                    _: &#private::FieldAttrs,
                ) -> ::core::result::Result<Self, #krate::Error> #stub
            }
            #deserialize {
                fn deserialize<__D: #private::serde::Deserializer<#de>>(
                    _: __D,
                ) -> ::core::result::Result<Self, __D::Error> #stub
            }
        }
    });
    in_const(&quote! {
        #tensor_file {
            const NODE: #private::Node = #private::Node::Tuple(&[]);
        }
        #store {
            fn store(
                &self,
                _: &mut dyn #private::Sink,
                _: &#private::FieldAttrs,
            ) -> ::core::result::Result<(), #krate::Error> #stub
        }
        #serialize {
            fn serialize<__S: #private::serde::Serializer>(
                &self,
                _: __S,
            ) -> ::core::result::Result<__S::Ok, __S::Error> #stub
        }
        #reading
    })
}
