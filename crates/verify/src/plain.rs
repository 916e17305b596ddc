//! Graphs that are plain for the shapes of their inputs.

use ckpt_api::{Graph, Result};
use ckpt_forward::{Parameters, Value, specialize};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Holds what [`specialize`] makes of a graph, for the program that is built of it. One is for one try.
#[derive(Default)]
pub(crate) struct PlainGraph(OnceCell<Graph>);

impl PlainGraph {
    /// Returns the graph for inputs of these shapes, of which some have these values.
    ///
    /// # Errors
    /// Those of [`specialize`].
    pub(crate) fn of<'g>(
        &'g self,
        graph: &'g Graph,
        parameters: &dyn Parameters,
        shapes: &BTreeMap<String, Vec<usize>>,
        values: &BTreeMap<String, Value>,
    ) -> Result<&'g Graph> {
        Ok(match specialize(graph, parameters, shapes, values)? {
            Cow::Borrowed(graph) => graph,
            Cow::Owned(plain) => self.0.get_or_init(|| plain),
        })
    }
}
