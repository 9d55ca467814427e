//! What recognition finds: weights with their parts, and codes that fit no layout.

use std::borrow::Cow;
use std::fmt;

use super::recipe::Recipe;
use crate::error::{ErrorKind, Short};
use crate::tensor::{Dtype, Shape};

/// The quantized weights of a file.
///
/// ```
/// use tensorfile::quant::{Role, Verdict};
/// use tensorfile::{Dtype, File, Tensor, TensorInfo, TensorMap, safetensors};
///
/// let mut map = TensorMap::new();
/// let codes = Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [2, 2]), &[0x38, 0x40, 0xb8, 0])?;
/// map.insert("up.weight", codes);
/// map.insert("up.weight_scale", ndarray::array![[0.5_f32], [2.0]]);
/// let file = File::from_bytes(safetensors::to_vec(&map)?)?;
///
/// let quantized = file.quantized()?;
/// let up = &quantized.tensors()[0];
/// assert_eq!((up.name(), up.scheme().name(), up.shape().dims()), ("up.weight", "fp8", &[2, 2][..]));
/// assert_eq!(up.part(Role::Scale).map(|part| part.name()), Some("up.weight_scale"));
/// let codes = file.get("up.weight")?.position();
/// assert!(matches!(quantized.verdict(codes), Verdict::Part(_, Role::Codes)));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Quantized {
    pub(super) tensors: Vec<LogicalTensor>,
    pub(super) unknown: Vec<UnknownCodes>,
    /// The weights that the file decodes.
    decoded: Vec<LogicalTensor>,
    /// The place of each tensor that is not plain, by its position in the file.
    pub(super) places: PartPlaces,
}

/// The place of a tensor in one of the lists.
#[derive(Debug, Clone, Copy)]
pub(super) enum PartPlace {
    Part(usize, Role),
    Unknown(usize),
    Decoded(usize),
}

/// The places of tensors, by their positions. The list ends with the last tensor that is not plain.
#[derive(Debug, Clone, Default)]
pub(super) struct PartPlaces(Vec<Option<PartPlace>>);

impl PartPlaces {
    /// Makes room for a number of tensors.
    pub(super) fn reserve(&mut self, tensors: usize) {
        self.0.reserve_exact(tensors);
    }

    pub(super) fn get(&self, position: usize) -> Option<PartPlace> {
        self.0.get(position).copied().flatten()
    }

    /// Returns all places, in the order of positions.
    fn iter(&self) -> impl Iterator<Item = (usize, PartPlace)> {
        self.0.iter().enumerate().filter_map(|(position, place)| Some((position, (*place)?)))
    }

    pub(super) fn set(&mut self, position: usize, place: PartPlace) {
        if self.0.len() <= position {
            self.0.resize(position + 1, None);
        }
        self.0[position] = Some(place);
    }

    /// Sets the places of all parts of a weight.
    pub(super) fn set_all(&mut self, parts: &[Part], place: &dyn Fn(Role) -> PartPlace) {
        parts.iter().for_each(|part| self.set(part.position, place(part.role)));
    }
}

