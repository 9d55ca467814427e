//! Rules to rename tensors: `OLD=NEW`, with `*` for any text.

use std::fmt;
use std::str::FromStr;

use crate::error::{ErrorKind, Result};

/// Rules to rename tensors. The first match counts.
///
/// Each [`RenameRule`] is a text `OLD=NEW`. [`Renamed::by_rules`](crate::view::Renamed::by_rules) applies them to any
/// tensors, and [`OpenOptions::rename`](crate::OpenOptions::rename) to the tensors of a file.
///
/// ```
/// use tensorfile::view::RenameRules;
///
/// // The names of llama.cpp and those of transformers.
/// let rules = RenameRules::parse([
///     "blk.*.attn_q.weight=model.layers.*.self_attn.q_proj.weight",
///     "token_embd.*=model.embed_tokens.*",
/// ])?;
/// assert_eq!(rules.rename(0, "blk.31.attn_q.weight").unwrap(), "model.layers.31.self_attn.q_proj.weight");
/// assert_eq!(rules.rename(1, "token_embd.weight").unwrap(), "model.embed_tokens.weight");
/// assert_eq!(rules.rename(2, "output.weight"), None);
/// # Ok::<(), tensorfile::view::InvalidRenameRule>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenameRules(Vec<RenameRule>);

/// A rule to rename matching tensors: `OLD=NEW`.
///
/// - `*` in OLD matches any text, including dots and the empty text. The matches replace the `*` of NEW in order; NEW
///   has the same number of `*`. All but the last match as little as possible.
/// - `#3` as OLD is the tensor at position 3, counted from 0, under any name.
/// - `\*`, `\=`, `\#` and `\\` are the characters `*`, `=`, `#` and `\`. The first unescaped `=` ends OLD.
///
/// ```
/// use tensorfile::view::RenameRule;
///
/// let rule: RenameRule = "h.*.attn.*=layers.*.attention.*".parse()?;
/// assert_eq!(rule.rename(0, "h.3.attn.c_proj.bias").unwrap(), "layers.3.attention.c_proj.bias");
/// assert_eq!(rule.rename(0, "h.3.mlp"), None);
/// let rule: RenameRule = "#0=weight".parse()?;
/// assert_eq!(rule.rename(0, "arr_0").unwrap(), "weight");
/// # Ok::<(), tensorfile::view::InvalidRenameRule>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenameRule {
    /// The text of OLD, as given.
    text: String,
    old: Old,
    /// The texts around each `*`.
    new: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Old {
    Position(usize),
    /// The texts around each `*`: one if there is none.
    Pattern(Vec<String>),
}

/// The error for an invalid [`RenameRule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRenameRule(String);

impl RenameRules {
    /// Parses rules.
    ///
    /// # Errors
    ///
    /// If a text is not a rule.
    pub fn parse(rules: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, InvalidRenameRule> {
        rules.into_iter().map(|rule| rule.as_ref().parse()).collect()
    }

    /// Returns the new name of the tensor with this position and this name; `None` if no rule matches it.
    #[must_use]
    pub fn rename(&self, position: usize, name: &str) -> Option<String> {
        self.0.iter().find_map(|rule| rule.rename(position, name))
    }

    /// Returns whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rules, in their order.
    #[must_use]
    pub fn rules(&self) -> &[RenameRule] {
        &self.0
    }

    /// Checks that each rule renames at least one of these tensors: a typo would look like success.
    ///
    /// ```
    /// use tensorfile::view::RenameRules;
    ///
    /// let error = RenameRules::parse(["encoder.*=*"])?.check(["decoder.weight", "decoder.bias"]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "no tensor matches `encoder.*`; the file has `decoder.bias`, `decoder.weight`"
    /// );
    /// # Ok::<(), tensorfile::view::InvalidRenameRule>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnusedRename`] for the first unused rule.
    pub fn check<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<()> {
        let names: Vec<&str> = names.into_iter().collect();
        let mut is_used = vec![false; self.0.len()];
        for (position, name) in names.iter().enumerate() {
            let first = self.0.iter().position(|rule| rule.matches(position, name));
            first.into_iter().for_each(|rule| is_used[rule] = true);
        }
        match self.0.iter().zip(is_used).find(|(_, is_used)| !is_used) {
            Some((rule, _)) => Err(rule.unused(&names).into()),
            None => Ok(()),
        }
    }
}

impl FromIterator<RenameRule> for RenameRules {
    fn from_iter<I: IntoIterator<Item = RenameRule>>(rules: I) -> Self {
        Self(rules.into_iter().collect())
    }
}

impl RenameRule {
    /// Returns the new name of the tensor with this position and this name; `None` if the rule does not match it.
    #[must_use]
    pub fn rename(&self, position: usize, name: &str) -> Option<String> {
        let captures = self.captures(position, name)?;
        let (first, others) = self.new.split_first()?;
        let mut new = first.clone();
        for (capture, text) in captures.iter().zip(others) {
            new.push_str(capture);
            new.push_str(text);
        }
        Some(new)
    }

