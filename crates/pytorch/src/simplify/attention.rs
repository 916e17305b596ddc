//! Attention of several heads, of projections, products and a softmax.

use super::Rewriter;
use crate::layer_names::split;
use crate::translate::{ATTENTION, PROJECTION};
use ckpt_api::{Attribute, Node, Op};

/// A projection to heads: `[batch, length, heads, width]`.
struct Heads<'n> {
    projection: &'n Node,
    heads: u64,
    each: u64,
}

impl Rewriter<'_> {
    /// Finds the last projection of each attention, and replaces it.
    pub(super) fn attentions(&mut self) {
        for number in 0..self.graph.nodes.len() {
            let Some(made) = self.node(number).and_then(|node| self.attention(node)) else { continue };
            if let Some(node) = self.graph.nodes.get_mut(number) {
                *node = made;
            }
        }
    }

    /// The attention whose output a node projects, if PyTorch's module computes the same.
    fn attention(&self, output: &Node) -> Option<Node> {
        let is_projection = |node: &Node| matches!(&node.op, Op::Custom(name) if name == PROJECTION);
        if !is_projection(output) {
            return None;
        }
        let joined = self.only(output, 0, &Op::Reshape)?;
        let (query, key, value, scale) = self.by_sums(joined).or_else(|| self.by_products(joined))?;
        let all = [&query, &key, &value];
        let (heads, each) = (query.heads, query.each);
        let width = heads.checked_mul(each)?;
        let weight = |node: &Node| self.tensors.shape(node.parameters.get("weight")?);
        let is_square =
            |node: &Node| weight(node).is_some_and(|shape| shape.elements() == width.saturating_mul(width));
        let alike = all.iter().all(|own| own.heads == heads && own.each == each && is_square(own.projection));
        let expected = 1.0 / (each as f64).sqrt();
        let is_scaled = (scale - expected).abs() <= 1e-6 * expected;
        let has_bias = |node: &Node| node.parameters.contains_key("bias");
        let biases =
            all.iter().map(|own| own.projection).chain([output]).filter(|node| has_bias(node)).count();
        if !alike || !is_scaled || !is_square(output) || !matches!(biases, 0 | 4) {
            return None;
        }
        let name = split(&output.name).0;
        let name = if name.is_empty() { "attention" } else { name };
        let mut made = Node::new(name, Op::custom(ATTENTION))
            .attribute("heads", Attribute::Int(i64::try_from(heads).ok()?))
            .attribute("width", Attribute::Int(i64::try_from(width).ok()?));
        let roles = [
            ("query", query.projection),
            ("key", key.projection),
            ("value", value.projection),
            ("output", output),
        ];
        for (role, node) in roles {
            made = made.parameter(&format!("{role}_weight"), node.parameters.get("weight")?);
            if let Some(bias) = node.parameters.get("bias") {
                made = made.parameter(&format!("{role}_bias"), bias);
            }
        }
        made.attributes.extend(
            query.projection.attributes.get("summed").map(|summed| ("summed".to_owned(), summed.clone())),
        );
        made.inputs = all.iter().map(|own| own.projection.inputs.first().cloned()).collect::<Option<_>>()?;
        made.outputs.clone_from(&output.outputs);
        Some(made)
    }

    /// Queries, keys, values and the scale of scores that einsum computes, of heads behind the length.
    fn by_sums<'n>(&'n self, joined: &'n Node) -> Option<(Heads<'n>, Heads<'n>, Heads<'n>, f64)> {
        let product = self.only(joined, 0, &Op::Einsum)?;
        let softmax = self.softmax(product)?;
        let scaled = self.only(softmax, 0, &Op::Mul)?;
        let scale = self.number(scaled, 1)?;
        let scores = self.only(scaled, 0, &Op::Einsum)?;
        let fits = equation(scores)? == "abcd,aecd->acbe" && equation(product)? == "abcd,adbe->acbe";
        let all = (self.heads(scores, 0)?, self.heads(scores, 1)?, self.heads(product, 1)?, scale);
        fits.then_some(all)
    }

    /// The same of products of matrices, of heads before the length.
    fn by_products<'n>(&'n self, joined: &'n Node) -> Option<(Heads<'n>, Heads<'n>, Heads<'n>, f64)> {
        let turned = self.only(joined, 0, &Op::Transpose).filter(|node| is_turned(node, &[0, 2, 1, 3]))?;
        let product = self.only(turned, 0, &Op::MatMul)?;
        let softmax = self.softmax(product)?;
        let scores = self.only(softmax, 0, &Op::MatMul)?;
        let scaled = self.only(scores, 0, &Op::Mul)?;
        let scale = self.number(scaled, 1)?;
        let keys = self.only(scores, 1, &Op::Transpose).filter(|node| is_turned(node, &[0, 1, 3, 2]))?;
        Some((
            self.turned_heads(scaled, 0)?,
            self.turned_heads(keys, 0)?,
            self.turned_heads(product, 1)?,
            scale,
        ))
    }

    /// The softmax over the last axis that is the first input of a product.
    fn softmax<'n>(&'n self, product: &'n Node) -> Option<&'n Node> {
        let softmax = self.only(product, 0, &Op::Softmax)?;
        let is_last = !matches!(softmax.attributes.get("axis"), Some(Attribute::Int(axis)) if *axis != -1 && *axis != 3);
        is_last.then_some(softmax)
    }

    fn turned_heads<'n>(&'n self, node: &'n Node, input: usize) -> Option<Heads<'n>> {
        let turned = self.only(node, input, &Op::Transpose).filter(|node| is_turned(node, &[0, 2, 1, 3]))?;
        self.heads(turned, 0)
    }

    /// The projection to heads that makes an input.
    fn heads<'n>(&'n self, node: &'n Node, input: usize) -> Option<Heads<'n>> {
        let divided = self.only(node, input, &Op::Reshape)?;
        let [_, _, heads, each] = self.shapes.get(divided.outputs.first()?)?[..] else { return None };
        let projection = self.only(divided, 0, &Op::custom(PROJECTION))?;
        let Some(Attribute::Int(1)) = projection.attributes.get("summed") else { return None };
        Some(Heads { projection, heads: heads?, each: each? })
    }
}

fn is_turned(node: &Node, perm: &[i64]) -> bool {
    matches!(node.attributes.get("perm"), Some(Attribute::Ints(own)) if own == perm)
}

/// The equation of a node with letters in the order in which they appear.
fn equation(node: &Node) -> Option<String> {
    let Some(Attribute::Text(equation)) = node.attributes.get("equation") else { return None };
    let mut seen: Vec<char> = Vec::new();
    let mut letter = |c: char| {
        if !c.is_ascii_alphabetic() {
            return Some(c);
        }
        let number = seen.iter().position(|own| *own == c).unwrap_or_else(|| {
            seen.push(c);
            seen.len() - 1
        });
        char::from_u32(u32::from('a') + u32::try_from(number).ok()?)
    };
    equation.chars().filter(|c| !c.is_whitespace()).map(&mut letter).collect()
}
