//! Steps on the axes of a tensor.

use super::limits::MAX_AXES;
use super::reshape::Reshape;
use crate::layout::inverse_permutation;
use crate::transform::castable;
use ckpt_api::{DType, Error, Operation, Result, Scalar};
use serde::Serialize;

/// A step that reorders the axes of a tensor, or the indices on one axis, or changes its elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AxisStep {
    /// Exchanges the two axes of a matrix.
    Transpose,
    /// Axis `k` of the result is axis `order[k]` of the input.
    Permute(Vec<usize>),
    /// Removes an axis of length 1.
    Squeeze(usize),
    /// Inserts an axis of length 1 that gets this number.
    Unsqueeze(usize),
    /// Divides axes into several, or joins neighbors into one; the elements keep their order.
    Reshape(Reshape),
    /// Converts every element to another dtype, rounding to nearest even.
    Cast {
        /// The dtype that the tensor must have.
        from: DType,
        /// The dtype after.
        to: DType,
    },
    /// Converts every element to another dtype, whatever floating-point dtype the tensor has.
    CastAny {
        /// The dtype after.
        to: DType,
    },
    /// Undoes [`AxisStep::CastAny`] as far as that goes: nothing states what the dtype was, so elements stay as they are.
    Stay {
        /// The dtype that the tensor must have.
        from: DType,
    },
    /// Multiplies every element by a number, in 32-bit floats.
    Scale(Factor),
    /// Adds a number to every element, in 32-bit floats.
    Add(Scalar),
    /// Replaces every element by its exponential, the nearest 32-bit float.
    Exp,
    /// Undoes [`AxisStep::Exp`]: of the numbers whose exponential is the element, takes one that bf16 or f16 has, if any does.
    Log,
    /// Puts the equal parts of an axis in another order: part `k` of the result is part `order[k]` of the input.
    Parts {
        /// The number of each part in the input.
        order: Vec<usize>,
        /// The axis.
        axis: usize,
    },
    /// Reorders an axis along which images were flattened with their channels last: now the channels come first.
    FlattenOrder(FlattenedImage),
    /// Undoes [`AxisStep::FlattenOrder`]: the channels come last.
    UnflattenOrder(FlattenedImage),
}

/// The number of an [`AxisStep::Scale`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Factor {
    /// Elements are multiplied by this number.
    Times(Scalar),
    /// Elements are divided by this number, which undoes a multiplication better than its reciprocal.
    Over(Scalar),
}

impl Factor {
    /// Parses `0.5` or `1/3`.
    fn parse(text: &str) -> Option<Self> {
        let nonzero = |text: &str| scalar(text).filter(|number| number.get() != 0.0);
        match text.strip_prefix("1/") {
            Some(divisor) => nonzero(divisor).map(Factor::Over),
            None => nonzero(text).map(Factor::Times),
        }
    }

    fn inverse(self) -> Self {
        match self {
            Factor::Times(number) => Factor::Over(number),
            Factor::Over(number) => Factor::Times(number),
        }
    }
}

/// As [`AxisStep::parse`] reads it, after the name of the step.
impl std::fmt::Display for Factor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Factor::Times(number) => write!(f, "{number}"),
            Factor::Over(number) => write!(f, "1/{number}"),
        }
    }
}

/// Parses a finite number, rounded to the nearest 32-bit float.
fn scalar(text: &str) -> Option<Scalar> {
    text.parse().ok().and_then(Scalar::new)
}

/// An image that was flattened along one axis of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct FlattenedImage {
    /// The lengths of the image, the channels last: `[height, width, channels]`. Only the number of channels and the
    /// number of pixels matter: `[pixels, channels]` is equivalent.
    pub lens: Vec<u64>,
    /// The axis of the tensor; `None` for its input axis, or the only axis of this length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axis: Option<usize>,
}

impl FlattenedImage {
    /// An image of the lengths `lens`, the channels last; `axis` is the number of the axis, if the tensor has several.
    pub fn new(lens: Vec<u64>, axis: Option<usize>) -> Self {
        FlattenedImage { lens, axis }
    }

