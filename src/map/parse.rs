//! Reads the text of a map into equations.

use super::cursor::LineCursor;
use super::expression::{Expression, Let};
use crate::error::{ErrorKind, Result};

/// The longest text of a map, in bytes.
const LONGEST: usize = 1 << 20;

/// The most axes of an equation, and the most dims of a side.
const MOST_AXES: usize = 64;

/// The lines of a map.
#[derive(Debug, Clone, Default)]
pub(super) struct MapLines {
    pub(super) lets: Vec<Let>,
    /// Axes whose values are texts, and the texts.
    pub(super) lists: Vec<(String, Vec<String>)>,
    pub(super) equations: Vec<Equation>,
    pub(super) keeps: Vec<NameGlob>,
    pub(super) drops: Vec<NameGlob>,
    pub(super) copies: Vec<CopyLine>,
}

/// A line that says that two names hold the same numbers.
#[derive(Debug, Clone)]
pub(super) struct Equation {
    pub(super) line: usize,
    pub(super) is_optional: bool,
    pub(super) axes: Vec<EquationAxis>,
    /// The left and the right side.
    pub(super) sides: [EquationSide; 2],
}

/// An axis, which stands in a name or in a dim of each side.
#[derive(Debug, Clone)]
pub(super) struct EquationAxis {
    pub(super) name: String,
    /// The texts of its values: those of the first side with a list, or of a `let`.
    pub(super) texts: Vec<String>,
    /// Whether its values are numbers or texts of a list, and not any text.
    pub(super) is_counted: bool,
    pub(super) index: AxisIndex,
}

/// What the size of an axis depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AxisIndex {
    Nothing,
    /// The value of another axis: `r[p]`.
    Axis(usize),
    /// One of its texts: `r[q]`.
    Text(String),
}

/// One side of an equation: a pattern of names, and the axes of each dim.
#[derive(Debug, Clone)]
pub(super) struct EquationSide {
    pub(super) text: String,
    pub(super) name: Vec<NamePiece>,
    /// `None` for any shape.
    pub(super) dims: Option<Vec<DimAxes>>,
    pub(super) part: Option<DimPart>,
}

#[derive(Debug, Clone)]
pub(super) enum NamePiece {
    Text(String),
    /// A number from 0 on, which the name shows with an offset.
    Number {
        axis: usize,
        shift: i64,
    },
    Choice {
        axis: usize,
        texts: Vec<String>,
    },
    /// Any text.
    Any {
        axis: usize,
    },
}

/// The axes of a dim, outermost first.
#[derive(Debug, Clone, Default)]
pub(super) struct DimAxes {
    pub(super) axes: Vec<usize>,
    /// The `let` with the number of indices after them.
    pub(super) padding: Option<String>,
}

/// The part of a tensor that an equation is about: `p=k`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DimPart {
    pub(super) dim: usize,
    /// The number of axes of the dim outside of the parts.
    pub(super) outer: usize,
    pub(super) axis: String,
    pub(super) text: String,
}

/// A pattern of `keep` or `drop`, with `*` for any text.
#[derive(Debug, Clone)]
pub(super) struct NameGlob {
    pub(super) line: usize,
    /// The texts around each `*`.
    texts: Vec<String>,
}

/// `copy A -> B`.
#[derive(Debug, Clone)]
pub(super) struct CopyLine {
    pub(super) line: usize,
    pub(super) from: String,
    pub(super) to: String,
}

impl NameGlob {
    pub(super) fn matches(&self, name: &str) -> bool {
        let (Some((first, others)), len) = (self.texts.split_first(), name.len()) else { return false };
        let Some((last, between)) = others.split_last() else { return name == first };
        let fits = len >= first.len() + last.len() && name.starts_with(first) && name.ends_with(last);
        let Some(mut rest) = name.get(first.len()..len.saturating_sub(last.len())).filter(|_| fits) else {
            return false;
        };
        between.iter().all(|text| match rest.split_once(text.as_str()) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    }
}

impl EquationSide {
    /// Returns the axes in the name.
    pub(super) fn in_name(&self) -> impl Iterator<Item = usize> {
        self.name.iter().filter_map(NamePiece::axis)
    }

