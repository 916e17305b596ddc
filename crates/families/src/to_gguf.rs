//! A Hugging Face directory as a GGUF file: names, keys, tokenizer, and the tensors that follow from the configuration.

use crate::agreement::Agreement;
use crate::card::Card;
use crate::config::{Config, insert};
use crate::family::{Compute, ConstantKind, Family, Key, Space, TokenizerValue, mapping_named};
use crate::formats::GGUF;
use crate::identity::Identity;
use crate::{catalog, keys, nested, pooling, rope, tied};
use ckpt_api::{Checkpoint, DType, Metadata, MetadataMap, Result, Tensor};
use ckpt_engine::formats::{ConstantTensor, Formats, ModelRequest, ModelTranslation};
use ckpt_engine::source::{Configuration, Source};
use ckpt_engine::words::printable;
use ckpt_tokenizers::{Request, SpacePrefix, TokenizerKind};

/// Options of the GGUF codec: the type of tensors, and a file that gives the keys.
const TYPE: &str = "type";
const LIKE: &str = "like";
/// The option that names the pre-tokenizer.
const PRE: &str = "pre";
/// The key that states whether a space is put before a text: the last one of Gemma's.
const SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
/// The key that states how many types of tokens a model has, and the name of the number in `config.json`.
pub(crate) const TYPE_COUNT: &str = "tokenizer.ggml.token_type_count";
pub(crate) const TYPES: &str = "type_vocab_size";
/// Files of tokenizers, and the one of SentencePiece.
const TOKENIZERS: [&str; 3] = ["tokenizer.json", SENTENCEPIECE, "spiece.model"];
const SENTENCEPIECE: &str = "tokenizer.model";
/// The key of the configuration that names how weights are quantized, and experts of 4 bits.
const METHOD: &str = "quantization_config.quant_method";
const MXFP4: &str = "mxfp4";
/// The file of sampling settings; their names there and in keys, and whether they are counts.
const GENERATION: &str = "generation_config.json";
const SAMPLING: [(&str, &str, bool); 11] = [
    ("top_k", "top_k", true),
    ("top_p", "top_p", false),
    ("min_p", "min_p", false),
    ("xtc_probability", "xtc_probability", false),
    ("xtc_threshold", "xtc_threshold", false),
    ("temperature", "temp", false),
    ("penalty_last_n", "penalty_last_n", true),
    ("repetition_penalty", "penalty_repeat", false),
    ("mirostat", "mirostat", true),
    ("mirostat_tau", "mirostat_tau", false),
    ("mirostat_eta", "mirostat_eta", false),
];

/// Returns what the conversion of a Hugging Face directory to GGUF adds to its tensors.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for what the architecture needs and the files do not state; whatever keeps them from being
/// read.
pub(crate) fn translate(formats: &Formats, request: &ModelRequest<'_>) -> Result<Option<ModelTranslation>> {
    let source = request.source;
    let Some(config) = Config::of_source(source)? else { return Ok(None) };
    let Some(class) = config.class() else { return Ok(None) };
    let Some(family) = catalog::of_class(class)? else { return Ok(Some(unknown(&config, class, request))) };
    let config = config.with_defaults(&family.defaults);
    let has_mxfp4 = config.first(&[METHOD]).and_then(|method| method.as_str()) == Some(MXFP4);
    let mapping = match family.mxfp4_mapping.as_ref().filter(|_| has_mxfp4) {
        Some(name) => mapping_named(name, formats)?,
        None => family.mapping_of(source, formats)?,
    };
    let mapping = mapping.with_configuration(|key| config.count(&[key]))?;
    let mut translation = ModelTranslation::new(None);
    translation.mapping = Some(nested::adapt(&family, &config, request, mapping, &mut translation)?);
    translation.takes_stored = has_mxfp4 && family.mxfp4_mapping.is_some();
    translation.constants = constants(&family, &config)?;
    tied::leave_out(source, &config, &mut translation)?;
    leave_out_layers(&family, &config, request, &mut translation);
    (translation.options, translation.dtype) = types(request);
    translation.notes.push(
        format!(
            "{} ({}) becomes a model of llama.cpp's architecture '{}'",
            family.title,
            printable(class),
            family.architecture
        )
        .into(),
    );
    translation.notes.extend(family.dropped_note().map(Into::into));
    translation.notes.extend(family.assumed_note(&config).map(Into::into));
    translation.notes.extend(other_scores(&family, &config).map(Into::into));
    translation.notes.extend(unscaled(&family, &config)?.map(Into::into));
    if request.option(LIKE).is_none() {
        let header = Header::new(family, config, request)?;
        translation.notes.extend(header.notes.iter().cloned().map(Into::into));
        translation.describe = Box::new(move |checkpoint| header.describe(checkpoint));
    }
    Ok(Some(translation))
}

