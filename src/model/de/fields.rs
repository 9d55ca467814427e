use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, MapAccess};

use super::{At, Deserializer};
use crate::error::{Error, Result};
use crate::model::path::Mark;
use crate::model::{FieldSpec, TensorSource};

/// The fields of a struct: those that the file has, in the file's order while it serves, then the rest.
pub(super) struct FieldsAccess<'a, S> {
    de: &'a mut Deserializer<S>,
    fields: Vec<Field>,
    /// Whether the fields come from our derive, which wants to be asked about absent ones too.
    derived: bool,
    /// Where the struct stands.
    at: At,
    /// The struct's place.
    place: Mark,
    stage: Stage,
    /// What the next value is.
    value: Value,
}

struct Field {
    spec: FieldSpec,
    given: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Each next tensor of the file says which field it belongs to; the field after this one is the likely one.
    InOrder(usize),
    /// The fields are looked for one by one.
    Remaining(usize),
    /// The flattened fields take what the others left.
    Flattened(usize),
    /// What no field took.
    Unknown,
}

enum Value {
    /// The field of that number, under that one of its names.
    Named(&'static str, At),
    Flattened,
    /// A name that is no field's, below the struct's path.
    Unknown(String),
}

impl<'a, 'de, S: TensorSource<'de>> FieldsAccess<'a, S> {
    pub(super) fn new(de: &'a mut Deserializer<S>, fields: &'static [&'static str], derived: bool, at: At) -> Self {
        let fields: Vec<Field> = fields
            .iter()
            .filter(|text| !text.starts_with('\0'))
            .map(|text| Field { spec: FieldSpec::parse(text), given: false })
            .collect();
        let shares = fields.iter().any(|field| field.spec.is_flattened());
        // A flattened field must not see what belongs to the others, nor an absent struct what belongs to nobody.
        let stage = if shares || at == At::Absent { Stage::Remaining(0) } else { Stage::InOrder(0) };
        let place = de.path.mark();
        Self { de, fields, derived, at, place, stage, value: Value::Flattened }
    }

    /// Finds the next field, or name that is no field's; `None` at the end.
    fn advance(&mut self) -> Result<Option<Key>> {
        loop {
            match self.stage {
                Stage::InOrder(likely) => match self.next_in_order(likely)? {
                    Some((field, name)) => {
                        self.stage = Stage::InOrder(field + 1);
                        return Ok(Some(self.give(field, Value::Named(name, At::Here))));
                    }
                    None => self.stage = Stage::Remaining(0),
                },
                Stage::Remaining(field) if field < self.fields.len() => {
                    self.stage = Stage::Remaining(field + 1);
                    if let Some(value) = self.look_for(field)? {
                        return Ok(Some(self.give(field, value)));
                    }
                }
                Stage::Remaining(_) => self.stage = Stage::Flattened(0),
                Stage::Flattened(field) if field < self.fields.len() => {
                    self.stage = Stage::Flattened(field + 1);
                    if self.fields[field].spec.is_flattened() {
                        return Ok(Some(self.give(field, Value::Flattened)));
                    }
                }
                Stage::Flattened(_) => self.stage = Stage::Unknown,
                Stage::Unknown => return self.next_unknown(),
            }
        }
    }

    fn give(&mut self, field: usize, value: Value) -> Key {
        self.fields[field].given = true;
        self.value = value;
        Key::Field(self.fields[field].spec.name)
    }

    /// The field that the file's next tensor belongs to, and the name that it has there. Of two that fit, the longer
    /// name is meant.
    fn next_in_order(&mut self, likely: usize) -> Result<Option<(usize, &'static str)>> {
        let Some(next) = self.de.source.peek()? else { return Ok(None) };
        let Some(rest) = self.de.path.strip(self.de.source.name(next)) else { return Ok(None) };
        if let Some(field) = self.fields.get(likely)
            && field.spec.name == rest
            && !field.given
        {
            return Ok(Some((likely, field.spec.name)));
        }
        let open = self.fields.iter().enumerate().filter(|(_, field)| !field.given);
        Ok(open.filter_map(|(at, field)| Some((at, field.spec.fit(rest)?))).max_by_key(|(_, name)| name.len()))
    }

    /// Whether the file has the field, and what the struct is given for it.
    fn look_for(&mut self, field: usize) -> Result<Option<Value>> {
        let Field { spec, given } = self.fields[field];
        if given || spec.is_flattened() {
            return Ok(None);
        }
        if self.at != At::Absent {
            for name in spec.names() {
                self.de.path.push(name);
                let present = self.de.is_present();
                self.de.path.back_to(self.place);
                if present? {
                    return Ok(Some(Value::Named(name, At::Here)));
                }
            }
        }
        let asks = self.derived && !spec.is_optional();
        Ok(asks.then_some(Value::Named(spec.name, At::Absent)))
    }

    /// A tensor under the struct's path that no field took.
    ///
    /// The struct around a flattened one reports what both leave. In a stream only the next tensor is looked at; what
    /// comes out of order later is reported by the struct around, or at the end.
    fn next_unknown(&mut self) -> Result<Option<Key>> {
        if self.at != At::Here {
            return Ok(None);
        }
        let unknown = if self.de.source.is_drained() || self.place.is_root() {
            self.de.next_under()?
        } else {
            self.de.source.peek()?
        };
        let name = unknown.and_then(|at| self.de.path.strip(self.de.source.name(at)));
        Ok(name.map(|name| {
            self.value = Value::Unknown(name.to_owned());
            Key::Unknown(name.to_owned())
        }))
    }
}

enum Key {
    Field(&'static str),
    Unknown(String),
}

impl<'de, S: TensorSource<'de>> MapAccess<'de> for FieldsAccess<'_, S> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        match self.advance()? {
            None => Ok(None),
            Some(Key::Field(name)) => seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some),
            Some(Key::Unknown(name)) => seed.deserialize(serde::de::value::StringDeserializer::new(name)).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        match &self.value {
            Value::Named(name, at) => {
                self.de.path.push(name);
                self.de.at = *at;
            }
            Value::Unknown(name) => {
                // A tensor that has the name of the struct lies here, not below.
                if self.place.is_root() || !name.is_empty() {
                    self.de.path.push(name);
                }
                self.de.at = At::Here;
            }
            Value::Flattened => self.de.at = if self.at == At::Absent { At::Absent } else { At::Shared },
        }
        let value = seed.deserialize(&mut *self.de)?;
        self.de.path.back_to(self.place);
        Ok(value)
    }
}
