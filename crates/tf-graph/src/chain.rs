//! Turns a chain of TensorFlow's layers into a graph of ONNX operators.
//!
//! TensorFlow's images are `[N, H, W, C]`, and ONNX's operators take `[N, C, H, W]`. The graph has a `Transpose`
//! wherever the order changes, so that it computes exactly what the model does.

use super::catalog::{Catalog, GraphConstant, last, path};
use super::no_chain::NoChain;
use ckpt_api::{Activation, Attribute, Axis, Graph, Node, Op, Shape};
use ckpt_graph::{Layout, Length, Val, Window};
use std::collections::BTreeMap;

/// The tensors that a chain refers to.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The tensors by key.
    pub catalog: &'a Catalog<'a>,
    /// Names of variables by key.
    pub names: &'a BTreeMap<String, String>,
    /// The file that the functions are in, as it was parsed; empty for other sources.
    pub file: &'a [u8],
}

impl Context<'_> {
    /// The name of a key's tensor, as people see it.
    pub fn shown<'k>(&'k self, key: &'k str) -> &'k str {
        self.names.get(key).map_or(path(key), String::as_str)
    }
}

/// The graph of a chain.
#[derive(Debug)]
pub struct Chain {
    /// The graph, whose parameters are keys.
    pub graph: Graph,
    /// Meanings of the parameters' axes, by key.
    pub axes: BTreeMap<String, Vec<Axis>>,
    /// Whether layers are within other layers, such as models within a model.
    pub is_nested: bool,
    /// What the graph assumes about the model, or does not show of it.
    pub notes: Vec<String>,
    /// Constants of the graph that are weights.
    pub constants: Vec<GraphConstant>,
}

/// The note on a model that computes in 16 bits.
pub const IN_16_BITS: &str = "the model computes in 16 bits between its layers, which the graph does not show: run \
     in more bits, it gives results that differ from the model's by the rounding of 16 bits";

/// A step, and where the source states it.
#[derive(Debug)]
pub struct LocatedStep {
    /// The step.
    pub step: Step,
    /// The operation or layer, for messages.
    pub place: String,
}

