use proc_macro2::TokenStream;
use quote::quote;

use super::env::Env;
use super::layer::Layer;
use super::slot::Slot;

/// `TensorFile::node`: the names and types of all slots.
pub(super) fn node(env: &Env, layer: &Layer<'_>) -> TokenStream {
    let Env { krate, private, .. } = env;
    let questions = layer.questions();
    let adaptable = layer.slots.iter().filter(|slot| slot.is_adapted).map(|slot| &slot.ty);
    let fields = layer.slots.iter().map(|slot| {
        let Slot { spec, ty, adapt, .. } = slot;
        quote! {
            #private::Field {
                spec: #spec,
                node: #private::Node::adapted(<#ty as #krate::TensorFile>::node(), #adapt),
            }
        }
    });
    let allow_unknown = layer.model.attrs.allow_unknown.is_some();
    quote! {
        fn node() -> #private::Node {
            #questions
            #(#private::check_adaptable::<#adaptable>();)*
            #private::struct_node::<Self, _>(|| [#(#fields),*], #allow_unknown)
        }
    }
}
