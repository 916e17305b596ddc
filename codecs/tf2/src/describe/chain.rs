//! From steps as TensorFlow has them to a graph of ONNX operators.
//!
//! TensorFlow's images are `[N, H, W, C]`, ONNX's operators take `[N, C, H, W]`: a `Transpose` stands wherever one
//! turns into the other, so that the graph says exactly what the model computes.

use super::{Catalog, last, path};
use ckpt_api::{Activation, Attribute, Axis, Graph, Node, Op, Shape};
use std::collections::BTreeMap;

/// Why there is no chain, as a clause for a sentence.
#[derive(Debug)]
pub(super) struct Why(pub String);

/// What chains are bound to.
pub(super) struct Context<'a> {
    pub catalog: &'a Catalog<'a>,
    pub names: &'a BTreeMap<String, String>,
}

/// A finished chain.
#[derive(Debug)]
pub(super) struct Chain {
    pub graph: Graph,
    pub axes: BTreeMap<String, Vec<Axis>>,
    pub notes: Vec<String>,
}

/// One step on a batch, images in `[N, H, W, C]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Dense {
        name: Option<String>,
        weight: String,
        bias: Option<String>,
        transposed: bool,
    },
    Conv {
        name: Option<String>,
        weight: String,
        bias: Option<String>,
        window: Window,
    },
    Pool {
        op: Op,
        kernel: [u64; 2],
        window: Window,
    },
    GlobalAveragePool {
        keep: bool,
    },
    Normalize {
        name: Option<String>,
        parameters: Vec<(&'static str, String)>,
        epsilon: f64,
        axis: Option<usize>,
    },
    /// To `[N, features]`; how many, where the source says it.
    Flatten(Option<u64>),
    /// Elementwise or softmax: an operator with its attributes.
    Apply(Op, Vec<(&'static str, Attribute)>),
    /// The activation of the layer before, which the source does not state.
    Unstated,
}

/// How a window moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Window {
    pub strides: [u64; 2],
    pub dilations: [u64; 2],
    /// Padded so that the output has ⌈input / stride⌉ rows and columns; else not padded.
    pub same: bool,
}

impl Step {
    /// The step of a named activation; `None` for linear.
    pub fn activation(activation: Activation) -> Option<Step> {
        activation.op().map(|op| Step::Apply(op, Vec::new()))
    }
}

/// Far above what models have; naming steps that share a name takes time with the square of their number.
pub(super) const MOST_STEPS: usize = 4096;

/// Lengths of axes, `None` where free or unknown.
pub(super) type Dims = Vec<Option<u64>>;

struct Builder<'a> {
    context: &'a Context<'a>,
    nodes: Vec<Node>,
    axes: BTreeMap<String, Vec<Axis>>,
    /// `[N, H, W, C]` or `[N, features]`.
    dims: Dims,
    channels_first: bool,
    /// The name of the layer before.
    layer: String,
    /// Layers without a name so far, by kind.
    unnamed: BTreeMap<&'static str, u64>,
}

impl Chain {
    /// Checks that each step's tensors fit what the step before makes, and wires them up.
    pub fn build(name: &str, input: Option<Dims>, steps: Vec<Step>, context: &Context) -> Result<Chain, Why> {
        if !steps.iter().any(|step| matches!(step, Step::Dense { .. } | Step::Conv { .. })) {
            return Err(Why("there is no layer with a weight".into()));
        }
        if steps.len() > MOST_STEPS {
            return Err(Why(format!("there are {} steps, more than any chain of layers has", steps.len())));
        }
        let input = match input {
            Some(dims) => dims,
            None => guess_input(&steps, context)?,
        };
        let mut builder = Builder {
            context,
            nodes: Vec::new(),
            axes: BTreeMap::new(),
            dims: input.clone(),
            channels_first: false,
            layer: String::new(),
            unnamed: BTreeMap::new(),
        };
        for step in steps {
            builder.push(step)?;
        }
        builder.channels_last();
        let graph = Graph::sequential(name, input, builder.dims, builder.nodes);
        Ok(Chain { graph, axes: builder.axes, notes: Vec::new() })
    }
}

