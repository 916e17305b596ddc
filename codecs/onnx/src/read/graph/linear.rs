//! Reads products, convolutions and tables.

use super::values::{Attributes, Read, Reader};
use crate::format::message::Node;
use ckpt_api::{Attribute, Axis, Node as Layer, Op};
use ckpt_graph::Length;
use ckpt_graph::infer::windowed;
use ckpt_graph::shape::product_of_matrices;

impl<'a> Reader<'a> {
    pub(super) fn gemm(&mut self, node: &'a Node) -> Read<()> {
        let (a, b) = (node.input(0).ok_or("lacks its input")?, node.input(1).ok_or("lacks its weight")?);
        let flag = |name: &str| node.int(name).unwrap_or(0) != 0;
        let factor = |name: &str| f64::from(node.float(name).unwrap_or(1.0));
        let output = node.outputs.first().ok_or("lacks its output")?;
        let mut x = self.operand(a)?;
        if flag("transA") {
            x = self.turned(node, &x)?;
        }
        let axes = if flag("transB") { [Axis::Out, Axis::In] } else { [Axis::In, Axis::Out] };
        let weight = self.tensor(b).filter(|(_, tensor)| tensor.shape.rank() == 2).map(|(id, tensor)| {
            let out = axes.iter().position(|axis| *axis == Axis::Out).unwrap_or(0);
            (id, tensor.name.clone(), tensor.shape.get(out).copied().unwrap_or(0))
        });
        let out = self.gemm_shape(a, b, flag("transA"), flag("transB"));
        // alpha · A · B + beta · C: factors other than 1 are nodes of their own.
        let (alpha, beta) = (factor("alpha"), factor("beta"));
        let addend = node.input(2).filter(|_| beta != 0.0);
        let mut layer = Layer::new(String::new(), Op::Gemm);
        let mut rest = addend;
        match weight.filter(|(id, ..)| self.claim(*id, &axes)) {
            Some((_, name, width)) => {
                layer = layer.parameter("weight", name);
                layer.inputs = vec![x];
                if let (Some(bias), 1.0, 1.0) = (addend.and_then(|name| self.bias(name, width)), alpha, beta)
                {
                    layer = layer.parameter("bias", bias);
                    rest = None;
                }
            }
            None => {
                let mut other = self.operand(b)?;
                if flag("transB") {
                    other = self.turned(node, &other)?;
                }
                layer.op = Op::MatMul;
                layer.inputs = vec![x, other];
            }
        }
        let mut value = if alpha == 1.0 && rest.is_none() {
            output.clone()
        } else {
            self.fresh_value(&format!("{output}/product"))
        };
        layer.outputs = vec![value.clone()];
        self.push(node.layer(), layer);
        if alpha != 1.0 {
            let result =
                if rest.is_none() { output.clone() } else { self.fresh_value(&format!("{output}/scaled")) };
            value = self.scaled(node, value, alpha, result);
        }
        if let Some(addend) = rest {
            let mut addend = self.operand(addend)?;
            if beta != 1.0 {
                let result = self.fresh_value(&format!("{output}/addend"));
                addend = self.scaled(node, addend, beta, result);
            }
            self.emit_as(node.layer(), Op::Add, vec![value, addend], vec![output.clone()], Attributes::new());
        }
        self.set_shape(output, out);
        Ok(())
    }

    fn gemm_shape(&self, a: &str, b: &str, turn_a: bool, turn_b: bool) -> Option<Vec<Length>> {
        let (a, b) = (self.shape(a)?, self.shape(b)?);
        Some(vec![*a.get(usize::from(turn_a))?, *b.get(usize::from(!turn_b))?])
    }

    /// A matrix with its axes exchanged.
    fn turned(&mut self, node: &Node, value: &str) -> Read<String> {
        let output = self.fresh_value(&format!("{value}/transposed"));
        let attributes = Attributes::new().ints("perm", vec![1, 0]);
        self.emit_as(node.layer(), Op::Transpose, vec![value.to_owned()], vec![output.clone()], attributes);
        Ok(output)
    }

    /// A value times a number.
    fn scaled(&mut self, node: &Node, value: String, factor: f64, result: String) -> String {
        let factor = self.scalar(node.layer(), factor);
        self.emit_as(node.layer(), Op::Mul, vec![value, factor], vec![result.clone()], Attributes::new());
        result
    }

