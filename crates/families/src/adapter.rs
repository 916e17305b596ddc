//! An adapter as a GGUF file that llama.cpp adds to a model: the factors of its products under the names of the model's matrices.

use crate::card::Card;
use crate::catalog;
use crate::config::{Config, insert};
use crate::formats::GGUF;
use crate::identity::Identity;
use crate::to_gguf::{names, types};
use ckpt_api::{Error, Metadata, MetadataMap, Result, Scalar, count, first_few};
use ckpt_engine::formats::{Formats, ModelRequest, ModelTranslation};
use ckpt_engine::mapping::{Factors, Mapping};
use ckpt_engine::recipe::Factor;
use ckpt_engine::source::OpenOptions;
use ckpt_engine::store::IntoInput;
use ckpt_engine::words::printable;
use ckpt_merge::{Adapter, Product};
use std::collections::{BTreeMap, HashSet};

/// The configuration of an adapter, which peft writes.
const FILE: &str = "adapter_config.json";
/// The option that names the directory of the model.
const BASE: &str = "base";
/// How the names of factors end, behind those of the matrices.
const RIGHT: &str = ".lora_a";
const LEFT: &str = ".lora_b";

/// Returns what the conversion of an adapter to GGUF adds to its tensors; `None` for what is no adapter.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] without the option that names the model; [`ckpt_api::Kind::Unsupported`] for what llama.cpp's files
/// of adapters do not hold; whatever keeps the files from being read.
pub(crate) fn translate(formats: &Formats, request: &ModelRequest<'_>) -> Result<Option<ModelTranslation>> {
    let input = request.source.input();
    if !input.has_file(FILE) {
        return Ok(None);
    }
    let options = OpenOptions::new().limits(request.source.limits().clone());
    let adapter = Adapter::open(formats, input.clone(), 1.0, &options)?;
    let config = base(formats, &adapter, request)?;
    let class = config.class().unwrap_or_default();
    let family = catalog::of_class(class)?.ok_or_else(|| {
        Error::unsupported("the model of the adapter is of no family that is known here")
            .file(config.shown())
            .field("architectures")
            .found(printable(class))
    })?;
    let config = config.with_defaults(&family.defaults);
    let mapping = family.mapping_of(request.source, formats)?;
    let mapping = mapping.with_configuration(|key| config.count(&[key]))?;
    let products = adapter.products()?;
    let alpha = common_alpha(&products)?;
    let mut translation = ModelTranslation::new(None);
    translation.mapping = Some(of_products(&mapping, &products, alpha, request)?);
    (translation.options, translation.dtype) = types(request);
    translation.options.retain(|(key, _)| key != BASE);
    translation.notes.push(
        format!(
            "an adapter of {} ({}) becomes one of llama.cpp's architecture '{}', with {}",
            family.title,
            printable(class),
            family.architecture,
            count(products.len(), "product")
        )
        .into(),
    );
    leave_out_base(&products, request, &mut translation);
    let (card, note) = Card::beside(input, request.source.limits())?;
    translation.notes.extend(note.map(Into::into));
    let identity = Identity { card, names: names(&Config::default(), request.source) };
    let architecture = family.architecture;
    translation.describe = Box::new(move |_| Ok(describe(&architecture, &identity, alpha)));
    Ok(Some(translation))
}

/// Leaves out the model's own tensors, which peft saves beside the products of embeddings.
fn leave_out_base(products: &[Product<'_>], request: &ModelRequest<'_>, translation: &mut ModelTranslation) {
    let factors: HashSet<&str> =
        products.iter().flat_map(|product| [product.a.name.as_str(), product.b.name.as_str()]).collect();
    let names = request.source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str());
    let others: Vec<&str> = names.filter(|name| !factors.contains(name)).collect();
    if let Some(first) = others.first() {
        let tensors = count(others.len(), "tensor");
        translation
            .notes
            .push(format!("left out: {tensors} of the model, such as '{}'", printable(first)).into());
        translation.exclude.extend(others.into_iter().map(str::to_owned));
    }
}

/// The configuration of the model that the adapter changes.
fn base(formats: &Formats, adapter: &Adapter, request: &ModelRequest<'_>) -> Result<Config> {
    let limits = request.source.limits();
    let Some(path) = request.option(BASE) else {
        let stated = adapter.base().map(|base| format!("'{}'", printable(base)));
        return Err(Error::usage(
            "an adapter gets the names of its model, whose configuration is not beside it",
        )
        .file(request.source.shown())
        .found(stated.unwrap_or_else(|| "nothing that states the model".to_owned()))
        .expected("the directory of the model, with its config.json")
        .help("name it with --set base=DIRECTORY; --map identity keeps the tensors' names"));
    };
    let input = path.into_input(formats.addresses(), limits)?;
    let found = Config::beside(&input, limits)?.filter(|config| config.class().is_some());
    found.ok_or_else(|| {
        Error::usage("the model of the adapter has no configuration")
            .file(input.display(input.entry()))
            .found(first_few(input.list("").unwrap_or_default(), 4))
            .expected("config.json, with its class in 'architectures'")
    })
}

/// The number that is divided by the rank of a product: that of most of them.
fn common_alpha(products: &[Product<'_>]) -> Result<f32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for product in products {
        *counts.entry(alpha_of(product).to_bits()).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(bits, _)| f32::from_bits(bits));
    match most {
        // llama.cpp takes 0 for an adapter that states none.
        Some(alpha) if alpha != 0.0 && alpha.is_finite() => Ok(alpha),
        Some(alpha) => Err(Error::unsupported("llama.cpp does not scale an adapter by this number")
            .field("lora_alpha")
            .found(alpha.to_string())),
        None => Err(Error::usage("the adapter changes nothing")),
    }
}

fn alpha_of(product: &Product<'_>) -> f32 {
    (product.scale * product.rank as f64) as f32
}

/// Names the factors. Those of another scale than most have it in their left factor.
fn of_products(
    mapping: &Mapping,
    products: &[Product<'_>],
    alpha: f32,
    request: &ModelRequest<'_>,
) -> Result<Mapping> {
    let matrices: Vec<String> = products.iter().map(|product| format!("{}.weight", product.module)).collect();
    let factors = products.iter().zip(&matrices).map(|(product, matrix)| {
        let scale =
            Scalar::new(alpha_of(product) / alpha).ok_or_else(|| Error::defect("a scale is not finite"))?;
        Ok(Factors {
            matrix,
            left: (&product.b.name, LEFT),
            right: (&product.a.name, RIGHT),
            transpose_right: product.is_embedding,
            scale: (scale.get() != 1.0).then_some(Factor::Times(scale)),
        })
    });
    mapping.of_factors(&factors.collect::<Result<Vec<_>>>()?, request.source.limits())
}

/// The keys of the file, in the order of llama.cpp's converter.
fn describe(architecture: &str, identity: &Identity, alpha: f32) -> Metadata {
    let mut pairs = MetadataMap::default();
    pairs.insert("general.architecture", architecture);
    pairs.insert("general.type", "adapter");
    pairs.insert("adapter.type", "lora");
    // The label of sizes is that of models.
    identity.add(&[], &mut pairs);
    insert(&mut pairs, "adapter.lora.alpha".to_owned(), Some(alpha));
    insert(&mut pairs, "general.quantization_version".to_owned(), Some(2u32));
    let mut metadata = Metadata::default();
    for (key, value) in pairs {
        metadata.insert(GGUF, &key, value);
    }
    metadata
}
