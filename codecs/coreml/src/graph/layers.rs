//! Layers with weights.

use super::{Lowering, Read, Val};
use crate::read::Operation;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_graph::{int, ints};

/// The axes of kernels of one to three dimensions.
const KERNEL: [Axis; 3] = [Axis::KernelZ, Axis::KernelY, Axis::KernelX];

impl Lowering<'_, '_> {
    /// Lowers a layer; `None` if it is another operation.
    pub(super) fn layer(&mut self, operation: &Operation) -> Read<Option<Val>> {
        let made = match operation.op.as_str() {
            "linear" => self.linear(operation)?,
            "matmul" => self.matmul(operation)?,
            "conv" => self.conv(operation)?,
            "conv_transpose" => self.transposed(operation)?,
            "batch_norm" => self.batch_norm(operation)?,
            "instance_norm" => self.instance_norm(operation)?,
            "layer_norm" => self.layer_norm(operation)?,
            "gather" => self.gather(operation)?,
            "max_pool" => self.pool(operation, Op::MaxPool)?,
            "avg_pool" => self.pool(operation, Op::AveragePool)?,
            _ => return Ok(None),
        };
        Ok(Some(made))
    }

    /// A node with its bias, if it has one.
    fn biased(&mut self, operation: &Operation, node: Node) -> Read<Node> {
        Ok(match operation.argument("bias") {
            Some(_) => {
                let (bias, _) = self.claim(operation, "bias", &[Axis::Out])?;
                node.parameter("bias", bias)
            }
            None => node,
        })
    }

    fn linear(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let (weight, _) = self.claim(operation, "weight", &[Axis::Out, Axis::In])?;
        let node = self.builder.node(Op::Gemm).parameter("weight", weight);
        let node = self.biased(operation, node)?;
        let dims = self.made(operation);
        self.builder.plain(node, &[&x], dims)
    }

    fn matmul(&mut self, operation: &Operation) -> Read<Val> {
        let dims = self.made(operation);
        let (turns_x, turns_y) =
            (self.flag(operation, "transpose_x", false)?, self.flag(operation, "transpose_y", false)?);
        let mut x = self.take(operation, "x")?;
        if turns_x {
            x = self.swapped(&x)?;
        }
        let is_matrix = self.weight(operation, "y").is_some_and(|(_, tensor)| tensor.shape.rank() == 2);
        if is_matrix && x.rank() > 1 {
            let axes = if turns_y { [Axis::Out, Axis::In] } else { [Axis::In, Axis::Out] };
            let (weight, _) = self.claim(operation, "y", &axes)?;
            let node = self.builder.node(Op::Gemm).parameter("weight", weight);
            return self.builder.plain(node, &[&x], dims);
        }
        let mut y = self.take(operation, "y")?;
        if turns_y {
            y = self.swapped(&y)?;
        }
        let node = self.builder.node(Op::MatMul);
        self.builder.plain(node, &[&x, &y], dims)
    }

    /// Exchanges the last two axes.
    fn swapped(&mut self, val: &Val) -> Read<Val> {
        let mut order: Vec<usize> = (0..val.rank()).collect();
        let [.., a, b] = &mut order[..] else {
            return Err("multiplies values that are no matrices".to_owned());
        };
        std::mem::swap(a, b);
        self.builder.transpose(val, &order)
    }

    /// The axes of a kernel of so many dimensions, after those of channels.
    fn kernel(channels: [Axis; 2], sides: usize) -> Read<Vec<Axis>> {
        let first = KERNEL.len().checked_sub(sides).ok_or("has a kernel of more than three dimensions")?;
        Ok(channels.into_iter().chain(KERNEL.iter().skip(first).copied()).collect())
    }

    fn conv(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let sides = x.rank().checked_sub(2).filter(|sides| *sides > 0).ok_or("takes no image")?;
        let axes = Self::kernel([Axis::Out, Axis::In], sides)?;
        let (weight, shape) = self.claim(operation, "weight", &axes)?;
        let node = self.builder.node(Op::Conv).parameter("weight", weight);
        let node = self.biased(operation, node)?;
        let kernel = shape.get(2..).unwrap_or_default().to_vec();
        let node = self.windowed(operation, node, &x, &kernel, &self.made(operation))?;
        let node = self.grouped(operation, node)?;
        let dims = self.made(operation);
        self.builder.plain(node, &[&x], dims)
    }

    fn grouped(&self, operation: &Operation, node: Node) -> Read<Node> {
        let groups = self.int_or(operation, "groups", 1)?;
        Ok(if groups == 1 { node } else { node.attribute("group", Attribute::Int(groups)) })
    }