/// A model of no known family: its tensors keep their names.
fn unknown(config: &Config, class: &str, request: &ModelRequest<'_>) -> ModelTranslation {
    let mut translation = ModelTranslation::new(None);
    translation.options = request.options.to_vec();
    translation.dtype = request.dtype;
    let kind = config.model_type().unwrap_or(class);
    let note = format!(
        "model_type '{}' is not known: tensors convert by name; no graph, no GGUF keys",
        printable(kind)
    );
    translation.notes.push(note.into());
    translation
}

/// A note on scores that llama.cpp scales in another way, because no key states theirs.
fn other_scores(family: &Family, config: &Config) -> Option<String> {
    let scores = family.scores.as_ref()?;
    let (own, theirs) = (scores.stated(config), scores.divisor(config)?);
    (own != theirs).then(|| {
        format!(
            "llama.cpp divides the scores of attention by the root of {theirs}, the model by that of {own} ({}): they compute \
             other numbers",
            scores.config
        )
    })
}

/// The tensors that follow from the configuration.
fn constants(family: &Family, config: &Config) -> Result<Vec<ConstantTensor>> {
    let mut tensors = Vec::new();
    for kind in &family.constants {
        match kind {
            ConstantKind::Llama3Frequencies => tensors.extend(rope::llama3_frequencies(config)?),
            ConstantKind::LongFactors => tensors.extend(rope::long_factors(config)?),
        }
    }
    Ok(tensors)
}

/// A note on a scaling of the rotary frequencies that the files of a family have no keys for.
fn unscaled(family: &Family, config: &Config) -> Result<Option<String>> {
    let common = if family.common { catalog::common()? } else { Vec::new() };
    let common = common.iter().filter(|key| !family.omit.contains(&key.name));
    let is_kept = common.chain(&family.keys).any(|key| key.compute == Some(Compute::Rope));
    let rope = config.rope();
    let kind = rope.kind().filter(|kind| *kind != "default" && !is_kept && family.constants.is_empty());
    Ok(kind.map(|kind| {
        format!(
            "llama.cpp does not scale the rotary frequencies of {}, the model does ('{}'): they compute other numbers",
            family.title,
            printable(kind)
        )
    }))
}

/// Leaves out the layers behind those of the model, such as those that predict several tokens.
fn leave_out_layers(
    family: &Family,
    config: &Config,
    request: &ModelRequest<'_>,
    translation: &mut ModelTranslation,
) {
    let (Some(prefix), Some(count)) = (&family.layers, config.count(&["num_hidden_layers"])) else { return };
    let number = |name: &str| {
        let (number, _) = name.strip_prefix(prefix.as_str())?.split_once('.')?;
        number.parse::<u64>().ok()
    };
    let names = request.source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str());
    let behind: Vec<&str> = names.filter(|name| number(name).is_some_and(|number| number >= count)).collect();
    let Some(first) = behind.first() else { return };
    translation.notes.push(
        format!(
            "left out: {} tensors of layers from {count} on, which the {count} layers of the model do not need, such as '{}'",
            behind.len(),
            printable(first)
        )
        .into(),
    );
    translation.exclude.extend(behind.into_iter().map(str::to_owned));
}

