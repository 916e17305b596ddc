//! Nodes, and the values that layers make.

use super::net::Layer;
use crate::read::{Blob, Model};
use ckpt_api::File;
use ckpt_graph::Nodes;
use ckpt_graph::shape::resolve;
use std::collections::HashMap;

/// A value of a layer.
#[derive(Clone)]
pub(super) struct Val {
    pub(super) name: String,
    /// Its lengths, the batch first.
    pub(super) dims: Vec<u64>,
}

/// Builds the nodes of a graph.
pub(super) struct Builder<'a> {
    pub(super) nodes: Nodes,
    model: &'a Model,
    file: &'a File,
    /// The name of the layer that is built.
    layer: String,
    /// The values that tops name now, whether a layer takes each or it is an input, and the order in which they were made.
    values: HashMap<String, (Val, bool, usize)>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(model: &'a Model, file: &'a File) -> Self {
        Builder { nodes: Nodes::default(), model, file, layer: String::new(), values: HashMap::new() }
    }

    /// Adds an input, and returns the name of its value.
    pub(super) fn input(&mut self, name: &str, dims: Vec<u64>) -> String {
        let unique = self.nodes.unique(name);
        self.values.insert(name.to_owned(), (Val { name: unique.clone(), dims }, true, 0));
        unique
    }

    pub(super) fn begin(&mut self, layer: &Layer<'_>) {
        layer.name.clone_into(&mut self.layer);
        layer.name.clone_into(&mut self.nodes.place);
    }

    /// The value that a bottom names.
    pub(super) fn bottom(&mut self, name: &str) -> Result<Val, String> {
        let found = self.values.get_mut(name);
        let (val, is_taken, _) =
            found.ok_or_else(|| format!("takes '{}', which nothing makes", name.escape_debug()))?;
        *is_taken = true;
        Ok(val.clone())
    }

    /// Whether the graph has what a bottom names.
    pub(super) fn has(&self, bottom: &str) -> bool {
        self.values.contains_key(bottom)
    }

    /// Names the value of the layer that is built.
    pub(super) fn top(&mut self, name: &str, val: Val) {
        let order = self.values.len().saturating_add(self.nodes.list.len());
        self.values.insert(name.to_owned(), (val, false, order));
    }

    /// The values that no layer takes, in their order, with their names.
    pub(super) fn results(&self) -> Vec<(String, Val)> {
        let mut results: Vec<(usize, String, Val)> = (self.values.iter())
            .filter(|(_, (_, is_taken, _))| !is_taken)
            .map(|(name, (val, _, order))| (*order, name.clone(), val.clone()))
            .collect();
        results.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        results.into_iter().map(|(_, name, val)| (name, val)).collect()
    }

    /// A blob of the layer that is built, and the name of its tensor.
    pub(super) fn blob(&self, number: usize) -> Result<(&'a Blob, String), String> {
        let blob = self.model.layer(&self.layer).and_then(|layer| layer.blobs.get(number));
        let blob = blob.ok_or_else(|| format!("has no blob {number} in the model"))?;
        Ok((blob, format!("{}/{number}", self.layer)))
    }

    /// A blob of so many numbers.
    pub(super) fn vector(&self, number: usize, len: u64) -> Result<String, String> {
        let (blob, name) = self.blob(number)?;
        match blob.shape.elements() == len {
            true => Ok(name),
            false => Err(format!("has a blob {number} of shape {}, and needs {len} numbers", blob.shape)),
        }
    }

    /// The number of a blob of one.
    pub(super) fn number(&self, number: usize) -> Result<f64, String> {
        let (blob, _) = self.blob(number)?;
        let range = blob.range().filter(|_| blob.shape.elements() == 1);
        let range = range.ok_or_else(|| format!("has a blob {number} that is no single number"))?;
        let bytes = self.file.bytes(range.start, range.end.saturating_sub(range.start));
        match bytes.map_err(|error| error.to_string())?[..] {
            [a, b, c, d] => Ok(f32::from_le_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Ok(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
            _ => Err(format!("has a blob {number} of half precision, which is not supported here")),
        }
    }
}

impl Val {
    /// The number of an axis that may count from the end.
    pub(super) fn axis(&self, axis: i64) -> Result<usize, String> {
        let rank = self.dims.len();
        resolve(axis, rank).ok_or_else(|| format!("names the axis {axis} of {rank}"))
    }

    /// The product of the lengths of some axes.
    pub(super) fn product(&self, axes: std::ops::Range<usize>) -> Result<u64, String> {
        let own = self.dims.get(axes).unwrap_or_default();
        let product = own.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
        product.ok_or_else(|| "has values that are too large".to_owned())
    }
}
