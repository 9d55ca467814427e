use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::Ident;
use syn::spanned::Spanned as _;

use super::env::Env;
use crate::model::{Field, Model, Style};

/// Returns `impl TensorFile`: the names and types of the tensors as one constant.
///
/// We print `Some { 0: ... }`, because the references in it must be `'static`. The compiler extends the lifetime of
/// operands of `&` in fields in braces, but not in arguments of functions, and `Some(...)` is a function.
pub(super) fn impls(env: &Env, model: &Model<'_>) -> TokenStream {
    let Env { krate, private, .. } = env;
    let header = env.writing.header(&quote!(#krate::TensorFile));
    let questions = questions(env, model);
    let arrays = model.tensors().filter(|field| field.has_array_attrs()).map(|field| field.ty);
    // `cargo check` evaluates free-standing constants, but not constants of impls.
    let stands_alone = |field: &&Field<'_>| model.generics.params.is_empty() && !field.is_recursive;
    let (alone, inside): (Vec<_>, Vec<_>) = model.tensors().partition(stands_alone);
    let alone = alone.into_iter().flat_map(|field| assertions(env, field));
    let inside = inside.into_iter().flat_map(|field| assertions(env, field));
    let is_tensor = is_tensor(env, model);
    let node = node(env, model);
    quote! {
        #(const _: () = #alone;)*
        #header {
            const NODE: #private::Node = {
                #questions
                #(#private::check_array_field::<#arrays>();)*
                #(#inside;)*
                #node
            };
            #is_tensor
        }
    }
}

