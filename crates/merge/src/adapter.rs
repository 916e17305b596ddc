//! An adapter: the files of a directory that peft wrote.

use crate::config::{self, LoraConfig};
use crate::names::{AdapterTensors, Change};
use ckpt_api::{Error, Input, Limits, Result, Tensor, TensorId, first_few};
use ckpt_engine::formats::Formats;
use ckpt_engine::source::{OpenOptions, Source};
use ckpt_engine::store::IntoInput;
use std::collections::BTreeMap;

/// The files of weights, the preferred first.
const WEIGHTS: [&str; 3] =
    ["adapter_model.safetensors", "adapter_model.bin", "pytorch_lora_weights.safetensors"];
/// Names that an error lists.
const SHOWN: usize = 4;

/// An adapter that was opened, and how strongly it is applied.
#[derive(Debug)]
pub struct Adapter {
    pub(crate) source: Source,
    pub(crate) config: LoraConfig,
    pub(crate) tensors: AdapterTensors,
    pub(crate) weight: f32,
    /// The numbers beside factors that state scales, by the tensor's number.
    pub(crate) alphas: BTreeMap<usize, f64>,
    /// What people call it.
    pub(crate) shown: String,
}

impl Adapter {
    /// Opens the adapter in a directory, or a file of its weights. Its products are multiplied by `weight`. Reads headers only.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for what is no adapter, or for a weight that is not finite;
    /// [`ckpt_api::Kind::Unsupported`] for an adapter of another kind; what is wrong with its files.
    pub fn open(
        formats: &Formats,
        input: impl IntoInput,
        weight: f32,
        options: &OpenOptions,
    ) -> Result<Self> {
        let named = input.into_input(formats.addresses(), &options.limits)?;
        let shown = named.display(named.entry());
        if !weight.is_finite() {
            return Err(Error::usage("the weight of an adapter is not finite")
                .file(shown)
                .found(weight.to_string()));
        }
        let config = LoraConfig::beside(&named, &options.limits)?;
        let weights =
            if named.is_directory() { weights(&named, &options.limits)? } else { Some(named.clone()) };
        let Some(weights) = weights else { return Err(no_adapter(&named)) };
        let options = options.clone().parts(true);
        let source = Source::open(formats, weights, &options)?;
        let in_file = |error: Error| error.file(source.shown());
        let tensors = AdapterTensors::new(source.contents());
        let config = match config {
            Some(config) => {
                // Remembered as a file of the source, which a plan pins.
                source.input().file(config::FILE)?;
                config
            }
            // Other programs have no such file.
            None if tensors.as_ref().is_ok_and(|tensors| !tensors.is_peft) => {
                LoraConfig::of_tensors(source.shown())
            }
            None => return Err(no_adapter(&named)),
        };
        let tensors = tensors.map_err(in_file)?;
        let alphas = alphas(&source, &tensors).map_err(in_file)?;
        Ok(Adapter { source, config, tensors, weight, alphas, shown })
    }

    /// The checkpoint of its tensors.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The model that it was trained on, as its configuration states it: a path, or a name.
    pub fn base(&self) -> Option<&str> {
        self.config.base.as_deref()
    }

    /// The products that it adds to matrices of a model, in the order of their modules.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for an adapter that has more than products: magnitudes of rows, biases, tensors as a whole;
    /// [`ckpt_api::Kind::Corrupt`] for factors of another rank than is stated.
    pub fn products(&self) -> Result<Vec<Product<'_>>> {
        let in_file = |error: Error| error.file(self.source.shown());
        // The weight of a module that has a product is the base's own, which peft saves beside it.
        let has_product = |name: &&String| {
            let module = name.strip_suffix(".weight").unwrap_or(name);
            self.tensors.groups.values().any(|changes| changes.contains_key(module))
        };
        if let Some(name) = self.tensors.whole.keys().find(|name| !has_product(name)) {
            return Err(in_file(more_than_products("a tensor that it has as a whole").tensor(name)));
        }
        let mut groups = self.tensors.groups.iter();
        match (groups.next(), groups.next()) {
            (Some((_, changes)), None) => {
                changes.iter().map(|(module, change)| self.product(module, change).map_err(in_file)).collect()
            }
            (None, _) => Ok(Vec::new()),
            (Some((first, _)), Some((second, _))) => {
                let error = Error::unsupported("the adapter has products for several models");
                Err(in_file(error.found(format!("'{first}' and '{second}'"))))
            }
        }
    }

    fn product<'a>(&'a self, module: &'a str, change: &Change) -> Result<Product<'a>> {
        if change.magnitudes.is_some() || self.config.has_magnitudes {
            return Err(more_than_products("magnitudes of rows (DoRA)").tensor(module));
        }
        if change.bias.is_some() {
            return Err(more_than_products("a bias").tensor(module));
        }
        let factor = |id: Option<TensorId>| {
            let id = id.ok_or_else(|| Error::defect("a product lacks a factor"))?;
            self.source.contents().tensor_at(id).map(|(tensor, _)| tensor)
        };
        let (a, b) = (factor(change.a)?, factor(change.b)?);
        let rank =
            check_rank(&self.config, module, a, b, [a.shape.first().copied(), b.shape.last().copied()])?;
        let scale = self.config.scale(module, rank, self.stated_alpha(change))? * f64::from(self.weight);
        Ok(Product { module, a, b, rank, scale, is_embedding: change.is_embedding })
    }

    /// The number beside the factors of a product.
    pub(crate) fn stated_alpha(&self, change: &Change) -> Option<f64> {
        self.alphas.get(&change.alpha?.0).copied()
    }
}