    /// Parses `4 4 8` or `4 4 8 on 0`.
    fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let words: Vec<&str> = words.take(MAX_AXES + 2).collect();
        let (lens, axis) = match &words[..] {
            [lens @ .., "on", axis] => (lens, Some(axis.parse().ok().filter(|axis| *axis < MAX_AXES)?)),
            lens => (lens, None),
        };
        let lens: Option<Vec<u64>> =
            lens.iter().map(|word| word.parse().ok().filter(|len| *len > 0)).collect();
        let image = FlattenedImage { lens: lens?, axis };
        (2..MAX_AXES).contains(&image.lens.len()).then_some(())?;
        image.elements().map(|_| image)
    }

    /// Returns the length of the axis; `None` if it does not fit 64 bits.
    pub(crate) fn elements(&self) -> Option<u64> {
        self.lens.iter().try_fold(1u64, |product, len| product.checked_mul(*len))
    }

    /// Returns the number of pixels.
    pub(crate) fn pixels(&self) -> u64 {
        let spatial = self.lens.split_last().map_or(&[][..], |(_, spatial)| spatial);
        spatial.iter().fold(1, |product, len| product.saturating_mul(*len))
    }

    /// Returns the number of channels.
    pub(crate) fn channels(&self) -> u64 {
        self.lens.last().copied().unwrap_or(1)
    }
}

/// As [`AxisStep::parse`] reads it, after the name of the step.
impl std::fmt::Display for FlattenedImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lens.iter().try_for_each(|len| write!(f, " {len}"))?;
        self.axis.map_or(Ok(()), |axis| write!(f, " on {axis}"))
    }
}