/// The options and the dtype of the conversion: without a type, matrices keep theirs, and what llama.cpp takes as F32 only is
/// F32. A dtype is the type of that name.
pub(crate) fn types(request: &ModelRequest<'_>) -> (Vec<(String, String)>, Option<DType>) {
    let mut options = request.options.to_vec();
    if request.option(TYPE).is_some() {
        return (options, request.dtype);
    }
    // Numbers that quantized weights stand for have a dtype that the model does not.
    let grouped = request.source.grouped();
    let is_own = |tensor: &&Tensor| grouped.is_none_or(|grouped| grouped.scheme(&tensor.name).is_none());
    let mut tensors = request.source.checkpoint().tensors.iter();
    let first = tensors.find(|tensor| is_matrix(tensor) && is_own(tensor));
    let own = first.map(|tensor| tensor.dtype);
    let named = |dtype: &DType| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
    let Some(dtype) = request.dtype.or(own).filter(named) else { return (options, request.dtype) };
    options.push((TYPE.to_owned(), dtype.name().to_owned()));
    (options, None)
}

fn is_matrix(tensor: &Tensor) -> bool {
    tensor.shape.rank() > 1 && tensor.dtype.is_float()
}

/// What the header of a file is made of.
struct Header {
    family: Family,
    common: Vec<Key>,
    config: Config,
    /// What its card and its names say of the model.
    identity: Identity,
    /// What `generation_config.json` says of sampling.
    sampling: MetadataMap,
    /// The keys of the tokenizer.
    tokenizer: MetadataMap,
    /// What the keys do not hold.
    notes: Vec<String>,
}

impl Header {
    fn new(family: Family, config: Config, request: &ModelRequest<'_>) -> Result<Self> {
        let source = request.source;
        let sampling = sampling(source)?;
        let (tokenizer, mut notes) = tokenizer(&family, &config, request)?;
        let (card, note) = Card::beside(source.input(), source.limits())?;
        notes.extend(note);
        let identity = Identity { card, names: names(&config, source) };
        let config = pooling::beside(config, source)?;
        Ok(Header { family, common: catalog::common()?, config, identity, sampling, tokenizer, notes })
    }

    /// The keys of the file, in the order of llama.cpp's converter.
    fn describe(self, checkpoint: &Checkpoint) -> Result<Metadata> {
        let mut pairs = MetadataMap::default();
        pairs.insert("general.architecture", self.family.architecture.as_str());
        if self.family.constants.contains(&ConstantKind::LongFactors) {
            rope::add_long_scale(&self.family.architecture, &self.config, &mut pairs)?;
        }
        pairs.insert("general.type", "model");
        for (key, value) in self.sampling.iter() {
            pairs.insert(key, value.clone());
        }
        self.identity.add(&checkpoint.tensors, &mut pairs);
        keys::add(&self.family, &self.common, &self.config, &mut pairs)?;
        insert(&mut pairs, "general.quantization_version".to_owned(), Some(2u32));
        for (key, value) in self.tokenizer {
            pairs.insert(key, value);
        }
        let (family, common, config) = (&self.family, &self.common, &self.config);
        Agreement { family, common, config, pairs: &pairs, tensors: &checkpoint.tensors }.check()?;
        let mut metadata = Metadata::default();
        for (key, value) in pairs {
            metadata.insert(GGUF, &key, value);
        }
        Ok(metadata)
    }
}

