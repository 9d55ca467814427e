use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Index;
use syn::spanned::Spanned;

use super::env::Env;
use super::node::{field_attrs, questions};
use crate::attr::Fallback;
use crate::model::{Field, Model, Style};

/// Returns `impl Store` and `impl FromTensors`.
pub(super) fn impls(env: &Env, model: &Model<'_>) -> TokenStream {
    let Env { krate, private, de, .. } = env;
    let questions = questions(env, model);
    let is_newtype = model.style == Style::Newtype && model.attrs.prefix.is_none();
    let [store, borrow_payloads, load, reload] = if is_newtype {
        newtype(env, &model.fields[0])
    } else {
        [store_fields(env, model), borrow_fields(env, model), load_fields(env, model), reload_fields(env, model)]
    };
    let header = env.writing.header(&quote!(#krate::model::Store));
    let reading = env.reading.as_ref().map(|reading| {
        let header = reading.header(&quote!(#krate::model::FromTensors<#de>));
        quote! {
            #header {
                fn load(
                    __source: &mut dyn #private::Source<#de>,
                    __attrs: &#private::FieldAttrs,
                ) -> ::core::result::Result<Self, #krate::Error> {
                    #questions
                    #load
                }

                fn reload(
                    &mut self,
                    __source: &mut dyn #private::Source<#de>,
                    __attrs: &#private::FieldAttrs,
                ) -> ::core::result::Result<(), #krate::Error> {
                    #questions
                    #reload
                }
            }
        }
    });
    quote! {
        #header {
            fn store(
                &self,
                __sink: &mut dyn #private::Sink,
                __attrs: &#private::FieldAttrs,
            ) -> ::core::result::Result<(), #krate::Error> {
                #questions
                #store
            }

            fn borrow_payloads<'__payloads>(&'__payloads self, __payloads: &mut #private::BorrowedPayloads<'__payloads>) {
                #questions
                #borrow_payloads
            }
        }
        #reading
    }
}

