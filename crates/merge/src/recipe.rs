//! Recipes of merges in YAML, as mergekit has them.

mod nodes;

use crate::models::{Input, Merge, Method, Parameters, Slice};
use ckpt_api::{DType, Error, Result};
use ckpt_containers::yaml;
use ckpt_engine::source::Source;
use nodes::{Entries, parameters};

/// What a recipe may state.
const KEYS: [&str; 8] = [
    "models",
    "slices",
    "base_model",
    "merge_method",
    "parameters",
    "dtype",
    "out_dtype",
    "tokenizer_source",
];
/// What mergekit knows beside that.
const UNSUPPORTED: [&str; 3] = ["modules", "tokenizer", "chat_template"];

/// A recipe: which models are merged, and how. The models are named, not opened.
#[derive(Debug)]
pub struct Recipe {
    method: Method,
    /// The names of models, each once. The first one gives the files beside the tensors.
    models: Vec<String>,
    slices: Vec<Slice>,
    parameters: Parameters,
    dtype: Option<DType>,
}

impl Recipe {
    /// Reads a recipe.
    ///
    /// ```
    /// use ckpt_merge::Recipe;
    /// let recipe = Recipe::parse(
    ///     "merge_method: linear\nmodels:\n- {model: a, parameters: {weight: 0.4}}\n- {model: b, parameters: {weight: 0.6}}\n",
    /// )?;
    /// assert_eq!(recipe.models(), ["a", "b"]);
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], with its place, for what is no recipe, and for unknown keys, methods and parameters;
    /// [`ckpt_api::Kind::Unsupported`] for what mergekit knows beside that.
    pub fn parse(text: &str) -> Result<Self> {
        let document = yaml::parse(text)
            .map_err(|malformed| Error::usage("the recipe is no YAML").found(malformed.reason))?;
        let document = document.ok_or_else(|| Error::usage("the recipe is empty"))?;
        let entries = Entries::of(&document, "the recipe", &KEYS, &UNSUPPORTED)?;
        let method = entries.text("merge_method")?.ok_or_else(|| entries.lacks("merge_method"))?;
        let method: Method = method.parse().map_err(|error: Error| entries.at("merge_method", error))?;
        let mut models = Models::default();
        let base = entries.text("base_model")?.map(|name| models.number(name));
        let slices = match (entries.list("models")?, entries.list("slices")?) {
            (Some(given), None) => vec![models.whole(method, given, base)?],
            (None, Some(given)) => models.slices(method, given, base)?,
            _ => {
                return Err(Error::usage("a recipe has either models or slices").expected("one of both keys"));
            }
        };
        if let Some(source) = entries.text("tokenizer_source")?
            && source != "base"
            && Some(source) != entries.text("base_model")?
        {
            let error = Error::unsupported("the vocabularies of models are not merged")
                .found(format!("'{}'", source.escape_debug()));
            return Err(entries.at("tokenizer_source", error.expected("base")));
        }
        let dtype = |key: &str| {
            entries.text(key)?.map(|name| dtype(name).map_err(|error| entries.at(key, error))).transpose()
        };
        Ok(Recipe {
            method,
            models: models.names,
            slices,
            parameters: parameters(&entries, method, false)?,
            dtype: dtype("out_dtype")?.or(dtype("dtype")?),
        })
    }

    /// The models that it names, as paths: each once, in an order that [`Recipe::merge`] relies on.
    pub fn models(&self) -> &[String] {
        &self.models
    }

    /// The dtype of the merged model, if it states one.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The merged model of these, which are [`Recipe::models`], opened. `dare` draws by `seed`.
    ///
    /// # Errors
    /// As [`crate::merge_models`].
    pub fn merge(self, models: Vec<Source>, seed: u64) -> Result<Source> {
        if models.len() != self.models.len() {
            return Err(Error::usage("a recipe gets other models than it names"));
        }
        let Recipe { method, slices, parameters, .. } = self;
        Merge { method, sources: models, slices, parameters, seed }.source()
    }
}

/// The models of a recipe, in the order in which it names them.
#[derive(Default)]
struct Models {
    names: Vec<String>,
}

