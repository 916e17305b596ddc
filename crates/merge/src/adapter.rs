//! An adapter: the files of a directory that peft wrote.

use crate::config::{self, LoraConfig};
use crate::names::AdapterTensors;
use ckpt_api::{Error, Input, Limits, Result, first_few};
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