/// What a tensor of a file is.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Verdict<'q> {
    /// Its elements are what they seem.
    Plain,
    /// It is a part of a quantized weight.
    Part(&'q LogicalTensor, Role),
    /// It looks like a part of one, but does not fit.
    Unknown(&'q UnknownCodes),
    /// It is a quantized weight, which this file decodes. Its parts have the positions that they have without
    /// decoding.
    Decoded(&'q LogicalTensor),
}

impl Quantized {
    /// Returns the weights that are stored as codes, in the order of their codes in the file.
    #[must_use]
    pub fn tensors(&self) -> &[LogicalTensor] {
        &self.tensors
    }

    /// Returns what looks like codes or scales, but does not fit a layout.
    #[must_use]
    pub fn unknown(&self) -> &[UnknownCodes] {
        &self.unknown
    }

    /// Returns whether no tensor is codes, or belongs to them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty() && self.unknown.is_empty()
    }

    /// Returns the same for a file in which tensors have new positions. Weights of which a part has none are forgotten.
    pub(crate) fn moved(&self, to: &dyn Fn(usize) -> Option<usize>) -> Self {
        self.with_decoded(to, &|_| false)
    }

    /// Returns the same for a file in which tensors have new positions, and some weights are decoded, at the positions of
    /// their codes.
    pub(crate) fn with_decoded(
        &self,
        to: &dyn Fn(usize) -> Option<usize>,
        is_decoded: &dyn Fn(&LogicalTensor) -> bool,
    ) -> Self {
        let moved = |parts: &[Part]| -> Option<Vec<Part>> {
            parts.iter().map(|part| Some(Part { position: to(part.position)?, ..part.clone() })).collect()
        };
        let mut left = Self::default();
        for (place, from) in self.places.iter() {
            let tensor = match from {
                PartPlace::Decoded(i) => &self.decoded[i],
                PartPlace::Part(i, Role::Codes) if is_decoded(&self.tensors[i]) => &self.tensors[i],
                _ => continue,
            };
            if let Some(at) = to(place) {
                left.places.set(at, PartPlace::Decoded(left.decoded.len()));
                left.decoded.push(tensor.clone());
            }
        }
        for tensor in self.tensors.iter().filter(|tensor| !is_decoded(tensor)) {
            if let Some(parts) = moved(&tensor.parts) {
                let i = left.tensors.len();
                left.places.set_all(&parts, &|role| PartPlace::Part(i, role));
                left.tensors.push(LogicalTensor { parts, ..tensor.clone() });
            }
        }
        for unknown in &self.unknown {
            if let Some(parts) = moved(&unknown.parts) {
                let i = left.unknown.len();
                left.places.set_all(&parts, &|_| PartPlace::Unknown(i));
                left.unknown.push(UnknownCodes { parts, ..unknown.clone() });
            }
        }
        left
    }

    /// Gives parts the names that the file has for them now, and weights those that rules give.
    pub(crate) fn rename(&mut self, of: &dyn Fn(usize) -> String, rules: &dyn Fn(usize, &str) -> Option<String>) {
        let lists = self.tensors.iter_mut().map(|tensor| (&mut tensor.name, &mut tensor.parts));
        for (name, parts) in lists.chain(self.unknown.iter_mut().map(|unknown| (&mut unknown.name, &mut unknown.parts)))
        {
            if let Some(renamed) = parts.first().and_then(|first| rules(first.position, name)) {
                *name = renamed;
            }
            parts.iter_mut().for_each(|part| part.name = of(part.position));
        }
    }

    /// Returns the error for a cast of the tensor at a position; `None` if it is plain.
    pub(crate) fn refusal(&self, position: usize) -> Option<ErrorKind> {
        let own = |parts: &[Part]| parts.iter().find(|part| part.position == position).map(|part| part.name.clone());
        let (name, what) = match self.verdict(position) {
            Verdict::Plain | Verdict::Decoded(_) => return None,
            Verdict::Part(tensor, Role::Codes) => (own(&tensor.parts), tensor.holds_codes()),
            Verdict::Part(tensor, role) => (
                own(&tensor.parts),
                format!("is the {role} of the {} codes of `{}`", tensor.scheme, Short(&tensor.name)),
            ),
            Verdict::Unknown(unknown) => (own(&unknown.parts), format!("may belong to codes, but {}", unknown.reason)),
        };
        let can_be_decoded = matches!(self.verdict(position), Verdict::Part(tensor, _) if tensor.can_be_decoded());
        Some(ErrorKind::Codes { name: name.unwrap_or_default(), what, can_be_decoded })
    }

    /// Returns what the tensor at a position of the file is.
    #[must_use]
    pub fn verdict(&self, position: usize) -> Verdict<'_> {
        match self.places.get(position) {
            None => Verdict::Plain,
            Some(PartPlace::Part(i, role)) => Verdict::Part(&self.tensors[i], role),
            Some(PartPlace::Unknown(i)) => Verdict::Unknown(&self.unknown[i]),
            Some(PartPlace::Decoded(i)) => Verdict::Decoded(&self.decoded[i]),
        }
    }
}

/// A quantized weight, as the model's own loader has it in memory.
#[derive(Debug, Clone)]
pub struct LogicalTensor {
    pub(super) name: String,
    pub(super) scheme: Scheme,
    pub(super) details: Cow<'static, str>,
    pub(super) shape: Shape,
    pub(super) parts: Vec<Part>,
    pub(super) recipe: Recipe,
}

impl LogicalTensor {
    /// Returns the name, such as `layers.0.q_proj.weight` for `layers.0.q_proj.qweight`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the way in which it is stored.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the numbers of the scheme, such as `4 bits, groups of 128`; empty if it has none.
    #[must_use]
    pub fn details(&self) -> &str {
        &self.details
    }

