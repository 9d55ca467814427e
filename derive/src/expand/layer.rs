//! The structs that a file is read as: the user's, or the two that `prefix` makes of it.
//!
//! ```text
//! Bert: a, b                      struct Bert { a, b }
//! Bert: bert; __Body: a, b        the same with `prefix = "bert"`
//! ```

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse_quote;

use super::env::{Env, Half};
use super::slot::{self, Slot};
use super::{de, schema, ser};
use crate::model::Model;

/// A type and its named parts.
pub(super) struct Layer<'a> {
    pub(super) model: &'a Model<'a>,
    pub(super) writing: Half,
    pub(super) reading: Option<Half>,
    /// A reference to the user's struct, as `self` gives it.
    pub(super) receiver: TokenStream,
    pub(super) slots: Vec<Slot>,
    kind: Kind,
}

enum Kind {
    /// The user's struct; the slots are its fields that are not skipped.
    Struct,
    /// What lies under the prefix; slots as above.
    Body,
    /// The user's struct; the slot is the body.
    AroundBody,
}

/// The type of the body: it holds the struct itself when it has been read, and a reference when it is written.
pub(super) fn body_definition() -> TokenStream {
    quote! { struct __Body<__T, __B>(__B, ::core::marker::PhantomData<__T>); }
}

impl<'a> Layer<'a> {
    pub(super) fn of_struct(env: &Env, model: &'a Model<'a>) -> Self {
        let in_file = model.fields.iter().filter(|field| !field.is_skipped());
        Self {
            model,
            writing: env.writing.clone(),
            reading: env.reading.clone(),
            receiver: quote!(self),
            slots: in_file.map(|field| Slot::of_field(env, field)).collect(),
            kind: Kind::Struct,
        }
    }

    /// A newtype struct whose field the prefix gives a name.
    pub(super) fn of_newtype(env: &Env, model: &'a Model<'a>, prefix: &str) -> Self {
        let slot = Slot { name: prefix.to_owned(), spec: prefix.to_owned(), ..Slot::of_field(env, &model.fields[0]) };
        Self { slots: vec![slot], ..Self::of_struct(env, model) }
    }

    pub(super) fn around_body(env: &Env, model: &'a Model<'a>, prefix: &str) -> Self {
        Self { slots: vec![Slot::of_body(env, prefix)], kind: Kind::AroundBody, ..Self::of_struct(env, model) }
    }

    pub(super) fn body(env: &Env, model: &'a Model<'a>) -> Self {
        let this = &env.this;
        let mut writing = Half { ty: quote!(__Body<#this, __B>), ..env.writing.clone() };
        writing.generics.params.push(parse_quote!(__B: ::core::borrow::Borrow<#this>));
        let reading = env.reading.clone().map(|reading| Half { ty: quote!(__Body<#this, #this>), ..reading });
        let receiver = quote!(::core::borrow::Borrow::borrow(&self.0));
        Self { writing, reading, receiver, kind: Kind::Body, ..Self::of_struct(env, model) }
    }

    /// `TensorFile` and `FromTensors`.
    pub(super) fn impls(&self, env: &Env) -> TokenStream {
        let Env { krate, de, .. } = env;
        let writing = self.writing.header(&quote!(#krate::TensorFile));
        let (node, store) = (schema::node(env, self), ser::store(env, self));
        let reading = self.reading.as_ref().map(|half| {
            let reading = half.header(&quote!(#krate::FromTensors<#de>));
            let load = de::load(env, self, half);
            quote!(#reading { #load })
        });
        quote!(#writing { #node #store } #reading)
    }

    /// The questions of all slots, with which each function begins.
    pub(super) fn questions(&self) -> TokenStream {
        self.slots.iter().map(|slot| slot.question.clone()).collect()
    }

    /// The layer's value, of an expression for each slot.
    pub(super) fn value(&self, values: impl Iterator<Item = TokenStream>) -> TokenStream {
        match self.kind {
            Kind::Struct => self.user_struct(values),
            Kind::Body => {
                let body = self.user_struct(values);
                quote!(__Body(#body, ::core::marker::PhantomData))
            }
            Kind::AroundBody => quote!(#(#values.0)*),
        }
    }

    fn user_struct(&self, mut values: impl Iterator<Item = TokenStream>) -> TokenStream {
        let Model { ident, fields, .. } = self.model;
        let members = fields.iter().map(|field| &field.member);
        let values = fields.iter().map(|field| if field.is_skipped() { slot::fallback(field) } else { values.next() });
        quote!(#ident { #(#members: #values),* })
    }
}
