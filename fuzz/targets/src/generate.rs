//! Arbitrary checkpoints.

use arbitrary::{Result, Unstructured};
use ckpt_api::{
    Axis, Checkpoint, DType, Graph, Metadata, MetadataMap, MetadataValue, Name, Node, Op, Quantization, Role,
    Shape, Slot, Tensor,
};
use std::num::NonZeroU32;

/// A checkpoint and the values of its tensors: little-endian, row-major, an element in whole bytes.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// What it is.
    pub checkpoint: Checkpoint,
    /// One for each tensor.
    pub values: Vec<Vec<u8>>,
}

impl Given {
    /// Adds a tensor with some values.
    ///
    /// # Errors
    /// Where the input ends.
    pub fn push(&mut self, u: &mut Unstructured, tensor: Tensor) -> Result<()> {
        self.values.push(values(u.arbitrary()?, &tensor));
        self.checkpoint.tensors.push(tensor);
        Ok(())
    }
}

/// Tensors of these dtypes, at most 6 and small, each with another name put together from `parts`.
///
/// # Errors
/// Where the input ends.
pub fn tensors(u: &mut Unstructured, dtypes: &[DType], parts: &[&str]) -> Result<Given> {
    let mut given = Given::default();
    for name in names(u, parts)? {
        let dtype = *u.choose(dtypes)?;
        let mut dims = dims(u, 4, 0)?;
        if dtype.bits().is_some_and(|bits| bits < 8) {
            // So that the elements fill whole bytes.
            dims.push(4);
        }
        let mut tensor = Tensor::new(name, dtype, Shape::new(dims).expect("a small shape"));
        if dtype.bytes().is_none() {
            // An element of a variant is a message, of which the empty one is every format's.
            let most = if dtype == DType::String { 200 } else { 0 };
            let lengths = (0..tensor.shape.elements()).map(|_| u.int_in_range(0..=most));
            tensor.lengths = Some(lengths.collect::<Result<_>>()?);
        }
        given.push(u, tensor)?;
    }
    Ok(given)
}

/// Up to `rank` lengths of at least `least`.
///
/// # Errors
/// Where the input ends.
pub fn dims(u: &mut Unstructured, rank: usize, least: u64) -> Result<Vec<u64>> {
    (0..u.int_in_range(0..=rank)?).map(|_| u.int_in_range(least..=5)).collect()
}