impl Models {
    fn number(&mut self, name: &str) -> usize {
        let found = self.names.iter().position(|own| own == name);
        found.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    /// Models as a whole. A base that is not among them is one of them.
    fn whole(&mut self, method: Method, given: &[yaml::Node], base: Option<usize>) -> Result<Slice> {
        let mut inputs = Vec::new();
        for node in given {
            let entries = Entries::of(node, "a model", &["model", "parameters"], &[])?;
            inputs.push(self.input(method, &entries, None)?);
        }
        let base = needed_base(method, base)?;
        if let Some(base) = base.filter(|base| inputs.iter().all(|input| input.source != *base)) {
            inputs.push(Input { source: base, layers: None, parameters: Parameters::new() });
        }
        checked(method, Slice { inputs, base, parameters: Parameters::new() })
    }

    fn slices(&mut self, method: Method, given: &[yaml::Node], base: Option<usize>) -> Result<Vec<Slice>> {
        let mut slices = Vec::new();
        for node in given {
            let keys = ["sources", "base_model", "parameters"];
            let entries = Entries::of(node, "a slice", &keys, &["residual_weight"])?;
            let own = entries.text("base_model")?.map(|name| self.number(name));
            let mut inputs = Vec::new();
            for source in entries.list("sources")?.ok_or_else(|| entries.lacks("sources"))? {
                let keys = ["model", "layer_range", "parameters"];
                let entries = Entries::of(source, "a source", &keys, &[])?;
                let layers = entries.range("layer_range")?;
                inputs.push(self.input(method, &entries, Some(layers))?);
            }
            let base = needed_base(method, own.or(base))?;
            if let Some(base) = base.filter(|base| inputs.iter().all(|input| input.source != *base)) {
                let error =
                    Error::usage("the base is no source of a slice").found(format!("'{}'", self.names[base]));
                return Err(error.field(node.place()));
            }
            slices.push(
                checked(method, Slice { inputs, base, parameters: parameters(&entries, method, false)? })
                    .map_err(|error| error.field(node.place()))?,
            );
        }
        match slices.is_empty() {
            true => Err(Error::usage("a recipe has no slices")),
            false => Ok(slices),
        }
    }

    fn input(&mut self, method: Method, entries: &Entries<'_>, layers: Option<[u64; 2]>) -> Result<Input> {
        let name = entries.text("model")?.ok_or_else(|| entries.lacks("model"))?;
        if name.contains('+') {
            let error = Error::unsupported("an adapter is not merged in a recipe")
                .found(format!("'{}'", name.escape_debug()));
            return Err(
                entries.at("model", error.help("merge it first: ckpt merge MODEL --lora ADAPTER OUT"))
            );
        }
        let parameters = parameters(entries, method, true)?;
        Ok(Input { source: self.number(name), layers, parameters })
    }
}

/// The base that a method changes.
fn needed_base(method: Method, base: Option<usize>) -> Result<Option<usize>> {
    match (method.needs_base(), base) {
        (true, None) => {
            Err(Error::usage("this way to merge needs the model that the others were trained from")
                .expected("base_model"))
        }
        (true, base) => Ok(base),
        (false, _) => Ok(None),
    }
}

/// Checks how many models a method takes, and that each is there once.
fn checked(method: Method, slice: Slice) -> Result<Slice> {
    let mut numbers: Vec<usize> = slice.inputs.iter().map(|input| input.source).collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    let expected = match method {
        Method::Passthrough => Some(1),
        Method::Slerp => Some(2),
        _ => None,
    };
    match expected {
        _ if count == 0 => Err(Error::usage("there is no model to merge")),
        _ if numbers.len() != count => Err(Error::usage("a model is merged with itself")),
        Some(expected) if count != expected => {
            Err(Error::usage(format!("the method {} takes another number of models", method.name()))
                .found(count.to_string())
                .expected(expected.to_string()))
        }
        _ => Ok(slice),
    }
}

/// A dtype, as PyTorch calls it.
fn dtype(name: &str) -> Result<DType> {
    match name {
        "float32" => Ok(DType::F32),
        "float16" => Ok(DType::F16),
        "bfloat16" => Ok(DType::Bf16),
        _ => Err(Error::usage("there is no such dtype for merged weights")
            .found(format!("'{}'", name.escape_debug()))
            .expected("float32, float16 or bfloat16")),
    }
}