    /// The name of a tensor that is a bias of so many outputs.
    fn bias(&mut self, name: &str, width: u64) -> Option<String> {
        let (id, tensor) = self.tensor(name)?;
        let tensor_name = tensor.name.to_string();
        (tensor.shape[..] == [width]).then_some(())?;
        self.claim(id, &[Axis::Out]).then_some(tensor_name)
    }

    pub(super) fn mat_mul(&mut self, node: &'a Node) -> Read<()> {
        let (a, b) =
            (node.input(0).ok_or("lacks its input")?, node.input(1).ok_or("lacks its second input")?);
        let output = node.outputs.first().ok_or("lacks its output")?;
        let weight = self.tensor(b).filter(|(_, tensor)| tensor.shape.rank() == 2 && tensor.dtype.is_float());
        let weight = weight.map(|(id, tensor)| (id, tensor.name.clone()));
        let has_rows = self.shape(a).is_none_or(|shape| !shape.is_empty());
        if let Some((_, name)) = weight.filter(|(id, _)| has_rows && self.claim(*id, &[Axis::In, Axis::Out]))
        {
            let mut layer = Layer::new(String::new(), Op::Gemm).parameter("weight", name);
            layer.inputs = vec![self.operand(a)?];
            layer.outputs = vec![output.clone()];
            self.push(node.layer(), layer);
            let shape = self.shape(a).zip(self.shape(b)).and_then(|(a, b)| product_of_matrices(&a, &b));
            self.set_shape(output, shape);
            return Ok(());
        }
        let inputs = self.operands(node)?;
        self.emit(node, Op::MatMul, inputs, Attributes::new())
    }

    /// An addition of a vector to a product without a bias, which nothing else takes, is the bias of the product.
    pub(super) fn fuse_bias(&mut self, node: &'a Node) -> Read<bool> {
        let [a, b] = &node.inputs[..] else { return Ok(false) };
        let Some(output) = node.outputs.first() else { return Ok(false) };
        for (product, bias) in [(a, b), (b, a)] {
            let Some(at) = self.makers.get(product).copied() else { continue };
            let is_open = self.nodes.get(at).is_some_and(|layer| {
                layer.op == Op::Gemm
                    && !layer.parameters.contains_key("bias")
                    && layer.outputs == [product.clone()]
            });
            if !is_open || self.uses(product) != 1 || self.is_output(product) {
                continue;
            }
            let shape = self.shape(product);
            let Some(Some(Length::Known(width))) = shape.as_ref().map(|shape| shape.last().copied()) else {
                continue;
            };
            let Some(bias) = self.bias(bias, width.unsigned_abs()) else { continue };
            if let Some(layer) = self.nodes.get_mut(at) {
                layer.parameters.insert("bias".to_owned(), bias);
                layer.outputs = vec![output.clone()];
            }
            self.makers.insert(output.clone(), at);
            self.set_shape(output, shape);
            return Ok(true);
        }
        Ok(false)
    }