    /// Returns whether the rule matches the tensor with this position and this name.
    #[must_use]
    pub fn matches(&self, position: usize, name: &str) -> bool {
        self.captures(position, name).is_some()
    }

    /// Returns the error for a rule that renames none of these tensors.
    #[must_use]
    pub fn unused(&self, names: &[&str]) -> ErrorKind {
        let is_shadowed = names.iter().enumerate().any(|(position, name)| self.matches(position, name));
        let found = names.iter().map(|name| (*name).to_owned()).collect();
        let found = if is_shadowed { Vec::new() } else { ErrorKind::by_similarity(&self.text, found) };
        ErrorKind::UnusedRename { old: self.text.clone(), found, is_shadowed }
    }

    /// Returns the texts matched by the `*`.
    fn captures<'n>(&self, position: usize, name: &'n str) -> Option<Vec<&'n str>> {
        let texts = match &self.old {
            Old::Position(own) => return (*own == position).then(Vec::new),
            Old::Pattern(texts) => texts,
        };
        let (first, others) = texts.split_first()?;
        let mut rest = name.strip_prefix(first.as_str())?;
        let Some((last, between)) = others.split_last() else { return rest.is_empty().then(Vec::new) };
        rest = rest.strip_suffix(last.as_str())?;
        let mut captures = Vec::with_capacity(others.len());
        for text in between {
            let (capture, after) = rest.split_once(text.as_str())?;
            captures.push(capture);
            rest = after;
        }
        captures.push(rest);
        Some(captures)
    }
}

impl FromStr for RenameRule {
    type Err = InvalidRenameRule;

    fn from_str(rule: &str) -> Result<Self, InvalidRenameRule> {
        let invalid = |why: &str| InvalidRenameRule(why.to_owned());
        let end = end_of_old(rule).ok_or_else(|| invalid("expected OLD=NEW"))?;
        let (text, new) = (&rule[..end], &rule[end + 1..]);
        let old = match text.strip_prefix('#') {
            Some(position) if position.bytes().all(|byte| byte.is_ascii_digit()) => {
                Old::Position(position.parse().map_err(|_| invalid("expected a position after `#`, such as `#3`"))?)
            }
            _ => Old::Pattern(texts(text)?),
        };
        let new = texts(new)?;
        let stars = match &old {
            Old::Position(_) => 0,
            Old::Pattern(texts) => texts.len() - 1,
        };
        if new.len() - 1 != stars {
            let new = new.len() - 1;
            return Err(InvalidRenameRule(format!(
                "OLD has {stars} `*`, but NEW has {new}; each `*` of NEW stands for the text that one of OLD matches"
            )));
        }
        Ok(Self { text: text.to_owned(), old, new })
    }
}