    /// Returns the axes of all dims.
    pub(super) fn in_dims(&self) -> impl Iterator<Item = usize> {
        self.dims.iter().flatten().flat_map(|dim| dim.axes.iter().copied())
    }
}

impl NamePiece {
    pub(super) fn axis(&self) -> Option<usize> {
        match self {
            Self::Text(_) => None,
            Self::Number { axis, .. } | Self::Choice { axis, .. } | Self::Any { axis } => Some(*axis),
        }
    }
}

impl MapLines {
    /// Reads the text of a map.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Map`] with the place of the first mistake.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if text.len() > LONGEST {
            let what = format!("it has {} bytes; a map has at most {LONGEST}", text.len());
            return Err(ErrorKind::Map { what, line: 0, column: 0, text: String::new() }.into());
        }
        let mut map = Self::default();
        let lines = || text.lines().zip(1..).map(|(line, number)| LineCursor::new(line, number));
        // Equations may use the lists of later lines.
        for mut line in lines().filter(|line| line.first_word() == "let") {
            line.word();
            map.parse_let(&mut line)?;
        }
        for mut line in lines() {
            match line.first_word() {
                "" | "let" => {}
                "keep" => map.keeps.append(&mut globs(&mut line)?),
                "drop" => map.drops.append(&mut globs(&mut line)?),
                "copy" => map.copies.push(copy(&mut line)?),
                first => {
                    let is_optional = first == "maybe";
                    if is_optional {
                        line.word();
                    }
                    let equation = EquationParser { map: &map, axes: Vec::new(), places: Vec::new() };
                    let equation = equation.parse(&mut line, is_optional)?;
                    map.equations.push(equation);
                }
            }
        }
        Ok(map)
    }

    /// Returns the texts of an axis that a `let` lists.
    pub(super) fn list(&self, name: &str) -> Option<&[String]> {
        self.lists.iter().find(|(own, _)| own == name).map(|(_, texts)| &**texts)
    }

    /// Returns whether a `let` gives a number to a name, such as `e` or `r[q]`.
    pub(super) fn has_let(&self, name: &str) -> bool {
        self.lets.iter().any(|own| own.name == name)
    }

    fn parse_let(&mut self, line: &mut LineCursor<'_>) -> Result<()> {
        let start = line.blanks();
        let mut name = line.name("a name")?.to_owned();
        if line.takes("[") {
            let text = line.name("a text")?;
            name = format!("{name}[{text}]");
            line.expect("]")?;
        }
        if self.has_let(&name) || self.list(&name).is_some() {
            return Err(line.error(start, format!("`{name}` has a `let` already")));
        }
        line.blanks();
        line.expect("=")?;
        if line.rest().contains('|') {
            let start = line.blanks();
            let texts: Vec<String> = line.take_rest().trim().split('|').map(|text| text.trim().to_owned()).collect();
            if texts.iter().any(String::is_empty) || has_twice(&texts) {
                return Err(line.error(start, "expected different texts, such as `q|k|v`".to_owned()));
            }
            self.lists.push((name, texts));
            return Ok(());
        }
        let value = Expression::parse(line, &mut |name| self.has_let(name))?;
        line.end()?;
        self.lets.push(Let { line: line.number, name, value });
        Ok(())
    }
}

fn has_twice(texts: &[String]) -> bool {
    texts.iter().enumerate().any(|(i, text)| texts[..i].contains(text))
}

