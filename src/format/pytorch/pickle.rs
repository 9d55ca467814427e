//! Reads pickles, without running anything.
//!
//! Values are made of data and of the globals of checkpoints. The result of any other global is an
//! [object](PickleValue::Object), which holds its arguments. The memory is proportional to the length of the pickle: a
//! value that a pickle can name in a few bytes is only copied against a limit.

use hashbrown::HashMap;

use super::header::{Function, Global, global};
use super::opcode as op;
use super::value::{ByteString, Heap, HeapSpan, PickleValue, PickledGlobal, split_surrogate};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::storage::ReadAt;
use crate::tensor::try_reserve;

/// Reads the opcodes of pickles from a range of a file.
pub(super) struct Input<'a> {
    file: &'a mut dyn ReadAt,
    window: Vec<u8>,
    /// The next byte in the window.
    position: usize,
    /// The offset of the end of the window in the file, and the end of the range.
    window_end: u64,
    end: u64,
}

impl<'a> Input<'a> {
    const WINDOW: u64 = 16 << 10;

    pub(super) fn new(file: &'a mut dyn ReadAt, start: u64, end: u64) -> Self {
        Self { file, window: Vec::new(), position: 0, window_end: start, end }
    }

    /// Returns the offset of the next byte in the file.
    pub(super) fn offset(&self) -> u64 {
        self.window_end - (self.window.len() - self.position) as u64
    }

    fn left(&self) -> u64 {
        self.end - self.offset()
    }

    /// Checks that `needed` bytes are left.
    fn need(&self, needed: u64) -> Result<()> {
        match self.left() {
            left if left < needed => Err(Error::new(ErrorKind::Truncated { needed, left }).at(self.offset())),
            _ => Ok(()),
        }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8> {
        if self.position == self.window.len() {
            self.next_window()?;
        }
        self.position += 1;
        Ok(self.window[self.position - 1])
    }

    #[cold]
    fn next_window(&mut self) -> Result<()> {
        self.need(1)?;
        let len = (self.end - self.window_end).min(Self::WINDOW);
        self.window.resize(usize::try_from(len).expect("a window is short"), 0);
        self.position = 0;
        self.file.read_at(self.window_end, &mut self.window)?;
        self.window_end += len;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        if let Some(bytes) = self.window[self.position..].first_chunk() {
            self.position += N;
            return Ok(*bytes);
        }
        self.need(N as u64)?;
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Appends bytes, after checking their presence before memory is allocated.
    fn append(&mut self, len: u64, bytes: &mut Vec<u8>) -> Result<()> {
        self.need(len)?;
        let len = usize::try_from(len).map_err(|_| ErrorKind::Truncated { needed: len, left: self.left() })?;
        let ready = len.min(self.window.len() - self.position);
        bytes.extend_from_slice(&self.window[self.position..self.position + ready]);
        self.position += ready;
        let start = bytes.len();
        try_reserve(bytes, len - ready)?;
        bytes.resize(start + (len - ready), 0);
        self.file.read_at(self.offset(), &mut bytes[start..])?;
        if len > ready {
            self.window.clear();
            self.position = 0;
            self.window_end += (len - ready) as u64;
        }
        Ok(())
    }

    /// Reads a line without its end.
    fn line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let rest = &self.window[self.position..];
            if let Some(len) = rest.iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&rest[..len]);
                self.position += len + 1;
                return Ok(line);
            }
            line.extend_from_slice(rest);
            self.position = self.window.len();
            match self.byte()? {
                b'\n' => return Ok(line),
                byte => line.push(byte),
            }
        }
    }
}

/// Reads one pickle. `limit` bounds the bytes copied by its functions.
pub(super) fn read(input: &mut Input<'_>, limit: u64) -> Result<(PickleValue, Heap)> {
    let mut machine = Machine { limit, ..Machine::default() };
    loop {
        let place = input.offset();
        let opcode = input.byte()?;
        if opcode == op::STOP {
            let value = machine.pop().map_err(|error| error.at(place))?;
            return Ok((value, machine.heap));
        }
        machine.place = place;
        machine.step(opcode, input).map_err(|error| error.at(place))?;
    }
}

