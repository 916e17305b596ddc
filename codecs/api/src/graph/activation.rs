//! Activations by name.

use crate::{Error, Op, Result, nearest};
use serde::{Deserialize, Serialize};

/// An activation by the name that people use for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activation {
    /// None.
    #[default]
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// Logistic function.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Over the last axis.
    Softmax,
    /// Over the last axis.
    LogSoftmax,
    /// Exponential linear unit, alpha 1.
    Elu,
    /// With the error function.
    Gelu,
    /// `ln(1 + eˣ)`.
    Softplus,
}

impl Activation {
    /// Every activation.
    pub const ALL: &'static [Activation] = &[
        Activation::Linear,
        Activation::Relu,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Softmax,
        Activation::LogSoftmax,
        Activation::Elu,
        Activation::Gelu,
        Activation::Softplus,
    ];

    /// The name, as files and options write it (Keras's).
    pub fn name(self) -> &'static str {
        match self {
            Activation::Linear => "linear",
            Activation::Relu => "relu",
            Activation::Sigmoid => "sigmoid",
            Activation::Tanh => "tanh",
            Activation::Softmax => "softmax",
            Activation::LogSoftmax => "log_softmax",
            Activation::Elu => "elu",
            Activation::Gelu => "gelu",
            Activation::Softplus => "softplus",
        }
    }

    /// The operator; `None` for [`Activation::Linear`].
    pub fn op(self) -> Option<Op> {
        Some(match self {
            Activation::Linear => return None,
            Activation::Relu => Op::Relu,
            Activation::Sigmoid => Op::Sigmoid,
            Activation::Tanh => Op::Tanh,
            Activation::Softmax => Op::Softmax,
            Activation::LogSoftmax => Op::LogSoftmax,
            Activation::Elu => Op::Elu,
            Activation::Gelu => Op::Gelu,
            Activation::Softplus => Op::Softplus,
        })
    }

    /// The activation with this [`name`](Activation::name).
    ///
    /// # Errors
    /// [`crate::Kind::Usage`], listing the known ones.
    pub fn from_name(name: &str) -> Result<Activation> {
        let found = Activation::ALL.iter().copied().find(|activation| activation.name() == name);
        found.ok_or_else(|| {
            let known = Activation::ALL.iter().map(|activation| activation.name());
            Error::usage("unknown activation").found(format!("'{name}'")).help(nearest(name, known))
        })
    }
}
