//! The schema of a type: its tensors and metadata as a list, for users and programs.

use std::any::TypeId;
use std::fmt;

use super::{FieldAttrs, MetadataKind, Node, TensorSpec, asked_for};

/// The tensors of a type: names, dtypes and shapes as far as the type determines them, without an instance.
///
/// A `*` in a name stands for a part that depends on the value: the index of a `Vec`, or the key of a map.
///
/// ```
/// use ndarray::{Array1, Array2};
/// use tensorfile::TensorFile;
///
/// #[derive(TensorFile)]
/// struct Linear {
///     weight: Array2<f32>,
///     bias: Option<Array1<f32>>,
/// }
///
/// assert_eq!(<[Linear; 1]>::schema().to_string(), "0.weight: f32[_, _]\n0.bias: f32[_]?\n");
/// ```
#[derive(Debug, Clone)]
pub struct Schema {
    node: Node,
}

/// A tensor of a [`Schema`].
///
/// ```
/// use ndarray::Array1;
/// use tensorfile::{Dtype, TensorFile};
///
/// #[derive(TensorFile)]
/// struct Norm {
///     #[tensor(alias = "gamma")]
///     scale: Array1<f32>,
///     shift: Option<Array1<f32>>,
/// }
///
/// let [scale, shift] = &Norm::schema().entries()[..] else { panic!("there are two") };
/// assert_eq!((scale.aliases.as_slice(), scale.spec.dtype()), (&["gamma".to_owned()][..], Some(Dtype::F32)));
/// assert!(shift.optional);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaEntry {
    /// The name, with `*` for each part that depends on the value.
    pub name: String,
    /// Other names accepted by reading.
    pub aliases: Vec<String>,
    /// Dtype and dims.
    pub spec: TensorSpec,
    /// The tensor may be missing from a file.
    pub optional: bool,
}

/// An entry of metadata of a [`Schema`]: a field with `#[tensor(metadata)]`.
///
/// ```
/// use tensorfile::model::MetadataKind;
/// use tensorfile::TensorFile;
///
/// #[derive(TensorFile)]
/// struct Run {
///     #[tensor(metadata)]
///     epochs: u32,
///     #[tensor(metadata)]
///     author: Option<String>,
/// }
///
/// let [epochs, author] = &Run::schema().metadata()[..] else { panic!("there are two") };
/// assert_eq!((epochs.key.as_str(), epochs.kind), ("epochs", Some(MetadataKind::U32)));
/// assert!(author.optional);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaMetadata {
    /// The key, with `*` for each part that depends on the value.
    pub key: String,
    /// Other keys accepted by reading.
    pub aliases: Vec<String>,
    /// The expected kind of value; `None` for write-only types.
    pub kind: Option<MetadataKind>,
    /// The entry may be missing from a file.
    pub optional: bool,
}

impl Schema {
    pub(crate) fn new(node: Node) -> Self {
        Self { node }
    }

    pub(crate) fn node(&self) -> Node {
        self.node
    }

    /// Returns the tensors in writing order.
    ///
    /// ```
    /// use ndarray::Array1;
    /// use tensorfile::TensorFile;
    ///
    /// #[derive(TensorFile)]
    /// struct Norm {
    ///     #[tensor(alias = "gamma")]
    ///     scale: Array1<f32>,
    ///     shift: Option<Array1<f32>>,
    /// }
    ///
    /// let names: Vec<String> = Norm::schema().entries().into_iter().map(|entry| entry.name).collect();
    /// assert_eq!(names, ["scale", "shift"]);
    /// ```
    #[must_use]
    pub fn entries(&self) -> Vec<SchemaEntry> {
        self.collect().entries
    }

    /// Returns the metadata entries in writing order.
    #[must_use]
    pub fn metadata(&self) -> Vec<SchemaMetadata> {
        self.collect().metadata
    }

    fn collect(&self) -> SchemaCollector {
        let mut collector = SchemaCollector { structs: Vec::new(), entries: Vec::new(), metadata: Vec::new() };
        collector.node(self.node, &FieldAttrs::NONE, &[String::new()], false);
        collector
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.entries() == other.entries() && self.metadata() == other.metadata()
    }
}

impl Eq for Schema {}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in self.entries() {
            writeln!(f, "{}: {}{}", entry.name, entry.spec, if entry.optional { "?" } else { "" })?;
        }
        for entry in self.metadata() {
            writeln!(f, "{}: metadata{}", entry.key, if entry.optional { "?" } else { "" })?;
        }
        Ok(())
    }
}

struct SchemaCollector {
    /// The enclosing structs, so that a recursive struct is listed once.
    structs: Vec<TypeId>,
    entries: Vec<SchemaEntry>,
    metadata: Vec<SchemaMetadata>,
}

impl SchemaCollector {
    /// Adds the tensors of `node` under any of `names`.
    fn node(&mut self, node: Node, attrs: &FieldAttrs, names: &[String], optional: bool) {
        match node {
            Node::Tensor(spec) => self.add(spec.with_attrs(attrs), names, optional),
            Node::Metadata(metadata) => {
                let (kind, may_be_absent) = asked_for(metadata);
                let (key, aliases) = (names[0].clone(), names[1..].to_vec());
                self.metadata.push(SchemaMetadata { key, aliases, kind, optional: optional || may_be_absent });
            }
            Node::Newtype(node, own) => self.node(node(), own, names, optional),
            Node::Option(node) => self.node(node(), attrs, names, true),
            // A list may be empty, so none of its tensors has to be there. But each item has to have all of an item's.
            Node::List(node) | Node::Map(node) => self.node(node(), attrs, &join(names, "*"), optional),
            Node::Array(node, len) => {
                for index in 0..len {
                    self.node(node(), attrs, &join(names, &index.to_string()), optional);
                }
            }
            Node::Tuple(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    self.node(part(), attrs, &join(names, &index.to_string()), optional);
                }
            }
            Node::Struct(def) if self.structs.contains(&(def.id)()) => {
                self.add(TensorSpec::ANY, &join(names, "*"), optional);
            }
            Node::Struct(def) => {
                self.structs.push((def.id)());
                for field in def.fields {
                    let names = if field.flatten {
                        names.to_vec()
                    } else {
                        let own = std::iter::once(&field.name).chain(field.aliases);
                        own.flat_map(|name| join(names, name)).collect()
                    };
                    self.node((field.node)(), &field.attrs, &names, optional || field.optional);
                }
                self.structs.pop();
            }
        }
    }

    fn add(&mut self, spec: TensorSpec, names: &[String], optional: bool) {
        let (name, aliases) = (names[0].clone(), names[1..].to_vec());
        self.entries.push(SchemaEntry { name, aliases, spec, optional });
    }
}

fn join(names: &[String], part: &str) -> Vec<String> {
    let join = |name: &String| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    names.iter().map(join).collect()
}
