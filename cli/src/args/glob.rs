//! Patterns for names, compiled to steps and matched without backtracking.

use std::fmt;
use std::str::FromStr;

/// A pattern for whole names.
///
/// Names are not paths: `*` and `?` match `/` too, and `**` is the same as `*`.
#[derive(Debug, Clone)]
pub struct Glob(Vec<Step>);

/// A step of matching. Matching is at several steps at once.
#[derive(Debug, Clone)]
enum Step {
    /// Takes this character.
    Char(char),
    /// Takes any character: `?`.
    Any,
    /// Takes a character in one of the ranges, or in none of them: `[a-z]`, `[!a-z]`.
    Class { excludes: bool, ranges: Vec<(char, char)> },
    /// Takes any character and stays here, or goes on: `*`.
    Star,
    /// Goes on here and there: at the next text of `{a,b}`.
    Split(usize),
    /// Goes on there: after `{a,b}`.
    Jump(usize),
}

/// The error for a malformed glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidGlob(&'static str);

impl fmt::Display for InvalidGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidGlob {}

impl FromStr for Glob {
    type Err = InvalidGlob;

    fn from_str(text: &str) -> Result<Self, InvalidGlob> {
        /// An open `{`.
        struct Group {
            /// The [`Step::Split`] of its last text.
            split: usize,
            /// The [`Step::Jump`]s at the ends of the texts so far.
            jumps: Vec<usize>,
        }

        let mut steps = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (c, groups.last_mut()) {
                ('*', _) => steps.push(Step::Star),
                ('?', _) => steps.push(Step::Any),
                ('[', _) => steps.push(class(&mut chars)?),
                ('\\', _) => {
                    let escaped = chars.next().ok_or(InvalidGlob("nothing follows the last `\\`"))?;
                    steps.push(Step::Char(escaped));
                }
                ('{', _) => {
                    groups.push(Group { split: steps.len(), jumps: Vec::new() });
                    steps.push(Step::Split(steps.len() + 1));
                }
                (',', Some(group)) => {
                    group.jumps.push(steps.len());
                    steps.push(Step::Jump(0));
                    steps[group.split] = Step::Split(steps.len());
                    group.split = steps.len();
                    steps.push(Step::Split(steps.len() + 1));
                }
                ('}', Some(group)) => {
                    let end = steps.len();
                    group.jumps.iter().for_each(|jump| steps[*jump] = Step::Jump(end));
                    groups.pop();
                }
                ('}', None) => return Err(InvalidGlob("`}` closes nothing; `\\}` is the character")),
                (c, _) => steps.push(Step::Char(c)),
            }
        }
        if groups.is_empty() { Ok(Self(steps)) } else { Err(InvalidGlob("`{` is not closed; `\\{` is the character")) }
    }
}

/// Parses a class after its `[`.
fn class(chars: &mut std::str::Chars<'_>) -> Result<Step, InvalidGlob> {
    let unclosed = InvalidGlob("`[` is not closed; `\\[` is the character");
    let mut next = || chars.next().ok_or(unclosed.clone());
    let mut c = next()?;
    let excludes = matches!(c, '!' | '^');
    if excludes {
        c = next()?;
    }
    let mut ranges = Vec::new();
    // A `]` at the beginning is one of the characters.
    loop {
        let start = c;
        c = next()?;
        if c != '-' {
            ranges.push((start, start));
        } else {
            match next()? {
                // A `-` at the end, too.
                ']' => {
                    ranges.extend([(start, start), ('-', '-')]);
                    break;
                }
                end if end < start => return Err(InvalidGlob("a range in `[]` ends before it starts")),
                end => ranges.push((start, end)),
            }
            c = next()?;
        }
        if c == ']' {
            break;
        }
    }
    Ok(Step::Class { excludes, ranges })
}

impl Glob {
    /// Returns whether a whole name matches. The time is at most proportional to the length of the name times the
    /// length of the glob.
    pub fn matches(&self, name: &str) -> bool {
        let mut index = Steps::new(self.0.len());
        index.add(&self.0, 0);
        for c in name.chars() {
            let mut next = Steps::new(self.0.len());
            for step in std::mem::take(&mut index.list) {
                let (takes, then) = match &self.0[step] {
                    Step::Char(own) => (c == *own, step + 1),
                    Step::Any => (true, step + 1),
                    Step::Class { excludes, ranges } => {
                        (ranges.iter().any(|(start, end)| (*start..=*end).contains(&c)) != *excludes, step + 1)
                    }
                    Step::Star => (true, step),
                    Step::Split(_) | Step::Jump(_) => (false, step),
                };
                if takes {
                    next.add(&self.0, then);
                }
            }
            index = next;
        }
        index.is_in[self.0.len()]
    }
}

/// The current steps of a match.
struct Steps {
    list: Vec<usize>,
    /// For each step, and the end.
    is_in: Vec<bool>,
}

impl Steps {
    fn new(len: usize) -> Self {
        Self { list: Vec::new(), is_in: vec![false; len + 1] }
    }

    /// Adds a step, and all steps reachable without a character.
    fn add(&mut self, steps: &[Step], first: usize) {
        let mut waiting = vec![first];
        while let Some(index) = waiting.pop() {
            if std::mem::replace(&mut self.is_in[index], true) {
                continue;
            }
            match steps.get(index) {
                None => {}
                Some(Step::Jump(there)) => waiting.push(*there),
                Some(Step::Split(there)) => waiting.extend([index + 1, *there]),
                Some(step) => {
                    if matches!(step, Step::Star) {
                        waiting.push(index + 1);
                    }
                    self.list.push(index);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        for (glob, matching, others) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "a/b"], &[]),
            ("**/a", &["/a", "b/a"], &["a"]),
            ("a*c", &["ac", "abc", "abcc"], &["abcd", "c"]),
            ("?", &["a", "ä", "😀"], &["", "ab"]),
            ("[ä-ü]x", &["äx", "öx"], &["ax", "x"]),
            ("[!a-c]", &["d", "ä"], &["a", "c", ""]),
            ("[^a]", &["b"], &["a"]),
            ("[]a-]", &["]", "a", "-"], &["b"]),
            ("[!]]", &["a"], &["]"]),
            ("{a,b?}.c", &["a.c", "bx.c"], &["b.c", "a"]),
            ("{a,{b,c}d,}e", &["ae", "bde", "cde", "e"], &["ade", "be"]),
            ("x{}y", &["xy"], &["x"]),
            ("a,b", &["a,b"], &["a"]),
            (r"\*\{\?", &["*{?"], &["a{b"]),
            ("*a*a*a*a*a*a*a*a*b", &["aaaaaaaab"], &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]),
        ] {
            let parsed = glob.parse::<Glob>().unwrap();
            matching.iter().for_each(|name| assert!(parsed.matches(name), "`{glob}` and `{name}`"));
            others.iter().for_each(|name| assert!(!parsed.matches(name), "`{glob}` and `{name}`"));
        }
    }

    #[test]
    fn rejects_invalid_globs() {
        for (glob, message) in [
            ("a[", "`[` is not closed; `\\[` is the character"),
            ("[]", "`[` is not closed; `\\[` is the character"),
            ("[a-", "`[` is not closed; `\\[` is the character"),
            ("[b-a]", "a range in `[]` ends before it starts"),
            ("{a,{b}", "`{` is not closed; `\\{` is the character"),
            ("a}", "`}` closes nothing; `\\}` is the character"),
            ("a\\", "nothing follows the last `\\`"),
        ] {
            assert_eq!(glob.parse::<Glob>().unwrap_err().to_string(), message, "{glob}");
        }
    }
}