/// What an adapter adds to the weight of a module: `scale` times the matrix product of `b` and `a`.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// The module, by its name in the model.
    pub module: &'a str,
    /// The factor of `rank` rows.
    pub a: &'a Tensor,
    /// The factor of `rank` columns.
    pub b: &'a Tensor,
    /// The rank.
    pub rank: u64,
    /// By what the product is multiplied.
    pub scale: f64,
    /// Whether the module is a table of embeddings, to which the transposed product is added.
    pub is_embedding: bool,
}

/// The rank of a product: that of its factors, which must be the one that is stated.
pub(crate) fn check_rank(
    config: &LoraConfig,
    module: &str,
    a: &Tensor,
    b: &Tensor,
    [of_a, of_b]: [Option<u64>; 2],
) -> Result<u64> {
    let rank = config.rank(module)?.or(of_a);
    match rank.filter(|rank| [of_a, of_b] == [Some(*rank); 2]) {
        Some(rank) => Ok(rank),
        None => Err(Error::corrupt("the factors of a product have another rank than the adapter states")
            .tensor(&a.name)
            .found(format!("{} and {}", a.shape, b.shape))
            .expected(format!("rank {}, by {}", rank.unwrap_or_default(), config.shown))),
    }
}

fn more_than_products(what: &str) -> Error {
    Error::unsupported("the adapter has more than products of two factors")
        .found(what.to_owned())
        .help("merge it into its base: ckpt merge BASE --lora ADAPTER OUTPUT")
}

/// The numbers beside factors.
fn alphas(source: &Source, tensors: &AdapterTensors) -> Result<BTreeMap<usize, f64>> {
    let mut alphas = BTreeMap::new();
    for id in tensors.groups.values().flat_map(|changes| changes.values()).filter_map(|change| change.alpha) {
        let (tensor, _) = source.contents().tensor_at(id)?;
        let alpha = match tensor.shape.elements() {
            1 => source.tensor(&tensor.name)?.read::<f32>()?.first().copied(),
            _ => None,
        };
        let alpha = alpha.filter(|alpha| alpha.is_finite()).ok_or_else(|| {
            Error::corrupt("the scale of a product is no finite number")
                .tensor(&tensor.name)
                .found(tensor.shape.to_string())
        })?;
        alphas.insert(id.0, f64::from(alpha));
    }
    Ok(alphas)
}

/// The file of weights in a directory.
fn weights(directory: &Input, limits: &Limits) -> Result<Option<Input>> {
    let Some(name) = WEIGHTS.iter().find(|name| directory.has_file(name)) else { return Ok(None) };
    directory.check_links(name)?;
    Ok(Some(Input::within_store(directory.store().clone(), name).within(limits)))
}

/// The error for an input without the files of an adapter.
fn no_adapter(input: &Input) -> Error {
    let names = input.list("").unwrap_or_default();
    let found = if names.is_empty() { "no files".to_owned() } else { first_few(&names, SHOWN) };
    Error::usage("this is no adapter").file(input.display(input.entry())).found(found).expected(format!(
        "{} beside {}, as peft writes them; or a file with names of kohya's or diffusers'",
        config::FILE,
        WEIGHTS[..2].join(" or ")
    ))
}
