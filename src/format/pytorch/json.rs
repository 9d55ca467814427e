//! Values as text, for metadata and for keys in names. The module docs of the format have the rules.

use std::borrow::Cow;

use super::header::numpy_dtype;
use super::value::{ByteString, Heap, PickleValue, split_surrogate};
use crate::tensor::Dtype;

/// The longest text in bytes. A longer one is cut somewhere after so many.
pub(super) const LONGEST: usize = 64 << 10;

/// The maximum depth of containers printed as one text.
const DEPTH: usize = 8;

/// A value as text.
enum Printed<'a> {
    /// A string, or a value that JSON only has as a string. It has no quotes where it is the whole text.
    Text(Cow<'a, str>),
    Json(String),
}

impl Printed<'_> {
    fn json(self) -> String {
        match self {
            Self::Text(text) => serde_json::Value::from(text).to_string(),
            Self::Json(json) => json,
        }
    }
}

/// Returns whether a scalar of numpy is a number or a bool.
pub(super) fn is_number(scalar: u32, heap: &Heap) -> bool {
    numpy_scalar(scalar, heap).is_some()
}

/// Returns a string as it is, and any other value as JSON.
pub(super) fn text(value: PickleValue, heap: &Heap) -> String {
    match print(value, heap, 0) {
        Printed::Text(text) => text.into_owned(),
        Printed::Json(json) => json,
    }
}

fn print<'a>(value: PickleValue, heap: &'a Heap, depth: usize) -> Printed<'a> {
    match value {
        PickleValue::None | PickleValue::Unnamed => Printed::Json("null".to_owned()),
        PickleValue::Bool(value) => Printed::Json(value.to_string()),
        PickleValue::Int(value) => Printed::Json(value.to_string()),
        PickleValue::Float(value) => float(value),
        PickleValue::Long(span) => long(heap.bytes(span)),
        PickleValue::Digits(span) => {
            let digits = heap.text(span);
            let number = digits.parse::<i128>().map(|number| number.to_string());
            let number = number.or_else(|_| digits.parse::<u128>().map(|number| number.to_string()));
            number.map_or_else(|_| Printed::Text(digits[..digits.len().min(LONGEST + 1)].into()), Printed::Json)
        }
        // A text is cut before it is printed, as a few bytes of a pickle can name it again.
        PickleValue::Text(span) => Printed::Text(cut(heap.text(span)).into()),
        PickleValue::Surrogates(span) => Printed::Text(with_escapes(heap.bytes(span)).into()),
        PickleValue::Bytes(bytes) => Printed::Text(characters(bytes, heap)),
        PickleValue::Dtype(tag) => Printed::Text(format!("torch.{}", tag.name).into()),
        PickleValue::StorageType(tag) => Printed::Text(format!("torch.{}", tag.storage).into()),
        PickleValue::Layout(layout) => Printed::Text(format!("torch.{layout}").into()),
        PickleValue::Global(index) => Printed::Text(heap.global_name(index).into()),
        PickleValue::Object(index) => Printed::Text(heap.global_name(heap.objects[index as usize].class).into()),
        PickleValue::NumpyDtype(index) => {
            let dtype = heap.dtypes[index as usize];
            let order = if dtype.is_big_endian { ">" } else { "" };
            Printed::Text(format!("numpy.{order}{}", heap.text(dtype.name)).into())
        }
        PickleValue::NumpyScalar(index) => {
            numpy_scalar(index, heap).unwrap_or(Printed::Text(Cow::Borrowed("numpy.generic")))
        }
        PickleValue::Device(index) => {
            let parts: Vec<String> = heap.values(index).iter().map(|part| text(*part, heap)).collect();
            Printed::Text(parts.join(":").into())
        }
        PickleValue::Complex(index) => Printed::Json(array(heap.values(index), heap, depth)),
        PickleValue::Tuple(index)
        | PickleValue::Size(index)
        | PickleValue::List(index)
        | PickleValue::Set(index)
        | PickleValue::FrozenSet(index)
            if depth < DEPTH =>
        {
            Printed::Json(array(heap.values(index), heap, depth))
        }
        _ => Printed::Text(value.kind().into()),
    }
}

fn array(values: &[PickleValue], heap: &Heap, depth: usize) -> String {
    let mut json = String::from("[");
    for (index, value) in values.iter().enumerate() {
        json.push_str(if index > 0 { ", " } else { "" });
        json.push_str(&print(*value, heap, depth + 1).json());
        if json.len() > LONGEST {
            break;
        }
    }
    json.push(']');
    json
}

