//! Adapters of the differences between two models.

mod svd;

use crate::matrix::is_computable;
use crate::pairs::each_pair;
use ckpt_api::{Error, Result, Tensor, first_few};
use ckpt_engine::resources::{default_threads, in_parallel};
use ckpt_engine::source::{Configuration, Source, TensorRef};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use svd::{Factors, Rows};

/// What peft puts before the names of the model's own modules.
const PREFIX: &str = "base_model.model.";
/// What the names of tables of embeddings have in them.
const EMBEDDINGS: [&str; 3] = ["emb", "wte", "wpe"];
/// Families whose linear layers have inputs as rows.
const INPUTS_AS_ROWS: [&str; 3] = ["gpt2", "openai-gpt", "imagegpt"];
/// Names that an error lists.
const SHOWN: usize = 3;

/// An adapter that was made of the difference of two models: the tensors and the configuration that peft reads.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExtractedAdapter {
    /// Its tensors.
    pub tensors: Vec<ExtractedTensor>,
    /// What `adapter_config.json` states.
    pub config: Value,
    /// How many modules have a product.
    pub products: usize,
    /// How many modules it has as a whole.
    pub whole: usize,
}

/// A tensor of an adapter, in row-major order.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExtractedTensor {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its numbers.
    pub numbers: Vec<f32>,
}

/// The adapter that leads from `base` to `tuned`: for each linear layer the product of this rank that is nearest to the difference, and
/// other modules that differ as a whole.
///
/// The products are found by a subspace iteration that begins with signs drawn by the module's name, in 64-bit floats: the same models
/// give the same numbers, whatever the number of `threads`; 0 stands for as many as there are processors. It holds all tensors of the
/// adapter.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for models with other tensors; [`ckpt_api::Kind::Usage`] for a rank of 0, and for models that do not
/// differ; [`ckpt_api::Kind::Unsupported`] for weights that are no floats of at most 32 bits; whatever keeps them from being read.
pub fn extract_adapter(tuned: &Source, base: &Source, rank: u64, threads: usize) -> Result<ExtractedAdapter> {
    if rank == 0 {
        return Err(Error::usage("an adapter has a rank of at least 1").found("0"));
    }
    let names = ["config.json".to_owned()];
    let model = Configuration::beside(base.input(), &names, base.limits())?;
    let family = model.as_ref().and_then(|model| model.get("model_type")).and_then(Value::as_str);
    if let Some(family) = family.filter(|family| INPUTS_AS_ROWS.contains(family)) {
        return Err(Error::unsupported("no adapter is made of layers that have inputs as rows")
            .file(base.shown())
            .field("model_type")
            .found(family));
    }
    check(tuned, base)?;
    let threads = if threads == 0 { default_threads() } else { threads };
    let modules = changed_modules(tuned, base, threads)?;
    let is_linear = |tensors: &Vec<&Tensor>| tensors.iter().all(|tensor| is_linear_weight(tensor));
    let (linear, whole): (Vec<_>, Vec<_>) = modules.iter().partition(|(_, tensors)| is_linear(tensors));
    if linear.is_empty() {
        return Err(Error::usage(
            "the models have the same linear layers, so that there is nothing to extract",
        )
        .file(tuned.shown())
        .expected("a model that was trained from the other one"));
    }
    let made = in_parallel(&linear, threads, |(module, _)| {
        product(tuned, base, module, rank).map_err(|error| error.tensor(module.as_str()))
    })?;
    let mut tensors: Vec<ExtractedTensor> = Vec::new();
    let mut ranks = Map::new();
    for ((module, _), (own, pair)) in linear.iter().zip(made) {
        if own != rank {
            ranks.insert((*module).clone(), json!(own));
        }
        tensors.extend(pair);
    }
    for (module, _) in &whole {
        tensors.extend(whole_module(tuned, module)?);
    }
    let targets: Vec<&str> = linear.iter().map(|(module, _)| module.as_str()).collect();
    let class =
        model.as_ref().and_then(|model| model.get("architectures")?.get(0)?.as_str().map(str::to_owned));
    let is_causal = class.is_some_and(|class| class.ends_with("ForCausalLM"));
    let config = json!({
        "peft_type": "LORA",
        "task_type": is_causal.then_some("CAUSAL_LM"),
        "base_model_name_or_path": base.shown(),
        "inference_mode": true,
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": false,
        "init_lora_weights": true,
        "use_rslora": false,
        "use_dora": false,
        "rank_pattern": ranks,
        "alpha_pattern": ranks,
        "target_modules": target_modules(base, &targets),
        "modules_to_save": whole.iter().map(|(module, _)| module.as_str()).collect::<Vec<_>>(),
    });
    Ok(ExtractedAdapter { tensors, config, products: linear.len(), whole: whole.len() })
}

/// Refuses models with other tensors.
fn check(tuned: &Source, base: &Source) -> Result<()> {
    let (own, others) = (tuned.checkpoint().by_name(), base.checkpoint().by_name());
    for (has, lacks, shown) in [(&own, &others, base.shown()), (&others, &own, tuned.shown())] {
        let missing: Vec<&str> = has.keys().copied().filter(|name| !lacks.contains_key(name)).collect();
        if !missing.is_empty() {
            return Err(Error::mapping("the models have other tensors")
                .file(shown)
                .found(format!("no {}", first_few(&missing, SHOWN))));
        }
    }
    for tensor in &tuned.checkpoint().tensors {
        let other = base.tensor(&tensor.name)?;
        if other.shape() != &tensor.shape {
            return Err(Error::mapping("the models have tensors of other shapes")
                .file(tuned.shown())
                .tensor(&tensor.name)
                .found(tensor.shape.to_string())
                .expected(format!("{}, as in '{}'", other.shape(), base.shown())));
        }
    }
    Ok(())
}