    /// Returns the shape of the weight, which may differ from that of its codes.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the tensors of the file that it is made of, and those that only belong to it.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Says what the tensor of codes holds, and where the scales are.
    fn holds_codes(&self) -> String {
        let scale =
            self.part(Role::Scale).filter(|scale| Some(scale.position) != self.part(Role::Codes).map(Part::position));
        let scales = scale.map(|scale| format!("; `{}` has their scales", Short(&scale.name))).unwrap_or_default();
        format!("holds {} codes{scales}", self.scheme)
    }

    /// Returns whether it can be decoded. Some schemes are only recognized.
    #[must_use]
    pub fn can_be_decoded(&self) -> bool {
        self.recipe != Recipe::Refused
    }

    /// Returns the first part with a role.
    #[must_use]
    pub fn part(&self, role: Role) -> Option<&Part> {
        self.parts.iter().find(|part| part.role == role)
    }
}

impl fmt::Display for LogicalTensor {
    /// Writes the scheme and its numbers, such as `gptq, 4 bits, groups of 128`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme.name())?;
        match &*self.details {
            "" => Ok(()),
            details => write!(f, ", {details}"),
        }
    }
}

/// A tensor of the file that belongs to a [`LogicalTensor`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) position: usize,
    pub(super) dtype: Dtype,
}

impl Part {
    /// Returns what it does.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the position in the file.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the dtype as stored.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }
}

/// Declares an enum of names.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// Returns the name, for programs to print.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

named! {
    /// What a [`Part`] does.
    Role {
        /// The small numbers that stand for the weights.
        Codes = "codes",
        /// The numbers by which codes are multiplied, for each block, group or row.
        Scale = "scale",
        /// The number by which scales are multiplied or divided.
        SecondScale = "second scale",
        /// The codes that stand for zero.
        Zero = "zero",
        /// The numbers added after the multiplication.
        Bias = "bias",
        /// The group of each column.
        Index = "index",
        /// The numbers that codes stand for.
        Map = "map",
        /// The shape of the weight.
        Shape = "shape",
        /// A description of the codes, or a number for the activations or the cache: it is not needed for the weight.
        Other = "other",
    }
}

named! {
    /// A way to store weights as codes. The [table](crate::quant#layouts) says how each is recognized.
    Scheme {
        /// 8-bit floats with scales.
        Fp8 = "fp8",
        /// 8-bit integers with a scale for each row.
        Int8 = "int8",
        /// 8-bit integers of bitsandbytes.
        LlmInt8 = "llm-int8",
        /// 4-bit floats with 8-bit scales for 16, and one scale for all.
        Nvfp4 = "nvfp4",
        /// 4-bit floats with powers of two for 32.
        Mxfp4 = "mxfp4",
        /// 8-bit floats with powers of two for 32.
        Mxfp8 = "mxfp8",
        /// Integers of GPTQ, in columns of words.
        Gptq = "gptq",
        /// Integers of AutoAWQ, in rows of words.
        Awq = "awq",
        /// Integers of compressed-tensors, packed in words.
        Packed = "packed",
        /// 4-bit codes of bitsandbytes for quantiles of the normal distribution.
        Nf4 = "nf4",
        /// 4-bit floats of bitsandbytes.
        Fp4 = "fp4",
        /// Codes of MLX.
        Mlx = "mlx",
        /// Blocks of ggml, in GGUF.
        Ggml = "ggml",
        /// Half-quadratic quantization. It is not decoded.
        Hqq = "hqq",
        /// Flattened tensors of torchao. They are not decoded.
        Torchao = "torchao",
        /// Tensors of quanto. They are not decoded.
        Quanto = "quanto",
        /// Ternary weights of BitNet. They are not decoded, since two programs give the scale two meanings.
        Bitnet = "bitnet",
        /// Codes of EETQ in the order of a GPU. They are not decoded.
        Eetq = "eetq",
        /// Rotated codes of ComfyUI. They are not decoded.
        Convrot = "convrot",
    }
}

/// Tensors that look like codes and scales, but do not fit a layout. They are treated as codes.
#[derive(Debug, Clone)]
pub struct UnknownCodes {
    pub(super) name: String,
    pub(super) parts: Vec<Part>,
    pub(super) reason: String,
}

impl UnknownCodes {
    /// Returns the name of the weight that it would be.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tensors, each with the role that its name gives it.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns what does not fit, as a clause: `the scale is f32[3], but …`.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}
