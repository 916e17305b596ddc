//! Activations, and what a loss does to its input when a model is used.

use crate::attributes::wrong;
use crate::lowering::{Lowering, Val};
use crate::stated::Read;
use crate::symbol::Step;
use ckpt_api::{Attribute, Node, Op};
use ckpt_graph::Length;

impl Lowering<'_> {
    /// Lowers an activation; `None` if it is another operator.
    pub(crate) fn activated(&mut self, step: &Step) -> Read<Option<Val>> {
        Ok(Some(match step.op.as_str() {
            "Activation" => {
                let x = self.take(step, 0)?;
                let op = match step.text("act_type").unwrap_or_default() {
                    "relu" => Op::Relu,
                    "sigmoid" => Op::Sigmoid,
                    "tanh" => Op::Tanh,
                    "softrelu" => Op::Softplus,
                    "softsign" => Op::Softsign,
                    other => return Err(wrong("act_type", other)),
                };
                self.builder.map(self.builder.node(op), &x)?
            }
            "LeakyReLU" => self.leaky(step)?,
            "hard_sigmoid" => {
                let node = self.builder.node(Op::HardSigmoid);
                let node = node.attribute("alpha", Attribute::Float(step.single("alpha", 0.2)?));
                let node = node.attribute("beta", Attribute::Float(step.single("beta", 0.5)?));
                self.mapped(node, step)?
            }
            "softmax" => self.softmax(step, Op::Softmax)?,
            "log_softmax" => self.softmax(step, Op::LogSoftmax)?,
            "SoftmaxActivation" => {
                let x = self.take(step, 0)?;
                match step.text("mode").unwrap_or("instance") {
                    // Not over all that belongs to an instance, as the mode's name says.
                    "instance" => self.softmax_of(&x, Op::Softmax, x.rank().saturating_sub(1))?,
                    "channel" => self.softmax_of(&x, Op::Softmax, 1)?,
                    other => return Err(wrong("mode", other)),
                }
            }
            "SoftmaxOutput" | "Softmax" => {
                let x = self.take(step, 0)?;
                match (step.flag("multi_output", false)?, step.flag("preserve_shape", false)?) {
                    (true, _) => self.softmax_of(&x, Op::Softmax, 1)?,
                    (false, true) => self.softmax_of(&x, Op::Softmax, x.rank().saturating_sub(1))?,
                    (false, false) => self.softmax_of_rows(&x)?,
                }
            }
            "Dropout" => match step.text("mode").unwrap_or("training") {
                "training" => self.mapped(self.builder.node(Op::Identity), step)?,
                // Leaves values out by chance, even when a model is used.
                other => return Err(wrong("mode", other)),
            },
            "LogisticRegressionOutput" => self.mapped(self.builder.node(Op::Sigmoid), step)?,
            "LinearRegressionOutput"
            | "MAERegressionOutput"
            | "SVMOutput"
            | "MakeLoss"
            | "make_loss"
            | "BlockGrad"
            | "stop_gradient"
            | "identity"
            | "_copy"
            | "IdentityAttachKLSparseReg" => self.mapped(self.builder.node(Op::Identity), step)?,
            _ => return Ok(None),
        }))
    }

    /// Adds a node that takes the first input of an operator.
    pub(crate) fn mapped(&mut self, node: Node, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        self.builder.map(node, &x)
    }

    fn leaky(&mut self, step: &Step) -> Read<Val> {
        let node = |op: Op, alpha: f64| self.builder.node(op).attribute("alpha", Attribute::Float(alpha));
        let slope = step.single("slope", 0.25)?;
        let node = match step.text("act_type").unwrap_or("leaky") {
            "leaky" => node(Op::LeakyRelu, slope),
            "elu" => node(Op::Elu, slope),
            "selu" => self.builder.node(Op::Selu),
            "gelu" => self.builder.node(Op::Gelu),
            // In training, slopes are random; else each is their mean.
            "rrelu" => {
                let (lower, upper) = (step.single("lower_bound", 0.125)?, step.single("upper_bound", 0.334)?);
                node(Op::LeakyRelu, f64::midpoint(lower, upper))
            }
            "prelu" => return self.prelu(step),
            other => return Err(wrong("act_type", other)),
        };
        self.mapped(node, step)
    }

    /// A slope for each channel, or one for all.
    fn prelu(&mut self, step: &Step) -> Read<Val> {
        let (x, slope) = (self.take(step, 0)?, self.take(step, 1)?);
        let behind = x.rank().saturating_sub(2);
        let slope = match (slope.rank(), behind) {
            (1, 1..) if slope.features() != Length::Known(1) => {
                self.builder.unsqueeze(&slope, &(1..=behind).collect::<Vec<usize>>())?
            }
            (0 | 1, _) => slope,
            _ => return Err("has slopes of more than one axis".to_owned()),
        };
        self.builder.elementwise(self.builder.node(Op::PRelu), &[&x, &slope])
    }
}
