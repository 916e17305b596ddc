//! The objects of a file. Objects nest and refer to each other, and may have cycles: they are a list, and values name them by
//! their place in it.

use crate::class::{Class, Element};
use crate::scanner::{Mode, Scanner};
use crate::storage::{Storage, View};
use crate::tag::Tag;
use ckpt_api::{Error, File, Kind, Limit, Limits, Result};
use std::collections::HashMap;

/// The place of an object in the list.
pub type Id = usize;

/// A value of Lua.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Nil,
    /// A number, of which Lua has one type.
    Number(f64),
    /// A truth value.
    Bool(bool),
    /// The place of a text.
    Text(usize),
    /// An object.
    Object(Id),
}

/// What has an identity of its own.
#[derive(Debug)]
pub enum Object {
    /// Keys with their values.
    Table(Vec<(Value, Value)>),
    /// The place of the class's name, and the fields.
    Torch(usize, Value),
    /// A tensor, and its storage.
    Tensor(Box<View>, Option<Id>),
    /// Elements.
    Storage(Box<Storage>),
    /// A function, of which nothing is kept.
    Function,
}

/// The objects of a file.
///
/// ```
/// use ckpt_api::{Input, Limits};
/// use ckpt_torch7_objects::{Objects, Value};
/// // A table with one key.
/// let file = "3\n1\n1\n2\n5\nepoch\n1\n7\n";
/// let file = Input::memory("m.t7", [("m.t7".to_owned(), file.into())].into()).main()?;
/// let (objects, _) = Objects::read(&file, &Limits::default())?;
/// let Value::Object(table) = objects.root() else { panic!("no table") };
/// let [(key, value)] = objects.pairs(table) else { panic!("several keys") };
/// assert_eq!((objects.text(*key), *value), (Some("epoch"), Value::Number(7.0)));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Objects {
    list: Vec<Object>,
    texts: Vec<Vec<u8>>,
    root: Option<Value>,
}

/// The modes of binary files.
const BINARY: [Mode; 2] = [Mode::Binary { long: 8 }, Mode::Binary { long: 4 }];

/// An object whose values are being read.
struct Frame {
    id: Id,
    /// Values that are missing.
    left: u64,
    key: Option<Value>,
}

impl Objects {
    /// Reads a file in the mode in which it is one object and nothing else.
    ///
    /// # Errors
    /// Those of ASCII, or of a `long` of 8 bytes: [`Kind::Corrupt`], [`Kind::Unsupported`], [`Kind::Limit`]; [`Kind::Io`].
    pub fn read(file: &File, limits: &Limits) -> Result<(Objects, Mode)> {
        let modes = if is_ascii(file)? { &[Mode::Ascii][..] } else { &BINARY[..] };
        let mut first = None;
        for mode in modes {
            match Reader::new(file, *mode, limits).whole() {
                Ok(objects) => return Ok((objects, *mode)),
                Err(error) if error.kind() == Kind::Io => return Err(error),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| Error::defect("a file is read in no mode")))
    }

