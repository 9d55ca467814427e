//! Understands the struct: which fields it writes, by which names, and how.

mod receiver;

use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, Generics, Ident, Member, Type};

use crate::attr::{self, Fallback};
use crate::ctxt::Ctxt;
use receiver::{mentions, spelled_out};

/// The struct. It can be expanded once `check` has nothing against it.
pub(crate) struct Model<'a> {
    pub(crate) ident: &'a Ident,
    /// The parameters, with `Self` spelled out in their bounds.
    pub(crate) generics: Generics,
    pub(crate) attrs: attr::Container,
    pub(crate) style: Style,
    pub(crate) fields: Vec<Field<'a>>,
}

/// How fields make up the struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Every field has a name.
    Named,
    /// The positions of the fields are their names. Also a struct without fields.
    Numbered,
    /// The struct is what its only field is, which has no name.
    Newtype,
}

/// A field of the struct.
pub(crate) struct Field<'a> {
    pub(crate) original: &'a syn::Field,
    pub(crate) attrs: attr::Field,
    pub(crate) member: Member,
    /// The type, with `Self` spelled out.
    pub(crate) ty: Type,
    /// The name in the file. A flattened field has it only in formats that are not for tensors.
    pub(crate) name: String,
    /// Whether the type depends on a type parameter.
    pub(crate) is_generic: bool,
    /// Whether the struct itself occurs in the type.
    pub(crate) is_recursive: bool,
}

impl<'a> Model<'a> {
    /// Reports what is not a struct.
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
        let (ident, (_, arguments, _)) = (&input.ident, input.generics.split_for_impl());
        let this = quote!(#ident #arguments);
        let parameters: Vec<_> = input.generics.type_params().map(|parameter| &parameter.ident).collect();
        let field = |(member, original): (Member, &'a syn::Field)| {
            let given = attr::Field::parse(cx, &original.attrs);
            let ty = spelled_out(&original.ty, &this);
            Field {
                name: name(&member, &given, &attrs),
                is_generic: mentions(&ty, &parameters),
                is_recursive: mentions(&ty, &[ident]),
                ty,
                original,
                attrs: given,
                member,
            }
        };
        let fields = fields.members().zip(fields).map(field).collect();
        let mut generics = spelled_out(&input.generics, &this);
        generics.where_clause = input.generics.where_clause.as_ref().map(|clause| spelled_out(clause, &this));
        Some(Self { ident, generics, attrs, style, fields })
    }

    /// The struct's own name, as a string.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }
}

/// `rename` gives the name, else `rename_all`, else it is as it is.
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

    pub(crate) fn is_flattened(&self) -> bool {
        self.attrs.flatten.is_some()
    }

    /// Whether an attribute changes how the field's arrays are read or written.
    pub(crate) fn is_adapted(&self) -> bool {
        self.attrs.cast.is_some() || self.attrs.shape.is_some() || self.attrs.transpose.is_some()
    }

    /// What the field is where the file has nothing for it, if that is no mistake.
    pub(crate) fn fallback(&self) -> Option<&Fallback> {
        match &self.attrs.default {
            Some(default) => Some(&default.value),
            None => self.is_skipped().then_some(&Fallback::Default),
        }
    }

    pub(crate) fn aliases(&self) -> impl Iterator<Item = String> {
        self.attrs.aliases.iter().map(|alias| alias.value.value())
    }

    /// What the field list tells the deserializer of the field.
    // NOTE: keep in step with `FieldSpec` in `src/model/token.rs`.
    pub(crate) fn spec(&self) -> String {
        let mut spec = self.name.clone();
        self.aliases().for_each(|alias| spec.extend(["\0=", &alias]));
        if self.attrs.default.is_some() {
            spec.push_str("\0?");
        }
        if self.is_flattened() {
            spec.push_str("\0*");
        }
        spec
    }
}
