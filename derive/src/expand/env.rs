use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Generics, Ident, Lifetime, parse_quote};

use crate::attr::{Container, Fallback};
use crate::model::{Field, Model};

/// Names and impl headers that all parts of the output share.
pub(crate) struct Env {
    /// The crate `tensorfile`.
    pub(crate) krate: TokenStream,
    /// The module of `tensorfile` for generated code.
    pub(crate) private: TokenStream,
    /// The lifetime of the file.
    pub(crate) de: Lifetime,
    pub(crate) writing: Half,
    /// The impls for reading; `None` if the struct is only written.
    pub(crate) reading: Option<Half>,
}

/// The user's type with the parameters of the impls, either for writing or for reading.
pub(crate) struct Half {
    generics: Generics,
    ty: TokenStream,
}

impl Env {
    /// Returns the user's parameters as they are, for a struct whose fields are not known.
    pub(crate) fn new(ident: &Ident, generics: &Generics, attrs: &Container) -> Self {
        let krate = attrs.krate.as_ref().map_or(quote!(::tensorfile), |krate| krate.value.to_token_stream());
        let (_, arguments, _) = generics.split_for_impl();
        let ty = quote!(#ident #arguments);
        let de = free_lifetime(generics);
        let reading = || Half { generics: outlived_by(&de, generics), ty: ty.clone() };
        Self {
            private: quote!(#krate::__private),
            krate,
            reading: attrs.write_only.is_none().then(reading),
            writing: Half { generics: generics.clone(), ty },
            de,
        }
    }

    /// Adds the bounds that the fields need.
    pub(super) fn of_model(model: &Model<'_>) -> Self {
        let mut env = Self::new(model.ident, model.generics, &model.attrs);
        model.fields.iter().filter(|field| field.is_generic).for_each(|field| env.bound(field));
        env
    }

    /// Adds the bounds that a field needs.
    ///
    /// The bounds are on the field's type, not on the parameters: `Array2<A>` can be a tensor even if `A` is not. A
    /// type that contains the struct itself gets no bound, because the compiler would not come to an end.
    fn bound(&mut self, field: &Field<'_>) {
        let Self { krate, private, de, .. } = &*self;
        let is_bound = !field.is_skipped() && !field.is_recursive;
        let (writable, readable) = match field.is_metadata() {
            false => (quote!(#krate::TensorFile), quote!(#krate::model::FromTensors<#de>)),
            // The schema says how a field is read, but is part of the impls for writing.
            true if self.reading.is_some() => {
                let both = quote!(#private::serde::Serialize + #private::serde::de::DeserializeOwned);
                (both.clone(), both)
            }
            true => (quote!(#private::serde::Serialize), quote!()),
        };
        let (writable, readable) = (is_bound.then_some(writable), is_bound.then_some(readable));
        let array = field.has_array_attrs().then(|| quote!(#private::ArrayField));
        let default = matches!(field.fallback(), Some(Fallback::Default)).then(|| quote!(::core::default::Default));
        self.writing.bound(field, [writable, array.clone()]);
        if let Some(reading) = &mut self.reading {
            reading.bound(field, [readable, array, default]);
        }
    }
}

impl Half {
    /// Returns the header of an impl of `interface`.
    pub(crate) fn header(&self, interface: &TokenStream) -> TokenStream {
        let (parameters, _, bounds) = self.generics.split_for_impl();
        let ty = &self.ty;
        quote!(#[automatically_derived] impl #parameters #interface for #ty #bounds)
    }

    fn bound<const N: usize>(&mut self, field: &Field<'_>, bounds: [Option<TokenStream>; N]) {
        let ty = field.ty;
        let bounds: Vec<_> = bounds.into_iter().flatten().collect();
        if !bounds.is_empty() {
            self.generics.make_where_clause().predicates.push(parse_quote!(#ty: #(#bounds)+*));
        }
    }
}

/// Adds a lifetime that outlives all others.
fn outlived_by(de: &Lifetime, generics: &Generics) -> Generics {
    let mut outlived = generics.clone();
    let others = generics.lifetimes().map(|parameter| &parameter.lifetime);
    outlived.params.insert(0, parse_quote!(#de: #(#others)+*));
    outlived
}

/// Returns `'de`, or another name if the struct has a lifetime `'de` already.
fn free_lifetime(generics: &Generics) -> Lifetime {
    let de: Lifetime = parse_quote!('de);
    if generics.lifetimes().any(|parameter| parameter.lifetime == de) { parse_quote!('__de) } else { de }
}
