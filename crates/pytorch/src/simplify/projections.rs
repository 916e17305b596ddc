//! Products with a constant tensor: dense layers, whatever axes their kernels have.

use super::Rewriter;
use crate::translate::PROJECTION;
use ckpt_api::{Attribute, Node, Op, Shape};

impl Rewriter<'_> {
    /// Replaces the products. A value is joined to one axis of inputs before, and divided after, if the kernel has
    /// several.
    pub(super) fn projections(&mut self) {
        for number in 0..self.graph.nodes.len() {
            let Some(mut made) = self.node(number).and_then(|node| match node.op {
                Op::MatMul => self.product(node).map(|made| vec![made]),
                Op::Einsum => self.sums(node),
                _ => None,
            }) else {
                continue;
            };
            if let (Some(node), Some(last)) = (self.graph.nodes.get_mut(number), made.pop()) {
                *node = last;
                self.added.insert(number, made);
            }
        }
    }

    /// A product of matrices.
    fn product(&self, node: &Node) -> Option<Node> {
        if self.constant(node, 0).is_some() {
            return None;
        }
        let tensor = self.constant(node, 1)?;
        let [inputs, _] = self.shapes.get(node.inputs.get(1)?)?[..] else { return None };
        let summed = summed(self.tensors.shape(tensor)?, inputs?)?;
        self.projected(tensor, summed, node.inputs.first()?, node.outputs.first()?)
    }

    fn projected(&self, tensor: &str, summed: usize, from: &str, to: &str) -> Option<Node> {
        let mut made = Node::new(self.layer(tensor), Op::custom(PROJECTION))
            .parameter("weight", tensor)
            .attribute("summed", Attribute::Int(i64::try_from(summed).ok()?));
        (made.inputs, made.outputs) = (vec![from.to_owned()], vec![to.to_owned()]);
        Some(made)
    }

    /// Sums over the last axes of a value and the first ones of a kernel: `abc,cde->abde`.
    fn sums(&self, node: &Node) -> Option<Vec<Node>> {
        let Some(Attribute::Text(equation)) = node.attributes.get("equation") else { return None };
        let (from, to) = equation.split_once("->")?;
        let (x, kernel) = from.split_once(',')?;
        let letters = |text: &str| text.trim().chars().collect::<Vec<char>>();
        let (x, kernel, to) = (letters(x), letters(kernel), letters(to));
        let tensor = self.constant(node, 1)?;
        let shape = self.tensors.shape(tensor)?;
        let is_plain = self.before(node, 1).is_some_and(|before| before.op == Op::Constant);
        let count = kernel.iter().take_while(|letter| !to.contains(letter)).count();
        let (summed, made) = kernel.split_at_checked(count)?;
        let kept = x.strip_suffix(summed)?;
        let fits = to.strip_prefix(kept)? == made && shape.rank() == kernel.len();
        if !is_plain || !fits || summed.is_empty() || made.is_empty() || self.constant(node, 0).is_some() {
            return None;
        }
        let (input, output) = (node.inputs.first()?.clone(), node.outputs.first()?.clone());
        let lens =
            |lens: &[u64]| lens.iter().map(|len| i64::try_from(*len).ok()).collect::<Option<Vec<i64>>>();
        let reshape = |name: String, lens: Vec<i64>, from: &str, to: &str| {
            let shape = vec![0; kept.len()].into_iter().chain(lens).collect();
            let mut made = Node::new(name, Op::Reshape).attribute("shape", Attribute::Ints(shape));
            (made.inputs, made.outputs) = (vec![from.to_owned()], vec![to.to_owned()]);
            made
        };
        let named = |suffix: &str| format!("{}#{suffix}", node.name);
        let mut nodes = Vec::new();
        let mut value = input;
        if summed.len() > 1 {
            let all: u64 = shape.get(..count)?.iter().product();
            nodes.push(reshape(named("joined"), lens(&[all])?, &value, &named("joined")));
            value = named("joined");
        }
        let result = if made.len() > 1 { named("projected") } else { output.clone() };
        nodes.push(self.projected(tensor, count, &value, &result)?);
        if made.len() > 1 {
            nodes.push(reshape(node.name.clone(), lens(shape.get(count..)?)?, &result, &output));
        }
        Some(nodes)
    }
}

/// How many of the first axes hold so many elements.
fn summed(shape: &Shape, inputs: u64) -> Option<usize> {
    let mut product = 1u64;
    for (axis, len) in shape.iter().enumerate() {
        product = product.checked_mul(*len)?;
        if product == inputs && axis + 1 < shape.rank() {
            return Some(axis + 1);
        }
    }
    None
}