/// One layer or operation, applied to `[N, features]` or to images `[N, H, W, C]`.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A dense layer.
    Dense {
        /// The layer's name, if the source states it.
        name: Option<String>,
        /// Key of the weight, of shape `[in, out]`, or `[out, in]` if `is_transposed`.
        weight: String,
        /// Key of the bias.
        bias: Option<String>,
        /// Whether the weight has its outputs first.
        is_transposed: bool,
    },
    /// A convolution.
    Conv {
        /// The layer's name, if the source states it.
        name: Option<String>,
        /// Key of the kernel.
        weight: String,
        /// Key of the bias.
        bias: Option<String>,
        /// How the kernel moves.
        window: Window,
    },
    /// A pooling.
    Pool {
        /// Its operator.
        op: Op,
        /// Height and width.
        kernel: [u64; 2],
        /// How it moves.
        window: Window,
    },
    /// The mean of an image.
    GlobalAveragePool {
        /// Whether the result keeps its two axes of length 1.
        keep_dims: bool,
    },
    /// A batch normalization.
    Normalize {
        /// The layer's name, if the source states it.
        name: Option<String>,
        /// Roles in the graph and keys.
        parameters: Vec<(&'static str, String)>,
        /// What is added to the variance.
        epsilon: f64,
        /// The normalized axis, if the source states it.
        axis: Option<usize>,
    },
    /// Flattens to `[N, features]`; the number of features, if the source states it.
    Flatten(Option<u64>),
    /// Applies an elementwise operator or a softmax, with these attributes.
    Apply(Op, Vec<(&'static str, Attribute)>),
    /// The activation of the previous layer, which the source does not state.
    UnspecifiedActivation,
}

impl Step {
    /// Returns the step for an activation, or `None` for a linear one.
    pub fn activation(activation: Activation) -> Option<Step> {
        activation.op().map(|op| Step::Apply(op, Vec::new()))
    }
}

/// Limit on the number of steps, far above what models have. Naming steps that share a name takes quadratic time.
pub const MAX_STEPS: usize = 4096;

/// Lengths of axes; `None` for a variable or unknown length.
pub type Dims = Vec<Option<u64>>;

/// Builds the graph step by step.
struct Builder<'a> {
    context: &'a Context<'a>,
    nodes: Vec<Node>,
    axes: BTreeMap<String, Vec<Axis>>,
    /// Shape of the current value: `[N, H, W, C]` or `[N, features]`.
    dims: Dims,
    /// Whether the graph has the current value with its channels first.
    is_channels_first: bool,
    /// Name of the previous layer.
    layer: String,
    /// Number of layers without a name so far, by kind.
    unnamed: BTreeMap<&'static str, u64>,
}

impl Chain {
    /// Builds the graph, and checks that the tensors of each step fit the result of the previous step.
    pub fn build(
        name: &str,
        input: Option<Dims>,
        steps: Vec<LocatedStep>,
        context: &Context,
    ) -> Result<Chain, NoChain> {
        if !steps.iter().any(|located| matches!(located.step, Step::Dense { .. } | Step::Conv { .. })) {
            return Err(NoChain::unsupported("no layer is dense or a convolution"));
        }
        if steps.len() > MAX_STEPS {
            return Err(NoChain::unsupported(format!(
                "there are {} steps, which is more than {MAX_STEPS}",
                steps.len()
            )));
        }
        let input = match input {
            Some(dims) => dims,
            None => infer_input(&steps, context)?,
        };
        let mut builder = Builder {
            context,
            nodes: Vec::new(),
            axes: BTreeMap::new(),
            dims: input.clone(),
            is_channels_first: false,
            layer: String::new(),
            unnamed: BTreeMap::new(),
        };
        for LocatedStep { step, place } in steps {
            builder.push(step).map_err(|error| error.of(place))?;
        }
        builder.ensure_channels_last();
        let graph = Graph::sequential(name, input, builder.dims, builder.nodes);
        Ok(Chain { graph, axes: builder.axes, is_nested: false, notes: Vec::new(), constants: Vec::new() })
    }
}

/// Returns the input shape of the first layer with a weight. Only elementwise steps may precede it.
fn infer_input(steps: &[LocatedStep], context: &Context) -> Result<Dims, NoChain> {
    let is_elementwise = |step: &Step| matches!(step, Step::Apply(..) | Step::UnspecifiedActivation);
    let Some(first) = steps.iter().find(|located| !is_elementwise(&located.step)) else {
        return Err(NoChain::unsupported("no layer shows the shape of the input"));
    };
    match &first.step {
        Step::Dense { weight, is_transposed, .. } => {
            Ok(vec![None, shape(context, weight)?.get(usize::from(*is_transposed)).copied()])
        }
        Step::Conv { weight, .. } => Ok(vec![None, None, None, shape(context, weight)?.get(2).copied()]),
        _ => Err(NoChain::unsupported("the shape of its input is not stated").of(&first.place)),
    }
}

fn shape<'a>(context: &Context<'a>, key: &str) -> Result<&'a Shape, NoChain> {
    let entry = context.catalog.get(key).filter(|entry| entry.dtype.is_float());
    entry.map(|entry| entry.shape).ok_or_else(|| {
        NoChain::unsupported(format!("the checkpoint has no floating-point tensor '{}'", path(key)))
    })
}

/// Returns a layer's name: what precedes `/kernel` in its weight's name. Returns `None` for an item of a list.
pub fn layer_name(context: &Context, key: &str) -> Option<String> {
    let name = context.shown(key);
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    match name.rsplit_once('/') {
        Some((_, variable)) if is_number(variable) => None,
        Some((layer, _)) => Some(last(layer)).filter(|layer| !is_number(layer)).map(str::to_owned),
        None => Some(name.to_owned()),
    }
}

