//! Attention of several heads: `nn.MultiheadAttention`.

use super::attributes::int;
use super::layers::{projection, vector_steps};
use super::program::{Made, Module, Piece, Statement, Weight, text};
use super::translate::Translator;
use ckpt_api::{Node, Result};
use ckpt_engine::mapping::Relation;

impl<'g> Translator<'g> {
    /// The projections of queries, keys and values become one matrix.
    pub(super) fn attention(&mut self, node: &'g Node) -> Result<()> {
        let (heads, width) = (int(node, "heads", 1)?, int(node, "width", 1)?);
        let roles = ["query", "key", "value"];
        let merged = |this: &Self, kind: &str, target: &str| {
            let tensors = roles.iter().map(|role| this.tensor(node, &format!("{role}_{kind}")));
            let tensors = tensors.collect::<Result<Vec<_>>>()?;
            let steps = match tensors.first() {
                Some(first) if kind == "weight" => projection(node, first)?.0,
                Some(first) => vector_steps(first),
                None => Vec::new(),
            };
            Ok::<Weight, ckpt_api::Error>(Weight {
                sources: tensors.into_iter().map(|tensor| tensor.name.to_string()).collect(),
                targets: vec![target.to_owned()],
                relation: Relation::Merge { axis: 0, sizes: None },
                steps,
            })
        };
        let mut weights = vec![merged(self, "weight", "in_proj_weight")?];
        let has_bias = node.parameters.contains_key("query_bias");
        if has_bias {
            weights.push(merged(self, "bias", "in_proj_bias")?);
        }
        let out = self.tensor(node, "output_weight")?;
        let mut output = node.clone();
        let summed = i64::try_from(out.shape.rank().saturating_sub(1)).unwrap_or(1);
        output.attributes.insert("summed".to_owned(), ckpt_api::Attribute::Int(summed));
        weights.push(Weight::one(&out.name, "out_proj.weight", projection(&output, out)?.0));
        if has_bias {
            let bias = self.tensor(node, "output_bias")?;
            weights.push(Weight::one(&bias.name, "out_proj.bias", vector_steps(bias)));
        }
        let bias = if has_bias { "" } else { ", bias=False" };
        let made = Made::Call(format!("nn.MultiheadAttention({width}, {heads}{bias}, batch_first=True)"));
        let module = Module { layer: node.name.clone(), made, weights, missing: Vec::new() };
        let module = self.program.module(module);
        let (q, k, v) = (self.input(node, 0)?, self.input(node, 1)?, self.input(node, 2)?);
        let value = self.program.value(&node.name);
        let pieces = vec![
            Piece::Module(module),
            text("("),
            Piece::Value(q),
            text(", "),
            Piece::Value(k),
            text(", "),
            Piece::Value(v),
            text(", need_weights=False)"),
        ];
        let target = vec![Piece::Value(value), text(", _")];
        self.program.statements.push(Statement { target, pieces, comment: None, module: None });
        self.put(node, value);
        Ok(())
    }
}
