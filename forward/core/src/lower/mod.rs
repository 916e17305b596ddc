//! From one node of a graph to the kernels that compute it.

mod attributes;
mod elementwise;
mod linear;
mod moves;
mod normalization;
mod strides;
mod weight;
mod window;

pub(crate) use weight::integer_bits;

use crate::Kernel;
use crate::value::{Numbers, Parameters, count};
use ckpt_api::{Error, Node, Op, Result};

/// What is known of a value before it is computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Info {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Numbers,
}

impl Info {
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Where a kernel of a node reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Input(usize),
    Parameter(usize),
    Temporary(usize),
    Output(usize),
}

/// One run of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kernel: Kernel,
    pub(crate) operands: Vec<Operand>,
    pub(crate) output: Operand,
}

/// What is put on the device for a node, and taken away after it.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// A tensor's elements, divided by `scale` where integers stand for real numbers.
    Tensor { name: String, len: usize, numbers: Numbers, scale: Option<f64> },
    /// A real number, so many times.
    Constant { value: f64, len: usize },
}

impl Load {
    pub(crate) fn len(&self) -> usize {
        match self {
            Load::Tensor { len, .. } | Load::Constant { len, .. } => *len,
        }
    }
}

/// An input whose elements must be indices below `bound`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexCheck {
    pub(crate) input: usize,
    pub(crate) bound: usize,
    /// Whether a negative one stands for none.
    pub(crate) padded: bool,
}

/// A node as kernels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lowered {
    pub(crate) outputs: Vec<Info>,
    pub(crate) calls: Vec<Call>,
    pub(crate) temporaries: Vec<Info>,
    pub(crate) loads: Vec<Load>,
    pub(crate) checks: Vec<IndexCheck>,
}

/// Infers the shapes of what the node makes, and lowers it. `inputs` are those of the node; `None` where one is left out.
///
/// # Errors
/// Naming the node: [`ckpt_api::Kind::Corrupt`] where shapes or tensors do not fit, [`ckpt_api::Kind::Unsupported`] for
/// what cannot be computed, [`ckpt_api::Kind::Usage`] for what the source does not state.
pub(crate) fn lower(node: &Node, inputs: &[Option<&Info>], parameters: &dyn Parameters) -> Result<Lowered> {
    let mut site = Site { node, inputs, parameters, lowered: Lowered::default() };
    let lowered = dispatch(&mut site).map_err(|error| error.field(&node.name));
    lowered.map(|()| site.lowered)
}

fn dispatch(site: &mut Site) -> Result<()> {
    match &site.node.op {
        Op::Gemm => linear::gemm(site),
        Op::BucketedGemm => linear::bucketed_gemm(site),
        Op::FeatureTransformer => linear::feature_transformer(site),
        Op::Gather => linear::gather(site),
        Op::Bias => linear::bias(site),
        Op::Conv => window::conv(site),
        Op::MaxPool => window::max_pool(site),
        Op::AveragePool => window::average_pool(site),
        Op::GlobalAveragePool => window::global_average_pool(site),
        Op::Concat => moves::concat(site),
        Op::Split => moves::split(site),
        Op::Slice => moves::slice(site),
        Op::Transpose => moves::transpose(site),
        Op::Pad => moves::pad(site),
        Op::Reshape => moves::reshape(site),
        Op::Flatten => moves::flatten(site),
        Op::Identity => moves::identity(site),
        Op::Add | Op::Mul => elementwise::binary(site),
        Op::BatchNormalization => normalization::batch(site),
        Op::LayerNormalization => normalization::layer(site),
        Op::Softmax | Op::LogSoftmax => normalization::softmax(site),
        Op::StaticFeatures => normalization::static_features(site),
        Op::Unspecified => Err(Error::usage("the source does not say which activation this layer has")
            .help("state it with --set activations=…, or an architecture file with --arch")),
        _ => elementwise::unary(site),
    }
}

/// A node while it is lowered.
pub(crate) struct Site<'a> {
    node: &'a Node,
    inputs: &'a [Option<&'a Info>],
    parameters: &'a dyn Parameters,
    lowered: Lowered,
}

impl<'a> Site<'a> {
    /// The shape and kind of an input that must be there.
    fn input(&self, index: usize) -> Result<&'a Info> {
        self.inputs.get(index).copied().flatten().ok_or_else(|| {
            Error::corrupt("the layer lacks a value that it takes")
                .found(format!("{} values", self.inputs.iter().flatten().count()))
                .expected(format!("a value at place {index}"))
        })
    }

    /// The inputs, where there are so many and no others.
    fn takes<const N: usize>(&self) -> Result<[&'a Info; N]> {
        if self.inputs.len() > N {
            return Err(Error::corrupt("the layer takes other values than its operator does")
                .found(format!("{} values", self.inputs.len()))
                .expected(format!("{N} for {}", self.node.op)));
        }
        let inputs = (0..N).map(|index| self.input(index)).collect::<Result<Vec<_>>>()?;
        <[&Info; N]>::try_from(inputs).map_err(|_| Error::corrupt("the layer lacks a value that it takes"))
    }

    /// An input of real numbers.
    fn real(&self, index: usize) -> Result<&'a Info> {
        let info = self.input(index)?;
        self.must_be(info, Numbers::Real)?;
        Ok(info)
    }

    /// An input of indices below `bound`.
    fn index(&mut self, input: usize, bound: usize, padded: bool) -> Result<&'a Info> {
        let info = self.input(input)?;
        self.must_be(info, Numbers::Integer)?;
        self.lowered.checks.push(IndexCheck { input, bound, padded });
        Ok(info)
    }

    fn must_be(&self, info: &Info, numbers: Numbers) -> Result<()> {
        if info.numbers == numbers {
            return Ok(());
        }
        let name = |numbers| if numbers == Numbers::Real { "real numbers" } else { "integers" };
        Err(Error::corrupt(format!("{} takes values of another kind", self.node.op))
            .found(name(info.numbers))
            .expected(name(numbers)))
    }

    /// Adds an output; its length can be counted.
    fn output(&mut self, shape: Vec<usize>, numbers: Numbers) -> Result<Operand> {
        elements(&shape)?;
        self.lowered.outputs.push(Info { shape, numbers });
        Ok(Operand::Output(self.lowered.outputs.len() - 1))
    }

    /// Adds a value that only this node's kernels see.
    fn temporary(&mut self, shape: Vec<usize>, numbers: Numbers) -> Result<Operand> {
        elements(&shape)?;
        self.lowered.temporaries.push(Info { shape, numbers });
        Ok(Operand::Temporary(self.lowered.temporaries.len() - 1))
    }

    fn load(&mut self, load: Load) -> Operand {
        self.lowered.loads.push(load);
        Operand::Parameter(self.lowered.loads.len() - 1)
    }

    fn call(&mut self, kernel: Kernel, operands: impl Into<Vec<Operand>>, output: Operand) {
        self.lowered.calls.push(Call { kernel, operands: operands.into(), output });
    }
}

/// Elements of a shape.
fn elements(shape: &[usize]) -> Result<usize> {
    count(shape).ok_or_else(|| {
        Error::limit("a value has too many elements").found(show(shape)).expected("at most 2^48")
    })
}

/// A shape as it is shown to people.
pub(crate) fn show(shape: &[usize]) -> String {
    format!("{shape:?}")
}

fn misfit(found: &[usize], expected: impl Into<String>) -> Error {
    Error::corrupt("a value has a shape that does not fit the layer").found(show(found)).expected(expected)
}