    pub(super) fn conv(&mut self, node: &'a Node) -> Read<()> {
        let (x, w) = (node.input(0).ok_or("lacks its input")?, node.input(1).ok_or("lacks its weight")?);
        let lens = self.shape(w).map(|lens| lens.into_iter().map(|len| u64::try_from(len.known()?).ok()));
        let lens: Option<Vec<u64>> = lens.and_then(Iterator::collect);
        let lens = lens.ok_or("has a weight of a shape that is not known")?;
        let rank = lens.len();
        let is_transposed = node.op == "ConvTranspose";
        let first = if is_transposed { [Axis::In, Axis::Out] } else { [Axis::Out, Axis::In] };
        let window: &[Axis] = match rank {
            3 => &[Axis::KernelX],
            4 => &[Axis::KernelY, Axis::KernelX],
            5 => &[Axis::KernelZ, Axis::KernelY, Axis::KernelX],
            _ => return Err(format!("has a weight of {rank} axes")),
        };
        let axes = [&first[..], window].concat();
        let group = node.int("group").unwrap_or(1);
        let outputs = lens.get(usize::from(is_transposed)).copied().unwrap_or(0);
        let outputs = if is_transposed { outputs.saturating_mul(group.unsigned_abs()) } else { outputs };
        let bias_shape = node.input(2).and_then(|bias| self.shape(bias));
        if bias_shape.is_some_and(|shape| shape.len() != 1) {
            return Err("has a bias that is no vector".to_owned());
        }
        let op = if is_transposed { Op::ConvTranspose } else { Op::Conv };
        let mut layer = Layer::new(String::new(), op);
        layer.inputs = vec![self.operand(x)?];
        match self.filters(node, &axes, outputs) {
            Some(tensors) => {
                layer.parameters = tensors.map(|(role, tensor)| (role.to_owned(), tensor)).collect();
            }
            None => {
                let given = [Some(w), node.input(2)].into_iter().flatten();
                layer.inputs.extend(given.map(|name| self.operand(name)).collect::<Read<Vec<_>>>()?);
            }
        }
        let mut attributes =
            self.window(node, &["strides", "pads", "dilations", "output_padding", "output_shape"])?;
        if group != 1 {
            attributes = attributes.int("group", group);
        }
        layer.attributes = attributes.0;
        let output = node.outputs.first().ok_or("lacks its output")?;
        layer.outputs = vec![output.clone()];
        let mut shape = self.shape(x).unwrap_or_default();
        shape.resize(rank, Length::Unknown);
        let mut shape = windowed(&layer, shape, lens.get(2..).unwrap_or_default());
        if let Some(channels) = shape.as_mut().and_then(|shape| shape.get_mut(1)) {
            *channels = Length::from(outputs);
        }
        self.push(node.layer(), layer);
        self.set_shape(output, shape);
        Ok(())
    }

    /// The tensors of a convolution by role. `None` if the graph computes one, or another operator takes it with other
    /// axes: then all are inputs.
    fn filters(
        &mut self,
        node: &Node,
        axes: &[Axis],
        outputs: u64,
    ) -> Option<impl Iterator<Item = (&'static str, String)> + use<>> {
        let (id, weight) = self.tensor(node.input(1)?)?;
        let name = weight.name.to_string();
        let bias = match node.input(2) {
            Some(bias) => Some(("bias", self.bias(bias, outputs)?)),
            None => None,
        };
        self.claim(id, axes).then(|| std::iter::once(("weight", name)).chain(bias))
    }

    pub(super) fn gather(&mut self, node: &'a Node) -> Read<()> {
        let (data, indices) =
            (node.input(0).ok_or("lacks its input")?, node.input(1).ok_or("lacks its indices")?);
        let axis = node.int("axis").unwrap_or(0);
        let is_table = |rank: usize| rank == 2 && (axis == 0 || axis == -2);
        let table =
            self.tensor(data).filter(|(_, tensor)| is_table(tensor.shape.rank()) && tensor.dtype.is_float());
        let table = table.map(|(id, tensor)| (id, tensor.name.clone()));
        let is_number = self.shape(indices).is_some_and(|shape| shape.is_empty());
        if let Some((_, name)) =
            table.filter(|(id, _)| !is_number && self.claim(*id, &[Axis::Feature, Axis::Out]))
        {
            let output = node.outputs.first().ok_or("lacks its output")?;
            let mut layer = Layer::new(String::new(), Op::Gather).parameter("weight", name);
            layer.inputs = vec![self.operand(indices)?];
            layer.outputs = vec![output.clone()];
            self.push(node.layer(), layer);
            let width = self.shape(data).and_then(|shape| shape.last().copied());
            let shape = self.shape(indices).zip(width).map(|(shape, width)| [&shape[..], &[width]].concat());
            self.set_shape(output, shape);
            return Ok(());
        }
        let inputs = self.operands(node)?;
        self.emit(node, Op::Gather, inputs, Attributes::new().int("axis", axis))
    }

    pub(super) fn einsum(&mut self, node: &'a Node) -> Read<()> {
        let equation = node.text("equation").ok_or("lacks its equation")?.to_owned();
        let inputs = self.operands(node)?;
        let attributes = Attributes::new().with("equation", Attribute::Text(equation));
        self.emit_one(node, Op::Einsum, inputs, attributes, None)
    }
}
