//! Models that are merged as a whole, each with a weight.

use super::Method;
use super::merge::no_mean;
use super::parameters::{Constant, Parameters, Placed, Setting};
use super::slices::{Input, Merge, Slice};
use ckpt_api::{Error, Result};
use ckpt_engine::source::Source;

/// A model that is merged, and its weight.
#[derive(Clone, Debug)]
pub struct Model {
    /// The model.
    pub source: Source,
    /// How much it counts: its `weight`, of two models for `slerp` the share of the second, for `passthrough` its `scale`.
    pub weight: f32,
}

impl Model {
    /// A model with a weight.
    pub fn new(source: Source, weight: f32) -> Self {
        Model { source, weight }
    }
}

/// Parameters of a method, and its seed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Parameters of the method, such as `density`, as texts.
    pub parameters: Vec<(String, String)>,
    /// What `dare` draws by.
    pub seed: u64,
}

impl Settings {
    /// Parameters of the method, by name.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Vec<(String, String)>) -> Self {
        self.parameters = parameters;
        self
    }

    /// What `dare` draws by.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// The model that these are merged into. What is no tensor, such as the configuration, is that of the base, or of the first
/// model. So are tensors that are no floats.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for weights, models, parameters or a base that the method does not take; [`ckpt_api::Kind::Mapping`]
/// for models with other tensors; for methods that look at all numbers, what keeps tensors from being read.
pub fn merge_models(
    method: Method,
    models: &[Model],
    base: Option<&Source>,
    settings: &Settings,
) -> Result<Source> {
    check(method, models, base)?;
    let mut parameters = Parameters::new();
    for (name, text) in &settings.parameters {
        let place = format!("--parameter {name}");
        method.check_parameter(name).map_err(|error| error.field(place.as_str()))?;
        let setting = Setting::Constant(Constant::of_plain(text));
        if parameters.insert(name.clone(), Placed { setting, place: place.clone() }).is_some() {
            return Err(Error::usage("a parameter is set twice").field(place));
        }
    }
    let number = |number: f32| Placed {
        setting: Setting::Constant(Constant::Number(f64::from(number))),
        place: "a model's weight".to_owned(),
    };
    let own = match method {
        Method::Slerp => {
            let t = models.last().map_or(0.0, |model| model.weight);
            parameters.entry("t".to_owned()).or_insert(number(t));
            None
        }
        Method::Passthrough => Some("scale"),
        _ => Some("weight"),
    };
    // The base is first; for slerp, the model that the arc begins at.
    let first_model = usize::from(base.is_some());
    let input = |(source, model): (usize, &Model)| {
        let parameters = own.filter(|own| *own != "scale" || model.weight != 1.0);
        let parameters = parameters.map(|own| (own.to_owned(), number(model.weight))).into_iter().collect();
        Input { source, layers: None, parameters }
    };
    let merge = Merge {
        method,
        sources: base.into_iter().chain(models.iter().map(|model| &model.source)).cloned().collect(),
        slices: vec![Slice {
            inputs: (first_model..).zip(models).map(input).collect(),
            base: method.needs_base().then_some(0),
            parameters: Parameters::new(),
        }],
        parameters,
        seed: settings.seed,
    };
    merge.source()
}

fn check(method: Method, models: &[Model], base: Option<&Source>) -> Result<()> {
    let sum: f32 = models.iter().map(|model| model.weight).sum();
    if let Some(model) = models.iter().find(|model| !model.weight.is_finite()) {
        return Err(Error::usage("the weight of a model is not finite")
            .file(model.source.shown())
            .found(model.weight.to_string()));
    }
    match (method, base, models) {
        (_, _, []) => Err(Error::usage("there is no model to merge")),
        (Method::Linear | Method::Slerp | Method::Passthrough, Some(_), _) => {
            Err(Error::usage("this way to merge takes no base")
                .help("name the model with the others, with a weight"))
        }
        (Method::Slerp, _, [first, second]) if first.weight + second.weight == 1.0 => Ok(()),
        (Method::Slerp, _, _) => Err(Error::usage("slerp takes two models whose weights add up to 1")
            .found(models.iter().map(|model| model.weight.to_string()).collect::<Vec<_>>().join(", "))
            .expected("weights such as 0.7 and 0.3")),
        (Method::Linear, _, _) if !sum.is_finite() => Err(no_mean(sum)),
        (Method::Passthrough, _, [_, _, ..]) => Err(Error::usage("passthrough takes one model")
            .found(models.len().to_string())
            .help("a recipe states which layers of several models become one")),
        (method, None, _) if method.needs_base() => {
            Err(Error::usage("this way to merge needs the model that the others were trained from")
                .expected("a base"))
        }
        _ => Ok(()),
    }
}