/// The input that the first layer with a weight asks for; only elementwise steps may come before it.
fn guess_input(steps: &[Step], context: &Context) -> Result<Dims, Why> {
    match steps.iter().find(|step| !matches!(step, Step::Apply(..) | Step::Unstated)) {
        Some(Step::Dense { weight, transposed, .. }) => {
            Ok(vec![None, shape(context, weight)?.get(usize::from(*transposed)).copied()])
        }
        Some(Step::Conv { weight, .. }) => {
            Ok(vec![None, None, None, shape(context, weight)?.get(2).copied()])
        }
        _ => Err(Why("the shape of the input is not stated".into())),
    }
}

fn shape<'a>(context: &Context<'a>, key: &str) -> Result<&'a Shape, Why> {
    let entry = context.catalog.get(key).filter(|entry| entry.dtype.is_float());
    entry.map(|entry| entry.shape).ok_or_else(|| Why(format!("the checkpoint has no numbers under '{key}'")))
}

/// A layer's own name: what comes before `/kernel` in its weight's name; `None` for an item of a list.
fn layer_name(context: &Context, key: &str) -> Option<String> {
    let name = context.names.get(key).map_or(path(key), String::as_str);
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    match name.rsplit_once('/') {
        Some((_, variable)) if is_number(variable) => None,
        Some((layer, _)) => Some(last(layer)).filter(|layer| !is_number(layer)).map(str::to_owned),
        None => Some(name.to_owned()),
    }
}

