use indexmap::IndexMap;
use tensorfile::TensorInfo;

use super::leaf::Leaf;

/// A place that names lead to, branching at dots.
#[derive(Debug, Default)]
pub struct Node {
    /// The tensor that has the very name of this place.
    pub tensor: Option<Leaf>,
    /// What lies below, in the order of the file.
    pub below: IndexMap<String, Node>,
    /// Whether tensors lie below that no field can have the name of.
    pub is_loose: bool,
}

/// How many segments of a name become structs. The rest of a longer one is the name of a field.
///
/// More than models have, and few enough for the deserializer and for the compiler's time.
const DEPTH: usize = 12;

impl Node {
    /// Adds a tensor below this place, which is the root.
    pub fn insert(&mut self, name: &str, info: &TensorInfo) {
        let (mut node, mut rest) = (self, Some(name));
        for depth in 1.. {
            let Some(name) = rest else { break };
            let (segment, below) = match name.split_once('.') {
                Some((segment, below)) if depth < DEPTH => (segment, Some(below)),
                _ => (name, None),
            };
            if !is_field_name(segment) {
                node.is_loose = true;
                return;
            }
            node = node.below.entry(segment.to_owned()).or_default();
            rest = below;
        }
        node.tensor = Some(Leaf::of(info));
    }
}

/// Whether the derive takes the name.
fn is_field_name(name: &str) -> bool {
    !name.contains('\0') && !name.split('.').any(str::is_empty)
}

/// The number that a segment is as an index.
pub fn index(segment: &str) -> Option<usize> {
    let is_plain = segment == "0" || segment.starts_with(|first| matches!(first, '1'..='9'));
    segment.parse().ok().filter(|_| is_plain)
}
