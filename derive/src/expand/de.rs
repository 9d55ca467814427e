use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::env::{Env, Half};
use super::key;
use super::layer::Layer;
use super::slot::Slot;

/// `FromTensors::load`: from a map of names to values, or from the values in order.
pub(super) fn load(env: &Env, layer: &Layer<'_>, half: &Half) -> TokenStream {
    let Env { private, de, .. } = env;
    let Half { ty, .. } = half;
    let key = key::definition(env, layer);
    let visitor = half.header_for(&quote!(#private::serde::de::Visitor<#de>), &quote!(__Visitor<#ty>));
    let expecting = format!("struct {}", layer.model.name());
    let (visit_map, visit_seq) = (visit_map(env, layer), visit_seq(env, layer));
    let specs = layer.slots.iter().map(|slot| slot.spec.as_str());
    // NOTE: keep in step with `ALLOW_UNKNOWN` in `src/model/token.rs`.
    let specs = specs.chain(layer.model.attrs.allow_unknown.as_ref().map(|_| "\0!"));
    quote! {
        fn load<__D: #private::serde::Deserializer<#de>>(
            __deserializer: __D,
            _: &#private::Adapt,
        ) -> ::core::result::Result<Self, __D::Error> {
            #key
            struct __Visitor<__T>(::core::marker::PhantomData<__T>);
            #visitor {
                type Value = #ty;
                fn expecting(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    ::core::fmt::Formatter::write_str(__f, #expecting)
                }
                #visit_map
                #visit_seq
            }
            #private::load_struct::<Self, __D, _>(
                __deserializer,
                &[#(#specs),*],
                __Visitor(::core::marker::PhantomData),
            )
        }
    }
}

fn visit_map(env: &Env, layer: &Layer<'_>) -> TokenStream {
    let Env { private, de, .. } = env;
    let questions = layer.questions();
    let locals = locals(layer);
    let declarations = locals.iter().map(
        |(local, Slot { ty, .. })| quote!(let mut #local: ::core::option::Option<#ty> = ::core::option::Option::None;),
    );
    let arms = locals.iter().enumerate().map(|(at, (local, Slot { name, ty, adapt, .. }))| {
        quote! {
            #at => {
                if ::core::option::Option::is_some(&#local) {
                    return ::core::result::Result::Err(
                        <__A::Error as #private::serde::de::Error>::duplicate_field(#name),
                    );
                }
                #local = ::core::option::Option::Some(#private::next_value::<#ty, __A>(&mut __map, #adapt)?);
            }
        }
    });
    let value = layer.value(locals.iter().map(|(local, Slot { name, ty, fallback, .. })| {
        let absent = match fallback {
            Some(fallback) => fallback.clone(),
            None => quote!(#private::missing::<#ty, __A::Error>(#name)?),
        };
        quote! {
            match #local {
                ::core::option::Option::Some(__value) => __value,
                ::core::option::Option::None => #absent,
            }
        }
    }));
    quote! {
        fn visit_map<__A: #private::serde::de::MapAccess<#de>>(
            self,
            mut __map: __A,
        ) -> ::core::result::Result<Self::Value, __A::Error> {
            #questions
            #(#declarations)*
            while let ::core::option::Option::Some(__key) =
                #private::serde::de::MapAccess::next_key_seed(&mut __map, __Key)?
            {
                match __key {
                    #(#arms)*
                    _ => #private::skip_value(&mut __map)?,
                }
            }
            ::core::result::Result::Ok(#value)
        }
    }
}

fn visit_seq(env: &Env, layer: &Layer<'_>) -> TokenStream {
    let Env { private, de, .. } = env;
    let questions = layer.questions();
    let locals = locals(layer);
    let elements = locals.iter().enumerate().map(|(at, (local, Slot { ty, adapt, fallback, .. }))| {
        let absent = match fallback {
            Some(fallback) => fallback.clone(),
            None => quote!(return ::core::result::Result::Err(#private::too_few::<__A>(#at, &self))),
        };
        quote! {
            let #local = match #private::next_element::<#ty, __A>(&mut __seq, #adapt)? {
                ::core::option::Option::Some(__value) => __value,
                ::core::option::Option::None => #absent,
            };
        }
    });
    let value = layer.value(locals.iter().map(|(local, _)| quote!(#local)));
    quote! {
        fn visit_seq<__A: #private::serde::de::SeqAccess<#de>>(
            self,
            mut __seq: __A,
        ) -> ::core::result::Result<Self::Value, __A::Error> {
            #questions
            #(#elements)*
            ::core::result::Result::Ok(#value)
        }
    }
}

/// The slots, each with the variable that holds its value.
fn locals<'a>(layer: &'a Layer<'_>) -> Vec<(Ident, &'a Slot)> {
    layer.slots.iter().enumerate().map(|(at, slot)| (format_ident!("__field{at}"), slot)).collect()
}
