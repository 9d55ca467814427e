use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;

use super::env::Env;
use crate::attr::Fallback;
use crate::model::Field;

/// A named part of a struct.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    /// What the deserializer is told of it.
    pub(super) spec: String,
    pub(super) ty: TokenStream,
    /// The type when it is written; another one only for the body of a prefix.
    pub(super) stored: TokenStream,
    /// A reference to the part, of the user's struct at `__self`.
    pub(super) value: TokenStream,
    /// A `&'static Adapt`.
    pub(super) adapt: TokenStream,
    pub(super) is_adapted: bool,
    pub(super) is_flattened: bool,
    /// The value where the file has none, if an attribute tells one.
    pub(super) fallback: Option<TokenStream>,
    /// A statement that fails to compile where the type is no tensor.
    ///
    /// The compiler looks at each function by itself and would report the field in each, but what it would print twice
    /// to the letter it prints once. So every function that needs the type asks this first, in the same words.
    pub(super) question: TokenStream,
}

impl Slot {
    pub(super) fn of_field(env: &Env, field: &Field<'_>) -> Self {
        let member = &field.member;
        Self {
            name: field.name.clone(),
            aliases: field.aliases().collect(),
            spec: field.spec(),
            ty: field.ty.to_token_stream(),
            stored: field.ty.to_token_stream(),
            value: quote!(&__self.#member),
            adapt: adapt(env, field),
            is_adapted: field.is_adapted(),
            is_flattened: field.is_flattened(),
            fallback: fallback(field),
            question: question(env, field),
        }
    }

    /// What `prefix` puts everything under.
    pub(super) fn of_body(env: &Env, prefix: &str) -> Self {
        let Env { private, this, .. } = env;
        Self {
            name: prefix.to_owned(),
            aliases: Vec::new(),
            spec: prefix.to_owned(),
            ty: quote!(__Body<#this, #this>),
            stored: quote!(__Body<#this, &#this>),
            value: quote!(&__Body(__self, ::core::marker::PhantomData)),
            adapt: quote!(&#private::Adapt::NONE),
            is_adapted: false,
            is_flattened: false,
            fallback: None,
            question: TokenStream::new(),
        }
    }
}

/// An expression for the value of a field that the file does not have, if an attribute tells one.
pub(super) fn fallback(field: &Field<'_>) -> Option<TokenStream> {
    let ty = &field.ty;
    field.fallback().map(|fallback| match fallback {
        Fallback::Default => quote!(<#ty as ::core::default::Default>::default()),
        // The binding and the span make the compiler's message about a wrong type the same in every function, and so
        // printed once.
        Fallback::Call(function) => {
            let call = quote_spanned!(Span::call_site().located_at(function.span())=> #function());
            quote!({ let __fallback: #ty = #call; __fallback })
        }
    })
}

/// The attributes of the array as a constant. It is an inline one because a dim may be a parameter of the struct.
pub(super) fn adapt(env: &Env, field: &Field<'_>) -> TokenStream {
    let private = &env.private;
    if !field.is_adapted() && field.attrs.tied.is_none() {
        return quote!(&#private::Adapt::NONE);
    }
    let (cast, transpose) = (field.attrs.cast.is_some(), field.attrs.transpose.is_some());
    let (some, none) = (quote!(::core::option::Option::Some), quote!(::core::option::Option::None));
    let shape = match &field.attrs.shape {
        None => none,
        Some(shape) => {
            let dims = shape.value.iter().map(|dim| match dim {
                Some(dim) => quote!({ let __dim: usize = #dim; #some(__dim) }),
                None => none.clone(),
            });
            // Only as a field is the list sure to live as long as the constant.
            quote!(#some { 0: &[#(#dims),*] })
        }
    };
    let tied = match &field.attrs.tied {
        None => quote!(::core::option::Option::None),
        Some(tied) => {
            let name = &tied.value;
            quote!(::core::option::Option::Some(#name))
        }
    };
    quote!(const { &#private::Adapt { cast: #cast, transpose: #transpose, shape: #shape, tied: #tied } })
}

/// See [`Slot::question`]. Types with parameters need none: the bounds of the impls vouch for them.
pub(super) fn question(env: &Env, field: &Field<'_>) -> TokenStream {
    let (krate, ty) = (&env.krate, &field.ty);
    match &env.reading {
        _ if field.is_generic => TokenStream::new(),
        Some(_) => quote!(let _ = <#ty as #krate::FromTensors<'_>>::absent;),
        None => quote!(let _ = <#ty as #krate::TensorFile>::node;),
    }
}