impl Builder<'_> {
    fn push(&mut self, step: Step) -> Result<(), Why> {
        match step {
            Step::Dense { name, weight, bias, transposed } => self.dense(name, weight, bias, transposed),
            Step::Conv { name, weight, bias, window } => self.conv(name, weight, bias, window),
            Step::Pool { op, kernel, window } => self.pool(op, kernel, window),
            Step::GlobalAveragePool { keep } => self.global_average_pool(keep),
            Step::Normalize { name, parameters, epsilon, axis } => {
                if axis.is_some() && axis != self.dims.len().checked_sub(1) {
                    return Err(Why("a batch normalization is not over the last axis".into()));
                }
                self.normalize(name, parameters, epsilon)
            }
            Step::Flatten(features) => self.flatten(features),
            Step::Apply(op, attributes) => self.apply(op, attributes),
            Step::Unstated => {
                self.nodes.push(Node::unspecified(&self.layer));
                Ok(())
            }
        }
    }

    fn dense(
        &mut self,
        name: Option<String>,
        weight: String,
        bias: Option<String>,
        transposed: bool,
    ) -> Result<(), Why> {
        let shape = shape(self.context, &weight)?;
        let (input, output) = match (&shape[..], transposed) {
            ([input, output], false) | ([output, input], true) => (*input, *output),
            _ => return Err(misfit(&weight, shape, "a matrix")),
        };
        match &self.dims[..] {
            [_, features] if features.is_none_or(|features| features == input) => {}
            found => return Err(Why(format!("'{weight}' takes {input} features, and gets {}", show(found)))),
        }
        self.bias(bias.as_deref(), output)?;
        self.layer = self.name(name, &weight, "dense");
        let axes = if transposed { vec![Axis::Out, Axis::In] } else { vec![Axis::In, Axis::Out] };
        self.axes.insert(weight.clone(), axes);
        let node = Node::new(self.layer.as_str(), Op::Gemm).parameter("weight", weight);
        self.nodes.push(bias.into_iter().fold(node, |node, bias| node.parameter("bias", bias)));
        self.dims = vec![None, Some(output)];
        Ok(())
    }

    fn bias(&mut self, bias: Option<&str>, features: u64) -> Result<(), Why> {
        let Some(bias) = bias else { return Ok(()) };
        let shape = shape(self.context, bias)?;
        if shape[..] != [features] {
            return Err(misfit(bias, shape, &format!("[{features}]")));
        }
        self.axes.insert(bias.to_owned(), vec![Axis::Out]);
        Ok(())
    }

    fn conv(
        &mut self,
        name: Option<String>,
        weight: String,
        bias: Option<String>,
        window: Window,
    ) -> Result<(), Why> {
        let shape = shape(self.context, &weight)?;
        let &[rows, columns, input, output] = &shape[..] else {
            return Err(misfit(&weight, shape, "four axes"));
        };
        let channels = self.image(&weight)?.unwrap_or(input);
        if input == 0 || channels % input != 0 {
            return Err(Why(format!("'{weight}' takes {input} channels, and gets {channels}")));
        }
        self.bias(bias.as_deref(), output)?;
        self.layer = self.name(name, &weight, "conv");
        self.axes.insert(weight.clone(), vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out]);
        self.channels_first();
        let mut node = Node::new(self.layer.as_str(), Op::Conv).parameter("weight", weight);
        node = self.slide(node, [rows, columns], window)?;
        if channels != input {
            node = node.attribute("group", Attribute::Int(int(channels / input)?));
        }
        self.nodes.push(bias.into_iter().fold(node, |node, bias| node.parameter("bias", bias)));
        self.set(3, Some(output));
        Ok(())
    }

    fn pool(&mut self, op: Op, kernel: [u64; 2], window: Window) -> Result<(), Why> {
        self.image(op.name())?;
        self.channels_first();
        let size = Attribute::Ints(vec![int(kernel[0])?, int(kernel[1])?]);
        let node = Node::new(format!("pool{}", self.nodes.len()), op).attribute("kernel_shape", size);
        let node = self.slide(node, kernel, window)?;
        self.nodes.push(node);
        Ok(())
    }

    fn global_average_pool(&mut self, keep: bool) -> Result<(), Why> {
        let channels = self.image("GlobalAveragePool")?;
        self.channels_first();
        self.nodes.push(Node::new(format!("pool{}", self.nodes.len()), Op::GlobalAveragePool));
        self.dims = vec![None, Some(1), Some(1), channels];
        if keep { Ok(()) } else { self.flatten(channels) }
    }

    fn normalize(
        &mut self,
        name: Option<String>,
        parameters: Vec<(&'static str, String)>,
        epsilon: f64,
    ) -> Result<(), Why> {
        if self.dims.len() == 4 {
            self.channels_first();
        }
        let features = self.dims.last().copied().flatten();
        for (_, key) in &parameters {
            let shape = shape(self.context, key)?;
            if shape.rank() != 1 || features.is_some_and(|features| shape[0] != features) {
                return Err(misfit(key, shape, "one number a channel"));
            }
            self.axes.insert(key.clone(), vec![Axis::Out]);
        }
        let first = parameters.first().map_or("", |(_, key)| key);
        self.layer = self.name(name, first, "batch_normalization");
        let node = Node::new(self.layer.as_str(), Op::BatchNormalization)
            .attribute("epsilon", Attribute::Float(epsilon));
        self.nodes.push(parameters.into_iter().fold(node, |node, (role, key)| node.parameter(role, key)));
        Ok(())
    }

    fn flatten(&mut self, stated: Option<u64>) -> Result<(), Why> {
        let dims = &self.dims;
        let one_pixel = matches!(dims[..], [_, Some(1), Some(1), _]);
        let features = dims.iter().skip(1).try_fold(1u64, |product, dim| product.checked_mul((*dim)?));
        // With an axis of unknown length, it could be that axis which becomes part of the batch.
        if stated.is_some() && stated != features {
            return Err(Why(format!(
                "a value of shape {} is reshaped to {}, which may not be flattening",
                show(dims),
                show(&[None, stated])
            )));
        }
        if one_pixel {
            self.channels_first = false;
        }
        self.channels_last();
        self.nodes.push(Node::new(format!("flatten{}", self.nodes.len()), Op::Flatten));
        self.dims = vec![None, features];
        Ok(())
    }

    fn apply(&mut self, op: Op, attributes: Vec<(&'static str, Attribute)>) -> Result<(), Why> {
        let name = match self.layer.as_str() {
            "" => format!("activation{}", self.nodes.len()),
            layer => format!("{layer}/activation"),
        };
        let over_channels = self.channels_first && matches!(op, Op::Softmax | Op::LogSoftmax);
        let mut node = Node::new(name, op);
        if over_channels {
            node = node.attribute("axis", Attribute::Int(1));
        }
        let attributes = attributes.into_iter();
        self.nodes.push(attributes.fold(node, |node, (name, value)| node.attribute(name, value)));
        Ok(())
    }

    /// The source's name for a layer, its weight's, or one as Keras numbers them: `dense`, `dense_1`.
    fn name(&mut self, stated: Option<String>, key: &str, kind: &'static str) -> String {
        stated.or_else(|| layer_name(self.context, key)).unwrap_or_else(|| {
            let number = self.unnamed.entry(kind).or_default();
            *number += 1;
            if *number == 1 { kind.to_owned() } else { format!("{kind}_{}", *number - 1) }
        })
    }

    /// The channels of the image at hand.
    fn image(&self, what: &str) -> Result<Option<u64>, Why> {
        match &self.dims[..] {
            [_, _, _, channels] => Ok(*channels),
            found => Err(Why(format!("'{what}' takes images, and gets {}", show(found)))),
        }
    }

    fn set(&mut self, axis: usize, len: Option<u64>) {
        if let Some(dim) = self.dims.get_mut(axis) {
            *dim = len;
        }
    }

    fn channels_first(&mut self) {
        if !self.channels_first {
            self.channels_first = true;
            self.transpose("to_channels_first", [0, 3, 1, 2]);
        }
    }

    fn channels_last(&mut self) {
        if self.channels_first {
            self.channels_first = false;
            self.transpose("to_channels_last", [0, 2, 3, 1]);
        }
    }

    fn transpose(&mut self, name: &str, perm: [i64; 4]) {
        self.nodes.push(Node::new(name, Op::Transpose).attribute("perm", Attribute::Ints(perm.to_vec())));
    }

    /// Adds strides, pads and dilations, and moves on to the size that comes out.
    fn slide(&mut self, node: Node, kernel: [u64; 2], window: Window) -> Result<Node, Why> {
        let mut pads = [Some(0); 4];
        for side in 0..2 {
            let len = self.dims.get(side + 1).copied().flatten();
            let placed = window.place(side, kernel[side], len)?;
            pads[side] = placed.begin;
            pads[side + 2] = placed.end;
            self.set(side + 1, placed.out);
        }
        let ints = |values: &[u64]| values.iter().map(|value| int(*value)).collect::<Result<Vec<i64>, Why>>();
        let mut node = node.attribute("strides", Attribute::Ints(ints(&window.strides)?));
        node = match pads.into_iter().collect::<Option<Vec<u64>>>() {
            Some(pads) => node.attribute("pads", Attribute::Ints(ints(&pads)?)),
            None => node.attribute("auto_pad", Attribute::Text("SAME_UPPER".into())),
        };
        if window.dilations != [1, 1] {
            node = node.attribute("dilations", Attribute::Ints(ints(&window.dilations)?));
        }
        Ok(node)
    }
}

impl Window {
    /// How a side of length `len` is padded and how long it comes out.
    fn place(&self, side: usize, kernel: u64, len: Option<u64>) -> Result<Side, Why> {
        let (stride, dilation) = (self.strides[side], self.dilations[side]);
        let reach = kernel.checked_sub(1).and_then(|gaps| gaps.checked_mul(dilation));
        let Some(reach) = reach.filter(|_| stride > 0 && dilation > 0) else {
            return Err(Why("a window or stride of zero makes no sense".into()));
        };
        if !self.same {
            let out = match len {
                Some(len) if len <= reach => return Err(Why("a window is larger than its image".into())),
                Some(len) => Some((len - reach - 1) / stride + 1),
                None => None,
            };
            return Ok(Side { begin: Some(0), end: Some(0), out });
        }
        let total = match (stride, len) {
            (1, _) => Some(reach),
            (_, Some(len)) => {
                let out = len.div_ceil(stride);
                let covered =
                    out.saturating_sub(1).saturating_mul(stride).saturating_add(reach).saturating_add(1);
                Some(covered.saturating_sub(len))
            }
            (_, None) => None,
        };
        let (begin, end) = (total.map(|total| total / 2), total.map(|total| total - total / 2));
        Ok(Side { begin, end, out: len.map(|len| len.div_ceil(stride)) })
    }
}

/// One side of an image under a window; `None` where it depends on a length that is unknown.
struct Side {
    begin: Option<u64>,
    end: Option<u64>,
    out: Option<u64>,
}

fn int(value: u64) -> Result<i64, Why> {
    i64::try_from(value).map_err(|_| Why(format!("a size of {value} makes no sense")))
}

fn misfit(key: &str, shape: &Shape, expected: &str) -> Why {
    Why(format!("'{key}' has shape {shape}, where the layer needs {expected}"))
}

fn show(dims: &[Option<u64>]) -> String {
    let dims: Vec<String> = dims.iter().map(|dim| dim.map_or("?".into(), |dim| dim.to_string())).collect();
    format!("[{}]", dims.join(", "))
}
