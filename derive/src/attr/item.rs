use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Ident, LitStr, Path, Result, Token, bracketed};

use super::rename::{RULES, RenameRule};
use super::suggest::nearest;
use super::{Dim, Fallback};
use crate::ctxt::Ctxt;

/// One `key` or `key = value` of `#[tensor(key, key = value)]`.
pub(super) struct Item {
    pub(super) key: Ident,
    value: Option<TokenStream>,
}

/// Calls `read` for every item of all `#[tensor(...)]`. A mistake in one item does not hide another.
pub(super) fn each(cx: &mut Ctxt, attributes: &[Attribute], mut read: impl FnMut(&Item, &str) -> Result<()>) {
    for attribute in attributes {
        if attribute.path().is_ident("serde") {
            cx.error(attribute, "serde's attributes have no effect on a tensor struct; write `#[tensor(...)]`");
        } else if attribute.path().is_ident("tensor") {
            match attribute.parse_args_with(Punctuated::<Item, Token![,]>::parse_terminated) {
                Ok(items) => {
                    let read = |item: &Item| read(item, &item.key.to_string());
                    items.iter().map(read).filter_map(Result::err).for_each(|error| cx.push(error));
                }
                Err(error) => cx.push(error),
            }
        }
    }
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let key = input.call(Ident::parse_any)?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(until_comma(input)?),
            None if input.is_empty() || input.peek(Token![,]) => None,
            None => return Err(input.error("expected `=` or `,`")),
        };
        Ok(Self { key, value })
    }
}

fn until_comma(input: ParseStream<'_>) -> Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        tokens.extend([input.parse::<TokenTree>()?]);
    }
    Ok(tokens)
}

impl Item {
    pub(super) fn error(&self, message: String) -> Error {
        Error::new_spanned(&self.key, message)
    }

    /// Refuses an attribute that is not in `known`.
    pub(super) fn unknown(&self, known: &[&str]) -> Error {
        let key = self.key.to_string();
        self.error(match nearest(&key, known.iter().copied()) {
            Some(word) => format!("unknown tensor attribute `{key}`; did you mean `{word}`?"),
            None => format!("unknown tensor attribute `{key}`; expected one of {}", quoted(known.iter().copied())),
        })
    }

    /// Refuses a value: the attribute takes none.
    pub(super) fn flag(&self) -> Result<()> {
        match &self.value {
            None => Ok(()),
            Some(value) => Err(Error::new_spanned(value, format!("`{}` takes no value", self.key))),
        }
    }

    pub(super) fn string(&self) -> Result<LitStr> {
        self.parse("\"...\"", |input| input.parse())
    }

    /// Parses a path, with or without quotes.
    pub(super) fn path(&self) -> Result<Path> {
        self.parse("\"path\"", |input| match input.parse::<Option<LitStr>>()? {
            Some(quoted) => quoted.parse(),
            None => input.parse(),
        })
    }

    pub(super) fn fallback(&self) -> Result<Fallback> {
        match self.value {
            None => Ok(Fallback::Default),
            Some(_) => self.path().map(Fallback::Call),
        }
    }

    pub(super) fn dims(&self) -> Result<Vec<Dim>> {
        self.parse("[64, _]", |input| {
            let dims;
            bracketed!(dims in input);
            Ok(dims.parse_terminated(parse_dim, Token![,])?.into_iter().collect())
        })
    }

    pub(super) fn rename_rule(&self) -> Result<RenameRule> {
        let name = self.string()?;
        let names = || RULES.iter().map(|(name, _)| *name);
        match RULES.iter().find(|(rule, _)| *rule == name.value()) {
            Some((_, rule)) => Ok(*rule),
            None => Err(Error::new_spanned(
                &name,
                match nearest(&name.value(), names()) {
                    Some(rule) => format!("unknown rule \"{}\"; did you mean \"{rule}\"?", name.value()),
                    None => format!("unknown rule \"{}\"; expected one of {}", name.value(), quoted(names())),
                },
            )),
        }
    }

    /// Parses the value, or says what the attribute looks like.
    fn parse<T>(&self, example: &str, parser: impl FnOnce(ParseStream<'_>) -> Result<T>) -> Result<T> {
        let expected = format!("expected `{} = {example}`", self.key);
        match &self.value {
            Some(value) if !value.is_empty() => {
                parser.parse2(value.clone()).map_err(|_| Error::new_spanned(value, expected))
            }
            _ => Err(self.error(expected)),
        }
    }
}

fn parse_dim(input: ParseStream<'_>) -> Result<Dim> {
    match input.parse::<Option<Token![_]>>()? {
        Some(_) => Ok(None),
        None => input.parse().map(Some),
    }
}

fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
