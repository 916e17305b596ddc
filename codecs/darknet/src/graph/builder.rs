//! Nodes, and the results of layers.

use crate::format::Image;
use ckpt_api::{Graph, Op, Value};
use ckpt_graph::{Nodes, ints};
use std::collections::HashMap;

/// The name of the input, as OpenCV has it.
pub(super) const INPUT: &str = "data";

/// The result of a layer.
#[derive(Clone)]
pub(super) struct Val {
    pub(super) name: String,
    pub(super) image: Image,
    /// The value has no sides: its shape is batch and channels.
    pub(super) is_flat: bool,
    /// The shape of the value, if it is no image.
    pub(super) other: Option<Vec<Option<u64>>>,
}

/// Builds the nodes of a graph.
pub(super) struct Builder {
    pub(super) nodes: Nodes,
    input: Val,
    /// The results of the layers so far, and whether another layer takes each.
    results: Vec<(Val, bool)>,
    /// Cells of maps whose places are stated in the graph.
    pub(super) cells: u64,
}

impl Builder {
    pub(super) fn new(image: Image) -> Self {
        let input = Val { name: INPUT.to_owned(), image, is_flat: false, other: None };
        Builder { nodes: Nodes::default(), input, results: Vec::new(), cells: 0 }
    }

    pub(super) fn begin(&mut self, place: String) {
        self.nodes.place = place;
    }

    pub(super) fn is_taken(&self, layer: usize) -> bool {
        self.results.get(layer).is_some_and(|(_, is_taken)| *is_taken)
    }

    /// The result of an earlier layer, which is an image.
    pub(super) fn take(&mut self, layer: usize) -> Result<Val, String> {
        let (val, is_taken) = self.results.get_mut(layer).ok_or("takes a layer that does not exist")?;
        *is_taken = true;
        if val.other.is_some() {
            return Err("takes the result of a detection layer, which is not supported".to_owned());
        }
        Ok(val.clone())
    }

    /// The result of the layer before, or the input.
    pub(super) fn previous(&mut self) -> Result<Val, String> {
        match self.results.len().checked_sub(1) {
            Some(last) => self.take(last),
            None => Ok(self.input.clone()),
        }
    }

    /// The result of the layer that is built.
    pub(super) fn result(&mut self, val: Val) {
        self.results.push((val, false));
    }

    /// The value as batch, channels, rows and columns.
    pub(super) fn image(&mut self, val: &Val, suffix: &str) -> Result<String, String> {
        if !val.is_flat {
            return Ok(val.name.clone());
        }
        let Image { channels, height, width } = val.image;
        let dims = ints(&[0, channels, height, width])?;
        Ok(self.nodes.push(&format!("{suffix}image"), Op::Reshape, &[&val.name], [("shape", dims)]))
    }

    /// The value as batch and numbers.
    pub(super) fn flat(&mut self, val: &Val) -> String {
        match val.is_flat {
            true => val.name.clone(),
            false => self.nodes.push("flatten", Op::Flatten, &[&val.name], []),
        }
    }

    /// The graph with these results of layers as its outputs, under these names.
    pub(super) fn finish(self, input: Value, outputs: &[(usize, String)]) -> Graph {
        let mut graph = Graph { inputs: vec![input], nodes: self.nodes.list, ..Graph::default() };
        let mut renamed = HashMap::new();
        for (layer, name) in outputs {
            let Some((val, _)) = self.results.get(*layer) else { continue };
            renamed.insert(val.name.as_str(), name.as_str());
            let dims = match &val.other {
                Some(dims) => dims.clone(),
                None if val.is_flat => vec![None, Some(val.image.channels)],
                None => shape(val.image),
            };
            graph.outputs.push(Value::new(name.clone(), dims));
        }
        for name in graph.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs)) {
            if let Some(new) = renamed.get(name.as_str()) {
                (*new).clone_into(name);
            }
        }
        graph
    }
}

/// The shape of an image, with a batch of any size.
pub(super) fn shape(image: Image) -> Vec<Option<u64>> {
    vec![None, Some(image.channels), Some(image.height), Some(image.width)]
}
