//! Rewrites a graph of quantized tensors to integer arithmetic, as chess engines compute it.

use crate::lower::integer_bits;
use crate::op;
use crate::value::Parameters;
use ckpt_api::{Attribute, Error, Graph, Node, Op, Result, Tensor};
use std::collections::{HashMap, HashSet};

/// Returns a graph that computes with the stored integers of quantized tensors, not with the real numbers that they
/// represent.
///
/// Every value has a scale, the integer units per 1.0. Divisions round towards zero.
/// - The result of a [`FeatureTransformer`](op::FEATURE_TRANSFORMER) has its tensors' scale (QA). It is computed in 32
///   bits; the 16 bits of an engine may wrap around.
/// - [`Clip`](Op::Clip) multiplies its bounds by the scale. A product has the product of the scales.
/// - A matrix product has the scale of its input times that of its weight. If the bias has another scale, the product
///   is first divided to match it: after SCReLU, `Σ clamp(a, 0, QA)²·w` has scale QA·QA·QB and the bias QA·QB, so the
///   sum is divided by QA. After CReLU, both have QA·QB.
/// - Values that are concatenated or added are divided to the smallest of their scales.
/// - An integer result is multiplied by `output_scale` (400 in bullet's engines) and divided by its scale.
///
/// Where a tensor is not quantized, integers are converted to real numbers ([`DEQUANTIZE`](op::DEQUANTIZE)), and the
/// following nodes compute with these. `output_scale` does not apply to real results.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`], naming the node, for tensors without a scale or whose scales do not fit each other.
pub fn integer_graph(graph: &Graph, parameters: &dyn Parameters, output_scale: i32) -> Result<Graph> {
    graph.check()?;
    let names = graph.nodes.iter().flat_map(|node| node.outputs.iter().chain([&node.name]));
    let names = names.chain(graph.inputs.iter().map(|input| &input.name)).cloned();
    let mut builder = Builder {
        parameters,
        nodes: Vec::new(),
        made: HashMap::new(),
        appended: HashMap::new(),
        taken: names.collect(),
    };
    for input in &graph.inputs {
        builder.made.insert(input.name.clone(), Made { name: input.name.clone(), scale: None });
    }
    for node in &graph.nodes {
        builder.node(node).map_err(|error| error.field(&node.name))?;
    }
    let mut outputs = graph.outputs.clone();
    for output in &mut outputs {
        let made = builder.made(&output.name)?;
        let given = match made.scale {
            Some(scale) => builder.rescale(made, i64::from(output_scale), scale, None)?,
            None => made,
        };
        output.name = given.name;
    }
    let Graph { name, inputs, .. } = graph.clone();
    Ok(Graph { name, inputs, outputs, nodes: builder.nodes })
}

/// The value that replaces a value of the original graph.
#[derive(Clone, Debug)]
struct Made {
    name: String,
    /// `None` for real numbers, and for indices.
    scale: Option<u64>,
}

struct Builder<'a> {
    parameters: &'a dyn Parameters,
    nodes: Vec<Node>,
    made: HashMap<String, Made>,
    /// Added values, by the names that they should have.
    appended: HashMap<String, Made>,
    taken: HashSet<String>,
}

/// The elements of a tensor.
#[derive(Clone, Copy, PartialEq)]
enum Elements {
    Reals,
    Integers(u64),
}