impl AxisStep {
    /// Parses `transpose`, `permute 3 2 0 1`, `squeeze 0`, `unsqueeze 0`, `reshape _ -> 32 2 _`, `flatten_order 4 4 8`,
    /// `unflatten_order 4 4 8`, `cast f32 -> bf16`, `cast _ -> f32`, `cast f32 -> _`, `scale 0.5`, `scale 1/3`, `add 1`,
    /// `exp`, `log` or `parts 1 0 2 on 0`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let wrong = |expected: &str| {
            Err(Error::mapping("the axes of a step are wrong").found(format!("'{text}'")).expected(expected))
        };
        if verb == "reshape" {
            return Reshape::parse(words).map(AxisStep::Reshape).map_or_else(
                || {
                    wrong(
                        "lengths of axes before and after that hold as many elements, such as 'reshape 4096 -> 32 2 64', \
                         or 'reshape _ -> 32 2 _ on 1' from axis 1 on",
                    )
                },
                Ok,
            );
        }
        if verb == "cast" {
            return cast(words).ok_or_else(|| {
                Error::mapping("the dtypes of a step are wrong")
                    .found(format!("'{text}'"))
                    .expected(
                        "two dtypes between which numbers can be converted, such as 'cast f32 -> bf16', or one float and '_'",
                    )
            });
        }
        if let "scale" | "add" = verb {
            return number_step(verb, words).ok_or_else(|| {
                Error::mapping("the number of a step is wrong").found(format!("'{text}'")).expected(
                    "one number that 32-bit floats have, such as 'scale 0.5', 'scale 1/3' or 'add -1'; no factor is 0",
                )
            });
        }
        if verb == "parts" {
            return match parts(words) {
                Some(step) => Ok(step),
                None => wrong("every part from 0, once, and the axis, such as 'parts 1 0 2 on 0'"),
            };
        }
        if let "flatten_order" | "unflatten_order" = verb {
            return match FlattenedImage::parse(words) {
                Some(image) if verb == "flatten_order" => Ok(AxisStep::FlattenOrder(image)),
                Some(image) => Ok(AxisStep::UnflattenOrder(image)),
                None => wrong(
                    "the lengths of the image, its channels last, such as 'flatten_order 4 4 8', or with the axis: \
                     'flatten_order 4 4 8 on 0'",
                ),
            };
        }
        let numbers: Vec<Option<usize>> =
            words.take(MAX_AXES + 1).map(|word| word.parse().ok().filter(|axis| *axis < MAX_AXES)).collect();
        match (verb, &numbers[..]) {
            ("transpose", []) => Ok(AxisStep::Transpose),
            ("exp", []) => Ok(AxisStep::Exp),
            ("log", []) => Ok(AxisStep::Log),
            ("exp" | "log", _) => wrong("the name of the step alone"),
            ("transpose", _) => wrong("'transpose' alone; 'permute' takes an order of axes"),
            ("squeeze", [Some(axis)]) => Ok(AxisStep::Squeeze(*axis)),
            ("unsqueeze", [Some(axis)]) => Ok(AxisStep::Unsqueeze(*axis)),
            ("squeeze" | "unsqueeze", _) => wrong("one axis, such as 'squeeze 0'"),
            ("permute", numbers) => match permutation(numbers) {
                Some(order) => Ok(AxisStep::Permute(order)),
                None => wrong("every axis from 0, once, such as 'permute 3 2 0 1'"),
            },
            _ => {
                let known = [
                    "transpose",
                    "permute",
                    "squeeze",
                    "unsqueeze",
                    "reshape",
                    "cast",
                    "scale",
                    "add",
                    "exp",
                    "log",
                    "flatten_order",
                    "unflatten_order",
                    "parts",
                ];
                Err(Error::mapping("unknown step")
                    .found(format!("'{text}'"))
                    .help(ckpt_api::nearest(verb, known.into_iter())))
            }
        }
    }

    /// Returns the step that undoes this one.
    #[must_use]
    pub fn inverse(&self) -> Self {
        match self {
            AxisStep::Transpose => AxisStep::Transpose,
            AxisStep::Permute(order) => AxisStep::Permute(inverse_permutation(order)),
            AxisStep::Squeeze(axis) => AxisStep::Unsqueeze(*axis),
            AxisStep::Unsqueeze(axis) => AxisStep::Squeeze(*axis),
            AxisStep::Reshape(reshape) => AxisStep::Reshape(reshape.inverse()),
            AxisStep::Cast { from, to } => AxisStep::Cast { from: *to, to: *from },
            AxisStep::CastAny { to } => AxisStep::Stay { from: *to },
            AxisStep::Stay { from } => AxisStep::CastAny { to: *from },
            AxisStep::Scale(factor) => AxisStep::Scale(factor.inverse()),
            AxisStep::Add(term) => AxisStep::Add(negative(*term)),
            AxisStep::Exp => AxisStep::Log,
            AxisStep::Log => AxisStep::Exp,
            AxisStep::Parts { order, axis } => {
                AxisStep::Parts { order: inverse_permutation(order), axis: *axis }
            }
            AxisStep::FlattenOrder(image) => AxisStep::UnflattenOrder(image.clone()),
            AxisStep::UnflattenOrder(image) => AxisStep::FlattenOrder(image.clone()),
        }
    }

    /// Returns what the step does to every number, if it computes.
    pub(crate) fn operation(&self) -> Option<Operation> {
        match self {
            AxisStep::Scale(Factor::Times(number)) => Some(Operation::Multiply(*number)),
            AxisStep::Scale(Factor::Over(number)) => Some(Operation::Divide(*number)),
            AxisStep::Add(term) => Some(Operation::Add(*term)),
            AxisStep::Exp => Some(Operation::Exp),
            AxisStep::Log => Some(Operation::Log),
            _ => None,
        }
    }

    /// Returns whether the step changes the axes alone: every element keeps its value, and the elements of each axis their order.
    pub(crate) fn only_moves_axes(&self) -> bool {
        matches!(
            self,
            AxisStep::Transpose
                | AxisStep::Permute(_)
                | AxisStep::Squeeze(_)
                | AxisStep::Unsqueeze(_)
                | AxisStep::Reshape(_)
        )
    }

    /// Returns whether the step reorders flattened images.
    pub(crate) fn is_of_image(&self) -> bool {
        matches!(self, AxisStep::FlattenOrder(_) | AxisStep::UnflattenOrder(_))
    }
}

