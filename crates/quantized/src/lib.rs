//! Quantized weights: tensors that describe a weight together, such as packed integers, scales and zero points.
//!
//! Each scheme is a module. It recognizes the tensors of a weight by their names and by what the configuration beside them
//! states, checks their dtypes and shapes against each other, and returns a [`Group`]: the weight as 32-bit floats that are
//! computed while they are read. [`KnownSchemes`] gives the groups to the engine.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bitsandbytes;
mod compressed;
mod config;
mod fp8;
mod gptq;
mod hqq;
mod mlx;
mod mxfp4;
mod names;
mod numbers;
mod parts;
mod quantize;
mod stated;
mod torchao;

use crate::config::{Config, Method};
use crate::parts::Parts;
use ckpt_api::{Contents, DType, Error, Input, Limits, Result, Tensor, TensorId, first_few};
use ckpt_engine::formats::{Group, Groups, Quantized, TensorGroups};
use std::collections::{BTreeSet, HashSet};

/// The schemes that come with the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownSchemes;

/// How the name of a tensor ends that belongs to a quantized weight, whatever the configuration says.
const MARKS: [&str; 17] = [
    ".qweight",
    "_packed",
    ".absmax",
    ".SCB",
    "_scale_inv",
    "_blocks",
    ".scales",
    "_scale",
    ".W_q",
    ".qzeros",
    "_scale_2",
    "_global_scale",
    ".quant_map",
    "__nf4",
    "__fp4",
    "_qdata",
    fp8::OF_MODULE,
];
/// Names that an error lists.
const SHOWN: usize = 3;

impl TensorGroups for KnownSchemes {
    fn find(&self, contents: &Contents, input: &Input, limits: &Limits) -> Result<Groups> {
        let names = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str());
        if !names.clone().any(|name| MARKS.iter().any(|mark| name.ends_with(mark))) {
            return Ok(Groups::default());
        }
        let parts = Parts::new(contents, input, limits);
        let mut groups = Groups::default();
        let config = match Config::beside(input, limits) {
            Ok(config) => config,
            Err(error) => {
                groups.problem = Some(error);
                return Ok(groups);
            }
        };
        let mut found = Vec::new();
        for stem in stems(names, &config) {
            match weight(&stem, &parts, &config) {
                Ok(Some(group)) => found.push(group),
                Ok(None) => {}
                Err(error) => groups.problem = groups.problem.or(Some(error)),
            }
        }
        if let Method::Unknown(method) = &config.method {
            let marked = parts.names().filter(|name| MARKS.iter().any(|mark| name.ends_with(mark)));
            let marked: Vec<&str> = marked.collect();
            let error = Error::unsupported("the weights are quantized by a method that is not known")
                .file(config.shown())
                .field("quant_method")
                .found(format!("'{method}', with {}", first_few(&marked, SHOWN)))
                .expected(config::KNOWN.join(", "));
            groups.problem = groups.problem.or(Some(error));
        }
        groups.problem = groups.problem.or_else(|| undescribed(contents, &found, &config));
        groups.groups = found;
        Ok(groups)
    }

    fn quantize(
        &self,
        scheme: &str,
        contents: &mut Contents,
        input: &Input,
        limits: &Limits,
    ) -> Result<Quantized> {
        quantize::quantize(scheme, contents, input, limits)
    }
}

/// The error about a weight of a quantized dtype that the configuration's method does not describe: cast, its elements would be
/// taken for numbers.
fn undescribed(contents: &Contents, groups: &[Group], config: &Config) -> Option<Error> {
    if matches!(config.method, Method::None | Method::Unknown(_)) {
        return None;
    }
    let described: HashSet<TensorId> = groups.iter().flat_map(|group| group.parts.iter().copied()).collect();
    let is_left = |(id, tensor): &(usize, &Tensor)| {
        let is_small = tensor.dtype.bytes() == Some(1) || matches!(tensor.dtype, DType::I32 | DType::U32);
        let is_weight =
            tensor.name.ends_with("weight") && tensor.shape.rank() > 0 && tensor.dtype != DType::Bool;
        is_small && is_weight && !described.contains(&TensorId(*id))
    };
    let (_, tensor) = contents.checkpoint.tensors.iter().enumerate().find(is_left)?;
    Some(
        Error::corrupt("a quantized weight lacks the tensors that describe it")
            .file(config.shown())
            .tensor(&tensor.name)
            .found(format!("{} of {} alone", tensor.dtype, tensor.shape))
            .expected("scales beside it, as the configuration's method has them"),
    )
}

/// What stands before the ending of a tensor's name in the names of its group's other tensors, in the order of names.
fn stems<'a>(names: impl Iterator<Item = &'a str>, config: &Config) -> BTreeSet<String> {
    let endings: &[&str] = match &config.method {
        Method::Gptq(_) | Method::Awq(_) => &[".qweight", ".qzeros", ".scales"],
        Method::CompressedTensors(_) => &[".weight_packed", ".weight_scale"],
        Method::Fp8 { .. } => &[".weight_scale_inv", ".weight_scale", "_scale_inv"],
        Method::ModelOpt => &[".weight_scale", ".weight_scale_2"],
        Method::Mxfp4 => &["_blocks"],
        Method::Mlx(_) => &[".scales"],
        Method::Hqq => &[".W_q"],
        Method::TorchAo => &["_qdata"],
        Method::BitsAndBytes => &[
            ".weight.absmax",
            ".weight.quant_map",
            ".weight.quant_state.bitsandbytes__nf4",
            ".weight.quant_state.bitsandbytes__fp4",
            ".SCB",
        ],
        Method::Unknown(_) => &[],
        // What says itself how it is stored.
        Method::None => &[
            ".weight.quant_state.bitsandbytes__nf4",
            ".weight.quant_state.bitsandbytes__fp4",
            ".SCB",
            ".weight_scale_inv",
            ".weight_scale",
            fp8::OF_MODULE,
            "_scale_inv",
            "_blocks",
            ".W_q",
            "_qdata",
        ],
    };
    let stem = |name: &'a str| endings.iter().find_map(|ending| name.strip_suffix(ending));
    names.filter_map(stem).map(str::to_owned).collect()
}

/// The weight whose tensors have names that begin with `stem`; `None` if the configuration excludes it, or if its tensors are
/// those of no scheme.
fn weight(stem: &str, parts: &Parts<'_>, config: &Config) -> Result<Option<Group>> {
    match &config.method {
        Method::Gptq(own) => gptq::gptq(stem, parts, own).map(Some),
        Method::Awq(own) => gptq::awq(stem, parts, own).map(Some),
        Method::BitsAndBytes => bitsandbytes::weight(stem, parts),
        Method::CompressedTensors(own) => compressed::weight(stem, parts, own),
        Method::Fp8 { block } => fp8::weight(stem, parts, Some(*block)),
        Method::ModelOpt => fp8::modelopt(stem, parts),
        Method::Mxfp4 => mxfp4::weight(stem, parts),
        Method::Mlx(own) => mlx::weight(stem, parts, own),
        Method::Hqq => hqq::weight(stem, parts),
        Method::TorchAo => torchao::weight(stem, parts),
        Method::Unknown(_) => Ok(None),
        Method::None => {
            if let Some(group) = bitsandbytes::weight(stem, parts)? {
                return Ok(Some(group));
            }
            match () {
                () if parts.has(stem, "_blocks") => mxfp4::weight(stem, parts),
                () if parts.has(stem, ".W_q") => hqq::weight(stem, parts),
                () if parts.has(stem, "_qdata") => torchao::weight(stem, parts),
                () => fp8::weight(stem, parts, None),
            }
        }
    }
}
