//! Writes pickles of protocol 2, byte for byte as Python's pickler does, and of protocol 4, as it may.
//!
//! A pickle is a program for a stack machine. The machine's memo numbers every object, in the order in which the
//! objects are complete; an object that occurs again is fetched from the memo. Python decides by identity, not by
//! value, which objects are the same.

use ckpt_api::Writer;
use ckpt_containers::pickle::opcode as op;
use std::collections::HashMap;

/// Items that Python's pickler stores with one opcode.
const BATCH: usize = 1000;

/// Number of an object in the memo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memo(u32);

/// A pickle being written.
pub(crate) struct Pickle {
    protocol: Protocol,
    /// What follows the protocol's number.
    bytes: Writer,
    next: u32,
    /// Few, by module and name.
    globals: Vec<(&'static str, String, Memo)>,
    texts: HashMap<String, Memo>,
    /// The first of those, which most pickles write most often.
    first_texts: Vec<(String, Memo)>,
}

/// Texts that are found without a hash.
const FIRST_TEXTS: usize = 4;

/// The version of a pickle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Two = 2,
    Four = 4,
}

impl Pickle {
    /// Begins a pickle.
    pub(crate) fn new(protocol: Protocol) -> Self {
        let (bytes, globals, texts, first_texts) = (Writer::new(), Vec::new(), HashMap::new(), Vec::new());
        Pickle { protocol, bytes, next: 0, globals, texts, first_texts }
    }

