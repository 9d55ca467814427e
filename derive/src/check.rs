//! Rejects attributes that parse but contradict each other or the type.

use std::collections::HashMap;

use quote::ToTokens;
use syn::{Ident, LitStr, Member, Type};

use crate::attr::Given;
use crate::ctxt::Ctxt;
use crate::model::{Field, Model, Style};

/// Reports every mistake visible in the tokens. The compiler reports mistakes in types.
pub(crate) fn check(cx: &mut Ctxt, model: &Model<'_>) {
    container(cx, model);
    for field in &model.fields {
        skipped(cx, field);
        flattened(cx, field);
        metadata(cx, model, field);
        if model.style == Style::Newtype {
            newtype(cx, field);
        }
        let names = field.attrs.rename.iter().chain(&field.attrs.aliases).chain(&field.attrs.tied);
        names.for_each(|name| well_formed(cx, &name.value));
    }
    distinct(cx, &model.fields);
}

fn container(cx: &mut Ctxt, model: &Model<'_>) {
    let attrs = &model.attrs;
    if let Some(prefix) = &attrs.prefix {
        well_formed(cx, &prefix.value);
    }
    if let Some(rule) = &attrs.rename_all
        && model.style != Style::Named
    {
        cx.error(&rule.key, "`rename_all` has no effect: the struct has no named fields");
    }
    for flag in attrs.cast.iter().chain(&attrs.dequantize) {
        if model.tensors().next().is_none() {
            cx.error(&flag.key, format!("`{}` has no effect: the struct has no tensors", flag.key));
        }
    }
    if let Some(allow) = &attrs.allow_unknown
        && model.style == Style::Newtype
        && attrs.prefix.is_none()
    {
        cx.error(&allow.key, "`allow_unknown` has no effect: a newtype struct takes what its field takes");
    }
}

/// Refuses attributes about the file on a skipped field, which is not in the file.
fn skipped(cx: &mut Ctxt, field: &Field<'_>) {
    if field.is_skipped() {
        let others = key(&field.attrs.flatten).chain(key(&field.attrs.tied)).chain(key(&field.attrs.metadata));
        for key in naming(field).chain(array_attrs(field)).chain(others) {
            cx.error(key, format!("`{key}` has no effect on a skipped field, which is not in the file"));
        }
    }
}

/// Refuses names, `default` and `tied` on a flattened field. It has no name; the others belong on the fields inside.
fn flattened(cx: &mut Ctxt, field: &Field<'_>) {
    if field.is_flattened() && !field.is_skipped() {
        for key in naming(field) {
            cx.error(key, format!("`{key}` has no effect on a flattened field, which has no name in the file"));
        }
        for key in key(&field.attrs.default).chain(key(&field.attrs.tied)) {
            cx.error(key, format!("`{key}` has no effect on a flattened field; put it on the fields inside"));
        }
    }
}

/// Refuses attributes of tensors on an entry of metadata, and borrowed types, which cannot be read.
fn metadata(cx: &mut Ctxt, model: &Model<'_>, field: &Field<'_>) {
    if field.is_metadata() && !field.is_skipped() {
        if matches!(field.ty, Type::Reference(_)) && model.attrs.write_only.is_none() {
            let instead = "use `String` or `Cow<str>`, or `write_only` on the struct";
            cx.error(field.ty, format!("metadata cannot be borrowed from a file; {instead}"));
        }
        for key in array_attrs(field).chain(key(&field.attrs.flatten)).chain(key(&field.attrs.tied)) {
            cx.error(key, format!("`{key}` has no effect on metadata, which is not a tensor"));
        }
    }
}

fn newtype(cx: &mut Ctxt, field: &Field<'_>) {
    for key in key(&field.attrs.metadata) {
        cx.error(key, "the field of a newtype struct cannot be metadata: it has no name, which would be the key");
    }
    for key in naming(field).chain(key(&field.attrs.flatten)) {
        cx.error(key, format!("`{key}` has no effect: the field of a newtype struct has no name in the file"));
    }
    for key in key(&field.attrs.skip).chain(key(&field.attrs.default)).chain(key(&field.attrs.tied)) {
        cx.error(key, format!("`{key}` has no effect: a newtype struct is what its field is"));
    }
}

/// The attributes for the field's name.
fn naming<'a>(field: &'a Field<'_>) -> impl Iterator<Item = &'a Ident> {
    key(&field.attrs.rename).chain(field.attrs.aliases.iter().map(|alias| &alias.key))
}

/// The attributes for the field's arrays.
fn array_attrs<'a>(field: &'a Field<'_>) -> impl Iterator<Item = &'a Ident> {
    let flags = [&field.attrs.cast, &field.attrs.dequantize, &field.attrs.transpose];
    flags.into_iter().flat_map(key).chain(key(&field.attrs.shape))
}

fn key<T>(given: &Option<Given<T>>) -> impl Iterator<Item = &Ident> {
    given.iter().map(|given| &given.key)
}

/// Refuses names that would be read back as other names, or cannot be in the list of fields.
fn well_formed(cx: &mut Ctxt, name: &LitStr) {
    let text = name.value();
    if text.is_empty() {
        cx.error(name, "a tensor name cannot be empty");
    } else if text.contains('\0') {
        cx.error(name, "a tensor name cannot contain NUL");
    } else if text.split('.').any(str::is_empty) {
        cx.error(name, format!("tensor name `{text}` has an empty part: `.` stands between two parts"));
    }
}

/// Refuses a name that is given twice, by two fields or by two attributes of one field.
fn distinct<'a>(cx: &mut Ctxt, fields: &'a [Field<'a>]) {
    let mut taken: HashMap<String, &Field<'_>> = HashMap::new();
    for field in fields.iter().filter(|field| !field.is_skipped()) {
        for (name, source) in names(field) {
            match taken.get(&name) {
                Some(other) if std::ptr::eq(*other, field) => {
                    cx.error(source, format!("`{name}` is already a name of this field"));
                }
                Some(other) => {
                    let other = label(other);
                    cx.error(source, format!("tensor name `{name}` is already used by field `{other}`"));
                }
                None => _ = taken.insert(name, field),
            }
        }
    }
}

/// The names of a field, each with its tokens.
fn names<'a>(field: &'a Field<'_>) -> impl Iterator<Item = (String, &'a dyn ToTokens)> {
    let first: &dyn ToTokens = match (&field.attrs.rename, &field.member) {
        (Some(rename), _) => &rename.value,
        (None, Member::Named(ident)) => ident,
        (None, Member::Unnamed(_)) => field.ty,
    };
    let aliases = field.attrs.aliases.iter().map(|alias| (alias.value.value(), &alias.value as &dyn ToTokens));
    std::iter::once((field.name.clone(), first)).chain(aliases)
}

/// The field as the user calls it.
fn label(field: &Field<'_>) -> String {
    field.member.to_token_stream().to_string()
}