/// The state of reading a pickle.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) heap: Heap,
    stack: Vec<PickleValue>,
    /// The lengths of the stack at marks.
    marks: Vec<usize>,
    /// Values by number, as far as the numbers are consecutive, and the rest.
    memo: Vec<PickleValue>,
    sparse_memo: HashMap<usize, PickleValue>,
    /// The offset of the opcode in the file.
    pub(super) place: u64,
    /// The number of bytes copied by functions, and its limit.
    copied: u64,
    limit: u64,
}

impl Machine {
    fn step(&mut self, opcode: u8, input: &mut Input<'_>) -> Result<()> {
        match opcode {
            op::PROTO => {
                let [found] = input.array()?;
                if found > 5 {
                    let (what, expected) = ("protocol of the pickle", "0 to 5".to_owned());
                    return Err(ErrorKind::BadNumber { what, found: found.into(), expected }.into());
                }
            }
            op::FRAME => drop(input.array::<8>()?),
            op::MARK => self.marks.push(self.stack.len()),
            op::POP if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop();
            }
            op::POP => drop(self.pop()?),
            op::POP_MARK => {
                let start = self.mark()?;
                self.stack.truncate(start);
            }
            op::DUP => self.push(self.top()?),
            op::NONE => self.push(PickleValue::None),
            op::NEWTRUE => self.push(PickleValue::Bool(true)),
            op::NEWFALSE => self.push(PickleValue::Bool(false)),
            op::BININT => self.push(PickleValue::Int(i32::from_le_bytes(input.array()?).into())),
            op::BININT1 => self.push(PickleValue::Int(input.byte()?.into())),
            op::BININT2 => self.push(PickleValue::Int(u16::from_le_bytes(input.array()?).into())),
            op::BINFLOAT => self.push(PickleValue::Float(f64::from_be_bytes(input.array()?))),
            op::INT | op::LONG | op::FLOAT => {
                let line = input.line()?;
                let number = match number(opcode, &line) {
                    None if opcode != op::FLOAT && is_decimal(&line) => {
                        let digits = line.strip_suffix(b"L").unwrap_or(&line);
                        PickleValue::Digits(self.store(digits)?)
                    }
                    number => number.ok_or_else(|| {
                        malformed(format!("a number in the pickle is `{}`", Short(&line.escape_ascii().to_string())))
                    })?,
                };
                self.push(number);
            }
            op::LONG1 | op::LONG4 => {
                let len = if opcode == op::LONG1 { input.byte()?.into() } else { input.u32()? };
                let span = self.append(len.into(), input)?;
                let long = self.long(span);
                self.push(long);
            }
            op::SHORT_BINUNICODE | op::BINUNICODE | op::BINUNICODE8 => {
                let len = length(opcode == op::SHORT_BINUNICODE, opcode == op::BINUNICODE8, input)?;
                let span = self.append(len, input)?;
                let value = self.text(span)?;
                self.push(value);
            }
            op::SHORT_BINBYTES | op::BINBYTES | op::BINBYTES8 | op::BYTEARRAY8 => {
                let len =
                    length(opcode == op::SHORT_BINBYTES, matches!(opcode, op::BINBYTES8 | op::BYTEARRAY8), input)?;
                let span = self.append(len, input)?;
                let is_bytearray = opcode == op::BYTEARRAY8;
                self.push(PickleValue::Bytes(ByteString { span, is_latin_1: false, is_bytearray }));
            }
            op::SHORT_BINSTRING | op::BINSTRING => {
                let len = length(opcode == op::SHORT_BINSTRING, false, input)?;
                let span = self.append(len, input)?;
                let value = self.text_or_bytes(span);
                self.push(value);
            }
            op::STRING | op::UNICODE => {
                let line = input.line()?;
                let text = match opcode {
                    op::UNICODE => unescape(&line, false)?,
                    _ => {
                        let quote = line.first().filter(|quote| b"'\"".contains(quote) && line.len() > 1);
                        let inner = quote.and_then(|quote| line[1..].strip_suffix(&[*quote]));
                        unescape(inner.ok_or_else(|| malformed("a string in the pickle is not in quotes"))?, true)?
                    }
                };
                let span = self.store(&text)?;
                let value = self.text_or_bytes(span);
                self.push(value);
            }
            op::EMPTY_TUPLE => self.push_container(PickleValue::Tuple, self.stack.len())?,
            op::EMPTY_LIST => self.push_container(PickleValue::List, self.stack.len())?,
            op::EMPTY_DICT => self.push_container(PickleValue::Dict, self.stack.len())?,
            op::EMPTY_SET => self.push_container(PickleValue::Set, self.stack.len())?,
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                let start = self.last(usize::from(opcode - op::TUPLE1) + 1)?;
                self.push_container(PickleValue::Tuple, start)?;
            }
            op::TUPLE | op::LIST | op::FROZENSET | op::DICT => {
                let start = self.mark()?;
                let kind = match opcode {
                    op::TUPLE => PickleValue::Tuple,
                    op::LIST => PickleValue::List,
                    op::FROZENSET => PickleValue::FrozenSet,
                    _ => {
                        check_pairs(&self.stack[start..])?;
                        PickleValue::Dict
                    }
                };
                self.push_container(kind, start)?;
            }
            op::APPEND => {
                let start = self.last(1)?;
                self.extend("a list", start)?;
            }
            op::APPENDS => {
                let start = self.mark()?;
                self.extend("a list", start)?;
            }
            op::ADDITEMS => {
                let start = self.mark()?;
                self.extend("a set", start)?;
            }
            op::SETITEM => {
                let start = self.last(2)?;
                self.extend("a dict", start)?;
            }
            op::SETITEMS => {
                let start = self.mark()?;
                check_pairs(&self.stack[start..])?;
                self.extend("a dict", start)?;
            }
            op::GET | op::BINGET | op::LONG_BINGET => {
                let number = memo_number(opcode == op::GET, opcode == op::BINGET, input)?;
                let value = self.memo.get(number).or_else(|| self.sparse_memo.get(&number)).copied();
                self.push(value.ok_or_else(|| malformed(format!("the pickle has not memoized a value {number}")))?);
            }
            op::PUT | op::BINPUT | op::LONG_BINPUT => {
                let number = memo_number(opcode == op::PUT, opcode == op::BINPUT, input)?;
                let value = self.top()?;
                self.memoize(number, value);
            }
            op::MEMOIZE => {
                let value = self.top()?;
                self.memoize(self.memo.len() + self.sparse_memo.len(), value);
            }
            op::GLOBAL => {
                let (module, name) = (input.line()?, input.line()?);
                let value = self.find(&String::from_utf8_lossy(&module), &String::from_utf8_lossy(&name))?;
                self.push(value);
            }
            op::STACK_GLOBAL => {
                let [PickleValue::Text(module), PickleValue::Text(name)] = self.take()? else {
                    return Err(malformed("the name of a global is not a string"));
                };
                let (module, name) = (self.heap.text(module).to_owned(), self.heap.text(name).to_owned());
                let value = self.find(&module, &name)?;
                self.push(value);
            }
            op::REDUCE | op::NEWOBJ => {
                let [function, args] = self.take()?;
                let Some(args) = args.tuple() else {
                    return Err(malformed("the arguments of a call are not a tuple"));
                };
                let result = self.call(function, args)?;
                self.push(result);
            }
            op::NEWOBJ_EX => {
                let [class, args @ ..]: [_; 3] = self.take()?;
                let result = self.object_of(class, &args)?;
                self.push(result);
            }
            op::INST | op::OBJ => {
                let function = match opcode {
                    op::INST => {
                        let (module, name) = (input.line()?, input.line()?);
                        Some(self.find(&String::from_utf8_lossy(&module), &String::from_utf8_lossy(&name))?)
                    }
                    _ => None,
                };
                let start = self.mark()?;
                let (function, start) = match (function, self.stack.get(start)) {
                    (Some(function), _) => (function, start),
                    (None, Some(function)) => (*function, start + 1),
                    (None, None) => return Err(malformed("a call has no function")),
                };
                let args = self.container_from(start)?;
                if opcode == op::OBJ {
                    self.stack.pop();
                }
                let result = self.call(function, args)?;
                self.push(result);
            }
            op::BUILD => {
                let state = self.pop()?;
                let target = self.top()?;
                self.set_state(target, state)?;
            }
            op::BINPERSID => {
                let id = self.pop()?;
                let value = self.persistent(id)?;
                self.push(value);
            }
            op::PERSID => {
                return Err(malformed("the pickle names a storage by a text, but expected a tuple"));
            }
            _ => return Err(malformed(format!("opcode {opcode:#04x} is not one that checkpoints have"))),
        }
        Ok(())
    }

    fn push(&mut self, value: PickleValue) {
        self.stack.push(value);
    }

    /// Returns the start of the stack above the last mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<PickleValue> {
        self.stack[self.floor()..].last().copied().ok_or_else(too_few)
    }

    fn pop(&mut self) -> Result<PickleValue> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    /// Returns where the last `count` values begin on the stack.
    fn last(&self, count: usize) -> Result<usize> {
        let start = self.stack.len().checked_sub(count).filter(|start| *start >= self.floor());
        start.ok_or_else(too_few)
    }

    /// Takes the last values.
    fn take<const N: usize>(&mut self) -> Result<[PickleValue; N]> {
        let start = self.last(N)?;
        let values = *self.stack[start..].first_chunk().expect("these are the last");
        self.stack.truncate(start);
        Ok(values)
    }

    /// Takes the last mark. Returns where the values above it begin on the stack.
    fn mark(&mut self) -> Result<usize> {
        self.marks.pop().ok_or_else(|| malformed("the pickle has no mark"))
    }

    pub(super) fn container(&mut self, values: &[PickleValue]) -> Result<u32> {
        let position = index(self.heap.containers.len())?;
        self.heap.containers.push(values);
        Ok(position)
    }

    /// Takes the values of the stack from `start` on into a new container.
    fn container_from(&mut self, start: usize) -> Result<u32> {
        let position = index(self.heap.containers.len())?;
        self.heap.containers.push(&self.stack[start..]);
        self.stack.truncate(start);
        Ok(position)
    }

    fn push_container(&mut self, kind: fn(u32) -> PickleValue, start: usize) -> Result<()> {
        let position = self.container_from(start)?;
        self.push(kind(position));
        Ok(())
    }

    /// Takes the values of the stack from `start` on, and adds them to the container before them, described by
    /// `expected`.
    fn extend(&mut self, expected: &str, start: usize) -> Result<()> {
        let (before, values) = self.stack.split_at(start);
        let target = before[self.floor()..].last().copied().ok_or_else(too_few)?;
        let containers = &mut self.heap.containers;
        if let PickleValue::Object(position) = target {
            let parts = self.heap.objects[position as usize].parts;
            if expected == "a dict" {
                containers.extend(parts, values);
            } else {
                for value in values {
                    let number = PickleValue::Int(index(containers.values(parts).len() / 2)?.into());
                    containers.extend(parts, &[number, *value]);
                }
            }
        } else {
            match target.container().filter(|_| target.kind() == expected) {
                Some(position) => containers.extend(position, values),
                None => {
                    let found = target.kind();
                    return Err(malformed(format!("the pickle adds items to {found}, but expected {expected}")));
                }
            }
        }
        self.stack.truncate(start);
        Ok(())
    }

    fn memoize(&mut self, number: usize, value: PickleValue) {
        if number == self.memo.len() {
            self.memo.push(value);
        } else if let Some(known) = self.memo.get_mut(number) {
            *known = value;
        } else {
            self.sparse_memo.insert(number, value);
        }
    }

    /// Appends bytes of the file to the heap.
    fn append(&mut self, len: u64, input: &mut Input<'_>) -> Result<HeapSpan> {
        let start = self.heap.bytes.len();
        let (span, place) = (span(start, len)?, input.offset());
        input.append(len, &mut self.heap.bytes)?;
        self.heap.places.push((span.start, place));
        Ok(span)
    }

    pub(super) fn store(&mut self, bytes: &[u8]) -> Result<HeapSpan> {
        let span = span(self.heap.bytes.len(), bytes.len() as u64)?;
        self.heap.bytes.extend_from_slice(bytes);
        Ok(span)
    }

    /// Returns a string of Python 2, either text or bytes.
    fn text_or_bytes(&self, span: HeapSpan) -> PickleValue {
        match str::from_utf8(self.heap.bytes(span)) {
            Ok(_) => PickleValue::Text(span),
            Err(_) => PickleValue::Bytes(ByteString { span, is_latin_1: false, is_bytearray: false }),
        }
    }

    /// Returns a string, possibly with lone surrogates.
    fn text(&self, span: HeapSpan) -> Result<PickleValue> {
        let mut rest = self.heap.bytes(span);
        if str::from_utf8(rest).is_ok() {
            return Ok(PickleValue::Text(span));
        }
        while let Err(error) = str::from_utf8(rest) {
            let Some((_, after)) = split_surrogate(&rest[error.valid_up_to()..]) else {
                return Err(malformed("a string in the pickle is not UTF-8"));
            };
            rest = after;
        }
        Ok(PickleValue::Surrogates(span))
    }

    /// Returns a global.
    fn find(&mut self, module: &str, name: &str) -> Result<PickleValue> {
        match global(module, name) {
            Some(Global::Dtype(tag)) => Ok(PickleValue::Dtype(tag)),
            Some(Global::Storage(tag)) => Ok(PickleValue::StorageType(tag)),
            Some(Global::Layout(layout)) => Ok(PickleValue::Layout(layout)),
            Some(Global::Function(function)) => self.add_global(module, name, Some(function)),
            None => self.add_global(module, name, None),
        }
    }

    /// Adds a global. It has the module of Python 3.
    pub(super) fn add_global(&mut self, module: &str, name: &str, function: Option<Function>) -> Result<PickleValue> {
        let module = match module {
            "__builtin__" => "builtins",
            "copy_reg" => "copyreg",
            _ => module,
        };
        // A few bytes can name a long name again.
        self.copy(module.len() + name.len())?;
        let span = span(self.heap.bytes.len(), (module.len() + 1 + name.len()) as u64)?;
        [module, ".", name].iter().for_each(|part| self.heap.bytes.extend_from_slice(part.as_bytes()));
        let position = index(self.heap.globals.len())?;
        self.heap.globals.push(PickledGlobal { name: span, function });
        Ok(PickleValue::Global(position))
    }

    /// Counts bytes copied by a function: a few bytes of a pickle can request any number of copies.
    pub(super) fn copy(&mut self, bytes: usize) -> Result<()> {
        self.copied = self.copied.saturating_add(bytes as u64);
        if self.copied > self.limit {
            let (what, found) = ("memory for values of the pickle in bytes", self.copied);
            Err(ErrorKind::Limit { what, found, limit: self.limit }.into())
        } else {
            Ok(())
        }
    }

    fn long(&mut self, span: HeapSpan) -> PickleValue {
        let bytes = self.heap.bytes(span);
        if bytes.len() > size_of::<i64>() {
            return PickleValue::Long(span);
        }
        let is_negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut number = [if is_negative { 0xff } else { 0 }; size_of::<i64>()];
        number[..bytes.len()].copy_from_slice(bytes);
        PickleValue::Int(i64::from_le_bytes(number))
    }
}