    /// Ends the pickle and returns its bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.op(op::STOP);
        let mut all = Writer::new();
        all.bytes(&[op::PROTO, self.protocol as u8]);
        if self.protocol == Protocol::Four {
            // Python begins a new frame every 64 KiB; readers take one of any size.
            all.bytes(&[op::FRAME]).number(self.bytes.len());
        }
        all.bytes(&self.bytes.into_bytes());
        all.into_bytes()
    }

    /// Writes an object that was written before.
    pub(crate) fn again(&mut self, memo: Memo) {
        match u8::try_from(memo.0) {
            Ok(number) => self.bytes.bytes(&[op::BINGET, number]),
            Err(_) => self.bytes.bytes(&[op::LONG_BINGET]).number(memo.0),
        };
    }

    /// Writes a class or function.
    pub(crate) fn global(&mut self, module: &'static str, name: &str) {
        let known = self.globals.iter().find(|(own, of, _)| *own == module && of == name);
        if let Some((.., memo)) = known {
            return self.again(*memo);
        }
        match self.protocol {
            Protocol::Two => {
                self.op(op::GLOBAL);
                self.bytes.bytes(format!("{module}\n{name}\n").as_bytes());
            }
            Protocol::Four => {
                self.text(module);
                self.text(name);
                self.op(op::STACK_GLOBAL);
            }
        }
        let memo = self.memoize();
        self.globals.push((module, name.to_owned(), memo));
    }

    /// Writes a text that is an object of its own.
    pub(crate) fn own_text(&mut self, text: &str) -> Memo {
        // A text of 4 GiB or more does not get here: names are limited, and so is the metadata.
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        match u8::try_from(len) {
            Ok(len) if self.protocol == Protocol::Four => self.bytes.bytes(&[op::SHORT_BINUNICODE, len]),
            _ => self.bytes.bytes(&[op::BINUNICODE]).number(len),
        };
        self.bytes.bytes(text.as_bytes());
        self.memoize()
    }

    /// Writes a text of which Python has one object: a constant of a program, or one that is assigned once.
    pub(crate) fn text(&mut self, text: &str) {
        let first = self.first_texts.iter().find(|(own, _)| own == text).map(|(_, memo)| *memo);
        match first.or_else(|| self.texts.get(text).copied()) {
            Some(memo) => self.again(memo),
            None => {
                let memo = self.own_text(text);
                match self.first_texts.len() < FIRST_TEXTS {
                    true => self.first_texts.push((text.to_owned(), memo)),
                    false => drop(self.texts.insert(text.to_owned(), memo)),
                }
            }
        }
    }

    /// Writes `None`.
    pub(crate) fn none(&mut self) {
        self.op(op::NONE);
    }

    /// Writes a float.
    pub(crate) fn float(&mut self, number: f64) {
        self.bytes.bytes(&[op::BINFLOAT]).bytes(&number.to_be_bytes());
    }

    /// Writes bytes, as text and the name of its encoding: protocol 2 has no others.
    pub(crate) fn binary(&mut self, bytes: &[u8]) {
        self.global("_codecs", "encode");
        self.own_text(&bytes.iter().map(|byte| char::from(*byte)).collect::<String>());
        self.text("latin1");
        self.end_tuple(2);
        self.reduce();
    }

    /// Writes an object of a class, whose attributes [`Pickle::build`] sets.
    pub(crate) fn object(&mut self, module: &'static str, class: &str) {
        self.global(module, class);
        self.op(op::EMPTY_TUPLE);
        self.op(op::NEWOBJ);
        self.memoize();
    }

    /// Writes a truth value.
    pub(crate) fn boolean(&mut self, value: bool) {
        self.op(if value { op::NEWTRUE } else { op::NEWFALSE });
    }

    /// Writes an integer.
    pub(crate) fn integer(&mut self, number: i128) {
        if let Ok(number) = u8::try_from(number) {
            self.bytes.bytes(&[op::BININT1, number]);
        } else if let Ok(number) = u16::try_from(number) {
            self.bytes.bytes(&[op::BININT2]).number(number);
        } else if let Ok(number) = i32::try_from(number) {
            self.bytes.bytes(&[op::BININT]).number(number);
        } else {
            let all = number.to_le_bytes();
            // The shortest two's complement: 8 bits hold 7 and a sign.
            let magnitude = if number < 0 { !number } else { number };
            let len = (128 - magnitude.leading_zeros()) / 8 + 1;
            let bytes = all.get(..len as usize).unwrap_or(&all);
            self.bytes.bytes(&[op::LONG1, len as u8]).bytes(bytes);
        }
    }

    /// Writes a size or an index.
    pub(crate) fn size(&mut self, number: u64) {
        self.integer(number.into());
    }

    /// Begins a tuple of `len` elements, which the caller writes next.
    pub(crate) fn begin_tuple(&mut self, len: usize) {
        if len > 3 {
            self.op(op::MARK);
        }
    }

    /// Ends a tuple of `len` elements.
    pub(crate) fn end_tuple(&mut self, len: usize) {
        match len {
            0 => return self.op(op::EMPTY_TUPLE),
            1 => self.op(op::TUPLE1),
            2 => self.op(op::TUPLE2),
            3 => self.op(op::TUPLE3),
            _ => self.op(op::TUPLE),
        }
        self.memoize();
    }

    /// Writes a tuple of sizes.
    pub(crate) fn sizes(&mut self, sizes: &[u64]) {
        self.begin_tuple(sizes.len());
        sizes.iter().for_each(|size| self.size(*size));
        self.end_tuple(sizes.len());
    }

    /// Calls the function below the arguments on the stack.
    pub(crate) fn reduce(&mut self) -> Memo {
        self.op(op::REDUCE);
        self.memoize()
    }

    /// Turns the tuple on the stack into the object that it identifies outside the pickle.
    pub(crate) fn persistent(&mut self) {
        self.op(op::BINPERSID);
    }

    /// Sets the state on the stack of the object below it.
    pub(crate) fn build(&mut self) {
        self.op(op::BUILD);
    }

    /// Writes an empty `OrderedDict`.
    pub(crate) fn ordered_dict(&mut self) -> Memo {
        self.global("collections", "OrderedDict");
        self.op(op::EMPTY_TUPLE);
        self.reduce()
    }

    /// Begins a dict or list of `len` items. The caller calls [`Pickle::before_item`] and then writes key and value, or
    /// the value, for each; then [`Pickle::end_items`].
    pub(crate) fn begin_items(&mut self, kind: Items, len: usize) -> Batches {
        match kind {
            Items::OrderedDict => {
                self.ordered_dict();
            }
            Items::Dict => {
                self.op(op::EMPTY_DICT);
                self.memoize();
            }
            Items::List => {
                self.op(op::EMPTY_LIST);
                self.memoize();
            }
        }
        Batches { kind, len, done: 0, marked: false }
    }

    /// To be called before each item.
    pub(crate) fn before_item(&mut self, batches: &mut Batches) {
        if batches.done.is_multiple_of(BATCH) {
            self.end_batch(batches);
            let left = batches.len.saturating_sub(batches.done);
            let alone = match batches.kind {
                // Python sees this one as a mere iterator: it looks one item ahead in each batch.
                Items::OrderedDict => left == 1,
                Items::Dict | Items::List => batches.len == 1,
            };
            if !alone {
                self.op(op::MARK);
            }
            batches.marked = !alone;
        }
        batches.done += 1;
    }

    /// To be called after the last item.
    pub(crate) fn end_items(&mut self, batches: &mut Batches) {
        self.end_batch(batches);
        if batches.kind == Items::Dict && batches.len > 0 && batches.len.is_multiple_of(BATCH) {
            self.op(op::MARK);
            self.op(op::SETITEMS);
        }
    }

    fn end_batch(&mut self, batches: &Batches) {
        if batches.done == 0 {
            return;
        }
        self.op(match (batches.kind, batches.marked) {
            (Items::List, true) => op::APPENDS,
            (Items::List, false) => op::APPEND,
            (_, true) => op::SETITEMS,
            (_, false) => op::SETITEM,
        });
    }

    fn op(&mut self, op: u8) {
        self.bytes.bytes(&[op]);
    }

    /// Gives the object on the stack the next number.
    fn memoize(&mut self) -> Memo {
        let memo = Memo(self.next);
        self.next = self.next.saturating_add(1);
        if self.protocol == Protocol::Four {
            self.op(op::MEMOIZE);
            return memo;
        }
        match u8::try_from(memo.0) {
            Ok(number) => self.bytes.bytes(&[op::BINPUT, number]),
            Err(_) => self.bytes.bytes(&[op::LONG_BINPUT]).number(memo.0),
        };
        memo
    }
}