/// Returns a float, with the digits that it needs. JSON only has finite ones; the others are as in all of our reports.
fn float(value: f64) -> Printed<'static> {
    match value {
        f64::INFINITY => Printed::Text("Infinity".into()),
        f64::NEG_INFINITY => Printed::Text("-Infinity".into()),
        value if value.is_nan() => Printed::Text("NaN".into()),
        value => Printed::Json(format!("{value:?}")),
    }
}

/// Returns a float of 32 bits, which needs fewer digits.
fn float32(value: f32) -> Printed<'static> {
    if value.is_finite() { Printed::Json(format!("{value:?}")) } else { float(value.into()) }
}

/// Returns an integer of its little-endian bytes: a number of up to 128 bits, which include the states of random
/// generators, or hexadecimal digits.
fn long(bytes: &[u8]) -> Printed<'static> {
    let is_negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
    let mut wide = [if is_negative { 0xff } else { 0 }; 16];
    if let Some(part) = wide.get_mut(..bytes.len()) {
        part.copy_from_slice(bytes);
        return Printed::Json(i128::from_le_bytes(wide).to_string());
    }
    if let Some((unsigned, [0])) = bytes.split_first_chunk() {
        return Printed::Json(u128::from_le_bytes(*unsigned).to_string());
    }
    let mut magnitude = bytes.to_vec();
    if is_negative {
        // The two's complement.
        let mut carry = true;
        for byte in &mut magnitude {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let digits: String = magnitude.iter().rev().take(LONGEST).map(|byte| format!("{byte:02x}")).collect();
    let sign = if is_negative { "-" } else { "" };
    Printed::Text(format!("{sign}0x{}", digits.trim_start_matches('0')).into())
}

/// Returns a string with an escape for each lone surrogate.
fn with_escapes(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    while text.len() <= LONGEST {
        let valid = str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
        text.push_str(cut(str::from_utf8(&bytes[..valid]).unwrap_or_default()));
        let Some((unit, after)) = split_surrogate(&bytes[valid..]) else { break };
        text.push_str(&format!("\\u{unit:04x}"));
        bytes = after;
    }
    text
}

/// Returns a character for each byte.
fn characters(bytes: ByteString, heap: &Heap) -> Cow<'_, str> {
    if bytes.is_latin_1 {
        return cut(heap.text(bytes.span)).into();
    }
    heap.bytes(bytes.span).iter().take(LONGEST + 1).map(|byte| char::from(*byte)).collect::<String>().into()
}

/// Returns the start of a text, if it is too long.
fn cut(text: &str) -> &str {
    let end = (LONGEST + 1..text.len()).find(|index| text.is_char_boundary(*index));
    end.map_or(text, |end| &text[..end])
}

/// Returns a scalar of numpy. `None` if it is not a number or a bool.
fn numpy_scalar(index: u32, heap: &Heap) -> Option<Printed<'static>> {
    const LONGEST: u32 = 32;
    let scalar = heap.scalars[index as usize];
    let dtype = heap.dtypes[scalar.dtype as usize];
    let known = numpy_dtype(heap.text(dtype.name)).filter(|_| !dtype.is_structured)?;
    if scalar.bytes.span.len > LONGEST {
        return None;
    }
    let mut bytes = heap.decoded(scalar.bytes);
    if bytes.len() != known.block_bytes() {
        return None;
    }
    let unit = known.unit_bytes().max(1);
    if dtype.is_big_endian {
        bytes.chunks_mut(unit).for_each(<[u8]>::reverse);
    }
    let mut units = bytes.chunks(unit).map(|bytes| number(known, bytes));
    match (units.next()?, units.next()) {
        (real, None) => Some(real),
        (real, Some(imaginary)) => Some(Printed::Json(format!("[{}, {}]", real.json(), imaginary.json()))),
    }
}

/// Returns a number of numpy, or a part of a complex one.
fn number(dtype: Dtype, bytes: &[u8]) -> Printed<'static> {
    match (dtype, bytes) {
        (Dtype::Bool, _) => Printed::Json((*bytes != [0]).to_string()),
        (Dtype::F16, &[low, high]) => float32(half::f16::from_le_bytes([low, high]).to_f32()),
        (Dtype::F32 | Dtype::C64, &[a, b, c, d]) => float32(f32::from_le_bytes([a, b, c, d])),
        (Dtype::F64 | Dtype::C128, &[a, b, c, d, e, f, g, h]) => float(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        (Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64, _) => long(&[bytes, &[0]].concat()),
        _ => long(bytes),
    }
}
