//! Merges of models of one shape: sums of their weights.

use crate::matrix::{Numbers, is_computable};
use ckpt_api::{
    BlockNumbers, Computed, Contents, Error, Operation, Result, Scalar, Shape, Tensor, TensorId, first_few,
    nearest,
};
use ckpt_engine::resources::{default_threads, in_parallel};
use ckpt_engine::source::Source;
use std::str::FromStr;

/// Names that an error lists.
const SHOWN: usize = 3;
/// Cosines above which both directions are taken for one: between such tensors, `slerp` is linear.
const ONE_DIRECTION: f64 = 0.9995;
/// The least length that has a direction.
const NO_LENGTH: f64 = 1e-8;

/// How models become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// The mean with these weights: `Σ w · T / Σ w`.
    Linear,
    /// The base and what models changed of it: `base + Σ w · (T − base)`.
    TaskArithmetic,
    /// Between two models, along the arc from one to the other: tensor by tensor, by the second one's weight.
    Slerp,
}

impl Method {
    /// Every method, by its names.
    pub const ALL: [(&'static str, Method); 4] = [
        ("linear", Method::Linear),
        ("task", Method::TaskArithmetic),
        ("task_arithmetic", Method::TaskArithmetic),
        ("slerp", Method::Slerp),
    ];
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, method)| *method).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name);
            Error::usage("there is no such way to merge models")
                .found(format!("'{}'", text.escape_debug()))
                .expected(names.join(", "))
                .help(nearest(text, names.into_iter()))
        })
    }
}

/// A model that is merged, and its weight.
#[derive(Clone, Debug)]
pub struct Model {
    /// The model.
    pub source: Source,
    /// How much it counts.
    pub weight: f32,
}

impl Model {
    /// A model with a weight.
    pub fn new(source: Source, weight: f32) -> Self {
        Model { source, weight }
    }
}

/// The model that these are merged into. What is no tensor, such as the configuration, is that of the base, or of the first
/// model. So are tensors that are no floats.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for weights, models or a base that the method does not take; [`ckpt_api::Kind::Mapping`] for models with
/// other tensors; for `slerp`, which looks at all numbers, what keeps tensors from being read.
pub fn merge_models(method: Method, models: &[Model], base: Option<&Source>) -> Result<Source> {
    check(method, models, base)?;
    let sources: Vec<Source> =
        base.into_iter().chain(models.iter().map(|model| &model.source)).cloned().collect();
    let (first, others) = sources.split_first().ok_or_else(|| Error::usage("there is no model to merge"))?;
    let weights: Vec<f32> = models.iter().map(|model| model.weight).collect();
    let matched = Matched::new(first, others)?;
    let factors = match method {
        Method::Slerp => Some(arcs(&matched, first, others, weights.last().copied().unwrap_or_default())?),
        Method::Linear | Method::TaskArithmetic => None,
    };
    first.merged(others, |contents, first_files| {
        for (number, ids) in matched.ids.iter().enumerate() {
            let Some(operands) = operands(contents, (number, ids), (first, others), first_files)? else {
                continue;
            };
            let sum = match (method, &factors) {
                (Method::TaskArithmetic, _) => changes(operands, &weights)?,
                (_, Some(factors)) => sum(operands, &factors[number])?,
                (_, None) => mean(operands, &weights)?,
            };
            let tensor = &contents.checkpoint.tensors[number];
            let placement = &mut contents.placements[number];
            *placement = sum.placement(placement).map_err(|error| error.tensor(&tensor.name))?;
        }
        contents.add_notes([note(method, models, base)]);
        Ok(())
    })
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
        (Method::TaskArithmetic, None, _) => {
            Err(Error::usage("this way to merge needs the model that the others were trained from")
                .expected("a base"))
        }
        (Method::Linear | Method::Slerp, Some(_), _) => Err(Error::usage("this way to merge takes no base")
            .help("name the model with the others, with a weight")),
        (Method::Linear, _, _) if sum == 0.0 || !sum.is_finite() => {
            Err(Error::usage("the weights of the models have no mean").found(format!("a sum of {sum}")))
        }
        (Method::Slerp, _, [first, second]) if first.weight + second.weight == 1.0 => Ok(()),
        (Method::Slerp, _, _) => Err(Error::usage("slerp takes two models whose weights add up to 1")
            .found(models.iter().map(|model| model.weight.to_string()).collect::<Vec<_>>().join(", "))
            .expected("weights such as 0.7 and 0.3")),
        _ => Ok(()),
    }
}

