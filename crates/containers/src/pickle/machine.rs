//! The machine: a stack, marks and a memo, from which the values of a pickle come.

use super::Feed;
use super::arena::Arena;
use super::id::Id;
use super::opcode as op;
use super::text::{self, Decimal};
use super::tree::{Builder, Decoded, Tree};
use ckpt_api::fields::{be, le};
use ckpt_api::{Error, Result};
use std::collections::HashMap;

/// The highest protocol.
const PROTOCOL: u8 = 5;
/// Bytes of the longest name of a module or class.
const LONGEST_NAME: usize = 512;
/// Opcodes between two looks at the memory.
const CHECKED_EVERY: u32 = 1024;

/// Reads one pickle. Nothing is called, imported or opened, whatever it names.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for bytes that are no pickle, and for operations that no pickler writes;
/// [`ckpt_api::Kind::Limit`] if its values take more than 8 times its size.
pub fn parse(feed: Feed<'_>) -> Result<Tree> {
    Machine::new(feed).run()
}

struct Machine<'a> {
    feed: Feed<'a>,
    builder: Builder,
    stack: Vec<Id>,
    /// Lengths of the stack at each mark.
    marks: Vec<usize>,
    memo: Memo,
    /// Offset in the file of the opcode.
    at: u64,
}

impl<'a> Machine<'a> {
    fn new(feed: Feed<'a>) -> Self {
        let at = feed.position();
        Machine {
            feed,
            builder: Builder::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
            at,
        }
    }

    fn run(mut self) -> Result<Tree> {
        let mut count = 0u32;
        loop {
            self.at = self.feed.position();
            let opcode = self.feed.parse(le::<u8>)?;
            if opcode == op::STOP {
                break;
            }
            self.step(opcode).map_err(|error| error.offset(self.at))?;
            count = count.wrapping_add(1);
            if count.is_multiple_of(CHECKED_EVERY) {
                self.check_memory()?;
            }
        }
        self.check_memory()?;
        let root = self.pop().map_err(|error| error.offset(self.at))?;
        let end = self.feed.position();
        Ok(self.builder.finish(self.feed.into_held(), root, end))
    }