/// Reads a length of 1, 8 or 4 bytes.
fn length(is_short: bool, is_long: bool, input: &mut Input<'_>) -> Result<u64> {
    match (is_short, is_long) {
        (true, _) => input.byte().map(u64::from),
        (_, true) => input.array().map(u64::from_le_bytes),
        _ => input.u32().map(u64::from),
    }
}

/// Reads the number of a memoized value: as text, or in 1 or 4 bytes.
fn memo_number(is_text: bool, is_short: bool, input: &mut Input<'_>) -> Result<usize> {
    let number = match (is_text, is_short) {
        (true, _) => match number(op::INT, &input.line()?) {
            Some(PickleValue::Int(number)) => u32::try_from(number).ok(),
            _ => None,
        },
        (_, true) => Some(input.byte()?.into()),
        _ => Some(input.u32()?),
    };
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| malformed("the number of a memoized value is not one"))
}

/// Parses a number of protocol 0, of at most 64 bits.
fn number(opcode: u8, line: &[u8]) -> Option<PickleValue> {
    let text = str::from_utf8(line).ok()?;
    match opcode {
        op::INT if text == "00" => Some(PickleValue::Bool(false)),
        op::INT if text == "01" => Some(PickleValue::Bool(true)),
        op::FLOAT => text.parse().ok().map(PickleValue::Float),
        _ => text.strip_suffix('L').unwrap_or(text).parse().ok().map(PickleValue::Int),
    }
}

