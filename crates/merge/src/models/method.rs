//! The ways to merge models, and their parameters.

use ckpt_api::{Error, Result, nearest};
use std::str::FromStr;

/// How models become one. The names and the formulas are mergekit's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// The mean with these weights: `Σ w · T / Σ w`.
    Linear,
    /// The base and what models changed of it: `base + Σ w · (T − base)`.
    TaskArithmetic,
    /// As [`Method::TaskArithmetic`], of the largest changes of each tensor, where they agree in sign.
    Ties,
    /// As [`Method::TaskArithmetic`], of changes that are drawn at random and made larger instead.
    DareLinear,
    /// As [`Method::DareLinear`], where they agree in sign.
    DareTies,
    /// Between two models, along the arc from one to the other: tensor by tensor, by the second one's weight.
    Slerp,
    /// The tensors of one model, or of layers of several, as they are.
    Passthrough,
}

/// Every method, by its names.
const NAMES: [(&str, Method); 9] = [
    ("linear", Method::Linear),
    ("task", Method::TaskArithmetic),
    ("task_arithmetic", Method::TaskArithmetic),
    ("ties", Method::Ties),
    ("dare", Method::DareLinear),
    ("dare_linear", Method::DareLinear),
    ("dare_ties", Method::DareTies),
    ("slerp", Method::Slerp),
    ("passthrough", Method::Passthrough),
];

/// A parameter that every model has its own of.
const OF_MODELS: [&str; 3] = ["weight", "density", "scale"];

impl Method {
    /// Its name, as mergekit has it.
    pub fn name(self) -> &'static str {
        NAMES.iter().rev().find(|(_, method)| *method == self).map_or("merge", |(name, _)| *name)
    }

    /// The parameters that it takes.
    pub(crate) fn parameters(self) -> &'static [&'static str] {
        match self {
            Method::Linear => &["weight", "normalize"],
            Method::TaskArithmetic | Method::Ties | Method::DareLinear | Method::DareTies => {
                &["weight", "density", "normalize", "rescale", "lambda", "int8_mask"]
            }
            Method::Slerp => &["t"],
            Method::Passthrough => &["scale"],
        }
    }

    /// Whether models have a value of this parameter each.
    pub(crate) fn is_of_models(parameter: &str) -> bool {
        OF_MODELS.contains(&parameter)
    }

    /// Whether it changes a base.
    pub(crate) fn needs_base(self) -> bool {
        !matches!(self, Method::Linear | Method::Passthrough)
    }

    /// Whether changes are added only where they agree.
    pub(crate) fn elects_signs(self) -> bool {
        matches!(self, Method::Ties | Method::DareTies)
    }

    /// Whether changes are drawn at random.
    pub(crate) fn draws(self) -> bool {
        matches!(self, Method::DareLinear | Method::DareTies)
    }

    /// Refuses a parameter that it does not take.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`].
    pub(crate) fn check_parameter(self, name: &str) -> Result<()> {
        let known = self.parameters();
        match known.contains(&name) {
            true => Ok(()),
            false => Err(Error::usage(format!("the method {} has no such parameter", self.name()))
                .found(format!("'{}'", name.escape_debug()))
                .expected(known.join(", "))
                .help(nearest(name, known.iter().copied()))),
        }
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, method)| *method).ok_or_else(|| {
            let names = NAMES.map(|(name, _)| name);
            Error::usage("there is no such way to merge models")
                .found(format!("'{}'", text.escape_debug()))
                .expected(names.join(", "))
                .help(nearest(text, names.into_iter()))
        })
    }
}