    fn transposed(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let sides = x.rank().checked_sub(2).filter(|sides| *sides > 0).ok_or("takes no image")?;
        let axes = Self::kernel([Axis::In, Axis::Out], sides)?;
        let (weight, shape) = self.claim(operation, "weight", &axes)?;
        let node = self.builder.node(Op::ConvTranspose).parameter("weight", weight);
        let node = self.biased(operation, node)?;
        let kernel = shape.get(2..).unwrap_or_default().to_vec();
        let dims = self.made(operation);
        let node = self.transposed_window(operation, node, &x, &kernel, &dims)?;
        let node = self.grouped(operation, node)?;
        self.builder.plain(node, &[&x], dims)
    }

    fn batch_norm(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let epsilon = self.float_or(operation, "epsilon", 1e-5)?;
        let node = self.builder.node(Op::BatchNormalization).attribute("epsilon", Attribute::Float(epsilon));
        let mut node = self.scaled(operation, node)?;
        for own in ["mean", "variance"] {
            let (name, _) = self.claim(operation, own, &[Axis::Out])?;
            node = node.parameter(own, name);
        }
        self.builder.map(node, &x)
    }

    fn instance_norm(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let epsilon = self.float_or(operation, "epsilon", 1e-5)?;
        let node =
            self.builder.node(Op::InstanceNormalization).attribute("epsilon", Attribute::Float(epsilon));
        let node = self.scaled(operation, node)?;
        self.builder.map(node, &x)
    }

    /// A node with scale and bias, if the operation has them.
    fn scaled(&mut self, operation: &Operation, mut node: Node) -> Read<Node> {
        for (own, role) in [("gamma", "scale"), ("beta", "bias")] {
            if operation.argument(own).is_some() {
                let (name, _) = self.claim(operation, own, &[Axis::Out])?;
                node = node.parameter(role, name);
            }
        }
        Ok(node)
    }

    fn layer_norm(&mut self, operation: &Operation) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let rank = x.rank();
        let axes = match operation.argument("axes") {
            Some(_) => self.axes(operation, "axes", rank)?,
            None => (0..rank).collect(),
        };
        if axes.len() != 1 || axes.first().copied() != rank.checked_sub(1) {
            return Err(format!("normalizes over axes {axes:?} of {rank}"));
        }
        let epsilon = self.float_or(operation, "epsilon", 1e-5)?;
        let node = self.builder.node(Op::LayerNormalization).attribute("epsilon", Attribute::Float(epsilon));
        let node = self.scaled(operation, node)?;
        self.builder.map(node, &x)
    }

    fn gather(&mut self, operation: &Operation) -> Read<Val> {
        let dims = self.made(operation);
        if self.int_or(operation, "batch_dims", 0)? != 0 {
            return Err("takes the elements of each example by itself".to_owned());
        }
        let indices = self.take(operation, "indices")?;
        let axis = self.int_or(operation, "axis", 0)?;
        let is_table = self.weight(operation, "x").is_some_and(|(_, tensor)| tensor.shape.rank() == 2);
        if is_table && axis == 0 {
            let (weight, _) = self.claim(operation, "x", &[Axis::Feature, Axis::Out])?;
            let node = self.builder.node(Op::Gather).parameter("weight", weight);
            return self.builder.plain(node, &[&indices], dims);
        }
        let x = self.take(operation, "x")?;
        let node = self.builder.node(Op::Gather).attribute("axis", Attribute::Int(axis));
        self.builder.plain(node, &[&x, &indices], dims)
    }

    fn pool(&mut self, operation: &Operation, op: Op) -> Read<Val> {
        let x = self.take(operation, "x")?;
        let kernel = self.ints(operation, "kernel_sizes")?;
        let sides: Option<Vec<u64>> = kernel.iter().map(|len| u64::try_from(*len).ok()).collect();
        let sides = sides.ok_or("has a window of a negative length")?;
        let node = self.builder.node(op.clone()).attribute("kernel_shape", ints(&kernel)?);
        let dims = self.made(operation);
        let mut node = self.windowed(operation, node, &x, &sides, &dims)?;
        if self.flag(operation, "ceil_mode", false)? {
            node = node.attribute("ceil_mode", Attribute::Int(1));
        }
        if op == Op::AveragePool && !self.flag(operation, "exclude_padding_from_average", false)? {
            node = node.attribute("count_include_pad", Attribute::Int(int(1)?));
        }
        self.builder.plain(node, &[&x], dims)
    }
}