/// Returns whether a line is an integer of any length.
fn is_decimal(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"L").unwrap_or(line);
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Returns a string of protocol 0: UTF-8 of `raw-unicode-escape`, or the bytes of a string of Python 2.
fn unescape(line: &[u8], is_repr: bool) -> Result<Vec<u8>> {
    let wrong = || malformed("a string in the pickle has an escape that is not known");
    let mut text = Vec::with_capacity(line.len());
    let mut put = |c: u32| match char::from_u32(c) {
        Some(c) => text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => text.extend_from_slice("\u{fffd}".as_bytes()),
    };
    let mut rest = line;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            put((*byte).into());
            continue;
        }
        let [kind, after @ ..] = rest else {
            put(b'\\'.into());
            break;
        };
        let digits = match kind {
            b'u' if !is_repr => 4,
            b'U' if !is_repr => 8,
            b'x' if is_repr => 2,
            _ if !is_repr => {
                put(b'\\'.into());
                continue;
            }
            _ => 0,
        };
        rest = after;
        if digits == 0 {
            put(match kind {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'\\' | b'\'' | b'"' => *kind,
                _ => return Err(wrong()),
            }
            .into());
            continue;
        }
        let hex = rest.get(..digits).and_then(|hex| str::from_utf8(hex).ok());
        put(hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).ok_or_else(wrong)?);
        rest = &rest[digits..];
    }
    Ok(text)
}

