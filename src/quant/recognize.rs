//! Finds the quantized weights among tensors: one walk over their names, and a look at the table of layouts for each name
//! that may be a part.

use hashbrown::HashMap;

use super::layout::{self, Candidate, MARKER, Recognized};
use super::logical::PartPlace;
use super::{LogicalTensor, Observed, Part, Quantized, Role, UnknownCodes};
use crate::tensor::TensorInfo;

/// Names below the module of a weight that belong to it, but are not needed for it.
const OTHERS: &[&str] = &[
    "input_scale",
    "input_global_scale",
    "input_zero_point",
    "output_scale",
    "scale_input",
    "q_scale",
    "k_scale",
    "v_scale",
    "weight_format",
    "comfy_quant",
];

/// Returns whether a tensor makes its collection worth a look: most collections have none.
pub(crate) fn may_be_quantized(name: &str, info: &TensorInfo) -> bool {
    layout::of(name, info).is_some()
}

/// Finds the quantized weights.
pub(crate) fn recognize(observed: &dyn Observed) -> Quantized {
    let mut all = Vec::new();
    for position in 0..observed.len() {
        let (name, info) = observed.tensor(position);
        let Some((layout, stem)) = layout::of(name, info) else { continue };
        let mut candidate = Candidate::new(observed, position, stem);
        if let Some(found) = (layout.find)(&mut candidate) {
            all.push((candidate.into_parts(), found));
        }
    }
    if all.is_empty() {
        return Quantized::default();
    }
    // Names may lead to the first of several tensors, and a stream has them in any order.
    all.sort_by_key(|(parts, _)| parts.iter().map(|part| part.position).min());
    let mut quantized = Quantized::default();
    refuse_doubles(&mut all);
    for (parts, found) in all {
        quantized.add(parts, found);
    }
    quantized.add_others(observed);
    quantized
}

/// Makes weights unknown that claim the same codes.
fn refuse_doubles(all: &mut [(Vec<Part>, Recognized)]) {
    let mut owners: HashMap<usize, usize> = HashMap::new();
    let mut doubles = Vec::new();
    for (i, (parts, _)) in all.iter().enumerate() {
        for part in parts.iter().filter(|part| part.role == Role::Codes) {
            if let Some(other) = owners.insert(part.position, i) {
                doubles.extend([other, i]);
            }
        }
    }
    for i in doubles {
        if all[i].1.known.is_ok() {
            all[i].1.known = Err("the names fit two layouts".to_owned());
        }
    }
}

impl Quantized {
    fn add(&mut self, parts: Vec<Part>, found: Recognized) {
        let Recognized { name, known } = found;
        match known {
            Ok(layout::Known { scheme, details, shape, recipe }) => {
                let i = self.tensors.len();
                self.places.extend(parts.iter().map(|part| (part.position, PartPlace::Part(i, part.role))));
                self.tensors.push(LogicalTensor { name, scheme, details, shape, parts, recipe });
            }
            Err(reason) => {
                let i = self.unknown.len();
                self.places.extend(parts.iter().map(|part| (part.position, PartPlace::Unknown(i))));
                self.unknown.push(UnknownCodes { name, parts, reason });
            }
        }
    }

    /// Adds the tensors that only belong to a weight: one walk over the names, as there may be many weights and few of these.
    fn add_others(&mut self, observed: &dyn Observed) {
        let mut modules: HashMap<String, usize> = HashMap::new();
        for position in 0..observed.len() {
            let (name, info) = observed.tensor(position);
            let module = layout::module_of(name);
            let leaf = &name[module.len()..];
            let is_marker = leaf == MARKER;
            if !is_marker && !OTHERS.contains(&leaf) || self.places.contains_key(&position) {
                continue;
            }
            if modules.is_empty() {
                for (i, tensor) in self.tensors.iter().enumerate() {
                    modules.entry(layout::module_of(&tensor.name).to_owned()).or_insert(i);
                }
            }
            // The marker is at the beginning of a model, of which all weights have it.
            let marked =
                |tensor: &LogicalTensor| tensor.scheme == super::Scheme::Fp8 && tensor.name.starts_with(module);
            let owner = match is_marker {
                true => self.tensors.iter().position(marked),
                false => modules.get(module).copied(),
            };
            let Some(i) = owner else { continue };
            self.places.insert(position, PartPlace::Part(i, Role::Other));
            let (name, dtype) = (name.to_owned(), info.dtype);
            self.tensors[i].parts.push(Part { role: Role::Other, name, position, dtype });
        }
    }
}
