//! Values between layers, and what a layer states.

use crate::format::layer;
use crate::read::Named;
use ckpt_graph::Nodes;
use ckpt_torch7_objects::{Id, Object, Objects, Value};
use std::collections::HashMap;

/// Fields and bytes of names of layers that are looked at, if the file has few objects, and how many more for each; and the
/// most of any file. A layer has some 50.
const FREE_WORK: usize = 1 << 16;
const WORK_PER_OBJECT: usize = 16;
const MOST_WORK: usize = 1 << 21;

/// What layers take and make.
#[derive(Clone)]
pub(super) enum Val {
    One(Of),
    /// Several values.
    Table(Vec<Of>),
}

/// A value.
#[derive(Clone)]
pub(super) struct Of {
    pub(super) name: String,
    /// Its lengths, the batch first; `None` for those that nothing states.
    pub(super) dims: Vec<Option<u64>>,
}

/// What a step of building makes.
pub(super) type Made = Result<Of, String>;

/// Builds the nodes of a graph.
pub(super) struct Builder<'a> {
    pub(super) nodes: Nodes,
    objects: &'a Objects,
    named: &'a Named,
    tensors: HashMap<Id, &'a str>,
    /// What may still be looked at: layers may be used again and again.
    work: usize,
}

/// A layer of the file.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    pub(super) kind: &'a str,
    objects: &'a Objects,
    fields: &'a [(Value, Value)],
}

impl<'a> Builder<'a> {
    pub(super) fn new(objects: &'a Objects, named: &'a Named) -> Self {
        let mut tensors = HashMap::new();
        for own in &named.tensors {
            tensors.entry(own.object).or_insert(own.name.as_str());
        }
        let work = objects.count().saturating_mul(WORK_PER_OBJECT).saturating_add(FREE_WORK).min(MOST_WORK);
        Builder { nodes: Nodes::default(), objects, named, tensors, work }
    }

    /// Counts a use of something with so many parts.
    pub(super) fn spend(&mut self, parts: usize) -> Result<(), String> {
        let left = self.work.checked_sub(parts.saturating_add(1));
        self.work = left.ok_or("the file uses its layers too often")?;
        Ok(())
    }

    /// The layer that an object is; its nodes get the object's name.
    pub(super) fn layer(&mut self, id: Id) -> Result<Layer<'a>, String> {
        let fields = self.objects.pairs(id);
        let path = self.named.paths.get(&id).map_or("", String::as_str);
        self.spend(fields.len().saturating_add(path.len()))?;
        self.nodes.place = if path.is_empty() { "layer".to_owned() } else { path.to_owned() };
        let kind = self.objects.class(id).and_then(layer);
        let kind = kind.ok_or_else(|| format!("'{}' is no layer of nn", path.escape_debug()))?;
        Ok(Layer { kind, objects: self.objects, fields })
    }

    /// What a message calls the layer that is built.
    pub(super) fn shown(&self, layer: &Layer<'_>) -> String {
        format!("layer '{}' ({})", self.nodes.place.escape_debug(), layer.kind.escape_debug())
    }

    /// The layers that a layer has.
    pub(super) fn modules(&self, layer: &Layer<'a>) -> Result<Vec<Id>, String> {
        let Some(Value::Object(table)) = layer.field("modules") else {
            return Err("has no modules".to_owned());
        };
        let pairs = self.objects.pairs(table);
        let mut all = vec![None; pairs.len()];
        for (key, value) in pairs {
            let Value::Number(number) = key else { continue };
            let place = index(*number).and_then(|number| all.get_mut(number));
            if let (Some(place), Value::Object(id)) = (place, value) {
                *place = Some(*id);
            }
        }
        all.into_iter()
            .collect::<Option<Vec<Id>>>()
            .ok_or_else(|| "has a list of modules with gaps".to_owned())
    }

    /// The name and lengths of a tensor of a layer; `None` if it has none, or one without elements.
    pub(super) fn tensor(&self, layer: &Layer<'_>, field: &str) -> Option<(&'a str, &'a [u64])> {
        let Value::Object(id) = layer.field(field)? else { return None };
        let Object::Tensor(view, _) = self.objects.get(id)? else { return None };
        let name = self.tensors.get(&id)?;
        (view.shape().elements() > 0).then_some((*name, &view.shape()[..]))
    }

    /// A tensor of so many numbers.
    pub(super) fn vector(&self, layer: &Layer<'_>, field: &str, len: u64) -> Result<&'a str, String> {
        let (name, shape) = self.tensor(layer, field).ok_or_else(|| format!("has no {field}"))?;
        match shape.iter().product::<u64>() == len {
            true => Ok(name),
            false => Err(format!("has a {field} of shape {shape:?}, and needs {len} numbers")),
        }
    }
}