/// Reads the patterns of `keep` or `drop`.
fn globs(line: &mut LineCursor<'_>) -> Result<Vec<NameGlob>> {
    line.word();
    let texts = |glob: &str| glob.split('*').map(str::to_owned).collect();
    let (rest, number) = (line.take_rest(), line.number);
    let globs: Vec<NameGlob> =
        rest.split_whitespace().map(|glob| NameGlob { line: number, texts: texts(glob) }).collect();
    if globs.is_empty() { Err(line.here("expected names, such as `lm_head.*`".to_owned())) } else { Ok(globs) }
}

/// Reads `copy A -> B`.
fn copy(line: &mut LineCursor<'_>) -> Result<CopyLine> {
    line.word();
    let start = line.blanks();
    let names: Vec<&str> = line.take_rest().split_whitespace().collect();
    let [from, "->", to] = names[..] else {
        return Err(line.error(start, "expected `copy A -> B`".to_owned()));
    };
    if from == to {
        return Err(line.error(start, "expected two names".to_owned()));
    }
    Ok(CopyLine { line: line.number, from: from.to_owned(), to: to.to_owned() })
}

/// Reads an equation.
struct EquationParser<'m> {
    map: &'m MapLines,
    axes: Vec<EquationAxis>,
    /// Where each axis is on each side, in a name or a dim.
    places: Vec<[Option<usize>; 2]>,
}

