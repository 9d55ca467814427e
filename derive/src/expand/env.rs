use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Generics, Ident, Lifetime, parse_quote};

use crate::attr::{Container, Fallback};
use crate::model::{Field, Model};

/// What all parts of the output share.
pub(crate) struct Env {
    /// The crate `tensorfile`.
    pub(crate) krate: TokenStream,
    /// What it holds for generated code.
    pub(crate) private: TokenStream,
    /// The lifetime of the file that is read.
    pub(crate) de: Lifetime,
    /// The user's type.
    pub(crate) this: TokenStream,
    pub(crate) writing: Half,
    /// `None` of a struct that is only written.
    pub(crate) reading: Option<Half>,
}

/// What the impls of writing, or those of reading, are for.
#[derive(Clone)]
pub(crate) struct Half {
    pub(crate) generics: Generics,
    pub(crate) ty: TokenStream,
}

impl Env {
    /// For a struct of which nothing but the head is known.
    pub(crate) fn new(ident: &Ident, generics: &Generics, attrs: &Container) -> Self {
        let krate = attrs.krate.as_ref().map_or(quote!(::tensorfile), |krate| krate.value.to_token_stream());
        let (_, arguments, _) = generics.split_for_impl();
        let this = quote!(#ident #arguments);
        let writing = Half { ty: this.clone(), generics: generics.clone() };
        let de = free_lifetime(generics);
        let reading = attrs.write_only.is_none().then(|| writing.outlived_by(&de));
        Self { private: quote!(#krate::__private), krate, de, this, writing, reading }
    }

    /// For a struct whose fields are known, and so what they ask of the parameters.
    pub(super) fn of_model(model: &Model<'_>) -> Self {
        let mut env = Self::new(model.ident, &model.generics, &model.attrs);
        model.fields.iter().filter(|field| field.is_generic).for_each(|field| env.bound(field));
        env
    }

    /// States what the impls need of a field's type.
    ///
    /// Of the types and not of the parameters: `Array2<A>` is a tensor for other `A` than those which are tensors
    /// themselves. A type in which the struct itself occurs is left out, because the compiler would go round in
    /// circles.
    fn bound(&mut self, field: &Field<'_>) {
        let Self { krate, private, de, .. } = &*self;
        let is_in_file = !field.is_skipped() && !field.is_recursive;
        let tensor = is_in_file.then(|| quote!(#krate::TensorFile));
        let readable = is_in_file.then(|| quote!(#krate::FromTensors<#de>));
        let adaptable = field.is_adapted().then(|| quote!(#private::Adaptable));
        let default = matches!(field.fallback(), Some(Fallback::Default)).then(|| quote!(::core::default::Default));
        self.writing.bound(field, [tensor, adaptable.clone()]);
        if let Some(reading) = &mut self.reading {
            reading.bound(field, [readable, adaptable, default]);
        }
    }
}

impl Half {
    /// The head of an impl.
    pub(crate) fn header(&self, interface: &TokenStream) -> TokenStream {
        self.header_for(interface, &self.ty)
    }

    /// The head of an impl for a helper type.
    pub(super) fn header_for(&self, interface: &TokenStream, ty: &TokenStream) -> TokenStream {
        let (parameters, _, bounds) = self.generics.split_for_impl();
        quote!(#[automatically_derived] impl #parameters #interface for #ty #bounds)
    }

    /// The same with a lifetime that outlives all others.
    fn outlived_by(&self, de: &Lifetime) -> Self {
        let mut half = self.clone();
        let others = self.generics.lifetimes().map(|parameter| &parameter.lifetime);
        half.generics.params.insert(0, parse_quote!(#de: #(#others)+*));
        half
    }

    fn bound<const N: usize>(&mut self, field: &Field<'_>, bounds: [Option<TokenStream>; N]) {
        let ty = &field.ty;
        let bounds: Vec<_> = bounds.into_iter().flatten().collect();
        if !bounds.is_empty() {
            self.generics.make_where_clause().predicates.push(parse_quote!(#ty: #(#bounds)+*));
        }
    }
}

/// `'de`, unless the struct has a lifetime of that name.
fn free_lifetime(generics: &Generics) -> Lifetime {
    let de: Lifetime = parse_quote!('de);
    if generics.lifetimes().any(|parameter| parameter.lifetime == de) { parse_quote!('__de) } else { de }
}
