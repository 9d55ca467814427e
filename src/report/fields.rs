//! The fields of a struct, as `model::de::fields` finds them.

use super::walk::{At, Walk};
use crate::model::{Field, FieldSpec, first_segment};

/// The fields, and which of them have been found.
struct Fields<'n> {
    fields: Vec<(FieldSpec, &'n Field)>,
    given: Vec<bool>,
}

impl Walk {
    pub(super) fn fields(&mut self, fields: &[Field], allow_unknown: bool, mut at: At) {
        if let At::Entry(first) = at {
            self.enter_entry(first, first_segment);
            at = At::Here;
        }
        self.take_no_parts(at, "a struct");
        let fields: Vec<_> = fields.iter().map(|field| (FieldSpec::parse(field.spec), field)).collect();
        let mut fields = Fields { given: vec![false; fields.len()], fields };
        let shares = fields.fields.iter().any(|(spec, _)| spec.is_flattened());
        if !shares && at != At::Absent {
            self.fields_in_order(&mut fields);
        }
        self.remaining_fields(&mut fields, at);
        self.flattened_fields(&fields, at);
        if at == At::Here {
            self.unknown(&fields, allow_unknown);
        }
    }

    /// The fields that the next tensors of the file belong to.
    fn fields_in_order(&mut self, fields: &mut Fields<'_>) {
        let mut likely = 0;
        while let Some(next) = self.index.first_unread()
            && let Some(rest) = self.path.strip(self.index.name(next))
            && let Some((field, name)) = fields.of(rest, likely)
        {
            self.field(fields, field, name, At::Here);
            likely = field + 1;
        }
    }

    fn remaining_fields(&mut self, fields: &mut Fields<'_>, at: At) {
        for field in 0..fields.fields.len() {
            let spec = fields.fields[field].0;
            if fields.given[field] || spec.is_flattened() {
                continue;
            }
            match spec.names().find(|name| at != At::Absent && self.is_present(name)) {
                Some(name) => self.field(fields, field, name, At::Here),
                None if spec.is_optional() => {
                    let place = self.path.push(spec.name);
                    self.absent(&fields.fields[field].1.node);
                    self.path.back_to(place);
                }
                None => self.field(fields, field, spec.name, At::Absent),
            }
        }
    }

    fn is_present(&mut self, name: &str) -> bool {
        let place = self.path.push(name);
        let present = self.next_under().is_some();
        self.path.back_to(place);
        present
    }

    fn field(&mut self, fields: &mut Fields<'_>, field: usize, name: &str, at: At) {
        fields.given[field] = true;
        let place = self.path.push(name);
        self.trail.push(field);
        self.node(&fields.fields[field].1.node, at);
        self.trail.pop();
        self.path.back_to(place);
    }

    fn flattened_fields(&mut self, fields: &Fields<'_>, at: At) {
        let place = self.path.mark();
        for (number, (spec, field)) in fields.fields.iter().enumerate() {
            if spec.is_flattened() {
                self.trail.push(number);
                self.node(&field.node, if at == At::Absent { At::Absent } else { At::Shared });
                self.trail.pop();
                self.path.back_to(place);
            }
        }
    }

    /// What lies under the struct and no field took.
    fn unknown(&mut self, fields: &Fields<'_>, allow_unknown: bool) {
        while let Some(left) = self.next_under() {
            let name = self.index.name(left);
            let rest = self.path.strip(name).unwrap_or(name).to_owned();
            // A name of a field that was found under another of its names is not unknown.
            let is_known = fields.fields.iter().any(|(spec, _)| spec.names().any(|name| name == rest));
            if is_known || !allow_unknown {
                self.unexpected(left);
                continue;
            }
            let place = self.path.push(&rest);
            while let Some(below) = self.next_under() {
                self.index.mark_read(below);
            }
            self.path.back_to(place);
        }
    }
}

impl Fields<'_> {
    /// The field that a tensor belongs to, and the name that it has there. Of two that fit, the longer name is meant.
    fn of(&self, rest: &str, likely: usize) -> Option<(usize, &'static str)> {
        if let Some((spec, _)) = self.fields.get(likely)
            && spec.name == rest
            && !self.given[likely]
        {
            return Some((likely, spec.name));
        }
        let open = self.fields.iter().enumerate().filter(|(at, _)| !self.given[*at]);
        open.filter_map(|(at, (spec, _))| Some((at, spec.fit(rest)?))).max_by_key(|(_, name)| name.len())
    }
}
