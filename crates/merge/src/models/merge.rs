//! What happens to each tensor of a merge.

use super::outputs::{self, Output};
use super::parameters::Scopes;
use super::slices::Merge;
use super::sums::{Change, Recipe};
use super::{Method, statistics, sums};
use crate::matrix::{Numbers, is_computable};
use ckpt_api::{Contents, Error, Extents, Kept, Placement, Result, Scalar, Tensor, TensorId, first_few};
use ckpt_engine::resources::{default_threads, in_parallel};
use ckpt_engine::source::{Source, TensorRef};

/// Names that a note lists.
const SHOWN: usize = 3;

impl Merge {
    /// The merged model.
    ///
    /// # Errors
    /// As [`merge_models`].
    pub(crate) fn source(&self) -> Result<Source> {
        let (first, others) =
            self.sources.split_first().ok_or_else(|| Error::usage("there is no model to merge"))?;
        let outputs = outputs::of(self)?;
        let threads = default_threads();
        let each: Vec<&Output> = outputs.tensors.iter().collect();
        let recipes = in_parallel(&each, threads, |output: &Output| {
            self.recipe(output).map_err(|error| error.tensor(output.name.as_str()))
        })?;
        let merged = first.merged(others, |contents, first_files| {
            let mut made = Made::default();
            for (output, recipe) in each.iter().zip(recipes) {
                let named = |error: Error| error.tensor(output.name.as_str());
                made.add(self, output, recipe, &file_numbers(first_files)).map_err(named)?;
            }
            contents.checkpoint.tensors = made.tensors;
            contents.placements = made.placements;
            contents.add_notes(self.notes());
            Ok(())
        })?;
        Ok(merged.with_reconfigured(outputs.reconfigured))
    }

    /// What happens to the numbers of a tensor; `None` if they are those of a model.
    fn recipe(&self, output: &Output) -> Result<Option<Recipe>> {
        let slice = &self.slices[output.slice];
        let shared = Scopes([Some(&slice.parameters), Some(&self.parameters), None]);
        let flag =
            |name, default| Ok::<_, Error>(shared.flag(name, &output.name, output.t)?.unwrap_or(default));
        let of_input = |number: usize, name: &str| {
            let input = &slice.inputs[number];
            let scopes = Scopes([Some(&input.parameters), Some(&slice.parameters), Some(&self.parameters)]);
            scopes.number(name, &output.parts[number].name, output.t)
        };
        let weight = |number: usize| {
            let weight = of_input(number, "weight")?
                .ok_or_else(|| self.missing("weight", slice.inputs[number].source))?;
            finite(weight, "weight")
        };
        let numbers = 0..slice.inputs.len();
        if !self.is_computed(output)? {
            return Ok(None);
        }
        match self.method {
            Method::Passthrough => {
                let scale = of_input(0, "scale")?.map(|scale| finite(scale, "scale")).transpose()?;
                let recipe = |scale| Recipe::Sum { factors: vec![scale], divisor: None };
                Ok(scale.filter(|scale| scale.get() != 1.0).map(recipe))
            }
            Method::Linear => {
                let factors = numbers.map(weight).collect::<Result<Vec<Scalar>>>()?;
                let divisor = match flag("normalize", true)? {
                    true => Some(
                        sums::sum(&factors)
                            .filter(|sum| sum.get() != 0.0)
                            .ok_or_else(|| no_mean(factors.iter().map(|factor| factor.get()).sum()))?,
                    ),
                    false => None,
                };
                Ok(Some(Recipe::Sum { factors, divisor }))
            }
            Method::Slerp => {
                let t = shared.number("t", &output.name, output.t)?.ok_or_else(|| self.missing("t", 0))?;
                let [from, to] = self.ends(output)?;
                let factors = statistics::arc(&self.part(output, from)?, &self.part(output, to)?, t)?;
                let mut factors = factors.map(|factor| finite(f64::from(factor), "t"));
                if from > to {
                    factors.reverse();
                }
                let factors = factors.into_iter().collect::<Result<Vec<_>>>()?;
                Ok(Some(Recipe::Sum { factors, divisor: None }))
            }
            Method::TaskArithmetic | Method::Ties | Method::DareLinear | Method::DareTies => {
                let others = numbers.filter(|number| Some(slice.inputs[*number].source) != slice.base);
                let mut changes = Vec::new();
                for (position, number) in others.enumerate() {
                    let density = of_input(number, "density")?.unwrap_or(1.0);
                    let rescale = self.rescale(&shared, output)?;
                    let (kept, scale) = self.kept((output, number, position), density, rescale)?;
                    changes.push(Change { input: number, weight: weight(number)?, kept, scale });
                }
                let is_mean = flag("normalize", self.method == Method::Ties)?;
                let factor = shared.number("lambda", &output.name, output.t)?.unwrap_or(1.0);
                let (elects, factor) = (self.method.elects_signs(), finite(factor, "lambda")?);
                Ok(Some(Recipe::Changes { changes, is_mean, elects, factor }))
            }
        }
    }