/// The bodies of `store`, `borrow_payloads`, `load` and `reload` of a newtype: they call those of its only field.
fn newtype(env: &Env, field: &Field<'_>) -> [TokenStream; 4] {
    let (krate, ty) = (&env.krate, field.ty);
    let field_attrs = field_attrs(env, field).map_or(quote!(__attrs), |field_attrs| quote!(const { &#field_attrs }));
    let store = quote!(<#ty as #krate::model::Store>::store(&self.0, __sink, #field_attrs));
    let load = quote!(<#ty as #krate::model::FromTensors<'_>>::load(__source, #field_attrs).map(Self));
    let borrow_payloads = quote!(<#ty as #krate::model::Store>::borrow_payloads(&self.0, __payloads));
    let reload = quote!(<#ty as #krate::model::FromTensors<'_>>::reload(&mut self.0, __source, #field_attrs));
    [store, borrow_payloads, load, reload]
}

fn store_fields(env: &Env, model: &Model<'_>) -> TokenStream {
    let Env { krate, private, .. } = env;
    let node = quote!(&<Self as #krate::TensorFile>::NODE);
    let values = model.stored().map(|field| {
        let Field { ty, member, .. } = field;
        // A value that stores nothing would be read as the default, so writing needs the default to compare.
        let default = fallback(field).filter(|_| env.reading.is_some());
        match (field.is_metadata(), default) {
            (false, None) => quote!(#private::field::<#ty>(&self.#member)),
            (false, Some(default)) => {
                quote!(&#private::field_or::<#ty>(&self.#member, || #default) as &dyn #krate::model::Store)
            }
            (true, None) => quote!(&#private::metadata_field::<#ty>(&self.#member) as &dyn #krate::model::Store),
            (true, Some(default)) => {
                quote!(&#private::metadata_field_or::<#ty>(&self.#member, || #default) as &dyn #krate::model::Store)
            }
        }
    });
    if has_body(model) {
        quote!(#private::store_body(__sink, #node, &[#(#values),*]))
    } else {
        quote!(#private::Sink::fields(__sink, #private::def_of(#node), &[#(#values),*]))
    }
}

fn borrow_fields(env: &Env, model: &Model<'_>) -> TokenStream {
    let private = &env.private;
    let values = model.tensors().map(|Field { ty, member, .. }| quote!(#private::field::<#ty>(&self.#member)));
    quote!(#private::borrow_fields(__payloads, &[#(#values),*]))
}

/// The body of `load`.
///
/// There is no `?` between the fields, and one variable holds them all. Each `?` would have to drop the fields before
/// it, and the time to compile a struct would grow with the square of its fields.
fn load_fields(env: &Env, model: &Model<'_>) -> TokenStream {
    let Env { krate, private, .. } = env;
    let fields: Vec<_> = model.stored().collect();
    let at: Vec<_> = (0..fields.len()).collect();
    let places: Vec<_> = at.iter().copied().map(Index::from).collect();
    let locals: Vec<_> = at.iter().map(|at| format_ident!("__field{at}")).collect();
    let members = fields.iter().map(|field| &field.member);
    let types: Vec<_> = fields.iter().map(|field| field.ty).collect();
    let (some, none) = (quote!(::core::option::Option::Some), quote!(::core::option::Option::None));
    let defaults = fields.iter().zip(&places).filter_map(|(field, place)| {
        let value = fallback(field)?;
        Some(quote!(if let #none = __fields.#place { __fields.#place = #some(#value); }))
    });
    let skipped = model.fields.iter().filter(|field| field.is_skipped()).map(|field| {
        let (member, value) = (&field.member, fallback(field));
        quote!(#member: #value,)
    });
    let arms = fields.iter().zip(&places).zip(&at).map(|((field, place), at)| {
        let ty = field.ty;
        if field.is_metadata() {
            quote!(#at => #private::put_metadata::<#ty>(&mut __fields.#place, __source),)
        } else {
            quote!(#at => #private::put::<#ty>(&mut __fields.#place, __source, __attrs),)
        }
    });
    let load = if has_body(model) { quote!(load_body) } else { quote!(load_fields) };
    quote! {
        let mut __fields = (#(#none::<#types>,)*);
        #private::#load(__source, &<Self as #krate::TensorFile>::NODE, &mut |__at, __source, __attrs| match __at {
            #(#arms)*
            _ => ::core::result::Result::Ok(()),
        })?;
        #(#defaults)*
        match __fields {
            (#(#some(#locals),)*) => ::core::result::Result::Ok(Self { #(#members: #locals,)* #(#skipped)* }),
            _ => ::core::result::Result::Err(#private::incomplete(&<Self as #krate::TensorFile>::NODE)),
        }
    }
}

/// The body of `reload`. A field missing from the source keeps its value.
fn reload_fields(env: &Env, model: &Model<'_>) -> TokenStream {
    let Env { krate, private, .. } = env;
    let arms = model.stored().enumerate().map(|(at, field)| {
        let Field { ty, member, .. } = field;
        if field.is_metadata() {
            quote!(#at => #private::reload_metadata::<#ty>(&mut self.#member, __source),)
        } else {
            quote!(#at => <#ty as #krate::model::FromTensors<'_>>::reload(&mut self.#member, __source, __attrs),)
        }
    });
    let load = if has_body(model) { quote!(load_body) } else { quote!(load_fields) };
    quote! {
        #private::#load(__source, &<Self as #krate::TensorFile>::NODE, &mut |__at, __source, __attrs| match __at {
            #(#arms)*
            _ => ::core::result::Result::Ok(()),
        })
    }
}

/// Returns whether the fields are in a second struct, under the prefix.
fn has_body(model: &Model<'_>) -> bool {
    model.attrs.prefix.is_some() && model.style != Style::Newtype
}

/// Returns an expression for the value of a field missing from the file, if the field may be missing.
fn fallback(field: &Field<'_>) -> Option<TokenStream> {
    let ty = field.ty;
    field.fallback().map(|fallback| match fallback {
        Fallback::Default => quote!(<#ty as ::core::default::Default>::default()),
        // With the type of the variable and this span, the compiler shows both the function and the field if their
        // types are not the same.
        Fallback::Call(function) => {
            let call = quote_spanned!(Span::call_site().located_at(function.span())=> #function());
            quote!({ let __fallback: #ty = #call; __fallback })
        }
    })
}