    fn check_memory(&self) -> Result<()> {
        let other = 4 * self.stack.capacity() + 8 * self.marks.capacity() + self.memo.bytes();
        self.builder.check_memory(self.feed.taken(), other)
    }

    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            op::PROTO => return self.protocol(),
            op::FRAME => return self.frame(),
            op::MARK => self.marks.push(self.stack.len()),
            op::POP => return self.discard(),
            op::POP_MARK => {
                let from = self.marked()?;
                self.stack.truncate(from);
            }
            op::DUP => {
                let top = self.top()?;
                self.stack.push(top);
            }
            op::PUT | op::BINPUT | op::LONG_BINPUT | op::MEMOIZE => return self.put(opcode),
            op::GET | op::BINGET | op::LONG_BINGET => return self.get(opcode),
            op::APPEND | op::APPENDS | op::ADDITEMS | op::SETITEM | op::SETITEMS | op::BUILD => {
                return self.change(opcode);
            }
            op::REDUCE | op::NEWOBJ | op::NEWOBJ_EX | op::INST | op::OBJ => return self.call(opcode),
            op::EXT1 | op::EXT2 | op::EXT4 => return Err(self.extension()),
            _ => {
                let value = self.value(opcode)?;
                self.stack.push(value);
            }
        }
        Ok(())
    }

    /// The value that an opcode pushes.
    fn value(&mut self, opcode: u8) -> Result<Id> {
        match opcode {
            op::NONE => Ok(Id::NONE),
            op::NEWTRUE => Ok(Id::TRUE),
            op::NEWFALSE => Ok(Id::FALSE),
            op::BININT1 => {
                let number = self.feed.parse(le::<u8>)?;
                self.builder.int(number.into())
            }
            op::BININT2 => {
                let number = self.feed.parse(le::<u16>)?;
                self.builder.int(number.into())
            }
            op::BININT => {
                let number = self.feed.parse(le::<i32>)?;
                self.builder.int(number.into())
            }
            op::LONG1 | op::LONG4 => self.long(opcode),
            op::BINFLOAT => {
                let number = self.feed.parse(be::<f64>)?;
                self.builder.float(number)
            }
            op::INT | op::LONG | op::FLOAT | op::STRING | op::UNICODE => self.line(opcode),
            op::BINUNICODE | op::SHORT_BINUNICODE | op::BINUNICODE8 => {
                let range = self.counted(opcode)?;
                self.text(range)
            }
            op::BINSTRING | op::SHORT_BINSTRING => {
                let range = self.counted(opcode)?;
                let is_text = std::str::from_utf8(self.feed.bytes(range)).is_ok();
                if is_text { self.builder.text(range) } else { self.builder.bytes(range) }
            }
            op::BINBYTES | op::SHORT_BINBYTES | op::BINBYTES8 | op::BYTEARRAY8 => {
                let len = self.counted_len(opcode)?;
                if self.feed.is_left_out(len) {
                    let place = self.feed.leave_out(len)?;
                    return self.builder.apart(place);
                }
                let range = self.feed.take(len)?;
                self.builder.bytes(range)
            }
            op::NEXT_BUFFER => self.builder.buffer(),
            // The buffer stays on the stack.
            op::READONLY_BUFFER => self.pop(),
            op::GLOBAL => {
                let [module, name] = [self.line_text()?, self.line_text()?];
                self.global(module, name)
            }
            op::STACK_GLOBAL => self.stack_global(),
            op::PERSID => {
                let id = self.line_text()?;
                self.builder.persistent(id)
            }
            op::BINPERSID => {
                let id = self.pop()?;
                self.builder.persistent(id)
            }
            _ => self.collection(opcode),
        }
    }

    fn collection(&mut self, opcode: u8) -> Result<Id> {
        match opcode {
            op::EMPTY_TUPLE => self.builder.tuple(&[]),
            op::EMPTY_LIST => self.builder.list(&[]),
            op::EMPTY_SET => self.builder.set(&[]),
            op::EMPTY_DICT => self.builder.dict(&[]),
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                let from = self.last(usize::from(opcode - op::TUPLE1) + 1)?;
                self.gather(from, Builder::tuple)
            }
            op::TUPLE | op::LIST | op::FROZENSET | op::DICT => {
                let from = self.marked()?;
                self.gather(from, |builder, items| match opcode {
                    op::TUPLE => builder.tuple(items),
                    op::LIST => builder.list(items),
                    op::FROZENSET => builder.set(items),
                    _ => {
                        check_keys(builder, items)?;
                        builder.dict(items)
                    }
                })
            }
            _ => Err(Error::corrupt("the pickle has an unknown opcode")
                .found(format!("{opcode:#04x}"))
                .expected("an opcode of protocols 0 to 5")
                .help("the file is damaged, or is no pickle")),
        }
    }

    fn protocol(&mut self) -> Result<()> {
        let found = self.feed.parse(le::<u8>)?;
        if found <= PROTOCOL {
            return Ok(());
        }
        Err(Error::unsupported("the pickle's protocol is unknown")
            .found(found.to_string())
            .expected(format!("at most {PROTOCOL}")))
    }

    /// A frame promises that so many bytes follow.
    fn frame(&mut self) -> Result<()> {
        let len = self.feed.parse(le::<u64>)?;
        let left = self.feed.left();
        if len <= left {
            return Ok(());
        }
        Err(Error::corrupt("the pickle's frame is longer than the file")
            .found(ckpt_api::count(len, "byte"))
            .expected(format!("at most {left}")))
    }

    fn long(&mut self, opcode: u8) -> Result<Id> {
        let len = match opcode {
            op::LONG1 => u64::from(self.feed.parse(le::<u8>)?),
            _ => u64::from(self.feed.parse(le::<u32>)?),
        };
        let range = self.feed.take(len)?;
        let bytes = self.feed.bytes(range);
        if bytes.len() > 8 {
            return self.builder.long(range);
        }
        let is_negative = bytes.last().is_some_and(|last| *last >= 0x80);
        let mut number = [if is_negative { 0xff } else { 0 }; 8];
        number.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        self.builder.int(i64::from_le_bytes(number))
    }

    /// A value that protocol 0 writes as a line of text.
    fn line(&mut self, opcode: u8) -> Result<Id> {
        let range = self.feed.line()?;
        let line = self.feed.bytes(range);
        let wrong = |what: &str, line: &[u8]| {
            let shown = line.escape_ascii().to_string();
            Error::corrupt(format!("the pickle has an invalid {what}"))
                .found(shown.chars().take(80).collect::<String>())
        };
        match opcode {
            op::INT if line == b"00" => Ok(Id::FALSE),
            op::INT if line == b"01" => Ok(Id::TRUE),
            op::INT | op::LONG => match text::decimal(line) {
                Some(Decimal::Small(number)) => self.builder.int(number),
                Some(Decimal::Large(bytes)) => self.builder.decoded(Decoded::Long(bytes)),
                None => Err(wrong("integer", line)),
            },
            op::FLOAT => {
                let number = text::float(line).ok_or_else(|| wrong("float", line))?;
                self.builder.float(number)
            }
            op::STRING => {
                let value = text::quoted(line).ok_or_else(|| wrong("string", line))?;
                self.builder.decoded(value)
            }
            _ => {
                let value = text::raw_unicode(line).ok_or_else(|| wrong("text", line))?;
                self.builder.decoded(Decoded::Text(value))
            }
        }
    }

    /// Takes the bytes of a string whose length comes first.
    fn counted(&mut self, opcode: u8) -> Result<(u32, u32)> {
        let len = self.counted_len(opcode)?;
        self.feed.take(len)
    }

    fn counted_len(&mut self, opcode: u8) -> Result<u64> {
        Ok(match opcode {
            op::SHORT_BINUNICODE | op::SHORT_BINSTRING | op::SHORT_BINBYTES => {
                self.feed.parse(le::<u8>)?.into()
            }
            op::BINUNICODE | op::BINBYTES => self.feed.parse(le::<u32>)?.into(),
            op::BINSTRING => {
                let len = self.feed.parse(le::<i32>)?;
                u64::try_from(len).map_err(|_| {
                    Error::corrupt("a string of the pickle has a negative length").found(len.to_string())
                })?
            }
            _ => self.feed.parse(le::<u64>)?,
        })
    }

    fn text(&mut self, range: (u32, u32)) -> Result<Id> {
        if std::str::from_utf8(self.feed.bytes(range)).is_err() {
            return Err(Error::corrupt("a text of the pickle is not UTF-8"));
        }
        self.builder.text(range)
    }

    fn line_text(&mut self) -> Result<Id> {
        let range = self.feed.line()?;
        self.text(range)
    }

    fn stack_global(&mut self) -> Result<Id> {
        let [name, module] = [self.pop()?, self.pop()?];
        self.global(module, name)
    }

    /// A class or function. Memoized texts may name many, so each has to be short.
    fn global(&mut self, module: Id, name: Id) -> Result<Id> {
        for part in [module, name] {
            let len = self
                .builder
                .text_len(part)
                .ok_or_else(|| Error::corrupt("the pickle names a class by something else than texts"))?;
            if len > LONGEST_NAME {
                return Err(Error::limit("the pickle names a class by a text that is too long")
                    .found(ckpt_api::count(len, "byte"))
                    .expected(format!("at most {LONGEST_NAME}")));
            }
        }
        self.builder.global(module, name)
    }

    fn extension(&self) -> Error {
        Error::unsupported(
            "the pickle uses an extension code, whose meaning only the program that wrote it knows",
        )
        .help("save plain values and arrays, which need none")
    }

    /// Opcodes that change a value on the stack.
    fn change(&mut self, opcode: u8) -> Result<()> {
        let from = match opcode {
            op::APPEND | op::BUILD => self.last(1)?,
            op::SETITEM => self.last(2)?,
            _ => self.marked()?,
        };
        let of = self.below(from)?;
        let (done, refused) = self.gather(from, |builder, items| {
            Ok(match opcode {
                op::APPEND | op::APPENDS => {
                    (builder.append(of, items)?, "appends to something that is no list")
                }
                op::ADDITEMS => (builder.add(of, items)?, "appends to something that is no list"),
                op::SETITEM | op::SETITEMS => {
                    check_keys(builder, items)?;
                    (builder.set_items(of, items)?, "sets items of something that is no dict")
                }
                _ => (
                    items.first().is_some_and(|state| builder.build(of, *state)),
                    "sets the state of something that has none, or sets it twice",
                ),
            })
        })?;
        if done { Ok(()) } else { Err(Error::corrupt(format!("the pickle {refused}"))) }
    }

    fn call(&mut self, opcode: u8) -> Result<()> {
        let mut keywords = Id::NONE;
        let (callable, arguments) = match opcode {
            op::INST => {
                let [module, name] = [self.line_text()?, self.line_text()?];
                let from = self.marked()?;
                (self.global(module, name)?, self.gather(from, Builder::tuple)?)
            }
            op::OBJ => {
                let from = self.marked()?;
                self.gather(from, |builder, items| {
                    let (class, items) = items.split_first().ok_or_else(underflow)?;
                    Ok((*class, builder.tuple(items)?))
                })?
            }
            _ => {
                if opcode == op::NEWOBJ_EX {
                    keywords = self.pop()?;
                }
                let [arguments, callable] = [self.pop()?, self.pop()?];
                (callable, arguments)
            }
        };
        let fits = self.builder.is_callable(callable)
            && self.builder.is_tuple(arguments)
            && (keywords == Id::NONE || self.builder.is_dict(keywords));
        if !fits {
            return Err(Error::corrupt("the pickle calls something that is no class and no function")
                .expected("a class or function, and a tuple of arguments"));
        }
        let value = self.builder.call(callable, arguments, keywords)?;
        self.stack.push(value);
        Ok(())
    }

    fn put(&mut self, opcode: u8) -> Result<()> {
        let index = match opcode {
            op::MEMOIZE => self.memo.count,
            _ => self.memo_index(opcode)?,
        };
        let top = self.top()?;
        self.memo.put(index, top);
        Ok(())
    }

    fn get(&mut self, opcode: u8) -> Result<()> {
        let index = self.memo_index(opcode)?;
        let value = self.memo.get(index).ok_or_else(|| {
            Error::corrupt("the pickle refers to a value that it has not memoized").found(index.to_string())
        })?;
        self.stack.push(value);
        Ok(())
    }

    fn memo_index(&mut self, opcode: u8) -> Result<u32> {
        match opcode {
            op::BINPUT | op::BINGET => self.feed.parse(le::<u8>).map(u32::from),
            op::LONG_BINPUT | op::LONG_BINGET => self.feed.parse(le::<u32>),
            _ => {
                let range = self.feed.line()?;
                let index =
                    std::str::from_utf8(self.feed.bytes(range)).ok().and_then(|line| line.parse().ok());
                index.ok_or_else(|| Error::corrupt("the pickle has an invalid index of its memo"))
            }
        }
    }

    /// Length of the stack at the last mark, below which nothing is taken.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Id> {
        self.below(self.stack.len())
    }

    /// The value below the one with this index.
    fn below(&self, index: usize) -> Result<Id> {
        self.stack.get(self.floor()..index).and_then(<[Id]>::last).copied().ok_or_else(underflow)
    }

    fn pop(&mut self) -> Result<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// `POP` also takes a mark, if that is the last thing that was pushed.
    fn discard(&mut self) -> Result<()> {
        match self.marks.pop_if(|mark| *mark == self.stack.len()) {
            Some(_) => Ok(()),
            None => self.pop().map(drop),
        }
    }

    /// Index of the first of the last values.
    fn last(&self, count: usize) -> Result<usize> {
        self.stack.len().checked_sub(count).filter(|from| *from >= self.floor()).ok_or_else(underflow)
    }

    /// Takes a mark, and returns the index of the first value above it.
    fn marked(&mut self) -> Result<usize> {
        self.marks.pop().ok_or_else(|| Error::corrupt("the pickle takes a mark that it has not set"))
    }

    /// Takes the values from an index on, and returns what `make` makes of them.
    fn gather<T>(&mut self, from: usize, make: impl FnOnce(&mut Builder, &[Id]) -> Result<T>) -> Result<T> {
        let made = make(&mut self.builder, self.stack.get(from..).unwrap_or_default());
        self.stack.truncate(from);
        made
    }
}