impl Builder<'_> {
    fn node(&mut self, node: &Node) -> Result<()> {
        match &node.op {
            Op::If | Op::Loop => Err(Error::unsupported(
                "branches and loops are not computed in the integers of quantized tensors",
            )),
            Op::Gather if node.parameters.contains_key("weight") => self.lookup(node),
            Op::Gather => {
                let scale = self.first(node)?.scale;
                self.keep(node, scale)
            }
            Op::Gemm => self.product(node),
            Op::Clip | Op::Pad => self.scale_numbers(node),
            Op::Mul => self.multiply(node),
            Op::Concat | Op::Add => self.join(node),
            Op::Relu
            | Op::Identity
            | Op::Split
            | Op::Slice
            | Op::Reshape
            | Op::Flatten
            | Op::Transpose
            | Op::MaxPool => {
                let scale = self.first(node)?.scale.filter(|_| node.op != Op::MaxPool);
                match scale {
                    Some(scale) => self.keep(node, Some(scale)),
                    None => self.real(node),
                }
            }
            op => match op.name() {
                op::FEATURE_TRANSFORMER => self.lookup(node),
                op::BUCKETED_GEMM => self.product(node),
                op::SQUARE => self.multiply(node),
                _ => self.real(node),
            },
        }
    }

    fn made(&self, name: &str) -> Result<Made> {
        let made = self.made.get(name).cloned();
        made.ok_or_else(|| {
            Error::corrupt("an input of a layer is not the output of an earlier layer").found(name)
        })
    }

    fn first(&self, node: &Node) -> Result<Made> {
        self.made(node.inputs.first().map_or("", String::as_str))
    }

    /// Returns the values that replace a node's inputs.
    fn inputs(&self, node: &Node) -> Result<Vec<Made>> {
        let absent = Made { name: String::new(), scale: None };
        let made = |name: &String| if name.is_empty() { Ok(absent.clone()) } else { self.made(name) };
        node.inputs.iter().map(made).collect()
    }

    /// Adds a node with these inputs.
    fn push(&mut self, node: &Node, inputs: Vec<Made>, scale: Option<u64>) {
        let mut node = node.clone();
        node.inputs = inputs.into_iter().map(|made| made.name).collect();
        for output in &node.outputs {
            self.made.insert(output.clone(), Made { name: output.clone(), scale });
        }
        self.nodes.push(node);
    }

    /// Adds a node with the values that replace its inputs.
    fn keep(&mut self, node: &Node, scale: Option<u64>) -> Result<()> {
        let inputs = self.inputs(node)?;
        self.push(node, inputs, scale);
        Ok(())
    }

    /// Adds a node that computes with real numbers.
    fn real(&mut self, node: &Node) -> Result<()> {
        let inputs = self.inputs(node)?;
        let inputs = inputs.into_iter().map(|made| self.dequantize(made)).collect::<Result<Vec<_>>>()?;
        self.push(node, inputs, None);
        Ok(())
    }

    fn dequantize(&mut self, made: Made) -> Result<Made> {
        let Some(scale) = made.scale else { return Ok(made) };
        let divide = i64::try_from(scale).map_err(|_| too_fine(scale))?;
        let node = Node::new(format!("{}/real", made.name), Op::custom(op::DEQUANTIZE));
        Ok(self.append(node.attribute("divide", Attribute::Int(divide)), made, None))
    }

    /// Adds `value·multiply / divide`.
    fn rescale(&mut self, made: Made, multiply: i64, divide: u64, scale: Option<u64>) -> Result<Made> {
        let divide = i64::try_from(divide).map_err(|_| too_fine(divide))?;
        let node = Node::new(format!("{}/times_{multiply}_by_{divide}", made.name), Op::custom(op::SCALE))
            .attribute("multiply", Attribute::Int(multiply))
            .attribute("divide", Attribute::Int(divide));
        Ok(self.append(node, made, scale))
    }

    /// Adds a node with one input and one output of its own name, unless it exists already.
    fn append(&mut self, mut node: Node, from: Made, scale: Option<u64>) -> Made {
        if let Some(made) = self.appended.get(&node.name) {
            return made.clone();
        }
        let wanted = std::mem::take(&mut node.name);
        node.name = self.unique(&wanted);
        node.outputs = vec![node.name.clone()];
        node.inputs = vec![from.name];
        let made = Made { name: node.name.clone(), scale };
        self.appended.insert(wanted, made.clone());
        self.nodes.push(node);
        made
    }

    /// Returns a name like `wanted` that nothing has.
    fn unique(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.taken.insert(name.clone()) {
            name.push('#');
        }
        name
    }

    /// Divides a value to another scale, of which its own must be a multiple.
    fn rescale_to(&mut self, made: Made, scale: u64) -> Result<Made> {
        match made.scale {
            Some(own) if own == scale => Ok(made),
            Some(own) if scale > 0 && own.is_multiple_of(scale) => {
                self.rescale(made, 1, own / scale, Some(scale))
            }
            own => Err(no_fit(own.unwrap_or(1), scale)),
        }
    }

    fn tensor(&self, node: &Node, role: &str) -> Result<Option<Elements>> {
        let Some(name) = node.parameters.get(role) else { return Ok(None) };
        let tensor = self.parameters.tensor(name).ok_or_else(|| {
            Error::corrupt("the layer is bound to a tensor that does not exist").tensor(name)
        })?;
        elements(tensor).map(Some)
    }

    fn lookup(&mut self, node: &Node) -> Result<()> {
        let Some(Elements::Integers(scale)) = self.tensor(node, "weight")? else {
            return self.keep(node, None);
        };
        for role in ["factoriser", "bias"] {
            match self.tensor(node, role)? {
                None => {}
                Some(Elements::Integers(own)) if own == scale => {}
                Some(Elements::Integers(own)) => return Err(no_fit(own, scale)),
                // Compute in real numbers.
                Some(Elements::Reals) => return self.keep(node, None),
            }
        }
        let node = node.clone().attribute("arithmetic", Attribute::Text("integer".into()));
        self.keep(&node, Some(scale))
    }

    /// Multiplies the attributes that are numbers by the scale.
    fn scale_numbers(&mut self, node: &Node) -> Result<()> {
        let Some(scale) = self.first(node)?.scale else { return self.keep(node, None) };
        let mut node = node.clone();
        for value in node.attributes.values_mut() {
            #[expect(clippy::cast_precision_loss, reason = "scales and bounds are small")]
            let bound = match value {
                Attribute::Float(bound) => *bound * scale as f64,
                Attribute::Int(bound) => *bound as f64 * scale as f64,
                _ => continue,
            };
            *value = Attribute::Float(bound);
        }
        self.keep(&node, Some(scale))
    }

    fn multiply(&mut self, node: &Node) -> Result<()> {
        let factors: Vec<&str> = match (node.op.name(), &node.inputs[..]) {
            (op::SQUARE, [x]) => vec![x, x],
            (_, inputs) => inputs.iter().map(String::as_str).collect(),
        };
        let scales =
            factors.iter().map(|name| Ok(self.made(name)?.scale)).collect::<Result<Option<Vec<u64>>>>()?;
        match scales {
            None => self.real(node),
            Some(scales) => {
                let product = scales.iter().try_fold(1u64, |product, scale| product.checked_mul(*scale));
                self.keep(node, Some(product.ok_or_else(|| too_fine(u64::MAX))?))
            }
        }
    }

    fn join(&mut self, node: &Node) -> Result<()> {
        let inputs = self.inputs(node)?;
        let scales: Option<Vec<u64>> = inputs.iter().map(|made| made.scale).collect();
        let Some(least) = scales.and_then(|scales| scales.into_iter().min()) else { return self.real(node) };
        let inputs =
            inputs.into_iter().map(|made| self.rescale_to(made, least)).collect::<Result<Vec<_>>>()?;
        self.push(node, inputs, Some(least));
        Ok(())
    }

    fn product(&mut self, node: &Node) -> Result<()> {
        let Some(x) = self.first(node)?.scale else { return self.real(node) };
        let Some(Elements::Integers(weight)) = self.tensor(node, "weight")? else { return self.real(node) };
        let scale = x.checked_mul(weight).ok_or_else(|| too_fine(u64::MAX))?;
        let bias = self.tensor(node, "bias")?;
        if bias.is_none() || bias == Some(Elements::Integers(scale)) {
            return self.keep(node, Some(scale));
        }
        // The sum is divided to the bias's scale before the bias is added.
        let mut sum = node.clone();
        let tensor = sum.parameters.remove("bias").unwrap_or_default();
        sum.name = self.unique(&format!("{}/sum", node.name));
        sum.outputs = vec![sum.name.clone()];
        self.keep(&sum, Some(scale))?;
        let made = Made { name: sum.name, scale: Some(scale) };
        let rescaled = match bias {
            Some(Elements::Integers(own)) => self.rescale_to(made, own)?,
            _ => self.dequantize(made)?,
        };
        let mut add = Node::new(node.name.as_str(), Op::custom(op::BIAS)).parameter("bias", tensor);
        add.outputs.clone_from(&node.outputs);
        let scale = rescaled.scale;
        let mut inputs = self.inputs(node)?;
        if let Some(first) = inputs.first_mut() {
            *first = rescaled;
        }
        self.push(&add, inputs, scale);
        Ok(())
    }
}

/// Returns the kind of a tensor's elements, and the scale of integers.
fn elements(tensor: &Tensor) -> Result<Elements> {
    match (integer_bits(tensor.dtype), tensor.scale()) {
        (Some(_), Some(scale)) => Ok(Elements::Integers(u64::from(scale.get()))),
        (Some(_), None) => {
            Err(Error::unsupported("the source does not record the scale of a tensor of integers")
                .tensor(&tensor.name)
                .found(tensor.dtype.name())
                .expected("a quantization"))
        }
        (None, _) => Ok(Elements::Reals),
    }
}

fn no_fit(found: u64, expected: u64) -> Error {
    Error::unsupported("the scales do not match in integer arithmetic")
        .found(found.to_string())
        .expected(format!("a multiple of {expected}"))
}

fn too_fine(scale: u64) -> Error {
    Error::unsupported("a scale is too large for 32-bit integers").found(scale.to_string())
}
