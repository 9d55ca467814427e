/// A rule of `rename_all`: how a field's name is spelled in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenameRule {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

/// The rules, by serde's names for them.
pub(super) const RULES: &[(&str, RenameRule)] = &[
    ("lowercase", RenameRule::Lower),
    ("UPPERCASE", RenameRule::Upper),
    ("PascalCase", RenameRule::Pascal),
    ("camelCase", RenameRule::Camel),
    ("snake_case", RenameRule::Snake),
    ("SCREAMING_SNAKE_CASE", RenameRule::ScreamingSnake),
    ("kebab-case", RenameRule::Kebab),
    ("SCREAMING-KEBAB-CASE", RenameRule::ScreamingKebab),
];

impl RenameRule {
    /// Spells a field's name by this rule, as serde does. The name is in snake case.
    pub(crate) fn apply(self, field: &str) -> String {
        match self {
            Self::Lower | Self::Snake => field.to_owned(),
            Self::Upper | Self::ScreamingSnake => field.to_ascii_uppercase(),
            Self::Pascal => field.split('_').map(capitalized).collect(),
            Self::Camel => uncapitalized(&Self::Pascal.apply(field)),
            Self::Kebab => field.replace('_', "-"),
            Self::ScreamingKebab => Self::ScreamingSnake.apply(field).replace('_', "-"),
        }
    }
}

fn capitalized(word: &str) -> String {
    with_first(word, char::to_ascii_uppercase)
}

fn uncapitalized(word: &str) -> String {
    with_first(word, char::to_ascii_lowercase)
}

fn with_first(word: &str, change: fn(&char) -> char) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| change(&first)).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_fields_as_serde_does() {
        let spellings = |field| RULES.iter().map(|(_, rule)| rule.apply(field)).collect::<Vec<_>>();
        assert_eq!(spellings("w"), ["w", "W", "W", "w", "w", "W", "w", "W"]);
        assert_eq!(
            spellings("q_proj_2"),
            ["q_proj_2", "Q_PROJ_2", "QProj2", "qProj2", "q_proj_2", "Q_PROJ_2", "q-proj-2", "Q-PROJ-2"]
        );
        assert_eq!(spellings("_a__b"), ["_a__b", "_A__B", "AB", "aB", "_a__b", "_A__B", "-a--b", "-A--B"]);
        assert_eq!(spellings("größe"), ["größe", "GRößE", "Größe", "größe", "größe", "GRößE", "größe", "GRößE"]);
    }
}
