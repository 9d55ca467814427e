//! Looks at types as tokens, which finds a name in any corner of a type, and in the arguments of a macro too.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::parse::Parse;

/// Spells `Self` out, which means something else in the impls of helper types.
pub(super) fn spelled_out<T: ToTokens + Parse + Clone>(tokens: &T, this: &TokenStream) -> T {
    syn::parse2(replaced(tokens.to_token_stream(), this)).unwrap_or_else(|_| tokens.clone())
}

fn replaced(tokens: TokenStream, this: &TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut output = TokenStream::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "Self" => {
                let this = at(ident.span(), this);
                let is_qualifier = matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':');
                output.extend(if is_qualifier { quote_spanned!(ident.span()=> <#this>) } else { this });
            }
            TokenTree::Group(group) => {
                let mut inside = Group::new(group.delimiter(), replaced(group.stream(), this));
                inside.set_span(group.span());
                output.extend([TokenTree::Group(inside)]);
            }
            other => output.extend([other]),
        }
    }
    output
}

fn at(span: Span, tokens: &TokenStream) -> TokenStream {
    let at = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.clone().into_iter().map(at).collect()
}

/// Whether the tokens hold one of the names other than as the end of a longer path.
///
/// It may find a name where none is meant. Then a bound is stated, or left out, that makes no difference for most
/// types.
pub(super) fn mentions(tokens: impl ToTokens, names: &[&Ident]) -> bool {
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
    use quote::{format_ident, quote};
    use syn::{Type, parse_quote};

    #[test]
    fn spells_self_out_wherever_it_stands() {
        let cases: [(Type, Type); 5] = [
            (parse_quote!(Option<Box<Self>>), parse_quote!(Option<Box<Net<A>>>)),
            (parse_quote!([f32; Self::WIDTH]), parse_quote!([f32; <Net<A>>::WIDTH])),
            (parse_quote!(<Self as Has>::Part), parse_quote!(<Net<A> as Has>::Part)),
            (parse_quote!((Self, [Self; 2])), parse_quote!((Net<A>, [Net<A>; 2]))),
            (parse_quote!(Array2<A>), parse_quote!(Array2<A>)),
        ];
        for (from, to) in cases {
            let spelled = spelled_out(&from, &quote!(Net<A>));
            assert_eq!(spelled.to_token_stream().to_string(), to.to_token_stream().to_string());
        }
    }

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