impl fmt::Display for RenameRule {
    /// Prints the text of OLD.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the index of the first unescaped `=`.
fn end_of_old(rule: &str) -> Option<usize> {
    let mut is_escaped = false;
    rule.bytes().position(|byte| {
        let is_end = byte == b'=' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Returns the texts around each `*` of a pattern.
fn texts(pattern: &str) -> Result<Vec<String>, InvalidRenameRule> {
    let mut texts = vec![String::new()];
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '*' => {
                texts.push(String::new());
                continue;
            }
            '\\' => letters.next().filter(|escaped| "*=#\\".contains(*escaped)).ok_or_else(|| {
                InvalidRenameRule("`\\` is followed by `*`, `=`, `#` or `\\`; `\\\\` is the character".to_owned())
            })?,
            letter => letter,
        };
        texts.last_mut().into_iter().for_each(|text| text.push(letter));
    }
    Ok(texts)
}

impl fmt::Display for InvalidRenameRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidRenameRule {}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(rule: &str, name: &str) -> Option<String> {
        rule.parse::<RenameRule>().unwrap().rename(3, name)
    }

    #[test]
    fn stars_are_captured_and_reused_in_order() {
        for (rule, name, new) in [
            ("a=b", "a", Some("b")),
            ("a=b", "a.c", None),
            ("a=b=c", "a", Some("b=c")),
            ("a=", "a", Some("")),
            ("a.*=b.*", "a.c", Some("b.c")),
            ("*=b.*", "a.c", Some("b.a.c")),
            ("a.*=*", "a.c", Some("c")),
            ("*.weight=*.w", "a.weight", Some("a.w")),
            ("*.weight=*.w", "a.weights", None),
            ("*a*=*b*", "xay", Some("xby")),
            ("blk.*.attn_q.*=layers.*.q.*", "blk.31.attn_q.weight", Some("layers.31.q.weight")),
            ("blk.*.attn_q.*=layers.*.q.*", "blk.31.attn_k.weight", None),
            // As little as possible, except for the last.
            ("*.*=*/*", "a.b.c", Some("a/b.c")),
            ("*.*.*=*/*/*", "a.b.c.d", Some("a/b/c.d")),
            ("**=*x*", "ab", Some("xab")),
            // The beginning and the end do not overlap.
            ("aba*aba=*", "ababa", None),
            ("aba*aba=*", "abaaba", Some("")),
            ("*ä*=*ö*", "xäy", Some("xöy")),
            ("#3=w", "anything", Some("w")),
            ("#4=w", "anything", None),
            (r"\#3=w", "#3", Some("w")),
            ("#x=w", "#x", Some("w")),
            ("#3*=w*", "#3x", Some("wx")),
            (r"a\=b\*=\*c\\", "a=b*", Some(r"*c\")),
        ] {
            assert_eq!(renamed(rule, name).as_deref(), new, "{rule} {name}");
        }
    }

    #[test]
    fn matching_takes_time_in_proportion_to_the_name() {
        let rule = format!("{}b={}", "*a".repeat(1000) + "*", "*".repeat(1001));
        assert_eq!(renamed(&rule, &"a".repeat(100_000)), None);
    }

    #[test]
    fn invalid_rules_say_why() {
        let counts = |old, new| {
            format!("OLD has {old} `*`, but NEW has {new}; each `*` of NEW stands for the text that one of OLD matches")
        };
        for (rule, message) in [
            ("a", "expected OLD=NEW".to_owned()),
            (r"a\=b", "expected OLD=NEW".to_owned()),
            ("#=b", "expected a position after `#`, such as `#3`".to_owned()),
            ("#99999999999999999999999=b", "expected a position after `#`, such as `#3`".to_owned()),
            (r"a\b=c", r"`\` is followed by `*`, `=`, `#` or `\`; `\\` is the character".to_owned()),
            ("a*=b", counts(1, 0)),
            ("a=b*", counts(0, 1)),
            ("a*b*=*", counts(2, 1)),
            ("#3=*", counts(0, 1)),
        ] {
            assert_eq!(rule.parse::<RenameRule>().unwrap_err().to_string(), message, "{rule}");
        }
    }

    #[test]
    fn a_rule_without_a_tensor_is_an_error() {
        let names = ["blk.0.attn_q.weight", "blk.0.attn_k.weight", "output.weight"];
        let check = |rules: &[&str]| RenameRules::parse(rules).unwrap().check(names).map_err(|error| error.to_string());
        assert_eq!(check(&["blk.*.attn_q.*=*.*", "#2=o"]), Ok(()));
        assert_eq!(
            check(&["blk.*.attn_v.weight=v*"]).unwrap_err(),
            "no tensor matches `blk.*.attn_v.weight`; the file has `blk.0.attn_q.weight`, `blk.0.attn_k.weight`, \
             `output.weight`"
        );
        assert_eq!(
            check(&["blk.*=*", "blk.*.attn_q.weight=q*"]).unwrap_err(),
            "each tensor that matches `blk.*.attn_q.weight` is already renamed by an earlier rule"
        );
        assert_eq!(check(&["#3=o"]).unwrap_err(), "there is no tensor at position 3; the file has 3");
    }
}