    /// Whether the numbers of a tensor are computed: floats are.
    fn is_computed(&self, output: &Output) -> Result<bool> {
        let (tensor, placement) = self.model_part(output)?;
        match (is_computable(tensor), tensor.dtype.is_float() && self.method != Method::Passthrough) {
            (true, _) => Ok(true),
            // Counters and the like are one model's.
            (false, false) => Ok(false),
            (false, true) => Numbers::of(tensor, placement).map(|_| false),
        }
    }

    /// Both inputs of an arc: the one that it begins at first.
    fn ends(&self, output: &Output) -> Result<[usize; 2]> {
        let slice = &self.slices[output.slice];
        match &slice.inputs[..] {
            [first, _] if Some(first.source) == slice.base => Ok([0, 1]),
            [_, _] => Ok([1, 0]),
            inputs => Err(Error::usage("slerp takes two models").found(inputs.len().to_string())),
        }
    }

    fn rescale(&self, shared: &Scopes<'_>, output: &Output) -> Result<Rescale> {
        if shared.is_text("rescale", &output.name, "density") {
            return Ok(Rescale::ByDensity);
        }
        let is_on = shared.flag("rescale", &output.name, output.t)?.unwrap_or(self.method.draws());
        Ok(if is_on { Rescale::ByMagnitudes } else { Rescale::Not })
    }

    /// Which changes of a model are kept, and by what they are multiplied.
    fn kept(
        &self,
        (output, input, position): (&Output, usize, usize),
        density: f64,
        rescale: Rescale,
    ) -> Result<(Option<Kept>, Scalar)> {
        let one = || finite(1.0, "rescale");
        if !(0.0..=1.0).contains(&density) {
            return Err(Error::usage("a density is no share of a tensor")
                .field("density")
                .found(density.to_string())
                .expected("0 to 1"));
        }
        if self.method == Method::TaskArithmetic || density >= 1.0 {
            return Ok((None, one()?));
        }
        let base = self.base_part(output)?;
        let tensor = self.part(output, input)?;
        for part in output.base.iter().chain(output.parts.get(input)) {
            let (tensor, placement) = self.contents(part.source)?.tensor_at(part.id)?;
            sums::check_order(tensor, placement)?;
        }
        let kept = if self.method.draws() || density == 0.0 {
            Kept::drawn(draw_key(self.seed, position, &output.name), density)
        } else {
            let elements = tensor.shape().elements();
            // As mergekit rounds.
            statistics::largest(&base, &tensor, (density * elements as f64) as u64)?
        };
        let scale = match rescale {
            Rescale::Not => one()?,
            _ if density == 0.0 => one()?,
            Rescale::ByDensity => finite(1.0 / density, "rescale")?,
            Rescale::ByMagnitudes => {
                finite(f64::from(statistics::rescaling(&base, &tensor, kept)?), "rescale")?
            }
        };
        Ok((Some(kept), scale))
    }

    fn missing(&self, parameter: &str, source: usize) -> Error {
        let shown = self.sources.get(source).map(Source::shown).unwrap_or_default();
        Error::usage(format!("the method {} needs a parameter that is not set", self.method.name()))
            .field(parameter)
            .file(shown)
    }

    fn notes(&self) -> Vec<String> {
        let names: Vec<String> = self.sources.iter().map(|source| format!("'{}'", source.shown())).collect();
        let mut notes = vec![format!("merged ({}): {}", self.method.name(), first_few(&names, SHOWN))];
        let slices = self.slices.iter().map(|slice| &slice.parameters);
        let has_mask = slices
            .chain([&self.parameters])
            .any(|parameters| parameters.get("int8_mask").is_some_and(|placed| placed.setting.is_on()));
        if has_mask {
            notes.push("int8_mask changes nothing here: no mask is held".to_owned());
        }
        notes
    }
}

/// How the changes that are kept make up for those that are not.
#[derive(Clone, Copy)]
enum Rescale {
    Not,
    /// Their magnitudes have the same sum.
    ByMagnitudes,
    /// They are divided by the density.
    ByDensity,
}