/// The tensors of several models, by those of the first.
struct Matched {
    /// For each tensor of the first model, those of the others.
    ids: Vec<Vec<TensorId>>,
}

impl Matched {
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] if the others have other tensors.
    fn new(first: &Source, others: &[Source]) -> Result<Self> {
        let tensors = &first.checkpoint().tensors;
        let mut ids: Vec<Vec<TensorId>> = vec![Vec::new(); tensors.len()];
        for other in others {
            let names = other.checkpoint().by_name();
            let differ = |missing: &[&str], side: &Source, has: &Source| {
                Error::mapping("the models have other tensors")
                    .file(side.shown())
                    .found(format!("no {}", first_few(missing, SHOWN)))
                    .expected(format!("the tensors of '{}'", has.shown()))
            };
            let missing: Vec<&str> = tensors
                .iter()
                .map(|tensor| tensor.name.as_str())
                .filter(|name| !names.contains_key(name))
                .collect();
            if !missing.is_empty() {
                return Err(differ(&missing, other, first));
            }
            let own = first.checkpoint().by_name();
            let more: Vec<&str> = names.keys().copied().filter(|name| !own.contains_key(name)).collect();
            if !more.is_empty() {
                return Err(differ(&more, first, other));
            }
            for (tensor, ids) in tensors.iter().zip(&mut ids) {
                let id = names
                    .get(tensor.name.as_str())
                    .copied()
                    .ok_or_else(|| Error::defect("a tensor was there before"))?;
                let found = &other.checkpoint().tensors[id.0];
                if found.shape != tensor.shape {
                    return Err(Error::mapping("the models have tensors of other shapes")
                        .file(other.shown())
                        .tensor(&found.name)
                        .found(found.shape.to_string())
                        .expected(format!("{}, as in '{}'", tensor.shape, first.shown())));
                }
                ids.push(id);
            }
        }
        Ok(Matched { ids })
    }
}

/// The numbers of one tensor in all models, the first model's first; `None` if they are not computed.
fn operands(
    contents: &Contents,
    (number, ids): (usize, &[TensorId]),
    (first, others): (&Source, &[Source]),
    first_files: &[usize],
) -> Result<Option<Vec<Operand>>> {
    let (tensor, placement) = contents.tensor_at(TensorId(number))?;
    if !is_computable(tensor) {
        return match tensor.dtype.is_float() {
            // Counters and the like are the first model's.
            false => Ok(None),
            true => Numbers::of(tensor, placement).map(|_| None),
        };
    }
    let Some(own) = Numbers::of(tensor, placement)? else { return Ok(None) };
    let mut operands = vec![Operand { name: format!("{}/{}", first.shown(), tensor.name), numbers: own }];
    for ((other, id), first_file) in others.iter().zip(ids).zip(first_files) {
        let (tensor, placement) = other.contents().tensor_at(*id)?;
        let in_file = |error: Error| error.file(other.shown());
        let Some(mut numbers) = Numbers::of(tensor, placement).map_err(in_file)? else { return Ok(None) };
        if numbers.order != operands[0].numbers.order {
            return Err(in_file(
                Error::unsupported(
                    "the axes of a tensor are stored in another order than in the first model",
                )
                .tensor(&tensor.name),
            ));
        }
        numbers.computed = numbers.computed.behind_files(*first_file);
        operands.push(Operand { name: format!("{}/{}", other.shown(), tensor.name), numbers });
    }
    Ok(Some(operands))
}

/// The numbers of a tensor in one model.
struct Operand {
    /// What people call it.
    name: String,
    numbers: Numbers,
}

impl Operand {
    /// The numbers, one for each element of another tensor.
    fn each(&self, computed: Computed) -> Result<Box<BlockNumbers>> {
        let count = computed.elements().ok_or_else(|| Error::defect("operands are not whole"))?;
        Ok(Box::new(BlockNumbers::new(&self.name, computed, Shape::new([count])?, vec![1])))
    }

    /// The same times a factor.
    fn times(&self, factor: f32) -> Result<Computed> {
        let mut computed = self.numbers.computed.clone();
        if factor != 1.0 {
            computed.operations.push(Operation::Multiply(scalar(factor)?));
        }
        Ok(computed)
    }
}

fn scalar(factor: f32) -> Result<Scalar> {
    Scalar::new(factor).ok_or_else(|| Error::defect("a factor is not finite"))
}

