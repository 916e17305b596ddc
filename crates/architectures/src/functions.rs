//! The functions that expressions call.

use super::rotary;
use super::tensors::Tensors;
use super::value::Value;
use ckpt_api::{Error, Result};
use ckpt_engine::source::Configuration;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// Whether a tensor exists.
    Has,
    /// The configuration's value at a key: an empty text if there is none, `null` as a text.
    Config,
    /// The configuration's numbers at a key; none if it has no list there.
    Numbers,
    /// The length of a tensor's axis.
    Dim,
    /// The number of a tensor's axes.
    Rank,
    /// How many tensors exist whose names have 0, 1, 2, … in place of `{}`.
    Count,
    Min,
    Max,
    /// The square root.
    Sqrt,
    /// The largest integer whose square is at most the argument.
    IntegerSqrt,
    /// The natural logarithm.
    Log,
    /// The greatest integer of at most the argument.
    Floor,
    /// The second argument where the first is true, else the third.
    Choose,
    /// The frequencies of rotary embeddings.
    RotaryFrequencies,
    /// The same with Llama 3's scaling.
    RotaryLlama3,
    /// The frequencies, each divided by a factor.
    RotaryFactors,
    /// The same, blended with slower ones.
    RotaryYarn,
    /// From which distance on each bucket but the first begins.
    DistanceBuckets,
}

const FUNCTIONS: &[(&str, usize, Function)] = &[
    ("has", 1, Function::Has),
    ("config", 1, Function::Config),
    ("numbers", 1, Function::Numbers),
    ("dim", 2, Function::Dim),
    ("rank", 1, Function::Rank),
    ("count", 1, Function::Count),
    ("min", 2, Function::Min),
    ("max", 2, Function::Max),
    ("sqrt", 1, Function::Sqrt),
    ("isqrt", 1, Function::IntegerSqrt),
    ("log", 1, Function::Log),
    ("floor", 1, Function::Floor),
    ("choose", 3, Function::Choose),
    ("rotary_frequencies", 2, Function::RotaryFrequencies),
    ("rotary_llama3", 5, Function::RotaryLlama3),
    ("rotary_factors", 3, Function::RotaryFactors),
    ("rotary_yarn", 7, Function::RotaryYarn),
    ("distance_buckets", 2, Function::DistanceBuckets),
];

impl Function {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        FUNCTIONS.iter().find(|(known, ..)| *known == name).map(|(.., function)| *function)
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        FUNCTIONS.iter().map(|(name, ..)| *name)
    }

    pub(super) fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|(.., function)| *function == self).map_or("", |(name, ..)| name)
    }

    pub(super) fn arity(self) -> usize {
        FUNCTIONS.iter().find(|(.., function)| *function == self).map_or(0, |(_, arity, _)| *arity)
    }

    /// Calls the function. What it does not use of its arguments may have failed.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for arguments that do not fit.
    pub(super) fn call(
        self,
        arguments: Vec<Result<Value>>,
        tensors: &Tensors<'_>,
        configuration: Option<&Configuration>,
    ) -> Result<Value> {
        if self == Function::Choose {
            return choose(arguments);
        }
        let given = arguments.into_iter().collect::<Result<Vec<_>>>()?;
        match (self, &given[..]) {
            (Function::Has, [name]) => Ok(Value::Bool(tensors.get(name.text()?).is_some())),
            (Function::Config, [key]) => {
                let stated = configuration.and_then(|configuration| configuration.get(key.text().ok()?));
                let value = stated.and_then(Value::from_json);
                let none = if stated.is_some_and(serde_json::Value::is_null) { "null" } else { "" };
                Ok(value.unwrap_or_else(|| Value::Text(none.to_owned())))
            }
            (Function::Numbers, [key]) => {
                let key = key.text()?;
                let list = configuration.and_then(|configuration| configuration.get(key)?.as_array());
                let numbers = list.map(|list| list.iter().filter_map(serde_json::Value::as_f64).collect());
                Ok(Value::Reals(numbers.unwrap_or_default()))
            }
            (Function::Dim, [name, axis]) => tensors.length(name.text()?, axis.int()?),
            (Function::Rank, [name]) => tensors.rank(name.text()?),
            (Function::Count, [pattern]) => tensors.count(pattern.text()?),
            (Function::Min, [a, b]) => Ok(if a.real()? <= b.real()? { a.clone() } else { b.clone() }),
            (Function::Max, [a, b]) => Ok(if a.real()? >= b.real()? { a.clone() } else { b.clone() }),
            (Function::Sqrt, [x]) => Ok(Value::Real(x.real()?.sqrt())),
            (Function::IntegerSqrt, [x]) => match u64::try_from(x.int()?) {
                Ok(number) => Ok(Value::Int(i64::try_from(number.isqrt()).unwrap_or(i64::MAX))),
                Err(_) => Err(x.unfit("an integer of at least 0")),
            },
            (Function::Log, [x]) => Ok(Value::Real(x.real()?.ln())),
            (Function::Floor, [x]) => floor(x),
            (Function::RotaryFrequencies, [width, theta]) => {
                rotary::frequencies(width.int()?, theta.real()?).map(Value::Reals)
            }
            (Function::RotaryLlama3, [Value::Reals(frequencies), factor, low, high, original]) => {
                let [factor, low, high] = [factor.real()?, low.real()?, high.real()?];
                Ok(Value::Reals(rotary::llama3(frequencies, factor, [low, high], original.real()?)))
            }
            (Function::RotaryLlama3, [other, ..]) => Err(other.unfit("a list of numbers")),
            (Function::RotaryFactors, [width, theta, Value::Reals(factors)]) => {
                rotary::divided(width.int()?, theta.real()?, factors).map(Value::Reals)
            }
            (Function::RotaryFactors, [.., other]) => Err(other.unfit("a list of numbers")),
            (Function::RotaryYarn, [width, theta, factor, fast, slow, original, rounded]) => {
                let yarn = rotary::Yarn {
                    factor: factor.real()?,
                    turns: [fast.real()?, slow.real()?],
                    original: original.real()?,
                    is_rounded: rounded.bool()?,
                };
                yarn.frequencies(width.int()?, theta.real()?).map(Value::Reals)
            }
            (Function::DistanceBuckets, [buckets, distance]) => {
                rotary::distance_buckets(buckets.int()?, distance.int()?).map(Value::Ints)
            }
            _ => Err(Error::defect("a function has another number of arguments").field(self.name())),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn floor(x: &Value) -> Result<Value> {
    let floor = x.real()?.floor();
    if floor.abs() < 2f64.powi(53) {
        Ok(Value::Int(floor as i64))
    } else {
        Err(x.unfit("a number below 2^53"))
    }
}

fn choose(arguments: Vec<Result<Value>>) -> Result<Value> {
    let mut arguments = arguments.into_iter();
    let missing = || Error::defect("a choice lacks an argument");
    let chosen = match arguments.next().ok_or_else(missing)??.bool()? {
        true => arguments.next(),
        false => arguments.nth(1),
    };
    chosen.ok_or_else(missing)?
}