/// Checks keys and values that alternate.
fn check_keys(builder: &Builder, items: &[Id]) -> Result<()> {
    if !items.len().is_multiple_of(2) {
        return Err(Error::corrupt("a dict of the pickle has a key without a value"));
    }
    match items.iter().step_by(2).all(|key| builder.can_be_key(*key)) {
        true => Ok(()),
        false => Err(Error::corrupt("a dict of the pickle has a key that Python cannot hash")
            .found("a list, dict or set")),
    }
}

fn underflow() -> Error {
    Error::corrupt("the pickle takes more values than it has pushed")
}

/// Values by index: a table where the indexes follow each other, as picklers write them.
#[derive(Default)]
struct Memo {
    table: Arena<Id>,
    others: HashMap<u32, Id>,
    /// Values that were put, each index once.
    count: u32,
}

/// Indexes that a table may skip.
const SKIPPED: usize = 1024;

impl Memo {
    fn put(&mut self, index: u32, value: Id) {
        let place = index as usize;
        if place < self.table.len() + SKIPPED && place < 2 * self.count as usize + SKIPPED {
            while self.table.len() <= place && self.table.push(Id::UNSET).is_some() {}
        }
        let old = match self.table.get_mut(index) {
            Some(entry) => Some(std::mem::replace(entry, value)).filter(|old| *old != Id::UNSET),
            None => self.others.insert(index, value),
        };
        if old.is_none() {
            self.count = self.count.saturating_add(1);
        }
    }

    fn get(&self, index: u32) -> Option<Id> {
        match self.table.get(index) {
            Some(value) if *value != Id::UNSET => Some(*value),
            _ => self.others.get(&index).copied(),
        }
    }

    fn bytes(&self) -> usize {
        self.table.bytes() as usize + self.others.capacity() * 16
    }
}