/// The number of the first file of each model.
fn file_numbers(first_files: &[usize]) -> Vec<usize> {
    [0].into_iter().chain(first_files.iter().copied()).collect()
}

/// The tensors of the merged model.
#[derive(Default)]
struct Made {
    tensors: Vec<Tensor>,
    placements: Vec<Placement>,
}

impl Made {
    fn add(
        &mut self,
        merge: &Merge,
        output: &Output,
        recipe: Option<Recipe>,
        first_files: &[usize],
    ) -> Result<()> {
        let id = TensorId(self.tensors.len());
        let (tensor, like) = merge.model_part(output)?;
        let moved = |placement: &Placement, source: usize| {
            let extents = placement.extents.iter();
            let extents: Extents =
                extents.map(|extent| extent.clone().behind_files(first_files[source])).collect();
            placement.clone().with_extents(extents)
        };
        let own = output.like();
        let mut placement = match recipe {
            None => moved(like, own.source),
            Some(recipe) => match merge.numbers(output, first_files)? {
                Some(numbers) => recipe.apply(numbers)?.placement(like)?,
                None => moved(like, own.source),
            },
        };
        if own.name != output.name {
            placement = placement.with_name(output.name.as_str());
        }
        self.tensors.push(tensor.clone().with_name(output.name.as_str()));
        self.placements.push(placement.with_tensor(id));
        Ok(())
    }
}

impl Merge {
    /// The numbers of each input, and of the base; `None` for a tensor without elements.
    fn numbers(&self, output: &Output, first_files: &[usize]) -> Result<Option<sums::Operands>> {
        let of = |part: &outputs::Part| {
            let source = &self.sources[part.source];
            let (tensor, placement) = source.contents().tensor_at(part.id)?;
            let in_file = |error: Error| error.file(source.shown());
            let numbers = Numbers::of(tensor, placement).map_err(in_file)?;
            Ok(numbers.map(|mut numbers| {
                numbers.computed = numbers.computed.behind_files(first_files[part.source]);
                sums::Operand { name: format!("{}/{}", source.shown(), tensor.name), numbers }
            }))
        };
        let inputs = output.parts.iter().map(of).collect::<Result<Option<Vec<_>>>>()?;
        let base = output.base.as_ref().map(of).transpose()?;
        let operands = inputs.and_then(|inputs| match base {
            Some(base) => base.map(|base| sums::Operands { inputs, base: Some(base) }),
            None => Some(sums::Operands { inputs, base: None }),
        });
        operands.map(sums::Operands::checked).transpose()
    }

    /// The tensor that gives dtype, shape, and what is not computed.
    fn model_part(&self, output: &Output) -> Result<(&Tensor, &Placement)> {
        let own = output.like();
        self.contents(own.source)?.tensor_at(own.id)
    }

    fn contents(&self, source: usize) -> Result<&Contents> {
        let source = self.sources.get(source).ok_or_else(|| Error::defect("a model is missing"))?;
        Ok(source.contents())
    }

    fn part(&self, output: &Output, input: usize) -> Result<TensorRef<'_>> {
        let part = &output.parts[input];
        self.sources[part.source].tensor(&part.name)
    }

    fn base_part(&self, output: &Output) -> Result<TensorRef<'_>> {
        let part = output.base.as_ref().ok_or_else(|| Error::defect("a merge has no base"))?;
        self.sources[part.source].tensor(&part.name)
    }
}

/// The beginning of the draws of a model's tensor: the 64-bit FNV-1a hash of seed, number of the model, and name, a line each.
fn draw_key(seed: u64, model: usize, tensor: &str) -> u64 {
    let bytes = format!("{seed}\n{model}\n{tensor}");
    bytes
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The error for weights whose sum nothing can be divided by.
pub(super) fn no_mean(sum: f32) -> Error {
    Error::usage("the weights of the models have no mean").found(format!("a sum of {sum}"))
}

fn finite(number: f64, name: &str) -> Result<Scalar> {
    Scalar::new(number as f32).ok_or_else(|| {
        Error::usage("a parameter is not finite, or too large").field(name).found(number.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_draws_is_a_hash_of_seed_model_and_name() {
        // FNV-1a of "0\n0\na", by its definition.
        assert_eq!(draw_key(0, 0, "a"), 0x6487_0fde_408b_1e9c);
        assert_ne!(draw_key(0, 1, "a"), draw_key(1, 0, "a"));
    }
}