/// What items are put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Items {
    OrderedDict,
    Dict,
    List,
}

/// How far a dict is written.
pub(crate) struct Batches {
    kind: Items,
    len: usize,
    done: usize,
    marked: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(number: i128) -> Vec<u8> {
        let mut pickle = Pickle::new(Protocol::Two);
        pickle.integer(number);
        pickle.finish()[2..].to_vec()
    }

    #[test]
    fn integers_take_the_opcode_that_python_chooses() {
        let cases: [(i128, &[u8]); 12] = [
            (0, b"K\0."),
            (255, b"K\xff."),
            (256, b"M\0\x01."),
            (65_535, b"M\xff\xff."),
            (65_536, b"J\0\0\x01\0."),
            (-1, b"J\xff\xff\xff\xff."),
            (1 << 31, b"\x8a\x05\0\0\0\x80\0."),
            (-(1 << 31), b"J\0\0\0\x80."),
            (-(1 << 31) - 1, b"\x8a\x05\xff\xff\xff\x7f\xff."),
            (10_i128.pow(12), b"\x8a\x06\0\x10\xa5\xd4\xe8\0."),
            (i64::MAX.into(), b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."),
            (u64::MAX.into(), b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."),
        ];
        for (number, expected) in cases {
            assert_eq!(integer(number), expected, "{number}");
        }
    }

    /// Returns the opcodes of a dict of so many `None`, without those of the items.
    fn batches(kind: Items, len: usize) -> String {
        let mut pickle = Pickle::new(Protocol::Two);
        let mut batches = pickle.begin_items(kind, len);
        for _ in 0..len {
            pickle.before_item(&mut batches);
        }
        pickle.end_items(&mut batches);
        let bytes = pickle.finish();
        let start = bytes.iter().rposition(|byte| *byte == b'q').unwrap() + 2;
        String::from_utf8(bytes[start..].to_vec()).unwrap()
    }

    #[test]
    fn dicts_are_written_in_batches_as_python_does() {
        let cases = [
            (Items::Dict, 0, "."),
            (Items::Dict, 1, "s."),
            (Items::Dict, 2, "(u."),
            (Items::Dict, 1000, "(u(u."),
            (Items::Dict, 1001, "(u(u."),
            (Items::Dict, 2000, "(u(u(u."),
            (Items::List, 0, "."),
            (Items::List, 1, "a."),
            (Items::List, 1000, "(e."),
            (Items::List, 1001, "(e(e."),
            (Items::OrderedDict, 0, "."),
            (Items::OrderedDict, 1, "s."),
            (Items::OrderedDict, 1000, "(u."),
            (Items::OrderedDict, 1001, "(us."),
            (Items::OrderedDict, 1002, "(u(u."),
        ];
        for (kind, len, expected) in cases {
            assert_eq!(batches(kind, len), expected, "{kind:?} {len}");
        }
    }
}
