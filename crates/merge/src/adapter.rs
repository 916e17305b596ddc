//! An adapter: the files of a directory that peft wrote.

use crate::config::{self, LoraConfig};
use crate::names::AdapterTensors;
use ckpt_api::{Error, Input, Limits, Result, first_few};
use ckpt_engine::formats::Formats;
use ckpt_engine::source::{OpenOptions, Source};
use ckpt_engine::store::IntoInput;

/// The files of weights, the preferred first.
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];
/// Names that an error lists.
const SHOWN: usize = 4;

/// An adapter that was opened, and how strongly it is applied.
#[derive(Debug)]
pub struct Adapter {
    pub(crate) source: Source,
    pub(crate) config: LoraConfig,
    pub(crate) tensors: AdapterTensors,
    pub(crate) weight: f32,
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
        let (Some(config), Some(weights)) = (config, weights) else { return Err(no_adapter(&named)) };
        let options = options.clone().parts(true);
        let source = Source::open(formats, weights, &options)?;
        // Remembered as a file of the source, which a plan pins.
        source.input().file(config::FILE)?;
        let tensors = AdapterTensors::new(source.contents()).map_err(|error| error.file(source.shown()))?;
        Ok(Adapter { source, config, tensors, weight, shown })
    }

    /// The checkpoint of its tensors.
    pub fn source(&self) -> &Source {
        &self.source
    }
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
        "{} beside {}, as peft writes them",
        config::FILE,
        WEIGHTS.join(" or ")
    ))
}