/// Returns constant expressions that cannot be evaluated if an attribute contradicts the type of its field.
fn assertions(env: &Env, field: &Field<'_>) -> Vec<TokenStream> {
    let ty = field.ty;
    // The compiler points at the attribute only if all tokens of the path have its span.
    let at = |key: &Ident| {
        let span = Span::call_site().located_at(key.span());
        (span, spanned(&env.private, span))
    };
    let flatten = field.attrs.flatten.as_ref().map(|flatten| {
        let (span, private) = at(&flatten.key);
        quote_spanned!(span=> #private::check_flattened::<#ty>())
    });
    let shape = field.attrs.shape.as_ref().map(|shape| {
        let ((span, private), dims) = (at(&shape.key), shape.value.len());
        quote_spanned!(span=> #private::check_rank::<#ty>(#dims))
    });
    flatten.into_iter().chain(shape).collect()
}

fn spanned(tokens: &TokenStream, span: Span) -> TokenStream {
    let spanned = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.clone().into_iter().map(spanned).collect()
}

/// Returns `IS_TENSOR`: the value of its field for a newtype, else `false`.
fn is_tensor(env: &Env, model: &Model<'_>) -> TokenStream {
    let (krate, field) = (&env.krate, model.fields.first());
    let is_newtype = model.style == Style::Newtype && model.attrs.prefix.is_none();
    let value = match field.filter(|field| is_newtype && !field.is_recursive) {
        Some(Field { ty, .. }) => quote!(<#ty as #krate::TensorFile>::IS_TENSOR),
        None => quote!(false),
    };
    quote!(const IS_TENSOR: bool = #value;)
}

/// Returns statements that fail to compile if a field cannot be in the struct.
///
/// The compiler checks each function on its own, and would report a field once in each. It prints identical messages
/// only once, so all functions begin with the same statements. The bounds of the impls check types with parameters.
pub(super) fn questions(env: &Env, model: &Model<'_>) -> TokenStream {
    let Env { krate, private, .. } = env;
    let question = |field: &Field<'_>| {
        let ty = field.ty;
        match env.reading {
            _ if field.is_metadata() => {
                // The compiler points at the type also if a lifetime is too short.
                let span = Span::call_site().located_at(ty.span());
                let (private, reads) = (spanned(private, span), env.reading.is_some());
                let check = if reads { quote!(check_metadata) } else { quote!(check_written_metadata) };
                let check = spanned(&check, span);
                quote_spanned!(span=> #private::#check::<#ty>();)
            }
            Some(_) => quote!(let _ = <#ty as #krate::model::FromTensors<'_>>::load;),
            None => quote!(let _ = <#ty as #krate::TensorFile>::NODE;),
        }
    };
    model.stored().filter(|field| !field.is_generic).map(question).collect()
}

fn node(env: &Env, model: &Model<'_>) -> TokenStream {
    let Env { krate, private, .. } = env;
    let prefix = model.attrs.prefix.as_ref().map(|prefix| prefix.value.value());
    let this = quote!(Self);
    match (prefix, model.style) {
        (None, Style::Newtype) => {
            let field = &model.fields[0];
            let ty = field.ty;
            match field_attrs(env, field) {
                Some(field_attrs) => quote!(#private::Node::Newtype { 0: #private::node_of::<#ty>, 1: &#field_attrs }),
                None => quote!(<#ty as #krate::TensorFile>::NODE),
            }
        }
        (Some(prefix), Style::Newtype) => {
            let field = field_def(env, &model.fields[0], &prefix);
            struct_node(env, model, &this, &[field], &[prefix])
        }
        (None, _) => all_fields(env, model, &this),
        (Some(prefix), _) => {
            // Any type with no other use distinguishes the inner struct from the outer one.
            let body = all_fields(env, model, &quote!(::core::marker::PhantomData<Self>));
            let field = quote! {
                #private::FieldDef {
                    name: #prefix,
                    aliases: &[],
                    optional: false,
                    flatten: false,
                    metadata: false,
                    attrs: #private::FieldAttrs::NONE,
                    node: || const { #body },
                }
            };
            struct_node(env, model, &this, &[field], &[prefix])
        }
    }
}

/// Returns the node of a struct with all fields in the file.
fn all_fields(env: &Env, model: &Model<'_>, id: &TokenStream) -> TokenStream {
    let fields: Vec<_> = model.stored().map(|field| field_def(env, field, &field.name)).collect();
    let specs: Vec<_> = model.stored().map(Field::spec).collect();
    struct_node(env, model, id, &fields, &specs)
}

fn struct_node(
    env: &Env,
    model: &Model<'_>,
    id: &TokenStream,
    fields: &[TokenStream],
    specs: &[String],
) -> TokenStream {
    let private = &env.private;
    let (name, allow_unknown) = (model.name(), model.attrs.allow_unknown.is_some());
    quote! {
        #private::Node::Struct {
            0: &#private::StructDef {
                id: #private::id::<#id>,
                name: #name,
                fields: &[#(#fields),*],
                specs: &[#(#specs),*],
                allow_unknown: #allow_unknown,
            },
        }
    }
}

fn field_def(env: &Env, field: &Field<'_>, name: &str) -> TokenStream {
    let private = &env.private;
    let (ty, aliases) = (field.ty, field.aliases());
    let (optional, flatten, metadata) = (field.is_optional(), field.is_flattened(), field.is_metadata());
    let node = match &env.reading {
        Some(_) if metadata => quote!(metadata_node::<#ty>),
        None if metadata => quote!(unread_metadata_node),
        _ => quote!(node_of::<#ty>),
    };
    let field_attrs = field_attrs(env, field).unwrap_or_else(|| quote!(#private::FieldAttrs::NONE));
    quote! {
        #private::FieldDef {
            name: #name,
            aliases: &[#(#aliases),*],
            optional: #optional,
            flatten: #flatten,
            metadata: #metadata,
            attrs: #field_attrs,
            node: #private::#node,
        }
    }
}

/// Returns the attributes of a field for `FieldAttrs`, if there are any.
pub(super) fn field_attrs(env: &Env, field: &Field<'_>) -> Option<TokenStream> {
    let private = &env.private;
    if !field.has_array_attrs() && !field.cast && !field.dequantize && field.attrs.tied.is_none() {
        return None;
    }
    let (cast, dequantize, transpose) = (field.cast, field.dequantize, field.attrs.transpose.is_some());
    let (some, none) = (quote!(::core::option::Option::Some), quote!(::core::option::Option::None));
    let shape = field.attrs.shape.as_ref().map_or(none.clone(), |shape| {
        let dims = shape.value.iter().map(|dim| match dim {
            Some(dim) => quote!({ let __dim: usize = #dim; #some(__dim) }),
            None => none.clone(),
        });
        quote!(#some { 0: &[#(#dims),*] })
    });
    let tied = field.attrs.tied.as_ref().map_or(none.clone(), |tied| {
        let name = &tied.value;
        quote!(#some(#name))
    });
    Some(quote! {
        #private::FieldAttrs {
            cast: #cast,
            dequantize: #dequantize,
            transpose: #transpose,
            shape: #shape,
            tied: #tied,
        }
    })
}
