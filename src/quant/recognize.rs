//! Finds the quantized weights among tensors: one walk over their names, and a look at the table of layouts for each name
//! that may be a part.

use hashbrown::HashMap;

use super::layout::{self, Candidate, Lead, MARKER, Recognized};
use super::logical::PartPlace;
use super::{LogicalTensor, Observed, Part, Quantized, Role, Scheme, UnknownCodes};
use crate::tensor::TensorInfo;

/// Returns whether a tensor makes its collection worth a look: most collections have none.
#[inline]
pub(crate) fn may_be_quantized(name: &str, info: &TensorInfo) -> bool {
    Lead::of(name, info).is_some()
}

/// Finds the quantized weights.
pub(crate) fn recognize(observed: &dyn Observed) -> Quantized {
    let mut leads: Vec<(u32, Lead)> = Vec::new();
    let (mut others, mut may_be_packed) = (Vec::new(), false);
    for position in 0..observed.len() {
        let (name, info) = observed.tensor(position);
        if let Some(lead) = Lead::of(name, info) {
            leads.push((u32::try_from(position).expect("an index has no more"), lead));
            may_be_packed |= name.ends_with("_packed");
        }
        if layout::is_other(name) {
            others.push(position);
        }
    }
    let mut found = Recognizer { observed, may_be_packed, owned: Vec::new(), quantized: Quantized::default() };
    let is_float8 = |(_, lead): &&(u32, Lead)| *lead == Lead::Float8;
    found.quantized.tensors.reserve_exact(leads.len() - leads.iter().filter(is_float8).count());
    for (position, lead) in leads.iter().filter(|lead| !is_float8(lead)) {
        found.follow(*position as usize, *lead);
    }
    // Most have a scale, which led to them.
    for (position, lead) in leads.iter().filter(is_float8) {
        if !found.is_owned(*position as usize) {
            found.follow(*position as usize, *lead);
        }
    }
    let mut quantized = found.quantized;
    if quantized.tensors.is_empty() && quantized.unknown.is_empty() {
        return quantized;
    }
    quantized.refuse_doubles();
    quantized.sort();
    quantized.place(observed.len());
    quantized.add_others(observed, &others);
    quantized
}

/// What is found so far.
struct Recognizer<'o> {
    observed: &'o dyn Observed,
    /// The file has tensors called `X_packed`.
    may_be_packed: bool,
    /// The tensors that belong to a weight, by their positions.
    owned: Vec<bool>,
    quantized: Quantized,
}

impl Recognizer<'_> {
    fn is_owned(&self, position: usize) -> bool {
        self.owned.get(position).copied().unwrap_or_default()
    }

    /// Follows a lead, and adds the weight if there is one.
    fn follow(&mut self, position: usize, lead: Lead) {
        let (find, stem) = lead.rule(self.observed.tensor(position).0);
        let mut candidate = Candidate::new(self.observed, position, stem, self.may_be_packed);
        let Some(Recognized { name, known }) = find(&mut candidate) else { return };
        let parts = candidate.into_parts();
        if self.owned.is_empty() {
            self.owned = vec![false; self.observed.len()];
        }
        parts.iter().for_each(|part| self.owned[part.position] = true);
        match known {
            Ok(layout::Known { scheme, details, shape, recipe }) => {
                self.quantized.tensors.push(LogicalTensor { name, scheme, details, shape, parts, recipe });
            }
            Err(reason) => self.quantized.unknown.push(UnknownCodes { name, parts, reason }),
        }
    }
}

/// Returns the position of the first part.
fn first(parts: &[Part]) -> Option<usize> {
    parts.iter().map(|part| part.position).min()
}

impl Quantized {
    /// Makes weights unknown that claim the same codes as another one.
    fn refuse_doubles(&mut self) {
        let codes_of = |parts: &[Part]| parts.iter().find(|part| part.role == Role::Codes).map(|part| part.position);
        let mut owners: Vec<usize> = self.tensors.iter().filter_map(|tensor| codes_of(&tensor.parts)).collect();
        owners.extend(self.unknown.iter().filter_map(|unknown| codes_of(&unknown.parts)));
        owners.sort_unstable();
        let doubles: Vec<usize> = owners.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        if doubles.is_empty() {
            return;
        }
        let is_double = |tensor: &LogicalTensor| codes_of(&tensor.parts).is_some_and(|codes| doubles.contains(&codes));
        for LogicalTensor { name, parts, .. } in self.tensors.extract_if(.., |tensor| is_double(tensor)) {
            self.unknown.push(UnknownCodes { name, parts, reason: "the names fit two layouts".to_owned() });
        }
    }

    /// Puts weights in the order of the file. Names may lead to the first of several tensors, and a stream has them in any
    /// order.
    fn sort(&mut self) {
        if !self.tensors.is_sorted_by_key(|tensor| first(&tensor.parts)) {
            self.tensors.sort_by_cached_key(|tensor| first(&tensor.parts));
        }
        self.unknown.sort_by_cached_key(|unknown| first(&unknown.parts));
    }

    fn place(&mut self, tensors: usize) {
        self.places.reserve(tensors);
        for (i, tensor) in self.tensors.iter().enumerate() {
            self.places.set_all(&tensor.parts, &|role| PartPlace::Part(i, role));
        }
        for (i, unknown) in self.unknown.iter().enumerate() {
            self.places.set_all(&unknown.parts, &|_| PartPlace::Unknown(i));
        }
    }

    /// Adds the tensors that only belong to a weight.
    fn add_others(&mut self, observed: &dyn Observed, others: &[usize]) {
        let mut modules: HashMap<String, usize> = HashMap::new();
        for &position in others {
            if self.places.get(position).is_some() {
                continue;
            }
            let (name, info) = observed.tensor(position);
            let module = layout::module_of(name);
            if modules.is_empty() {
                for (i, tensor) in self.tensors.iter().enumerate() {
                    modules.entry_ref(layout::module_of(&tensor.name)).or_insert(i);
                }
            }
            // The marker is at the beginning of a model, of which all weights have it.
            let marked = |tensor: &LogicalTensor| tensor.scheme == Scheme::Fp8 && tensor.name.starts_with(module);
            let owner = match &name[module.len()..] == MARKER {
                true => self.tensors.iter().position(marked),
                false => modules.get(module).copied(),
            };
            let Some(i) = owner else { continue };
            self.places.set(position, PartPlace::Part(i, Role::Other));
            let (name, dtype) = (name.to_owned(), info.dtype);
            self.tensors[i].parts.push(Part { role: Role::Other, name, position, dtype });
        }
    }
}