/// Names that differ.
fn names(u: &mut Unstructured, parts: &[&str]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for _ in 0..u.int_in_range(0..=6)? {
        let parts = (0..u.int_in_range(0..=4)?).map(|_| u.choose(parts).copied());
        let name = parts.collect::<Result<Vec<&str>>>()?.concat();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Bytes that depend on the seed, within what the dtype has bits for.
fn values(seed: u64, tensor: &Tensor) -> Vec<u8> {
    let mask = tensor.dtype.bits().map_or(u8::MAX, |bits| u8::MAX >> 8u32.saturating_sub(bits));
    let byte = |k: u64| (seed ^ k).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(11) as u8;
    (0..tensor.value_bytes()).map(|k| byte(k) & mask).collect()
}

/// Says of the tensors, and of the checkpoint, what only this project's own formats can.
///
/// # Errors
/// Where the input ends.
pub fn describe(u: &mut Unstructured, checkpoint: &mut Checkpoint) -> Result<()> {
    let names: Vec<Name> = checkpoint.tensors.iter().map(|tensor| tensor.name.clone()).collect();
    for tensor in &mut checkpoint.tensors {
        if u.arbitrary()? {
            let axes =
                [Axis::In, Axis::Out, Axis::KernelY, Axis::KernelX, Axis::Bucket, Axis::Feature, Axis::Unit];
            let axes = (0..tensor.shape.rank()).map(|_| u.choose(&axes).copied());
            tensor.axes = Some(axes.collect::<Result<_>>()?);
        }
        tensor.role = *u.choose(&Role::ALL)?;
        if u.arbitrary()? {
            let scale = NonZeroU32::new(u.arbitrary()?).unwrap_or(NonZeroU32::MIN);
            tensor.quantization = Some(Quantization::Units { scale });
        }
        if u.arbitrary()? {
            tensor.slot = Some(Box::new(Slot { variable: u.choose(&names)?.clone(), name: text(u)? }));
        }
        tensor.metadata = metadata(u)?;
    }
    checkpoint.metadata = metadata(u)?;
    Ok(())
}

/// Values of all kinds, under names that formats use and others.
fn metadata(u: &mut Unstructured) -> Result<Metadata> {
    let mut metadata = Metadata::default();
    for _ in 0..u.int_in_range(0..=3)? {
        let namespace = *u.choose(&["safetensors", "safetensors.index", "nn", "tf2", "", "ä"])?;
        let value: MetadataValue = match u.int_in_range(0..=8)? {
            0 => MetadataValue::Null,
            1 => u.arbitrary::<bool>()?.into(),
            2 => u.arbitrary::<i64>()?.into(),
            3 => u.arbitrary::<f64>()?.into(),
            4 => {
                let list: [MetadataValue; 2] =
                    [text(u)?.into(), MetadataMap::from_iter([(text(u)?, text(u)?)]).into()];
                list.into()
            }
            5 => u.arbitrary::<u32>()?.into(),
            6 => u.arbitrary::<f32>()?.into(),
            7 => MetadataValue::Bytes(u.arbitrary::<[u8; 5]>()?.to_vec()),
            _ => text(u)?.into(),
        };
        metadata.insert(namespace, &text(u)?, value);
    }
    Ok(metadata)
}

fn text(u: &mut Unstructured) -> Result<String> {
    let parts = ["a", "ckpt", "format", "\"", "\\", "\0", "ä", "\u{10ffff}", "total_size", "{}"];
    let text = (0..u.int_in_range(0..=2)?).map(|_| u.choose(&parts).copied());
    Ok(text.collect::<Result<Vec<&str>>>()?.concat())
}

/// What may follow a dense layer.
const ACTIVATIONS: [Op; 5] = [Op::Relu, Op::Sigmoid, Op::Tanh, Op::Softmax, Op::Flatten];

/// A chain of dense layers with weights in either order of axes, each with a bias, and activations between them. Its tensors
/// are a weight and a bias in turn.
///
/// # Errors
/// Where the input ends.
pub fn dense(u: &mut Unstructured) -> Result<Given> {
    let mut given = Given::default();
    let mut nodes = Vec::new();
    let first = u.int_in_range(1..=5)?;
    let mut width = first;
    for layer in 0..u.int_in_range(1..=4)? {
        let outputs: u64 = u.int_in_range(1..=5)?;
        let (weight, bias) = (format!("{layer}/w"), format!("{layer}/b"));
        let node = Node::new(format!("dense{layer}"), Op::Gemm);
        nodes.push(node.parameter("weight", weight.as_str()).parameter("bias", bias.as_str()));
        if u.arbitrary()? {
            nodes.push(Node::new(format!("activation{layer}"), u.choose(&ACTIVATIONS)?.clone()));
        }
        let (dims, axes) = match u.arbitrary()? {
            true => ([width, outputs], [Axis::In, Axis::Out]),
            false => ([outputs, width], [Axis::Out, Axis::In]),
        };
        let shape = |dims: &[u64]| Shape::new(dims).expect("a small shape");
        given.push(u, Tensor::new(weight, DType::F32, shape(&dims)).with_axes(axes))?;
        given.push(u, Tensor::new(bias, DType::F32, shape(&[outputs])).with_axes([Axis::Out]))?;
        width = outputs;
    }
    let graph = Graph::sequential("", vec![None, Some(first)], vec![None, Some(width)], nodes);
    given.checkpoint.graph = Some(graph);
    Ok(given)
}