    /// Returns what a file begins with, if it begins as an object does: a class, or the first key of a table.
    ///
    /// # Errors
    /// [`Kind::Io`].
    pub fn begins(file: &File, limits: &Limits) -> Result<Option<String>> {
        let mode = if is_ascii(file)? { Mode::Ascii } else { Mode::Binary { long: 8 } };
        match Reader::new(file, mode, limits).beginning() {
            Ok(first) => Ok(first),
            Err(error) if error.kind() == Kind::Io => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// The first value, which has all others.
    pub fn root(&self) -> Value {
        self.root.unwrap_or(Value::Nil)
    }

    /// Returns an object.
    pub fn get(&self, id: Id) -> Option<&Object> {
        self.list.get(id)
    }

    /// The number of objects.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the bytes of a text.
    pub fn bytes(&self, text: usize) -> &[u8] {
        self.texts.get(text).map_or(&[], Vec::as_slice)
    }

    /// Returns a text, if it is UTF-8.
    pub fn text(&self, value: Value) -> Option<&str> {
        match value {
            Value::Text(text) => std::str::from_utf8(self.bytes(text)).ok(),
            _ => None,
        }
    }

    /// Returns the name of an object's class.
    pub fn class(&self, id: Id) -> Option<&str> {
        match self.get(id)? {
            Object::Torch(class, _) => self.text(Value::Text(*class)),
            _ => None,
        }
    }

    /// Returns the keys of a table, or of an object's fields, with their values.
    pub fn pairs(&self, id: Id) -> &[(Value, Value)] {
        match self.get(id) {
            Some(Object::Table(pairs)) => pairs,
            Some(Object::Torch(_, Value::Object(fields))) => match self.get(*fields) {
                Some(Object::Table(pairs)) => pairs,
                _ => &[],
            },
            _ => &[],
        }
    }

    /// Returns a storage.
    pub fn storage(&self, id: Id) -> Option<&Storage> {
        match self.get(id)? {
            Object::Storage(storage) => Some(storage),
            _ => None,
        }
    }

    /// The sizes of all storages, in bytes.
    pub fn storages(&self) -> impl Iterator<Item = u64> {
        self.list.iter().filter_map(|object| match object {
            Object::Storage(storage) => Some(storage.bytes()),
            _ => None,
        })
    }
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    limits: &'a Limits,
    objects: Objects,
    /// Objects by the numbers that the file gives them.
    numbered: HashMap<i32, Id>,
    frames: Vec<Frame>,
    /// Values so far.
    count: u64,
}

impl<'a> Reader<'a> {
    fn new(file: &'a File, mode: Mode, limits: &'a Limits) -> Self {
        Reader {
            scanner: Scanner::new(file, mode, limits),
            limits,
            objects: Objects::default(),
            numbered: HashMap::new(),
            frames: Vec::new(),
            count: 0,
        }
    }

    fn whole(mut self) -> Result<Objects> {
        while self.objects.root.is_none() {
            if let Some(value) = self.value()? {
                self.deliver(value);
            }
        }
        let end = self.scanner.position();
        match self.scanner.rest()? {
            0 => Ok(self.objects),
            rest => Err(Error::unsupported("the file goes on behind its first object")
                .offset(end)
                .found(ckpt_api::count(rest, "byte"))
                .expected("one object, as torch.save writes")
                .help("save the objects as one table")),
        }
    }

    /// Reads a value; `None` if it is an object whose values follow.
    fn value(&mut self) -> Result<Option<Value>> {
        self.count = self.count.saturating_add(1);
        self.limits.check(Limit::GraphNodes, self.count)?;
        let start = self.scanner.position();
        let number = self.scanner.int()?;
        let tag = Tag::of(number).ok_or_else(|| {
            Error::corrupt("a value has an unknown type")
                .offset(start)
                .found(number.to_string())
                .expected("0 to 8")
        })?;
        match tag {
            Tag::Nil => Ok(Some(Value::Nil)),
            Tag::Number => self.scanner.double().map(|number| Some(Value::Number(number))),
            Tag::Text => self.text().map(|text| Some(Value::Text(text))),
            Tag::Bool => self.scanner.int().map(|number| Some(Value::Bool(number != 0))),
            Tag::OldFunction => self.function(None),
            Tag::Table | Tag::Torch | Tag::Function => {
                let number = self.scanner.int()?;
                match self.numbered.get(&number) {
                    Some(id) => Ok(Some(Value::Object(*id))),
                    None => self.object(tag, number),
                }
            }
        }
    }

    /// Reads an object that is new.
    fn object(&mut self, tag: Tag, number: i32) -> Result<Option<Value>> {
        match tag {
            Tag::Table => {
                let pairs = self.scanner.count("the size of a table")?;
                let id = self.add(Some(number), Object::Table(Vec::new()));
                Ok(self.open(id, pairs.saturating_mul(2)))
            }
            Tag::Torch => {
                let start = self.scanner.position();
                let (name, class) = self.class()?;
                match class {
                    Class::Tensor(element) => self.tensor(number, element).map(Some),
                    Class::Storage(element) => {
                        let storage = Storage::read(&mut self.scanner, element)?;
                        Ok(Some(Value::Object(self.add(Some(number), Object::Storage(Box::new(storage))))))
                    }
                    Class::Fields => {
                        let id = self.add(Some(number), Object::Torch(name, Value::Nil));
                        Ok(self.open(id, 1))
                    }
                    Class::Unknown => {
                        Err(Error::unsupported("an object has a class that stores itself in its own way")
                            .offset(start)
                            .found(self.shown(name))
                            .expected("tensors, storages, and classes whose fields are a table")
                            .help("save the tensors of the file as a table"))
                    }
                }
            }
            _ => self.function(Some(number)),
        }
    }

    /// Skips a function; its values follow.
    fn function(&mut self, number: Option<i32>) -> Result<Option<Value>> {
        self.scanner.skip_text()?;
        let id = self.add(number, Object::Function);
        Ok(self.open(id, 1))
    }

    fn add(&mut self, number: Option<i32>, object: Object) -> Id {
        let id = self.objects.list.len();
        self.objects.list.push(object);
        if let Some(number) = number {
            self.numbered.insert(number, id);
        }
        id
    }

    fn open(&mut self, id: Id, values: u64) -> Option<Value> {
        if values == 0 {
            return Some(Value::Object(id));
        }
        self.frames.push(Frame { id, left: values, key: None });
        None
    }

    /// Gives a value to the object that is being read, and objects that are complete to those around them.
    fn deliver(&mut self, mut value: Value) {
        while let Some(frame) = self.frames.last_mut() {
            frame.left = frame.left.saturating_sub(1);
            match self.objects.list.get_mut(frame.id) {
                Some(Object::Table(pairs)) => match frame.key.take() {
                    None => frame.key = Some(value),
                    Some(key) => pairs.push((key, value)),
                },
                Some(Object::Torch(_, fields)) => *fields = value,
                _ => {}
            }
            if frame.left > 0 {
                return;
            }
            value = Value::Object(frame.id);
            self.frames.pop();
        }
        self.objects.root = Some(value);
    }

    fn text(&mut self) -> Result<usize> {
        self.objects.texts.push(self.scanner.text()?);
        Ok(self.objects.texts.len().saturating_sub(1))
    }

    /// Reads the name of a class, which files of before 2012 have without a version before it.
    fn class(&mut self) -> Result<(usize, Class)> {
        let mut name = self.text()?;
        if self.objects.bytes(name).starts_with(b"V ") {
            name = self.text()?;
        }
        let class = std::str::from_utf8(self.objects.bytes(name)).map_or(Class::Unknown, Class::of);
        Ok((name, class))
    }

    fn shown(&self, text: usize) -> String {
        let text = String::from_utf8_lossy(self.objects.bytes(text));
        format!("'{}'", text.chars().take(80).collect::<String>().escape_debug())
    }

    fn tensor(&mut self, number: i32, element: Element) -> Result<Value> {
        let start = self.scanner.position();
        let view = View::read(&mut self.scanner, element, self.limits)?;
        let storage = self.storage_of(element)?;
        let own = storage.and_then(|id| self.objects.storage(id));
        view.check(own).map_err(|error| error.offset(start))?;
        Ok(Value::Object(self.add(Some(number), Object::Tensor(Box::new(view), storage))))
    }

    /// Reads the storage of a tensor: a new one, one from before, or none.
    fn storage_of(&mut self, element: Element) -> Result<Option<Id>> {
        let start = self.scanner.position();
        let other = |found: String| {
            Error::corrupt("a tensor has no storage of its elements")
                .offset(start)
                .found(found)
                .expected(format!("a storage of {element:?}"))
        };
        let tag = self.scanner.int()?;
        match Tag::of(tag) {
            Some(Tag::Nil) => return Ok(None),
            Some(Tag::Torch) => {}
            _ => return Err(other(format!("a value of type {tag}"))),
        }
        let number = self.scanner.int()?;
        let id = match self.numbered.get(&number) {
            Some(id) => *id,
            None => {
                let (name, class) = self.class()?;
                let Class::Storage(own) = class else { return Err(other(self.shown(name))) };
                let storage = Storage::read(&mut self.scanner, own)?;
                self.add(Some(number), Object::Storage(Box::new(storage)))
            }
        };
        match self.objects.storage(id) {
            Some(storage) if storage.element == element => Ok(Some(id)),
            Some(storage) => Err(other(format!("a storage of {:?}", storage.element))),
            None => Err(other("another object".to_owned())),
        }
    }
}

/// Whether a file begins with a digit, as no type of a binary file does.
fn is_ascii(file: &File) -> Result<bool> {
    let is_own = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_whitespace();
    Ok(!file.is_empty() && file.bytes(0, 1)?.iter().all(is_own))
}

impl Reader<'_> {
    fn beginning(&mut self) -> Result<Option<String>> {
        let tag = Tag::of(self.scanner.int()?);
        if self.scanner.int()? != 1 {
            return Ok(None);
        }
        match tag {
            Some(Tag::Torch) => self.begins_object(),
            Some(Tag::Table) => {
                if self.scanner.int()? < 1 {
                    return Ok(None);
                }
                let key = match Tag::of(self.scanner.int()?) {
                    Some(Tag::Text) => self.word()?,
                    Some(Tag::Number) => {
                        let number = self.scanner.double()?;
                        // A table of numbers may be any numbers.
                        let tag = Tag::of(self.scanner.int()?);
                        let is_second = self.scanner.int()? == 2;
                        let is_object = match tag {
                            Some(Tag::Torch) => is_second && self.begins_object()?.is_some(),
                            Some(Tag::Table) => is_second && self.scanner.mode() != Mode::Ascii,
                            _ => false,
                        };
                        if !is_object {
                            return Ok(None);
                        }
                        return Ok(Some(format!("a table with the key {number}")));
                    }
                    _ => None,
                };
                let is_value = Tag::of(self.scanner.int()?).is_some();
                Ok(key.filter(|_| is_value).map(|key| format!("a table with the key '{key}'")))
            }
            _ => Ok(None),
        }
    }

    fn begins_object(&mut self) -> Result<Option<String>> {
        let mut name = self.word()?;
        if name.as_deref().is_some_and(|name| name.starts_with("V ")) {
            name = self.word()?;
        }
        Ok(name.filter(|name| name.contains('.')).map(|name| format!("an object of the class {name}")))
    }

    /// A short text without control characters.
    fn word(&mut self) -> Result<Option<String>> {
        const MOST: u64 = 256;
        let len = self.scanner.count("the length of a text")?;
        if len == 0 || len > MOST {
            return Ok(None);
        }
        let text = self.scanner.raw(len)?;
        let text = String::from_utf8(text).ok();
        Ok(text.filter(|text| !text.chars().any(char::is_control)))
    }
}