/// As [`AxisStep::parse`] reads it.
impl std::fmt::Display for AxisStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AxisStep::Transpose => f.write_str("transpose"),
            AxisStep::Squeeze(axis) => write!(f, "squeeze {axis}"),
            AxisStep::Unsqueeze(axis) => write!(f, "unsqueeze {axis}"),
            AxisStep::Reshape(reshape) => write!(f, "reshape{reshape}"),
            AxisStep::Cast { from, to } => write!(f, "cast {from} -> {to}"),
            AxisStep::CastAny { to } => write!(f, "cast _ -> {to}"),
            AxisStep::Stay { from } => write!(f, "cast {from} -> _"),
            AxisStep::Scale(factor) => write!(f, "scale {factor}"),
            AxisStep::Add(term) => write!(f, "add {term}"),
            AxisStep::Exp => f.write_str("exp"),
            AxisStep::Log => f.write_str("log"),
            AxisStep::Parts { order, axis } => {
                f.write_str("parts")?;
                order.iter().try_for_each(|part| write!(f, " {part}"))?;
                write!(f, " on {axis}")
            }
            AxisStep::FlattenOrder(image) => write!(f, "flatten_order{image}"),
            AxisStep::UnflattenOrder(image) => write!(f, "unflatten_order{image}"),
            AxisStep::Permute(order) => {
                f.write_str("permute")?;
                order.iter().try_for_each(|axis| write!(f, " {axis}"))
            }
        }
    }
}

/// Parses `0.5`, after the name of a step that computes.
fn number_step<'a>(verb: &str, mut words: impl Iterator<Item = &'a str>) -> Option<AxisStep> {
    let number = words.next().filter(|_| words.next().is_none())?;
    match verb {
        "scale" => Factor::parse(number).map(AxisStep::Scale),
        _ => scalar(number).map(AxisStep::Add),
    }
}

/// The negative of a number: as finite as the number.
fn negative(number: Scalar) -> Scalar {
    Scalar::new(-number.get()).unwrap_or(number)
}

/// Parses `1 0 2 on 0`, after the name of the step.
fn parts<'a>(words: impl Iterator<Item = &'a str>) -> Option<AxisStep> {
    let words: Vec<&str> = words.take(MAX_AXES + 2).collect();
    let [order @ .., "on", axis] = &words[..] else { return None };
    let numbers: Vec<Option<usize>> =
        order.iter().map(|word| word.parse().ok().filter(|part| *part < MAX_AXES)).collect();
    let axis = axis.parse().ok().filter(|axis| *axis < MAX_AXES)?;
    permutation(&numbers).filter(|order| !order.is_empty()).map(|order| AxisStep::Parts { order, axis })
}

/// Parses `f32 -> bf16`, `_ -> f32` or `f32 -> _`, after the name of the step.
fn cast<'a>(words: impl Iterator<Item = &'a str>) -> Option<AxisStep> {
    let words: Vec<&str> = words.take(4).collect();
    let [from, "->", to] = words[..] else { return None };
    let float = |word: &str| word.parse().ok().filter(|dtype: &DType| is_of_any(*dtype));
    match (from, to) {
        ("_", to) => float(to).map(|to| AxisStep::CastAny { to }),
        (from, "_") => float(from).map(|from| AxisStep::Stay { from }),
        (from, to) => {
            let (from, to): (DType, DType) = (from.parse().ok()?, to.parse().ok()?);
            let fits = from != to && castable(from, to) && castable(to, from);
            fits.then_some(AxisStep::Cast { from, to })
        }
    }
}

/// Whether numbers of every float can be converted to this dtype.
fn is_of_any(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16)
}