/// The modules of which a tensor differs, and these tensors.
fn changed_modules<'s>(
    tuned: &'s Source,
    base: &Source,
    threads: usize,
) -> Result<BTreeMap<String, Vec<&'s Tensor>>> {
    let tensors: Vec<&Tensor> =
        tuned.checkpoint().tensors.iter().filter(|tensor| tensor.dtype.is_float()).collect();
    let changed = in_parallel(&tensors, threads, |tensor| {
        if !is_computable(tensor) {
            return Err(Error::unsupported("no adapter is made of weights of this dtype")
                .tensor(&tensor.name)
                .found(tensor.dtype.name()));
        }
        let mut differs = false;
        each_pair(&base.tensor(&tensor.name)?, &tuned.tensor(&tensor.name)?, |_, x, y| differs |= x != y)?;
        Ok(differs)
    })?;
    let mut modules: BTreeMap<String, Vec<&Tensor>> = BTreeMap::new();
    for (tensor, _) in tensors.into_iter().zip(changed).filter(|(_, changed)| *changed) {
        let module = tensor.name.rsplit_once('.').map_or(tensor.name.as_str(), |(module, _)| module);
        modules.entry(module.to_owned()).or_default().push(tensor);
    }
    Ok(modules)
}

/// Whether a tensor is the weight of a linear layer, by its name and its shape.
fn is_linear_weight(tensor: &Tensor) -> bool {
    let is_embedding = EMBEDDINGS.iter().any(|part| tensor.name.contains(part));
    tensor.name.ends_with(".weight")
        && tensor.shape.rank() == 2
        && !is_embedding
        && tensor.shape.elements() > 0
}

/// The factors of a module, and their rank.
fn product(tuned: &Source, base: &Source, module: &str, rank: u64) -> Result<(u64, [ExtractedTensor; 2])> {
    let name = format!("{module}.weight");
    let difference = Difference { base: base.tensor(&name)?, tuned: tuned.tensor(&name)? };
    let shape = difference.tuned.shape();
    let [rows, columns] = [shape[0], shape[1]];
    let rank = rank.min(rows).min(columns);
    let count = usize::try_from(rank).map_err(|_| Error::unsupported("the rank is too high"))?;
    let Factors { left, right } = svd::factors(&difference, count, key_of(module))?;
    let tensor = |end: &str, shape: [u64; 2], numbers| ExtractedTensor {
        name: format!("{PREFIX}{module}.{end}.weight"),
        shape: shape.to_vec(),
        numbers,
    };
    Ok((rank, [tensor("lora_A", [rank, columns], right), tensor("lora_B", [rows, rank], left)]))
}

/// A number of a name: its 64-bit FNV-1a hash.
fn key_of(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// All tensors of a module, as they are.
fn whole_module(tuned: &Source, module: &str) -> Result<Vec<ExtractedTensor>> {
    let own = tuned.checkpoint().tensors.iter().filter(|tensor| {
        tensor
            .name
            .strip_prefix(module)
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|end| !end.contains('.'))
    });
    own.map(|tensor| {
        Ok(ExtractedTensor {
            name: format!("{PREFIX}{}", tensor.name),
            shape: tensor.shape.to_vec(),
            numbers: tuned.tensor(&tensor.name)?.read::<f32>()?,
        })
    })
    .collect()
}

/// What peft finds these modules by: the last parts of their names, if no other module ends like that.
fn target_modules(base: &Source, modules: &[&str]) -> Vec<String> {
    let end = |module: &str| module.rsplit('.').next().unwrap_or_default().to_owned();
    let ends: BTreeSet<String> = modules.iter().map(|module| end(module)).collect();
    let own: BTreeSet<&str> = modules.iter().copied().collect();
    let names = base.checkpoint().tensors.iter().filter_map(|tensor| Some(tensor.name.rsplit_once('.')?.0));
    let mut others = names.filter(|module| !own.contains(module) && ends.contains(&end(module)));
    match others.next() {
        None => ends.into_iter().collect(),
        Some(_) => modules.iter().map(|module| (*module).to_owned()).collect(),
    }
}

/// The difference of two matrices.
struct Difference<'s> {
    base: TensorRef<'s>,
    tuned: TensorRef<'s>,
}

impl Rows for Difference<'_> {
    fn shape(&self) -> [usize; 2] {
        // Of tensors whose rows are in memory, one at a time.
        let shape = self.tuned.shape();
        [shape[0], shape[1]].map(|len| usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn each(&self, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let [_, columns] = self.shape();
        let (mut numbers, mut index) = (Vec::with_capacity(columns), 0);
        each_pair(&self.base, &self.tuned, |_, base, tuned| {
            numbers.push(tuned - base);
            if numbers.len() == columns {
                row(index, &numbers);
                numbers.clear();
                index += 1;
            }
        })
    }
}