fn check_pairs(values: &[PickleValue]) -> Result<()> {
    if values.len().is_multiple_of(2) { Ok(()) } else { Err(malformed("a key of a dict in the pickle has no value")) }
}

fn span(start: usize, len: u64) -> Result<HeapSpan> {
    let end = (start as u64).saturating_add(len);
    match (u32::try_from(start), u32::try_from(len), u32::try_from(end)) {
        (Ok(start), Ok(len), Ok(_)) => Ok(HeapSpan { start, len }),
        _ => {
            Err(ErrorKind::Limit { what: "length of the strings in bytes", found: end, limit: u32::MAX.into() }.into())
        }
    }
}

fn too_few() -> Error {
    malformed("an opcode of the pickle needs more values than there are")
}

/// Returns the number of a value added to `count` existing ones.
pub(super) fn index(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| {
        let found = count as u64;
        ErrorKind::Limit { what: "number of values in the pickle", found, limit: u32::MAX.into() }.into()
    })
}

pub(super) fn malformed(what: impl Into<String>) -> Error {
    ErrorKind::Malformed { what: what.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_strings_of_protocol_0() {
        let texts = [
            (&b"a\\u00e4\\U0001f600\\n"[..], false, "a\u{e4}\u{1f600}\\n"),
            (b"\xe4\\", false, "\u{e4}\\"),
            (b"a\\n\\'\\x41", true, "a\n'A"),
        ];
        for (line, is_repr, expected) in texts {
            assert_eq!(unescape(line, is_repr).unwrap(), expected.as_bytes());
        }
        assert!(unescape(b"\\u00g", false).is_err() && unescape(b"\\q", true).is_err());
    }
}
