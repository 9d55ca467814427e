//! The user's struct: its fields, their names in the file and their attributes.

use proc_macro2::TokenTree;
use quote::{ToTokens, format_ident};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, Generics, Ident, Member, Type};

use crate::attr::{self, Fallback};
use crate::ctxt::Ctxt;

/// The struct. `expand` takes it only if `check` found no mistake.
pub(crate) struct Model<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) generics: &'a Generics,
    pub(crate) attrs: attr::Container,
    pub(crate) style: Style,
    pub(crate) fields: Vec<Field<'a>>,
}

/// The names of the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Every field has a name.
    Named,
    /// The fields are called by their positions. A struct without fields is of this style too.
    Numbered,
    /// The struct adds no name to those of its only, unnamed field.
    Newtype,
}

/// A field of the struct.
pub(crate) struct Field<'a> {
    pub(crate) attrs: attr::Field,
    pub(crate) member: Member,
    pub(crate) ty: &'a Type,
    /// The name in the file. A flattened field has a name only in serde formats such as JSON.
    pub(crate) name: String,
    /// The field or the struct has the attribute.
    pub(crate) cast: bool,
    /// The field or the struct has the attribute.
    pub(crate) dequantize: bool,
    /// The type depends on a type parameter of the struct.
    pub(crate) is_generic: bool,
    /// The struct itself occurs in the type.
    pub(crate) is_recursive: bool,
}

impl<'a> Model<'a> {
    /// Reports enums and unions.
    pub(crate) fn new(cx: &mut Ctxt, input: &'a DeriveInput) -> Option<Self> {
        let fields = match &input.data {
            Data::Struct(data) => &data.fields,
            Data::Enum(data) => {
                let why = "a tensor file has no place for the variant; use a struct with `Option` fields";
                cx.error(data.enum_token, format!("`TensorFile` cannot be derived for an enum: {why}"));
                return None;
            }
            Data::Union(data) => {
                cx.error(data.union_token, "`TensorFile` cannot be derived for a union; use a struct");
                return None;
            }
        };
        let style = match fields {
            Fields::Named(_) => Style::Named,
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Style::Newtype,
            Fields::Unnamed(_) | Fields::Unit => Style::Numbered,
        };
        let attrs = attr::Container::parse(cx, &input.attrs);
        let ident = &input.ident;
        let this = [ident, &format_ident!("Self")];
        let mut parameters: Vec<_> = input.generics.type_params().map(|parameter| &parameter.ident).collect();
        if !parameters.is_empty() {
            parameters.extend(this);
        }
        let field = |(member, original): (Member, &'a syn::Field)| {
            let given = attr::Field::parse(cx, &original.attrs);
            let is_array = given.metadata.is_none();
            Field {
                name: name(&member, &given, &attrs),
                cast: given.cast.is_some() || attrs.cast.is_some() && is_array,
                dequantize: given.dequantize.is_some() || attrs.dequantize.is_some() && is_array,
                is_generic: mentions(&original.ty, &parameters),
                is_recursive: mentions(&original.ty, &this),
                ty: &original.ty,
                attrs: given,
                member,
            }
        };
        let fields = fields.members().zip(fields).map(field).collect();
        Some(Self { ident, generics: &input.generics, attrs, style, fields })
    }

    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    /// Returns the fields that hold tensors.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Field<'a>> {
        self.stored().filter(|field| !field.is_metadata())
    }

    /// Returns the fields that the file has.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Field<'a>> {
        self.fields.iter().filter(|field| !field.is_skipped())
    }
}

/// Returns the name of a field in the file: of `rename`, of `rename_all`, or the field's own.
fn name(member: &Member, given: &attr::Field, container: &attr::Container) -> String {
    match (&given.rename, member) {
        (Some(rename), _) => rename.value.value(),
        (None, Member::Unnamed(index)) => index.index.to_string(),
        (None, Member::Named(ident)) => {
            let ident = ident.unraw().to_string();
            match &container.rename_all {
                Some(rule) if given.flatten.is_none() => rule.value.apply(&ident),
                _ => ident,
            }
        }
    }
}

impl Field<'_> {
    pub(crate) fn is_skipped(&self) -> bool {
        self.attrs.skip.is_some()
    }

    pub(crate) fn is_metadata(&self) -> bool {
        self.attrs.metadata.is_some()
    }

    pub(crate) fn is_flattened(&self) -> bool {
        self.attrs.flatten.is_some()
    }

    /// Returns whether an attribute changes how the field's arrays are read or written.
    pub(crate) fn has_array_attrs(&self) -> bool {
        let flags = [&self.attrs.cast, &self.attrs.dequantize, &self.attrs.transpose];
        self.attrs.shape.is_some() || flags.iter().any(|flag| flag.is_some())
    }

    /// Returns the value of a field missing from the file; `None` if the file must have it.
    pub(crate) fn fallback(&self) -> Option<&Fallback> {
        match &self.attrs.default {
            Some(default) => Some(&default.value),
            None => self.is_skipped().then_some(&Fallback::Default),
        }
    }

    pub(crate) fn is_optional(&self) -> bool {
        self.attrs.default.is_some()
    }

    pub(crate) fn aliases(&self) -> impl Iterator<Item = String> {
        self.attrs.aliases.iter().map(|alias| alias.value.value())
    }

    /// Returns the field's entry in the list for serde's `deserialize_struct`.
    // NOTE: keep in step with `DERIVED` in `src/serde/token.rs`.
    pub(crate) fn spec(&self) -> String {
        let mut spec = self.name.clone();
        self.aliases().for_each(|alias| spec.extend(["\0=", &alias]));
        if self.is_optional() {
            spec.push_str("\0?");
        }
        if self.is_flattened() {
            spec.push_str("\0*");
        }
        spec
    }
}

/// Returns whether the tokens hold one of the names, at the start of a path.
///
/// It looks at tokens because a type may be a macro. A wrong answer adds or leaves out a bound, which makes no
/// difference for most types.
fn mentions(tokens: impl ToTokens, names: &[&Ident]) -> bool {
    let mut after_colons = false;
    tokens.to_token_stream().into_iter().any(|token| {
        let found = match &token {
            TokenTree::Ident(ident) => !after_colons && names.contains(&ident),
            TokenTree::Group(group) => mentions(group.stream(), names),
            _ => false,
        };
        after_colons = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ':');
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn finds_names_that_begin_a_path() {
        let (t, net) = (format_ident!("T"), format_ident!("Net"));
        let cases: [(Type, bool); 7] = [
            (parse_quote!(Array2<T>), true),
            (parse_quote!(T::Part), true),
            (parse_quote!(Vec<Box<Net>>), true),
            (parse_quote!(alias!(f32, T)), true),
            (parse_quote!([f32; 3]), false),
            (parse_quote!(other::Net), false),
            (parse_quote!(Nets), false),
        ];
        for (ty, expected) in cases {
            assert_eq!(mentions(&ty, &[&t, &net]), expected, "{}", ty.to_token_stream());
        }
    }
}
