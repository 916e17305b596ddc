//! The names of objects: the keys that lead to them from the first one, joined with dots.

use crate::format::{CLASS, ID};
use ckpt_api::{Error, Limit, Limits, Metadata, MetadataValue, Result};
use ckpt_torch7_objects::{Id, Object, Objects, Value};
use std::collections::{HashMap, VecDeque};

/// Integers from here on have neighbors that no float is.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;
/// The name of a value that is no object, and the whole file.
const WHOLE: &str = "value";

/// What a file has under its names.
#[derive(Default)]
pub(crate) struct Named {
    /// Tensors, and storages that are no tensor's, with the object that has each, in the order of the file.
    pub(crate) tensors: Vec<NamedTensor>,
    /// The first name of each object that has values.
    pub(crate) paths: HashMap<Id, String>,
    pub(crate) metadata: Metadata,
    /// Later names of objects, each with the first one.
    pub(crate) again: Vec<(String, String)>,
    /// Names of functions.
    pub(crate) functions: Vec<String>,
    /// Tables and tensors that are keys.
    pub(crate) keys: u64,
    /// Values beside tensors that have the names of others.
    pub(crate) hidden: u64,
}

pub(crate) struct NamedTensor {
    pub(crate) name: String,
    pub(crate) object: Id,
    /// The object that has it, and its key there.
    pub(crate) owner: Option<Id>,
    pub(crate) field: String,
}

/// Finds the names: those with the fewest keys come first, and an object has its values under its first name alone.
pub(crate) fn of(objects: &Objects, limits: &Limits) -> Result<Named> {
    let mut walk = Walk { objects, limits, bytes: 0, named: Named::default(), open: VecDeque::new() };
    walk.add(objects.root(), "", None, "")?;
    while let Some((id, path)) = walk.open.pop_front() {
        walk.visit(id, &path)?;
    }
    let mut named = walk.named;
    named.tensors.sort_by_key(|tensor| tensor.object);
    check(&named.tensors)?;
    Ok(named)
}

/// Checks that no two tensors have one name, which keys with dots make possible.
fn check(tensors: &[NamedTensor]) -> Result<()> {
    let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[&str]>::first) {
        None => Ok(()),
        Some(name) => {
            Err(Error::unsupported("two tensors have the same name: their keys, joined with dots, are equal")
                .tensor(*name)
                .help("save the tensors under other keys"))
        }
    }
}

struct Walk<'a> {
    objects: &'a Objects,
    limits: &'a Limits,
    /// Bytes of all names.
    bytes: u64,
    named: Named,
    /// Objects whose values are not named yet, with their own names.
    open: VecDeque<(Id, String)>,
}

impl Walk<'_> {
    fn visit(&mut self, id: Id, path: &str) -> Result<()> {
        if let Some(Object::Torch(_, Value::Object(fields))) = self.objects.get(id) {
            // Several objects may have one table.
            if self.named.paths.insert(*fields, path.to_owned()).is_some() {
                return Ok(());
            }
        }
        for (key, value) in self.objects.pairs(id) {
            let field = self.key(*key);
            let full = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
            self.spend(&full)?;
            self.add(*value, &full, Some(id), &field)?;
        }
        Ok(())
    }

    /// Counts the bytes of names with those of headers: names below deep or long ones are long.
    fn spend(&mut self, name: &str) -> Result<()> {
        self.limits.check(Limit::NameBytes, name.len() as u64)?;
        self.bytes = self.bytes.saturating_add(name.len() as u64);
        self.limits.check(Limit::HeaderBytes, self.bytes)
    }

    /// Names a value.
    fn add(&mut self, value: Value, name: &str, owner: Option<Id>, field: &str) -> Result<()> {
        let shown = if name.is_empty() { WHOLE } else { name };
        let value = match value {
            Value::Nil => return Ok(()),
            Value::Number(number) => self::number(number),
            Value::Bool(is) => MetadataValue::Bool(is),
            Value::Text(text) => match self.objects.text(value) {
                Some(text) => MetadataValue::Text(text.to_owned()),
                None => MetadataValue::Bytes(self.objects.bytes(text).to_vec()),
            },
            Value::Object(id) => return self.add_object(id, name, owner, field),
        };
        self.insert(shown, value);
        Ok(())
    }

    fn insert(&mut self, key: &str, value: MetadataValue) {
        match self.named.metadata.value(ID, key) {
            Some(_) => self.named.hidden = self.named.hidden.saturating_add(1),
            None => self.named.metadata.insert(ID, key, value),
        }
    }

    fn add_object(&mut self, id: Id, name: &str, owner: Option<Id>, field: &str) -> Result<()> {
        let shown = if name.is_empty() { WHOLE } else { name };
        match self.objects.get(id) {
            Some(Object::Table(_) | Object::Torch(..)) => {
                if let Some(first) = self.named.paths.get(&id) {
                    let first = if first.is_empty() { WHOLE.to_owned() } else { first.clone() };
                    self.spend(&first)?;
                    self.named.again.push((shown.to_owned(), first));
                    return Ok(());
                }
                if let Some(class) = self.objects.class(id) {
                    let key = if name.is_empty() { CLASS.to_owned() } else { format!("{name}.{CLASS}") };
                    self.spend(&key)?;
                    self.insert(&key, class.to_owned().into());
                }
                self.named.paths.insert(id, name.to_owned());
                self.open.push_back((id, name.to_owned()));
            }
            Some(Object::Storage(storage)) if storage.integers().is_some() => {
                let list =
                    storage.integers().into_iter().flatten().map(|own| MetadataValue::I64(*own)).collect();
                self.insert(shown, MetadataValue::List(list));
            }
            Some(Object::Tensor(..) | Object::Storage(_)) => {
                let tensor =
                    NamedTensor { name: shown.to_owned(), object: id, owner, field: field.to_owned() };
                self.named.tensors.push(tensor);
                self.limits.check(Limit::Tensors, self.named.tensors.len() as u64)?;
            }
            Some(Object::Function) => self.named.functions.push(shown.to_owned()),
            None => {}
        }
        Ok(())
    }

    /// The part of a name that a key is. What is under an object is called by the object's place in the file.
    fn key(&mut self, key: Value) -> String {
        match key {
            Value::Text(text) => String::from_utf8_lossy(self.objects.bytes(text)).into_owned(),
            Value::Number(number) => number.to_string(),
            Value::Bool(is) => is.to_string(),
            Value::Nil => "nil".to_owned(),
            Value::Object(id) => {
                self.named.keys = self.named.keys.saturating_add(1);
                format!("#{id}")
            }
        }
    }
}

/// A number as metadata: all numbers of Lua are floats.
fn number(number: f64) -> MetadataValue {
    #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
    match number.fract() == 0.0 && number.abs() < MOST_EXACT && !(number == 0.0 && number.is_sign_negative())
    {
        true => MetadataValue::I64(number as i64),
        false => MetadataValue::F64(number),
    }
}
