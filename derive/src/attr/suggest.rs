/// Returns the word that the user probably meant: the nearest, if at most a third of its letters differ.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| distance * 3 <= candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns how many letters must be added, removed, replaced or swapped with the next to turn one word into the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // table[i][j] is the distance between the first i letters and the first j letters.
    let mut table = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = table[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                let one_more = table[i - 1][j].min(table[i][j - 1]) + 1;
                let is_swap = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
                let swapped = if is_swap { table[i - 2][j - 2] + 1 } else { usize::MAX };
                replaced.min(one_more).min(swapped)
            };
        }
    }
    table[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_letters_that_differ() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("flaten", "flatten", 1),
            ("name", "rename", 2),
            ("alais", "alias", 1),
        ] {
            assert_eq!(distance(from, to), expected, "{from} to {to}");
        }
    }

    #[test]
    fn suggests_similar_names_only() {
        let known = ["rename", "skip", "default", "shape", "cast", "alias"];
        for (word, expected) in [
            ("name", Some("rename")),
            ("Skip", Some("skip")),
            ("defalt", Some("default")),
            ("shap", Some("shape")),
            ("casts", Some("cast")),
            ("alais", Some("alias")),
            ("with", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
