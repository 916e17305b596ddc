//! Constants of a graph that become numbers of the configuration.

use ckpt_api::{Attribute, Contents, DType, Graph, Op, Result, Tensor, Values};
use std::collections::{HashMap, HashSet};

/// The longest constant, in numbers: the configuration is text.
const MOST: u64 = 1024;

/// States small constants in the graph: operations of Keras take numbers, and no stored tensors. The tensors themselves stay.
///
/// # Errors
/// Those of reading values.
pub(crate) fn prepare(values: &dyn Values, contents: &Contents) -> Result<Option<Contents>> {
    let checkpoint = &contents.checkpoint;
    let Some(graph) = &checkpoint.graph else { return Ok(None) };
    let by_name = checkpoint.by_name();
    let mut stated = HashMap::new();
    for constant in constants(graph) {
        let Some(id) = by_name.get(constant.tensor).copied() else { continue };
        let Some(tensor) = checkpoint.tensors.get(id.0).filter(|tensor| constant.is_stated(tensor)) else {
            continue;
        };
        let mut numbers = Vec::new();
        values.numbers(id, &mut |part| numbers.extend(part.iter().map(|number| f64::from(*number))))?;
        // Text has no numbers that are not finite, and integers beyond these are no 32-bit floats.
        let is_exact = |number: &f64| {
            number.is_finite()
                && (tensor.dtype.is_float() || number.abs() < f64::from(1 << f32::MANTISSA_DIGITS))
        };
        if numbers.iter().all(is_exact) {
            stated.insert(constant.node, attributes(tensor, numbers));
        }
    }
    if stated.is_empty() {
        return Ok(None);
    }
    let mut prepared = contents.clone();
    for (at, attributes) in stated {
        let node = prepared.checkpoint.graph.as_mut().and_then(|graph| graph.nodes.get_mut(at));
        if let Some(node) = node {
            node.parameters.clear();
            node.attributes.extend(attributes);
        }
    }
    Ok(Some(prepared))
}

/// A stored constant.
struct Constant<'a> {
    /// The node, by its position.
    node: usize,
    tensor: &'a str,
    /// What takes it, and as which of its inputs.
    takers: Vec<(&'a Op, usize)>,
}

impl Constant<'_> {
    /// Whether the layers and operations that take it have its numbers.
    fn is_stated(&self, tensor: &Tensor) -> bool {
        let elements = tensor.shape.elements();
        let is_number = matches!(
            tensor.dtype,
            DType::F32
                | DType::F16
                | DType::Bf16
                | DType::I64
                | DType::I32
                | DType::I16
                | DType::I8
                | DType::U8
        );
        let takes = |(op, input): &(&Op, usize)| match op {
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Max
            | Op::Min
            | Op::Pow
            | Op::Less
            | Op::LessOrEqual
            | Op::Greater
            | Op::GreaterOrEqual
            | Op::Equal
            | Op::Where => true,
            Op::Gather => *input == 1,
            // The slope of a layer without weights.
            Op::PRelu => *input == 1 && elements == 1,
            _ => false,
        };
        is_number && elements <= MOST && !self.takers.is_empty() && self.takers.iter().all(takes)
    }
}

fn constants(graph: &Graph) -> Vec<Constant<'_>> {
    let mut takers: HashMap<&str, Vec<(&Op, usize)>> = HashMap::new();
    for node in &graph.nodes {
        for (at, input) in node.inputs.iter().enumerate() {
            takers.entry(input).or_default().push((&node.op, at));
        }
    }
    let outputs: HashSet<&str> = graph.outputs.iter().map(|output| output.name.as_str()).collect();
    let all = graph.nodes.iter().enumerate().filter(|(_, node)| node.op == Op::Constant);
    let stored = all.filter_map(|(at, node)| {
        let (result, tensor) = (node.outputs.first()?, node.parameters.get("value")?);
        let takers = takers.remove(result.as_str())?;
        (!outputs.contains(result.as_str())).then_some(Constant { node: at, tensor, takers })
    });
    stored.collect()
}

fn attributes(tensor: &Tensor, numbers: Vec<f64>) -> Vec<(String, Attribute)> {
    match (tensor.shape.rank(), &numbers[..]) {
        (0, [number]) => vec![("value_float".to_owned(), Attribute::Float(*number))],
        _ => {
            let shape = tensor.shape.iter().filter_map(|len| i64::try_from(*len).ok()).collect();
            vec![
                ("value_floats".to_owned(), Attribute::Floats(numbers)),
                ("shape".to_owned(), Attribute::Ints(shape)),
            ]
        }
    }
}