impl EquationParser<'_> {
    fn parse(mut self, line: &mut LineCursor<'_>, is_optional: bool) -> Result<Equation> {
        let sides = [self.side(line, 0)?, {
            line.blanks();
            if !line.takes("=") {
                let what = "expected `NAME [axes] = NAME [axes]`, `let`, `keep`, `drop`, `copy` or `maybe`";
                return Err(line.here(what.to_owned()));
            }
            self.side(line, 1)?
        }];
        line.end()?;
        for (axis, place) in self.axes.iter().zip(&self.places) {
            let (only, at) = match *place {
                [Some(at), None] => ("left", at),
                [None, Some(at)] => ("right", at),
                _ => continue,
            };
            return Err(line.error(at, format!("`{}` is only on the {only} side", axis.name)));
        }
        if sides[0].dims.is_some() != sides[1].dims.is_some() {
            return Err(line.error(0, "one side has dims, and the other has none".to_owned()));
        }
        for number in 0..2 {
            self.check_names(line, &sides, number)?;
        }
        for (number, side) in sides.iter().enumerate() {
            self.check_dims(line, side, number)?;
        }
        Ok(Equation { line: line.number, is_optional, axes: self.axes, sides })
    }

    /// Returns the number of an axis at a place of a side.
    fn axis(&mut self, line: &LineCursor<'_>, name: &str, at: usize, side: Option<usize>) -> Result<usize> {
        let found = self.axes.iter().position(|axis| axis.name == name);
        let i = found.unwrap_or(self.axes.len());
        if found.is_none() {
            if i == MOST_AXES {
                return Err(line.error(at, format!("an equation has at most {MOST_AXES} axes")));
            }
            let texts = self.map.list(name).unwrap_or_default().to_vec();
            let (name, index) = (name.to_owned(), AxisIndex::Nothing);
            self.axes.push(EquationAxis { name, texts, is_counted: true, index });
            self.places.push([None; 2]);
        }
        if let Some(side) = side
            && self.places[i][side].replace(at).is_some()
        {
            return Err(line.error(at, format!("`{name}` is twice on this side")));
        }
        Ok(i)
    }

    fn side(&mut self, line: &mut LineCursor<'_>, number: usize) -> Result<EquationSide> {
        let start = line.blanks();
        let mut name = Vec::new();
        let mut text = String::new();
        while let Some(c) = line.peek().filter(|c| !c.is_whitespace()) {
            if c != '{' {
                text.push(c);
                line.skip();
                continue;
            }
            if !text.is_empty() {
                name.push(NamePiece::Text(std::mem::take(&mut text)));
            }
            let piece = self.variable(line, number)?;
            name.push(piece);
        }
        if !text.is_empty() {
            name.push(NamePiece::Text(text));
        }
        if name.is_empty() {
            return Err(line.here("expected the name of a tensor".to_owned()));
        }
        let end = line.at;
        line.blanks();
        if line.peek() != Some('[') {
            let text = line.line[start..end].to_owned();
            return Ok(EquationSide { text, name, dims: None, part: None });
        }
        let (dims, part) = self.dims(line, number)?;
        let text = line.line[start..line.at].to_owned();
        Ok(EquationSide { text, name, dims: Some(dims), part })
    }

    /// Reads `{e}`, `{l+1}`, `{p:gate|up}` or `{x:*}`.
    fn variable(&mut self, line: &mut LineCursor<'_>, side: usize) -> Result<NamePiece> {
        line.expect("{")?;
        let at = line.at;
        let name = line.name("the name of an axis")?;
        let axis = self.axis(line, name, at, Some(side))?;
        let piece = match line.peek() {
            Some(':') => {
                line.skip();
                let at = line.at;
                let texts = line.until('}');
                if texts == "*" {
                    self.axes[axis].is_counted = false;
                    NamePiece::Any { axis }
                } else {
                    let texts: Vec<String> = texts.split('|').map(str::to_owned).collect();
                    if texts.iter().any(String::is_empty) || has_twice(&texts) {
                        return Err(line.error(at, "expected different texts, such as `gate|up`, or `*`".to_owned()));
                    }
                    NamePiece::Choice { axis, texts }
                }
            }
            Some(sign @ ('+' | '-')) => {
                line.skip();
                let shift = i64::from(line.number("a number such as 1")?);
                NamePiece::Number { axis, shift: if sign == '+' { shift } else { -shift } }
            }
            _ => NamePiece::Number { axis, shift: 0 },
        };
        line.expect("}")?;
        Ok(piece)
    }

    /// Reads `[e (p i) h]`.
    fn dims(&mut self, line: &mut LineCursor<'_>, side: usize) -> Result<(Vec<DimAxes>, Option<DimPart>)> {
        line.expect("[")?;
        let (mut dims, mut part, mut depth) = (Vec::<DimAxes>::new(), None, 0);
        loop {
            let at = line.blanks();
            if depth == 0 && line.takes("]") {
                return Ok((dims, part));
            }
            if line.takes("(") {
                if depth == 0 {
                    dims.push(DimAxes::default());
                }
                depth += 1;
            } else if depth > 0 && line.takes(")") {
                depth -= 1;
            } else if depth == 0 && !dims.is_empty() && line.takes("+") {
                let name = line.name("a name")?;
                let dim = dims.last_mut().expect("there is one");
                if !self.map.has_let(name) || dim.padding.replace(name.to_owned()).is_some() {
                    return Err(line.error(at, format!("expected one `+{name}`, and `let {name} = …`")));
                }
            } else {
                if depth == 0 {
                    dims.push(DimAxes::default());
                }
                let name = line.name("an axis; a dim of 1 is `()`")?;
                let dim = dims.last_mut().expect("there is one");
                if line.takes("=") {
                    let text = line.name("one of the texts of a `let`")?.to_owned();
                    self.check_part(line, at, name, &text)?;
                    let found = DimPart {
                        dim: dims.len() - 1,
                        outer: dims[dims.len() - 1].axes.len(),
                        axis: name.to_owned(),
                        text,
                    };
                    if part.replace(found).is_some() {
                        return Err(line.error(at, "a side is about one part".to_owned()));
                    }
                    continue;
                }
                let axis = self.axis(line, name, at, Some(side))?;
                dim.axes.push(axis);
                if line.takes("[") {
                    let at = line.at;
                    let text = line.name("an axis")?;
                    line.expect("]")?;
                    let index = match self.map.has_let(&format!("{name}[{text}]")) {
                        true => AxisIndex::Text(text.to_owned()),
                        false => AxisIndex::Axis(self.axis(line, text, at, None)?),
                    };
                    self.set_index(line, at, axis, index)?;
                }
            }
            if dims.len() > MOST_AXES {
                return Err(line.error(at, format!("a side has at most {MOST_AXES} dims")));
            }
        }
    }

    fn check_part(&self, line: &LineCursor<'_>, at: usize, name: &str, text: &str) -> Result<()> {
        let has_it = match self.map.list(name) {
            Some(list) => list.iter().any(|own| own == text),
            None => self.map.has_let(name) && text.parse::<u32>().is_ok(),
        };
        let what = || format!("`{name}` has no part `{text}`; `let {name} = …|…` lists the parts in their order");
        if has_it { Ok(()) } else { Err(line.error(at, what())) }
    }

    fn set_index(&mut self, line: &LineCursor<'_>, at: usize, axis: usize, index: AxisIndex) -> Result<()> {
        let own = &mut self.axes[axis];
        if own.index != AxisIndex::Nothing && own.index != index {
            return Err(
                line.error(at, format!("the size of `{}` depends on something else on the other side", own.name))
            );
        }
        own.index = index;
        Ok(())
    }

    /// Checks the axes in the names of both sides.
    fn check_names(&mut self, line: &LineCursor<'_>, sides: &[EquationSide; 2], number: usize) -> Result<()> {
        let [own, other] = [&sides[number], &sides[1 - number]];
        for piece in &own.name {
            let Some(axis) = piece.axis() else { continue };
            let at = self.places[axis][number].unwrap_or_default();
            let twin = other.name.iter().find(|twin| twin.axis() == Some(axis));
            match (piece, twin) {
                (NamePiece::Any { .. }, Some(NamePiece::Any { .. })) => {}
                (NamePiece::Any { .. }, _) | (_, Some(NamePiece::Any { .. })) => {
                    return Err(line.error(at, format!("`{{{}:*}}` is in both names", self.axes[axis].name)));
                }
                (NamePiece::Choice { texts, .. }, Some(NamePiece::Choice { texts: others, .. }))
                    if texts.len() != others.len() =>
                {
                    let (name, one, two) = (&self.axes[axis].name, texts.len(), others.len());
                    return Err(line.error(at, format!("`{name}` has {one} texts here, and {two} on the other side")));
                }
                (NamePiece::Choice { texts, .. }, _) => {
                    let own = &mut self.axes[axis].texts;
                    if number == 0 || !matches!(twin, Some(NamePiece::Choice { .. })) {
                        texts.clone_into(own);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that the axes on which others depend have their values by then.
    fn check_dims(&self, line: &LineCursor<'_>, side: &EquationSide, number: usize) -> Result<()> {
        let names: Vec<usize> = side.in_name().collect();
        for (i, dim) in side.dims.iter().flatten().enumerate() {
            let part = side.part.as_ref().filter(|part| part.dim == i);
            if let (Some(part), Some(padding)) = (part, &dim.padding) {
                return Err(line.error(0, format!("a dim has parts (`{}=…`) or padding (`+{padding}`)", part.axis)));
            }
            let mut inner = part.map(|_| usize::MAX);
            for (k, axis) in dim.axes.iter().enumerate() {
                let AxisIndex::Axis(on) = self.axes[*axis].index else { continue };
                let at = self.places[*axis][number].unwrap_or_default();
                let (name, of) = (&self.axes[*axis].name, &self.axes[on].name);
                if self.axes[on].texts.is_empty() {
                    return Err(line.error(at, format!("`{of}` of `{name}[{of}]` has no list of texts")));
                }
                let is_before = dim.axes[..k].contains(&on);
                if !names.contains(&on) && !is_before && side.in_dims().any(|other| other == on) {
                    return Err(line.error(at, format!("`{of}` is before `{name}[{of}]` in its dim, or in the name")));
                }
                if is_before && inner.replace(on).is_some_and(|other| other != on) {
                    return Err(
                        line.error(at, "the sizes of a dim depend on one axis of it, or on its parts".to_owned())
                    );
                }
            }
        }
        Ok(())
    }
}
