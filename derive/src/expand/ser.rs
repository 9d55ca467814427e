use proc_macro2::TokenStream;
use quote::quote;

use super::env::Env;
use super::layer::Layer;
use super::slot::Slot;

/// `TensorFile::store`: a serde struct with a field for each slot.
pub(super) fn store(env: &Env, layer: &Layer<'_>) -> TokenStream {
    let Env { private, this, .. } = env;
    let questions = layer.questions();
    let receiver = &layer.receiver;
    let (name, len) = (layer.model.name(), layer.slots.len());
    let fields = layer.slots.iter().map(|slot| store_slot(private, slot));
    quote! {
        fn store<__S: #private::serde::Serializer>(
            &self,
            __serializer: __S,
            _: &#private::Adapt,
        ) -> ::core::result::Result<__S::Ok, __S::Error> {
            #questions
            let __self: &#this = #receiver;
            let mut __state = #private::serde::Serializer::serialize_struct(__serializer, #name, #len)?;
            #(#fields)*
            #private::serde::ser::SerializeStruct::end(__state)
        }
    }
}

fn store_slot(private: &TokenStream, slot: &Slot) -> TokenStream {
    let Slot { name, stored, value, adapt, .. } = slot;
    match slot.is_flattened {
        true => quote!(#private::store_flattened::<_, #stored>(&mut __state, #name, #value)?;),
        false => quote!(#private::store_field::<_, #stored>(&mut __state, #name, #value, #adapt)?;),
    }
}