fn permutation(numbers: &[Option<usize>]) -> Option<Vec<usize>> {
    let order = numbers.iter().copied().collect::<Option<Vec<usize>>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    (!order.is_empty() && sorted.into_iter().eq(0..order.len())).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_parsed_as_it_is_printed_and_undone_by_its_inverse() {
        for text in [
            "transpose",
            "permute 3 2 0 1",
            "permute 0",
            "squeeze 0",
            "unsqueeze 3",
            "reshape 4096 -> 32 2 64",
            "cast f32 -> bf16",
            "cast _ -> f32",
            "cast bf16 -> _",
            "scale 0.5",
            "scale 1/3",
            "scale -2e-10",
            "add 1",
            "exp",
            "log",
            "parts 1 0 2 on 0",
            "add -0.1",
            "reshape 32 2 _ 7 -> _ 7 on 1",
            "reshape _ -> {heads} 2 _",
            "flatten_order 4 4 8",
            "unflatten_order 4 8 on 1",
        ] {
            let step = AxisStep::parse(text).unwrap();
            assert_eq!(step.to_string(), text);
            assert_eq!(step.inverse().inverse(), step);
        }
        assert_eq!(AxisStep::parse("permute 2 0 1").unwrap().inverse().to_string(), "permute 1 2 0");
        assert_eq!(
            AxisStep::parse("reshape _ -> 4 _ on 2").unwrap().inverse().to_string(),
            "reshape 4 _ -> _ on 2"
        );
        assert_eq!(AxisStep::parse("cast _ -> f32").unwrap().inverse().to_string(), "cast f32 -> _");
        assert_eq!(AxisStep::parse("scale 3").unwrap().inverse().to_string(), "scale 1/3");
        assert_eq!(AxisStep::parse("add 0.5").unwrap().inverse().to_string(), "add -0.5");
        assert_eq!(AxisStep::parse("squeeze 1").unwrap().inverse().to_string(), "unsqueeze 1");
    }

    #[test]
    fn a_step_with_missing_or_wrong_axes_is_refused() {
        let many = format!("permute{}", " 0".repeat(100_000));
        for text in [
            "",
            "transpose 1",
            "squeeze",
            "squeeze x",
            "squeeze 0 1",
            "squeeze 64",
            "unsqueeze -1",
            "permute",
            "permute 1",
            "permute 0 0",
            "permute 0 2",
            "flip 0",
            "cast",
            "cast f32",
            "cast f32 bf16",
            "cast f32 -> f32",
            "cast f32 -> string",
            "cast _ -> _",
            "cast _ -> i32",
            "cast string -> _",
            "cast f32 -> bf16 -> f16",
            "cast float7 -> f32",
            "reshape",
            "reshape 6",
            "reshape 6 ->",
            "reshape -> 6",
            "reshape 6 -> 4",
            "reshape 6 -> 4 _",
            "reshape 4 _ -> 6",
            "reshape _ _ -> _",
            "reshape 0 -> 0",
            "reshape 6 -> 2 3 on 64",
            "reshape 6 -> 2 -> 3",
            "reshape 6 -> {2} 3",
            "reshape 6 -> {n",
            "reshape _ -> 4294967296 4294967296",
            "flatten_order",
            "flatten_order 8",
            "scale",
            "scale 0",
            "scale 1/0",
            "scale 2/3",
            "scale inf",
            "scale 1e39",
            "scale 2 3",
            "add",
            "add nan",
            "exp 1",
            "log x",
            "flatten_order 4 0",
            "flatten_order 4 4 on",
            "flatten_order 4 4 on 64",
            "unflatten_order 4294967296 4294967296",
            &many,
        ] {
            assert_eq!(AxisStep::parse(text).unwrap_err().kind(), ckpt_api::Kind::Mapping, "{text:.40}");
        }
        assert!(AxisStep::parse("transpoze").unwrap_err().to_string().contains("did you mean 'transpose'"));
    }
}