/// `Σ factor · T`, in their order.
fn sum(operands: Vec<Operand>, factors: &[f32]) -> Result<Numbers> {
    let mut pairs = operands.iter().zip(factors);
    let (first, factor) = pairs.next().ok_or_else(|| Error::defect("a sum has no terms"))?;
    let mut sum = Numbers { computed: first.times(*factor)?, order: first.numbers.order.clone() };
    for (operand, factor) in pairs {
        sum.computed.operations.push(Operation::AddBlocks(operand.each(operand.times(*factor)?)?));
    }
    Ok(sum)
}

/// `Σ w · T / Σ w`.
fn mean(operands: Vec<Operand>, weights: &[f32]) -> Result<Numbers> {
    let mut mean = sum(operands, weights)?;
    let whole: f32 = weights.iter().sum();
    if whole != 1.0 {
        mean.computed.operations.push(Operation::Divide(scalar(whole)?));
    }
    Ok(mean)
}

/// `base + Σ w · (T − base)`: the base is the first operand.
fn changes(mut operands: Vec<Operand>, weights: &[f32]) -> Result<Numbers> {
    let base = operands.remove(0);
    for operand in &mut operands {
        let subtracted = base.each(base.numbers.computed.clone())?;
        operand.numbers.computed.operations.push(Operation::SubtractBlocks(subtracted));
    }
    let mut sum = sum(operands, weights)?;
    sum.computed.operations.push(Operation::AddBlocks(base.each(base.numbers.computed.clone())?));
    Ok(sum)
}

/// The factors of both models for each tensor, which lead `t` of the way along the arc.
fn arcs(matched: &Matched, first: &Source, others: &[Source], t: f32) -> Result<Vec<[f32; 2]>> {
    let second = others.first().ok_or_else(|| Error::defect("an arc has one end"))?;
    let tensors: Vec<&Tensor> = first.checkpoint().tensors.iter().collect();
    debug_assert_eq!(tensors.len(), matched.ids.len());
    in_parallel(&tensors, default_threads(), |tensor| {
        if !is_computable(tensor) {
            return Ok([1.0, 0.0]);
        }
        let cosine = cosine(first, second, &tensor.name)?;
        Ok(arc(cosine, f64::from(t)))
    })
}

/// The factors that lead `t` of the way between directions with this cosine; `None` if one has no direction.
fn arc(cosine: Option<f64>, t: f64) -> [f32; 2] {
    match cosine.filter(|cosine| cosine.abs() <= ONE_DIRECTION) {
        Some(cosine) => {
            let angle = cosine.acos();
            [((1.0 - t) * angle).sin() / angle.sin(), (t * angle).sin() / angle.sin()]
                .map(|factor| factor as f32)
        }
        None => [1.0 - t, t].map(|factor| factor as f32),
    }
}

/// The cosine of the angle between the tensors of this name; `None` if one has no direction.
fn cosine(first: &Source, second: &Source, name: &str) -> Result<Option<f64>> {
    let (mut a, mut b) = (first.tensor(name)?.chunks::<f32>()?, second.tensor(name)?.chunks::<f32>()?);
    let (mut dot, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    let (mut own, mut other): (Vec<f32>, Vec<f32>) = (Vec::new(), Vec::new());
    loop {
        // Chunks need not be cut alike.
        if own.is_empty() {
            own = a.next().transpose()?.unwrap_or_default();
        }
        if other.is_empty() {
            other = b.next().transpose()?.unwrap_or_default();
        }
        let len = own.len().min(other.len());
        if len == 0 {
            break;
        }
        for (x, y) in own.drain(..len).zip(other.drain(..len)) {
            let (x, y) = (f64::from(x), f64::from(y));
            dot += x * y;
            of_a += x * x;
            of_b += y * y;
        }
    }
    let lengths = [of_a, of_b].map(f64::sqrt);
    let has_direction = lengths.iter().all(|length| *length > NO_LENGTH && length.is_finite());
    Ok(has_direction.then(|| dot / (lengths[0] * lengths[1])))
}

fn note(method: Method, models: &[Model], base: Option<&Source>) -> String {
    let models: Vec<String> =
        models.iter().map(|model| format!("'{}' times {}", model.source.shown(), model.weight)).collect();
    let name = Method::ALL.iter().find(|(_, own)| *own == method).map_or("merged", |(name, _)| *name);
    let base = base.map(|base| format!(", from '{}'", base.shown())).unwrap_or_default();
    format!("merged ({name}): {}{base}", first_few(&models, SHOWN))
}
