//! The numbers of a map: sums and products of numbers, of earlier lines, and of the configuration.

use super::cursor::LineCursor;
use crate::error::Result;

/// The most operators and brackets: each nests deeper.
const MOST: usize = 128;

/// `let NAME = …`.
#[derive(Debug, Clone)]
pub(super) struct Let {
    pub(super) line: usize,
    /// The name, such as `e` or `r[q]`.
    pub(super) name: String,
    pub(super) value: Expression,
}

#[derive(Debug, Clone)]
pub(super) enum Expression {
    Number(u32),
    /// An earlier `let`.
    Name(String),
    /// A number of the configuration, under nested keys.
    Config(Vec<String>),
    Operation(Operator, Box<[Expression; 2]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// The second, if a number of the first is absent.
    Or,
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// The operators, from those that bind least to those that bind most.
const OPERATORS: [&[(&str, Operator)]; 3] = [
    &[("??", Operator::Or)],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide)],
];

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoValue {
    /// A number of the configuration is absent.
    Absent(String),
    Other(String),
}

/// The numbers on which expressions depend.
pub(super) trait NumberSource {
    /// Returns an earlier `let`.
    fn earlier(&self, name: &str) -> Option<u64>;

    /// Returns a number of the configuration; `None` if it is absent.
    fn config(&mut self, keys: &[String]) -> Result<Option<u64>, String>;
}

/// A fraction whose denominator is positive.
#[derive(Clone, Copy)]
struct Fraction(i128, i128);

impl Expression {
    /// Reads an expression. `is_known` returns whether there is an earlier `let` of a name.
    pub(super) fn parse(line: &mut LineCursor<'_>, is_known: &mut dyn FnMut(&str) -> bool) -> Result<Self> {
        ExpressionParser { line, is_known, nested: 0 }.operation(0)
    }

    /// Computes the value, which is a whole number from 0 on.
    pub(super) fn value(&self, numbers: &mut dyn NumberSource) -> Result<u64, NoValue> {
        let Fraction(numerator, denominator) = self.fraction(numbers)?;
        if numerator % denominator != 0 {
            return Err(NoValue::Other(format!("it is {numerator} / {denominator}, which leaves a remainder")));
        }
        let value = numerator / denominator;
        u64::try_from(value).map_err(|_| NoValue::Other(format!("it is {value}; numbers of a map are from 0 to 2^64")))
    }

    /// Returns whether numbers of the configuration occur.
    pub(super) fn uses_config(&self) -> bool {
        match self {
            Self::Number(_) | Self::Name(_) => false,
            Self::Config(_) => true,
            Self::Operation(_, both) => both.iter().any(Self::uses_config),
        }
    }

    fn fraction(&self, numbers: &mut dyn NumberSource) -> Result<Fraction, NoValue> {
        match self {
            Self::Number(number) => Ok(Fraction(i128::from(*number), 1)),
            Self::Name(name) => {
                let found = numbers.earlier(name).ok_or_else(|| NoValue::Absent(format!("`{name}`")))?;
                Ok(Fraction(i128::from(found), 1))
            }
            Self::Config(keys) => {
                let found = numbers.config(keys).map_err(NoValue::Other)?;
                let found = found.ok_or_else(|| NoValue::Absent(format!("`config.{}`", keys.join("."))))?;
                Ok(Fraction(i128::from(found), 1))
            }
            Self::Operation(Operator::Or, both) => match both[0].fraction(numbers) {
                Err(NoValue::Absent(first)) => both[1].fraction(numbers).map_err(|error| match error {
                    NoValue::Absent(second) => NoValue::Absent(format!("{first} and {second}")),
                    other => other,
                }),
                known => known,
            },
            Self::Operation(operator, both) => {
                let (one, other) = (both[0].fraction(numbers)?, both[1].fraction(numbers)?);
                let result = operator.apply(one, other);
                result.ok_or_else(|| NoValue::Other("it divides by zero, or is too large".to_owned()))
            }
        }
    }
}

impl Operator {
    fn apply(self, Fraction(a, b): Fraction, Fraction(c, d): Fraction) -> Option<Fraction> {
        let (numerator, denominator) = match self {
            Self::Or => return None,
            Self::Add => (a.checked_mul(d)?.checked_add(c.checked_mul(b)?)?, b.checked_mul(d)?),
            Self::Subtract => (a.checked_mul(d)?.checked_sub(c.checked_mul(b)?)?, b.checked_mul(d)?),
            Self::Multiply => (a.checked_mul(c)?, b.checked_mul(d)?),
            Self::Divide => (a.checked_mul(d)?.checked_mul(c.signum())?, b.checked_mul(c.checked_abs()?)?),
        };
        if denominator == 0 {
            return None;
        }
        let (mut common, mut rest) = (numerator.checked_abs()?, denominator);
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        Some(Fraction(numerator / common, denominator / common))
    }
}

struct ExpressionParser<'c, 't, 'k> {
    line: &'c mut LineCursor<'t>,
    is_known: &'k mut dyn FnMut(&str) -> bool,
    nested: usize,
}

impl ExpressionParser<'_, '_, '_> {
    /// Reads operations of a level of [`OPERATORS`], and those that bind more.
    fn operation(&mut self, level: usize) -> Result<Expression> {
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut value = self.operation(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(text, _)| self.takes(text)) {
            value = Expression::Operation(*operator, Box::new([value, self.operation(level + 1)?]));
        }
        Ok(value)
    }

    fn operand(&mut self) -> Result<Expression> {
        const EXPECTED: &str = "a number, an earlier `let`, `config.KEY` or brackets";
        let at = self.line.blanks();
        self.nested += 1;
        if self.nested > MOST {
            return Err(self.line.here(format!("an expression has at most {MOST} numbers and brackets")));
        }
        if self.line.takes("(") {
            let value = self.operation(0)?;
            self.line.blanks();
            self.line.expect(")")?;
            return Ok(value);
        }
        if self.line.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Ok(Expression::Number(self.line.number(EXPECTED)?));
        }
        let name = self.line.name(EXPECTED)?;
        if name == "config" {
            let mut keys = Vec::new();
            while self.line.takes(".") {
                keys.push(self.line.name("a key of the configuration")?.to_owned());
            }
            if keys.is_empty() {
                return Err(self.line.here("expected `.` and a key of the configuration".to_owned()));
            }
            return Ok(Expression::Config(keys));
        }
        let mut name = name.to_owned();
        if self.line.takes("[") {
            name = format!("{name}[{}]", self.line.name("a text")?);
            self.line.expect("]")?;
        }
        if (self.is_known)(&name) {
            return Ok(Expression::Name(name));
        }
        Err(self.line.error(at, format!("there is no `let {name} = …` before this line")))
    }

    fn takes(&mut self, text: &str) -> bool {
        self.line.blanks();
        self.line.takes(text)
    }
}
