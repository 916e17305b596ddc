//! Lowers lookups and updates of elements by their places.

use super::super::super::no_chain::NoChain;
use super::super::facts::dtype;
use super::super::reach::Edge;
use super::lowering::{Lowering, lost};
use super::values::{Maker, Val};
use crate::proto::NodeDef;
use ckpt_api::{Attribute, Op};
use ckpt_graph::shape::resolve;
use ckpt_graph::{Dims, Layout, Length};

impl Lowering<'_> {
    /// Lowers an operation that finds elements by their places, or updates them; `None` if it is another one.
    pub(super) fn placed(
        &mut self,
        op: &NodeDef,
        edge: Edge,
        inputs: &[Val],
    ) -> Result<Option<Val>, NoChain> {
        let reduction = match op.op.as_str() {
            "GatherNd" | "TensorScatterUpdate" => "none",
            "TensorScatterAdd" | "ScatterNd" => "add",
            "TensorScatterMax" => "max",
            "TensorScatterMin" => "min",
            _ => return Ok(None),
        };
        let dims = self.dims(edge)?;
        let mut inputs = self.all_last(inputs)?;
        if op.op == "GatherNd" {
            let node = self.values.node("GatherND");
            return Ok(Some(self.values.plain(node, &inputs.iter().collect::<Vec<_>>(), dims)?));
        }
        if op.op == "ScatterNd" {
            let is_real = matches!(dtype(op, "T"), Some(1 | 2 | 14 | 19));
            let zero = match is_real {
                true => self.values.scalar(0.0)?,
                false => {
                    let node = self.values.node("Constant").attribute("value_int", Attribute::Int(0));
                    self.values.plain(node, &[], Dims::new())?
                }
            };
            inputs.insert(0, self.values.expand(&zero, &dims, is_real)?);
        }
        let mut node = self.values.node("ScatterND");
        if reduction != "none" {
            node = node.attribute("reduction", Attribute::Text(reduction.to_owned()));
        }
        Ok(Some(self.values.plain(node, &inputs.iter().collect::<Vec<_>>(), dims)?))
    }

    /// Lowers a lookup in which each example has its own indices, along the axis behind those of the batch.
    pub(super) fn gather_batched(&mut self, edge: Edge, inputs: &[Val]) -> Result<Val, NoChain> {
        let dims = self.dims(edge)?;
        let inputs = self.all_last(inputs)?;
        let [data, indices] = &inputs[..] else { return Err(lost()) };
        let batch = resolve(self.view.batch_dims(edge), indices.rank() + 1).ok_or_else(lost)?;
        if self.axis(edge, 2, data.rank())? != batch {
            return Err(NoChain::unsupported("it gathers from each example along a later axis"));
        }
        let places = self.values.unsqueeze(indices, &[indices.rank()])?;
        let count = i64::try_from(batch).map_err(|_| lost())?;
        let node = self.values.node("GatherND").attribute("batch_dims", Attribute::Int(count));
        Ok(self.values.plain(node, &[data, &places], dims)?)
    }

    /// Lowers the greatest elements of the last axis, and their places.
    pub(super) fn greatest(&mut self, edge: Edge, inputs: &[Val]) -> Result<Vec<Val>, NoChain> {
        let inputs = self.all_last(inputs)?;
        let [x] = &inputs[..] else { return Err(lost()) };
        let dims = self.dims(Edge { node: edge.node, output: 0 })?;
        let count = dims.last().and_then(|len: &Length| len.known());
        let count = count.ok_or_else(|| NoChain::unsupported("the number of its results is not known"))?;
        let mut node = self.values.node(Op::TopK.name()).attribute("k", Attribute::Int(count));
        let base = node.name.clone();
        let names = ["values", "indices"].map(|result| self.values.unique(&format!("{base}:{result}")));
        node.outputs = names.to_vec();
        self.values.push(node, vec![x.name.clone()])?;
        let val = |name| self.values.val(name, Layout::Last, dims.clone(), Maker::default());
        Ok(names.map(val).to_vec())
    }

    /// Returns the values in TensorFlow's order.
    fn all_last(&mut self, inputs: &[Val]) -> Result<Vec<Val>, NoChain> {
        Ok(inputs.iter().map(|val| self.values.last(val)).collect::<Result<_, _>>()?)
    }
}