impl Builder<'_> {
    fn push(&mut self, step: Step) -> Result<(), NoChain> {
        match step {
            Step::Dense { name, weight, bias, is_transposed } => {
                self.dense(name, weight, bias, is_transposed)
            }
            Step::Conv { name, weight, bias, window } => self.conv(name, weight, bias, window),
            Step::Pool { op, kernel, window } => self.pool(op, kernel, window),
            Step::GlobalAveragePool { keep_dims } => self.global_average_pool(keep_dims),
            Step::Normalize { name, parameters, epsilon, axis } => {
                if axis.is_some() && axis != self.dims.len().checked_sub(1) {
                    return Err(NoChain::unsupported("it normalizes over another axis than the last"));
                }
                self.normalize(name, parameters, epsilon)
            }
            Step::Flatten(features) => self.flatten(features),
            Step::Apply(op, attributes) => self.apply(op, attributes),
            Step::UnspecifiedActivation => {
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
        is_transposed: bool,
    ) -> Result<(), NoChain> {
        let shape = shape(self.context, &weight)?;
        let (input, output) = match (&shape[..], is_transposed) {
            ([input, output], false) | ([output, input], true) => (*input, *output),
            _ => return Err(misfit(&weight, shape, "a matrix")),
        };
        match &self.dims[..] {
            [_, features] if features.is_none_or(|features| features == input) => {}
            found => {
                return Err(NoChain::unsupported(format!(
                    "'{}' takes {input} features, but its input has shape {}",
                    path(&weight),
                    show(found)
                )));
            }
        }
        self.bias(bias.as_deref(), output)?;
        self.layer = self.name(name, &weight, "dense");
        let axes = if is_transposed { vec![Axis::Out, Axis::In] } else { vec![Axis::In, Axis::Out] };
        self.axes.insert(weight.clone(), axes);
        let node = Node::new(self.layer.as_str(), Op::Gemm).parameter("weight", weight);
        self.nodes.push(bias.into_iter().fold(node, |node, bias| node.parameter("bias", bias)));
        self.dims = vec![None, Some(output)];
        Ok(())
    }

    fn bias(&mut self, bias: Option<&str>, features: u64) -> Result<(), NoChain> {
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
    ) -> Result<(), NoChain> {
        let shape = shape(self.context, &weight)?;
        let &[rows, columns, input, output] = &shape[..] else {
            return Err(misfit(&weight, shape, "four axes"));
        };
        let channels = self.image_channels(&weight)?.unwrap_or(input);
        if input == 0 || channels % input != 0 {
            return Err(NoChain::unsupported(format!(
                "'{}' takes {input} channels, but its input has {channels}",
                path(&weight)
            )));
        }
        self.bias(bias.as_deref(), output)?;
        self.layer = self.name(name, &weight, "conv");
        self.axes.insert(weight.clone(), vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out]);
        self.ensure_channels_first();
        let mut node = Node::new(self.layer.as_str(), Op::Conv).parameter("weight", weight);
        node = self.apply_window(node, [rows, columns], &window)?;
        if channels != input {
            node = node.attribute("group", Attribute::Int(int(channels / input)?));
        }
        self.nodes.push(bias.into_iter().fold(node, |node, bias| node.parameter("bias", bias)));
        self.set_dim(3, Some(output));
        Ok(())
    }

    fn pool(&mut self, op: Op, kernel: [u64; 2], window: Window) -> Result<(), NoChain> {
        self.image_channels(op.name())?;
        self.ensure_channels_first();
        let size = Attribute::Ints(vec![int(kernel[0])?, int(kernel[1])?]);
        let node = Node::new(format!("pool{}", self.nodes.len()), op).attribute("kernel_shape", size);
        let node = self.apply_window(node, kernel, &window)?;
        self.nodes.push(node);
        Ok(())
    }

    fn global_average_pool(&mut self, keep_dims: bool) -> Result<(), NoChain> {
        let channels = self.image_channels("GlobalAveragePool")?;
        self.ensure_channels_first();
        self.nodes.push(Node::new(format!("pool{}", self.nodes.len()), Op::GlobalAveragePool));
        self.dims = vec![None, Some(1), Some(1), channels];
        if keep_dims { Ok(()) } else { self.flatten(channels) }
    }

    fn normalize(
        &mut self,
        name: Option<String>,
        parameters: Vec<(&'static str, String)>,
        epsilon: f64,
    ) -> Result<(), NoChain> {
        if self.dims.len() == 4 {
            self.ensure_channels_first();
        }
        let features = self.dims.last().copied().flatten();
        for (_, key) in &parameters {
            let shape = shape(self.context, key)?;
            if shape.rank() != 1 || features.is_some_and(|features| shape[0] != features) {
                return Err(misfit(key, shape, "one number per channel"));
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

    fn flatten(&mut self, stated: Option<u64>) -> Result<(), NoChain> {
        let dims = &self.dims;
        let is_one_pixel = matches!(dims[..], [_, Some(1), Some(1), _]);
        let features = dims.iter().skip(1).try_fold(1u64, |product, dim| product.checked_mul((*dim)?));
        // An axis of unknown length could become part of the batch.
        if stated.is_some() && stated != features {
            return Err(NoChain::unsupported(format!(
                "it reshapes a value of shape {} to {}, which may not flatten it",
                show(dims),
                show(&[None, stated])
            )));
        }
        if is_one_pixel {
            self.is_channels_first = false;
        }
        self.ensure_channels_last();
        self.nodes.push(Node::new(format!("flatten{}", self.nodes.len()), Op::Flatten));
        self.dims = vec![None, features];
        Ok(())
    }

    fn apply(&mut self, op: Op, attributes: Vec<(&'static str, Attribute)>) -> Result<(), NoChain> {
        let name = match self.layer.as_str() {
            "" => format!("activation{}", self.nodes.len()),
            layer => format!("{layer}/activation"),
        };
        let over_channels = self.is_channels_first && matches!(op, Op::Softmax | Op::LogSoftmax);
        let mut node = Node::new(name, op);
        if over_channels {
            node = node.attribute("axis", Attribute::Int(1));
        }
        let attributes = attributes.into_iter();
        self.nodes.push(attributes.fold(node, |node, (name, value)| node.attribute(name, value)));
        Ok(())
    }

    /// Returns the stated name of a layer, the one in its weight's name, or one that is numbered as by Keras: `dense`,
    /// `dense_1`.
    fn name(&mut self, stated: Option<String>, key: &str, kind: &'static str) -> String {
        stated.or_else(|| layer_name(self.context, key)).unwrap_or_else(|| {
            let number = self.unnamed.entry(kind).or_default();
            *number += 1;
            if *number == 1 { kind.to_owned() } else { format!("{kind}_{}", *number - 1) }
        })
    }

    /// Returns the number of channels of the current value, which must be an image.
    fn image_channels(&self, what: &str) -> Result<Option<u64>, NoChain> {
        match &self.dims[..] {
            [_, _, _, channels] => Ok(*channels),
            found => Err(NoChain::unsupported(format!(
                "'{}' takes images, but its input has shape {}",
                path(what),
                show(found)
            ))),
        }
    }

    fn set_dim(&mut self, axis: usize, len: Option<u64>) {
        if let Some(dim) = self.dims.get_mut(axis) {
            *dim = len;
        }
    }

    fn ensure_channels_first(&mut self) {
        if !self.is_channels_first {
            self.is_channels_first = true;
            self.transpose("to_channels_first", [0, 3, 1, 2]);
        }
    }

    fn ensure_channels_last(&mut self) {
        if self.is_channels_first {
            self.is_channels_first = false;
            self.transpose("to_channels_last", [0, 2, 3, 1]);
        }
    }

    fn transpose(&mut self, name: &str, perm: [i64; 4]) {
        self.nodes.push(Node::new(name, Op::Transpose).attribute("perm", Attribute::Ints(perm.to_vec())));
    }

    /// Adds strides, pads and dilations to a node, and updates the shape to that of its result.
    fn apply_window(&mut self, node: Node, kernel: [u64; 2], window: &Window) -> Result<Node, NoChain> {
        if window.strides.iter().chain(&window.dilations).chain(&kernel).any(|size| *size == 0) {
            return Err(NoChain::unsupported("its window, stride or dilation is zero"));
        }
        let dims = self.dims.iter().map(|len| Length::from(*len)).collect();
        let image = Val { name: String::new(), layout: Layout::Last, dims, tag: () };
        let (node, dims) = ckpt_graph::Builder::windowed(node, window, &kernel, &image)?;
        self.dims = dims.into_iter().map(Length::size).collect();
        Ok(node)
    }
}

fn int(value: u64) -> Result<i64, NoChain> {
    i64::try_from(value).map_err(|_| NoChain::unsupported(format!("a size of {value} is too large")))
}

fn misfit(key: &str, shape: &Shape, expected: &str) -> NoChain {
    NoChain::unsupported(format!("'{}' has shape {shape}, but the layer needs {expected}", path(key)))
}

fn show(dims: &[Option<u64>]) -> String {
    let dims: Vec<String> = dims.iter().map(|dim| dim.map_or("?".into(), |dim| dim.to_string())).collect();
    format!("[{}]", dims.join(", "))
}
