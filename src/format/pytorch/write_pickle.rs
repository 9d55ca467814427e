//! Writes pickles.

use hashbrown::HashMap;

use super::opcode as op;

/// A function, a class or a constant, by its module and its name.
pub(super) type GlobalName = (&'static str, &'static str);

/// The version of the opcodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The opcodes that `torch.load(weights_only=True)` takes.
    Two = 2,
    /// With short texts, and in a frame.
    Four = 4,
}

/// A pickle under construction. Each method puts a value on the stack, or takes values from it.
pub(super) struct PickleWriter {
    bytes: Vec<u8>,
    protocol: Protocol,
    /// The number of values in the memo.
    remembered: u32,
    /// The numbers of globals in the memo. A text that occurs often is here too, without a module.
    memo: HashMap<GlobalName, u32>,
}

impl PickleWriter {
    pub(super) fn new(protocol: Protocol) -> Self {
        let mut bytes = vec![op::PROTO, protocol as u8];
        if protocol == Protocol::Four {
            bytes.push(op::FRAME);
            bytes.extend([0; size_of::<u64>()]);
        }
        Self { bytes, protocol, remembered: 0, memo: HashMap::new() }
    }

    /// Returns the pickle of the value on the stack.
    pub(super) fn finish(mut self) -> Vec<u8> {
        const FRAME: usize = 3;
        const FRAME_END: usize = FRAME + size_of::<u64>();

        self.bytes.push(op::STOP);
        if self.protocol == Protocol::Four {
            let len = self.bytes.len() - FRAME_END;
            self.bytes[FRAME..FRAME_END].copy_from_slice(&(len as u64).to_le_bytes());
        }
        self.bytes
    }

    /// Puts a dict on the stack, with the keys and values that `items` puts there.
    pub(super) fn dict(&mut self, items: &mut dyn FnMut(&mut Self)) {
        self.bytes.extend([op::EMPTY_DICT, op::MARK]);
        items(self);
        self.bytes.push(op::SETITEMS);
    }

    /// Puts a list on the stack.
    pub(super) fn list(&mut self, items: &mut dyn FnMut(&mut Self)) {
        self.bytes.extend([op::EMPTY_LIST, op::MARK]);
        items(self);
        self.bytes.push(op::APPENDS);
    }

    /// Puts a tuple on the stack.
    pub(super) fn tuple(&mut self, items: &mut dyn FnMut(&mut Self)) {
        self.bytes.push(op::MARK);
        items(self);
        self.bytes.push(op::TUPLE);
    }

    /// Puts a tuple of numbers on the stack.
    pub(super) fn numbers(&mut self, numbers: &[usize]) {
        self.tuple(&mut |pickle| numbers.iter().for_each(|number| pickle.number(*number as u64)));
    }

    /// Puts an object on the stack, with the state that `state` puts there.
    pub(super) fn object(&mut self, class: GlobalName, state: &mut dyn FnMut(&mut Self)) {
        self.global(class);
        self.bytes.extend([op::EMPTY_TUPLE, op::NEWOBJ]);
        state(self);
        self.bytes.push(op::BUILD);
    }

    /// Puts what a function returns on the stack, with the arguments that `arguments` puts there.
    pub(super) fn call(&mut self, function: GlobalName, arguments: &mut dyn FnMut(&mut Self)) {
        self.global(function);
        self.tuple(arguments);
        self.bytes.push(op::REDUCE);
    }

    /// Replaces a tuple by the object that it refers to, outside of the pickle.
    pub(super) fn refer(&mut self) {
        self.bytes.push(op::BINPERSID);
    }

    pub(super) fn global(&mut self, (module, name): GlobalName) {
        self.once((module, name), &mut |pickle| match pickle.protocol {
            Protocol::Two => {
                pickle.bytes.push(op::GLOBAL);
                [module, name].into_iter().for_each(|part| pickle.bytes.extend(part.bytes().chain([b'\n'])));
            }
            Protocol::Four => {
                pickle.word(module);
                pickle.text(name);
                pickle.bytes.push(op::STACK_GLOBAL);
            }
        });
    }

    /// Puts a text on the stack that occurs many times.
    pub(super) fn word(&mut self, word: &'static str) {
        self.once(("", word), &mut |pickle| pickle.text(word));
    }

    pub(super) fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(len) if self.protocol == Protocol::Four => self.bytes.extend([op::SHORT_BINUNICODE, len]),
            _ => {
                let len = u32::try_from(text.len()).expect("names are short");
                self.bytes.push(op::BINUNICODE);
                self.bytes.extend(len.to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(super) fn no(&mut self) {
        self.bytes.push(op::NEWFALSE);
    }

    pub(super) fn number(&mut self, number: u64) {
        if let Ok(number) = u8::try_from(number) {
            self.bytes.extend([op::BININT1, number]);
        } else if let Ok(number) = u16::try_from(number) {
            self.bytes.push(op::BININT2);
            self.bytes.extend(number.to_le_bytes());
        } else if let Ok(number) = i32::try_from(number) {
            self.bytes.push(op::BININT);
            self.bytes.extend(number.to_le_bytes());
        } else {
            // The number is signed, so its highest bit is zero.
            let len = u8::try_from(9 - number.leading_zeros().div_ceil(8)).expect("9 at most");
            self.bytes.extend([op::LONG1, len]);
            self.bytes.extend_from_slice(&u128::from(number).to_le_bytes()[..usize::from(len)]);
        }
    }

    /// Puts the value on the stack into the memo. Returns its number there.
    pub(super) fn remember(&mut self) -> u32 {
        let number = self.remembered;
        self.remembered += 1;
        match (self.protocol, u8::try_from(number)) {
            (Protocol::Four, _) => self.bytes.push(op::MEMOIZE),
            (Protocol::Two, Ok(number)) => self.bytes.extend([op::BINPUT, number]),
            (Protocol::Two, Err(_)) => {
                self.bytes.push(op::LONG_BINPUT);
                self.bytes.extend(number.to_le_bytes());
            }
        }
        number
    }

    /// Puts a value on the stack that [`remember`](Self::remember) gave this number.
    pub(super) fn recall(&mut self, number: u32) {
        if let Ok(number) = u8::try_from(number) {
            self.bytes.extend([op::BINGET, number]);
        } else {
            self.bytes.push(op::LONG_BINGET);
            self.bytes.extend(number.to_le_bytes());
        }
    }

    /// Puts a value on the stack: from the memo, if it was there before.
    fn once(&mut self, key: GlobalName, put: &mut dyn FnMut(&mut Self)) {
        if let Some(number) = self.memo.get(&key) {
            return self.recall(*number);
        }
        put(self);
        let number = self.remember();
        self.memo.insert(key, number);
    }
}
