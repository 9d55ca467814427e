//! Messages of malformed maps, and of maps that do not fit.

use tensorfile::{Category, LayoutMap, OpenOptions};

use super::{counting, parse};

#[test]
fn malformed_maps_name_the_line_and_the_column() {
    for (text, expected) in [
        (
            "a",
            "line 1, column 2: expected `NAME [axes] = NAME [axes]`, `let`, `keep`, `drop`, `copy` or `maybe`\n  a\n   ^",
        ),
        ("\n\na [x] = b", "line 3, column 4: `x` is only on the left side\n  a [x] = b\n     ^"),
        ("a [] = b", "line 1, column 1: one side has dims, and the other has none\n  a [] = b\n  ^"),
        ("a.{x} [y] = b [x]", "line 1, column 8: `y` is only on the left side\n  a.{x} [y] = b [x]\n         ^"),
        ("a.{x} [x] = b [x]", "line 1, column 8: `x` is twice on this side\n  a.{x} [x] = b [x]\n         ^"),
        ("a.{x:*} = b.{x}", "line 1, column 4: `{x:*}` is in both names\n  a.{x:*} = b.{x}\n     ^"),
        (
            "a.{x:p|q} = b.{x:p|q|r}",
            "line 1, column 4: `x` has 2 texts here, and 3 on the other side\n  a.{x:p|q} = b.{x:p|q|r}\n     ^",
        ),
        (
            "a.{x:p|p} = b.{x}",
            "line 1, column 6: expected different texts, such as `gate|up`, or `*`\n  a.{x:p|p} = b.{x}\n       ^",
        ),
        ("a.{x = b.{x}", "line 1, column 5: expected `}`\n  a.{x = b.{x}\n      ^"),
        (
            "a [(x y] = b [y x]",
            "line 1, column 8: expected an axis; a dim of 1 is `()`\n  a [(x y] = b [y x]\n         ^",
        ),
        ("a [x+p] = b [x]", "line 1, column 5: expected one `+p`, and `let p = …`\n  a [x+p] = b [x]\n      ^"),
        (
            "a [(r[p] p)] = b.{p:x|y} [r[p]]",
            "line 1, column 5: `p` is before `r[p]` in its dim, or in the name\n  a [(r[p] p)] = b.{p:x|y} [r[p]]\n      ^",
        ),
        (
            "let p = q|k\na [(p=v x)] = b [x]",
            "line 2, column 5: `p` has no part `v`; `let p = …|…` lists the parts in their order\n  a [(p=v x)] = b [x]\n      ^",
        ),
        ("let x = y + 1", "line 1, column 9: there is no `let y = …` before this line\n  let x = y + 1\n          ^"),
        (
            "let x = 2 *",
            "line 1, column 12: expected a number, an earlier `let`, `config.KEY` or brackets\n  let x = 2 *\n             ^",
        ),
        ("let x = 1\nlet x = 2", "line 2, column 5: `x` has a `let` already\n  let x = 2\n      ^"),
        ("copy a b", "line 1, column 6: expected `copy A -> B`\n  copy a b\n       ^"),
        ("keep # nothing", "line 1, column 6: expected names, such as `lm_head.*`\n  keep\n       ^"),
    ] {
        let error = LayoutMap::parse(text).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.category()), (expected, Category::Call), "{text}");
    }
}

#[test]
fn a_long_line_is_shown_around_the_mistake() {
    let error = LayoutMap::parse(&format!("a.{} [x] = b [y]", "long".repeat(100))).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines[0], "line 1, column 405: `x` is only on the left side");
    assert!(lines[1].ends_with("longlong [x] = b [y]") && lines[1].len() < 103, "{error}");
    assert_eq!(&lines[1][lines[2].find('^').unwrap()..][..1], "x");
}

/// Maps a file of numbered tensors, and returns the message.
fn message(map: &LayoutMap, tensors: &[(&str, &[usize])]) -> String {
    match OpenOptions::new().map(map).from_bytes(counting(tensors)) {
        Ok(file) => file.receipt().unwrap().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_misfit_is_counted() {
    let map = parse("let e = 2\nlet l = 2\nl.{l}.e.{e}.w [h] = l.{l}.w [e h]\ndrop *.b\nkeep norm");
    let fits = |others: &[(&'static str, &'static [usize])]| {
        let all = [("l.0.e.0.w", &[3][..]), ("l.0.e.1.w", &[3]), ("l.1.e.0.w", &[3]), ("l.1.e.1.w", &[3])];
        message(&map, &[&all[..], others].concat())
    };
    assert_eq!(
        fits(&[("norm", &[2]), ("l.0.b", &[5])]),
        "line 3  4 tensors -> 2  12 elements  e becomes a dim\n\
         kept     1 tensor        2 elements\n\
         source 6 tensors, 19 elements = target 3 tensors, 14 elements; 0 made, 5 left"
    );
    assert_eq!(
        fits(&[("extra", &[2]), ("other", &[2]), ("l.1.e.2.w", &[3])]),
        "safetensors: the map does not fit: 3 misfits\n  \
         e = 2 of l = 1 is too many: line 3 has no place for `l.1.e.2.w`\n  \
         no rule uses `extra` (and 1 more)"
    );
    assert_eq!(
        message(&map, &[("l.0.e.0.w", &[3]), ("l.0.e.1.w", &[3])]),
        "safetensors: the map does not fit: 1 misfit\n  l = 1 is missing: line 3 needs `l.1.e.0.w`"
    );
    let inverted = map.clone().inverted();
    assert_eq!(
        message(&inverted, &[("l.0.w", &[2, 3])]),
        "line 4 drops tensors, so that there is no way back from right to left"
    );
}

#[test]
fn numbers_that_are_not_known_are_named() {
    let map = parse("let e = config.experts ?? config.local.experts\nlet f = e * 2\na.{e} [h] = a [e h]");
    assert_eq!(
        message(&map, &[("a.0", &[3])]),
        "safetensors: the map does not fit: 1 misfit\n  `let e` of line 1 needs `config.experts` and `config.local.experts`, which no \
         configuration has; set `e`"
    );
    assert!(message(&map.clone().set("e", 1), &[("a.0", &[3])]).starts_with("line 3  1 tensor -> 1"));
    assert_eq!(message(&map.set("x", 1), &[("a.0", &[3])]), "the map has no number `x` to set; it has `e`, `f`");
    for (text, expected) in [
        ("let x = 7 / 2", "`let x` of line 1: it is 7 / 2, which leaves a remainder"),
        ("let x = 7 / (2 - 2)", "`let x` of line 1: it divides by zero, or is too large"),
        ("let x = 3 - 5", "`let x` of line 1: it is -2; numbers of a map are from 0 to 2^64"),
    ] {
        assert_eq!(message(&parse(text), &[]), format!("safetensors: the map does not fit: 1 misfit\n  {expected}"));
    }
    let two = parse("a [(x y)] = b [x y]");
    assert_eq!(
        message(&two, &[("a", &[6])]),
        "safetensors: the map does not fit: 1 misfit\n  the sizes of `x` and `y` are not known: line 1 needs a `let` for all \
         but one"
    );
    assert!(message(&two.set("x", 2), &[("a", &[6])]).ends_with("0 made, 0 left"));
}