/// The keys of the model's tokenizer, and what they do not hold; none without its files.
fn tokenizer(
    family: &Family,
    config: &Config,
    request: &ModelRequest<'_>,
) -> Result<(MetadataMap, Vec<String>)> {
    let (input, json) = (request.source.input(), config.json());
    if !TOKENIZERS.iter().any(|name| input.has_file(name)) {
        return Ok((MetadataMap::default(), Vec::new()));
    }
    let kinds: Vec<TokenizerKind> = family.tokenizer.kinds.iter().copied().map(Into::into).collect();
    let space_prefix = match family.tokenizer.space_prefix {
        Space::Unset => SpacePrefix::Unset,
        Space::Stated => SpacePrefix::Stated,
        Space::None if input.has_file(SENTENCEPIECE) => SpacePrefix::False,
        Space::None => SpacePrefix::Unset,
    };
    let tokens: Vec<(&str, &str)> = borrowed(&family.tokenizer.tokens).collect();
    let wanted = Request {
        fallback_tokens: &tokens,
        vocab_size: vocab_size(family, config),
        pre: request.option(PRE),
        family_pre: family.tokenizer.pre.as_deref(),
        space_prefix,
        ..Request::new(&kinds, &json)
    };
    let mut pairs = MetadataMap::default();
    if family.tokenizer.counts_types {
        let types = config.count(&[TYPES]).unwrap_or(1);
        let types = u32::try_from(types).map_err(|_| config.lacks(&[TYPES], "a number of 32 bits"))?;
        pairs.insert(TYPE_COUNT, types);
    }
    add_own(family, &wanted, true, &mut pairs);
    let mut keys = ckpt_tokenizers::to_gguf(input, &wanted, request.source.limits())?;
    let last = match space_prefix {
        SpacePrefix::False => keys.pairs.remove(SPACE_PREFIX),
        _ => None,
    };
    add_own(family, &wanted, false, &mut keys.pairs);
    insert(&mut keys.pairs, SPACE_PREFIX.to_owned(), last);
    for (key, value) in keys.pairs {
        pairs.insert(key, value);
    }
    Ok((pairs, keys.notes))
}

/// Adds the keys of a family's tokenizers that come before those of the files, or behind them.
fn add_own(family: &Family, wanted: &Request<'_>, first: bool, pairs: &mut MetadataMap) {
    for key in family.tokenizer.keys.iter().filter(|key| key.first == first) {
        if key.vocab_size.is_none() || key.vocab_size == wanted.vocab_size {
            let name = format!("tokenizer.ggml.{}", key.name);
            match key.value {
                TokenizerValue::Id(id) => pairs.insert(name, id),
                TokenizerValue::Flag(flag) => pairs.insert(name, flag),
            };
        }
    }
}

/// The number of tokens: that of the configuration, or the next multiple that the family has.
fn vocab_size(family: &Family, config: &Config) -> Option<u64> {
    let stated = config.count(&["vocab_size"])?;
    let Some(multiple) = family.tokenizer.vocab_multiple else { return Some(stated) };
    let multiple = config.count(&["pad_vocab_size_multiple"]).unwrap_or(multiple);
    stated.checked_next_multiple_of(multiple).or(Some(stated))
}

fn borrowed(pairs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(name, text)| (name.as_str(), text.as_str()))
}

/// What `generation_config.json` says of sampling, as keys.
fn sampling(source: &Source) -> Result<MetadataMap> {
    let mut pairs = MetadataMap::default();
    let names = [GENERATION.to_owned()];
    let Some(found) = Configuration::beside(source.input(), &names, source.limits())? else {
        return Ok(pairs);
    };
    for (name, key, is_count) in SAMPLING {
        let Some(value) = found.get(name) else { continue };
        let key = format!("general.sampling.{key}");
        match is_count {
            true => insert(&mut pairs, key, value.as_i64().and_then(|count| i32::try_from(count).ok())),
            false => insert(&mut pairs, key, value.as_f64().map(|number| number as f32)),
        }
    }
    Ok(pairs)
}

/// What the model is called: the name that its configuration states, and that of its directory.
pub(crate) fn names(config: &Config, source: &Source) -> Vec<String> {
    let stated = config.first(&["_name_or_path"]).and_then(|name| name.as_str());
    // A path of another machine is no name.
    let stated = stated.filter(|name| !name.is_empty() && name.matches('/').count() <= 1);
    let directory = || {
        let path = source.input().directory()?;
        let path = path.canonicalize().unwrap_or(path);
        Some(path.file_name()?.to_string_lossy().into_owned())
    };
    let directory = directory().unwrap_or_else(|| "model".to_owned());
    stated.map(str::to_owned).into_iter().chain([directory]).collect()
}