impl<'a> Layer<'a> {
    pub(super) fn field(&self, name: &str) -> Option<Value> {
        // Bytes of other lengths are not looked at: keys may be long.
        let is_named =
            |key: &Value| matches!(key, Value::Text(text) if self.objects.bytes(*text) == name.as_bytes());
        let found = self.fields.iter().find(|(key, _)| is_named(key));
        found.map(|(_, value)| *value).filter(|value| *value != Value::Nil)
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, String> {
        match self.field(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(_) => Err(format!("has a {name} that is no number")),
        }
    }

    /// A number, or what it is if the layer does not state it.
    pub(super) fn number_or(&self, name: &str, default: f64) -> Result<f64, String> {
        Ok(self.number(name)?.unwrap_or(default))
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.field(name) {
            None => Ok(default),
            Some(Value::Bool(is)) => Ok(is),
            Some(_) => Err(format!("has a {name} that is neither true nor false")),
        }
    }

    /// A count that may be 0.
    pub(super) fn size(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(number) = self.number(name)? else { return Ok(None) };
        whole(number)
            .and_then(|own| u64::try_from(own).ok())
            .map(Some)
            .ok_or_else(|| format!("has {name}: {number}"))
    }

    /// A count of 1 or more, which the layer states.
    pub(super) fn positive(&self, name: &str) -> Result<u64, String> {
        self.size(name)?.filter(|own| *own > 0).ok_or_else(|| format!("has no {name}"))
    }

    /// A whole number that may be negative.
    pub(super) fn int(&self, name: &str) -> Result<i64, String> {
        let number = self.number(name)?.ok_or_else(|| format!("has no {name}"))?;
        whole(number).ok_or_else(|| format!("has {name}: {number}"))
    }

    /// The integers of a storage.
    pub(super) fn integers(&self, name: &str) -> Result<&'a [i64], String> {
        let Some(Value::Object(id)) = self.field(name) else { return Err(format!("has no {name}")) };
        let integers = self.objects.storage(id).and_then(|storage| storage.integers());
        integers.ok_or_else(|| format!("has a {name} that is no list of integers"))
    }
}

impl Of {
    /// The channels, if they are known.
    pub(super) fn channels(&self) -> Option<u64> {
        self.dims.get(1).copied().flatten()
    }

    /// Fails unless the value is an image of so many channels, if both are known.
    pub(super) fn check_image(&self, channels: Option<u64>) -> Result<(), String> {
        if self.dims.len() != 4 {
            return Err(format!("takes a value of {} axes, and needs images", self.dims.len()));
        }
        match (self.channels(), channels) {
            (Some(own), Some(needed)) if own != needed => {
                Err(format!("takes {own} channels, and needs {needed}"))
            }
            _ => Ok(()),
        }
    }

    /// The number of an axis that counts from 1 without the batch or with it, or from the end.
    pub(super) fn axis(&self, dimension: i64, has_batch: bool) -> Result<usize, String> {
        let rank = self.dims.len();
        let counted = match usize::try_from(dimension) {
            Ok(0) => None,
            Ok(axis) => Some(if has_batch { axis - 1 } else { axis }),
            Err(_) => usize::try_from(dimension.unsigned_abs()).ok().and_then(|back| rank.checked_sub(back)),
        };
        counted
            .filter(|axis| *axis < rank)
            .ok_or_else(|| format!("names the dimension {dimension} of {rank}"))
    }
}

/// A number of Lua as a whole one.
fn whole(number: f64) -> Option<i64> {
    const MOST: f64 = 2_147_483_647.0;
    #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^31")]
    (number.fract() == 0.0 && number.abs() <= MOST).then_some(number as i64)
}

/// The place in a list that a number of Lua names.
fn index(number: f64) -> Option<usize> {
    usize::try_from(whole(number)?).ok()?.checked_sub(1)
}
