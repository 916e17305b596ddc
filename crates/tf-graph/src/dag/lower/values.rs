//! The values of the graph that is made, and the tensors that it takes.

use super::super::super::chain::{Context, layer_name};
use super::super::super::no_chain::NoChain;
use super::super::weights::Constants;
use crate::catalog::path;
use ckpt_api::{Attribute, Axis, DType, Shape};
use ckpt_graph::shape::of_sizes;
use ckpt_graph::{Builder, Length, Tag, ints};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// The layer with weights that made a value, and the scope of the operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Maker(pub Option<Rc<(String, String)>>);

impl Tag for Maker {}

/// A value of the graph; its lengths are in TensorFlow's order.
pub(super) type Val = ckpt_graph::Val<Maker>;

/// Tensors and nodes of the graph that is made.
pub(super) struct Values<'a> {
    builder: Builder<Maker>,
    pub context: &'a Context<'a>,
    constants: Option<&'a Constants>,
    /// Meanings of the parameters' axes, by key.
    pub axes: BTreeMap<String, Vec<Axis>>,
    unnamed: BTreeMap<&'static str, u64>,
}

impl Deref for Values<'_> {
    type Target = Builder<Maker>;

    fn deref(&self) -> &Builder<Maker> {
        &self.builder
    }
}

impl DerefMut for Values<'_> {
    fn deref_mut(&mut self) -> &mut Builder<Maker> {
        &mut self.builder
    }
}

impl<'a> Values<'a> {
    pub fn new(context: &'a Context<'a>, constants: Option<&'a Constants>) -> Self {
        let builder = Builder::default();
        Values { builder, context, constants, axes: BTreeMap::new(), unnamed: BTreeMap::new() }
    }

    /// Makes the value of a stored tensor, in its stored order.
    pub fn stored(&mut self, key: &str) -> Result<Val, NoChain> {
        let Some(entry) = self.context.catalog.get(key) else {
            return Err(NoChain::unsupported(format!("the checkpoint has no tensor '{}'", path(key))));
        };
        if !entry.dtype.is_float() && !matches!(entry.dtype, DType::I32 | DType::I64 | DType::Bool) {
            return Err(NoChain::unsupported(format!("'{}' is of type {}", path(key), entry.dtype.name())));
        }
        let name = self.constants.and_then(|constants| constants.name(key));
        let name = name.unwrap_or_else(|| self.context.shown(key)).to_owned();
        Ok(self.tensor(&name, key, of_sizes(entry.shape))?)
    }

    /// Returns the shape of a tensor of floating-point numbers.
    pub fn shape(&self, key: &str) -> Result<&'a Shape, NoChain> {
        let entry = self.context.catalog.get(key).filter(|entry| entry.dtype.is_float());
        entry.map(|entry| entry.shape).ok_or_else(|| {
            NoChain::unsupported(format!("the checkpoint has no floating-point tensor '{}'", path(key)))
        })
    }

    /// Returns the name of the layer of a weight: the one in the weight's name, or one that is numbered as by Keras; of
    /// a constant without one, the operation's.
    pub fn layer(&mut self, key: &str, kind: &'static str) -> String {
        if let Some(constants) = self.constants.filter(|constants| constants.name(key).is_some()) {
            return constants.layer(key).unwrap_or(&self.place).to_owned();
        }
        layer_name(self.context, key).unwrap_or_else(|| {
            let number = self.unnamed.entry(kind).or_default();
            *number += 1;
            if *number == 1 { kind.to_owned() } else { format!("{kind}_{}", *number - 1) }
        })
    }

    /// Broadcasts a value to lengths of which some may be free: zeros as long as an input are added then.
    pub fn expand(&mut self, val: &Val, dims: &[Length], is_real: bool) -> Result<Val, NoChain> {
        let known: Vec<i64> = dims.iter().map(|len| len.known().unwrap_or(1)).collect();
        let mut made = self.last(val)?;
        let is_same = |made: &Val| {
            made.rank() == known.len()
                && made.dims.iter().zip(&known).all(|(own, len)| own.known() == Some(*len))
        };
        if !is_same(&made) {
            let node = self.node("Expand").attribute("shape", Attribute::Ints(known.clone()));
            made = self.plain(node, &[&made], known.iter().copied().map(Length::Known).collect())?;
        }
        for (at, len) in dims.iter().enumerate() {
            let own = match val.rank().checked_add(at).and_then(|at| at.checked_sub(dims.len())) {
                Some(own) => val.dims.get(own).copied().unwrap_or(Length::Known(1)),
                None => Length::Known(1),
            };
            if len.known().is_some() || own.is(*len) {
                continue;
            }
            let zeros = self.zeros(*len, at, dims.len(), is_real)?;
            made = self.apply("Add", &[&zeros, &made])?;
        }
        Ok(Val { dims: dims.to_vec(), ..made })
    }

    /// Makes zeros whose axis `at` of `rank` axes is as long as a free axis of an input.
    fn zeros(&mut self, len: Length, at: usize, rank: usize, is_real: bool) -> Result<Val, NoChain> {
        let found = self.inputs().iter().find_map(|input| {
            let axis = input.dims.iter().position(|own| own.is(len))?;
            Some((input.clone(), axis))
        });
        let Some((input, axis)) = found else {
            return Err(NoChain::unsupported(
                "it makes a value whose length depends on the input in a way that is not supported",
            ));
        };
        let others: Vec<usize> = (0..input.rank()).filter(|other| *other != axis).collect();
        let node = self.node("Slice");
        let node = node
            .attribute("starts", Attribute::Ints(vec![0; others.len()]))
            .attribute("ends", Attribute::Ints(vec![1; others.len()]))
            .attribute("axes", ints(&others)?);
        let column = self.plain(node, &[&input], vec![Length::Known(1); input.rank()])?;
        // Nothing is less than itself, infinities and NaN included.
        let node = self.node("Less");
        let zeros = self.plain(node, &[&column, &column], column.dims.clone())?;
        let mut dims = vec![Length::Known(1); rank];
        dims[at] = len;
        let mut spec = vec![1; rank];
        spec[at] = -1;
        let node = self.node("Reshape").attribute("shape", Attribute::Ints(spec));
        let zeros = self.plain(node, &[&zeros], dims)?;
        if !is_real {
            return Ok(zeros);
        }
        let node = self.node("Cast").attribute("to", Attribute::Text("float".into()));
        Ok(self.map(node, &zeros)?)
    }
}
