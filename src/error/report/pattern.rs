//! Names without indices, common to the items of a list.

/// Replaces each numeric segment of a name by `*`.
pub(crate) fn pattern(name: &str) -> String {
    name.split('.').map(|part| if is_number(part) { "*" } else { part }).collect::<Vec<_>>().join(".")
}

/// Replaces each `*` of a pattern by a number from `name`. `None` if there are too few or too many.
pub(crate) fn fill(pattern: &str, name: &str) -> Option<String> {
    let mut numbers = name.split('.').filter(|part| is_number(part));
    let mut parts = Vec::new();
    for part in pattern.split('.') {
        parts.push(if part == "*" { numbers.next()? } else { part });
    }
    numbers.next().is_none().then(|| parts.join("."))
}

/// Replaces the differing numbers in names of one pattern by `*`.
pub(super) fn common(names: &mut dyn Iterator<Item = &str>) -> String {
    let mut common: Vec<&str> = names.next().unwrap_or_default().split('.').collect();
    for name in names {
        for (part, other) in common.iter_mut().zip(name.split('.')) {
            if *part != other {
                *part = "*";
            }
        }
    }
    common.join(".")
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_replaced_and_filled_in() {
        assert_eq!(pattern("h.10.mlp.c_fc.0"), "h.*.mlp.c_fc.*");
        assert_eq!(fill("layers.*.b", "layers.3.bias").as_deref(), Some("layers.3.b"));
        assert_eq!(fill("layers.*.b", "bias"), None);
        assert_eq!(fill("b", "layers.3.bias"), None);
        assert_eq!(common(&mut ["a.0.1.b", "a.3.1.b"].into_iter()), "a.*.1.b");
    }
}
