//! Compares two checkpoints tensor by tensor.

use crate::execute::{announce, in_lockstep};
use crate::layout::{axis_order, index_at};
use crate::resources::{Budget, default_threads, in_parallel};
use crate::settings;
use crate::source::Source;
use crate::transform::{castable, for_each_number};
use crate::words::{count, verb};
use ckpt_api::{
    Affine, DType, Encoding, Error, Name, Quantization, Result, Role, Shape, Tensor, TensorId, Text, text,
};
use serde::Serialize;
use std::collections::HashMap;
use std::num::NonZeroU32;

/// How far a value `x` may be from its reference: `|x − ref| ≤ absolute + relative·|ref|`, element by element.
///
/// The reference is always the first checkpoint's value (`a`), here and in `verify`: swapping the checkpoints can
/// change the result. [`Tolerance::allows`] accepts NaN only for NaN, and an infinity only for itself. If both parts
/// are 0, [`diff`] and `verify` compare bits instead; of different dtypes, the values.
///
/// ```
/// use ckpt::diff::Tolerance;
/// let tolerance = Tolerance { absolute: 0.0, relative: 0.1 };
/// assert!(tolerance.allows(10.0, 9.0) && !tolerance.allows(9.0, 10.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tolerance {
    /// The absolute part, `atol`.
    pub absolute: f64,
    /// The part relative to the reference, `rtol`.
    pub relative: f64,
}

impl Tolerance {
    /// The tolerance that a user gives in two parts, each with the name of its option; `None` if neither is given.
    ///
    /// ```
    /// # use ckpt::diff::Tolerance;
    /// let tolerance = Tolerance::given(("atol", Some(0.5)), ("rtol", None))?;
    /// assert_eq!(tolerance, Some(Tolerance { absolute: 0.5, relative: 0.0 }));
    /// assert!(Tolerance::given(("atol", Some(-1.0)), ("rtol", None)).is_err());
    /// # Ok::<(), ckpt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a part that is negative or not finite.
    pub fn given(
        (atol, absolute): (&str, Option<f64>),
        (rtol, relative): (&str, Option<f64>),
    ) -> Result<Option<Self>> {
        let part = |field: &str, value: Option<f64>| match value.unwrap_or(0.0) {
            value if value >= 0.0 && value.is_finite() => Ok(value),
            value => Err(Error::usage("a tolerance is a finite number, and not negative")
                .field(field)
                .found(value.to_string())),
        };
        if absolute.is_none() && relative.is_none() {
            return Ok(None);
        }
        Ok(Some(Tolerance { absolute: part(atol, absolute)?, relative: part(rtol, relative)? }))
    }

    /// Whether the values must be equal bit for bit.
    pub fn is_exact(self) -> bool {
        self.absolute == 0.0 && self.relative == 0.0
    }

    /// Returns whether `value` is within the tolerance of `reference`.
    pub fn allows(self, reference: f64, value: f64) -> bool {
        if reference.is_nan() || value.is_nan() {
            return reference.is_nan() && value.is_nan();
        }
        if self.is_exact() {
            return reference.to_bits() == value.to_bits();
        }
        let error = (value - reference).abs();
        reference == value || (error.is_finite() && error <= self.absolute + self.relative * reference.abs())
    }
}

/// The result of comparing two checkpoints.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The tolerance that was applied; both parts are 0 if none was given.
    pub tolerance: Tolerance,
    /// Names that only the first checkpoint has.
    pub only_in_a: Vec<String>,
    /// Names that only the second checkpoint has.
    pub only_in_b: Vec<String>,
    /// Names that are no difference: bookkeeping, and counters and second copies that only one checkpoint has; in
    /// `verify` also optimizer state that only one has.
    pub incidental: Vec<String>,
    /// Tensors whose names both have, in the first checkpoint's order; or the only tensors of both, if one of the files
    /// is a `.npy` file.
    pub tensors: Vec<TensorDifference>,
}

/// The comparison of one tensor.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TensorDifference {
    /// Name in the first checkpoint.
    pub name: Name,
    /// Name in the second checkpoint where it is another one, as of two `.npy` files, whose arrays have no other names
    /// than their files'.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_b: Option<Name>,
    /// dtype and shape in the first checkpoint.
    pub a: (DType, Shape),
    /// dtype and shape in the second checkpoint.
    pub b: (DType, Shape),
    /// The integer that stands for 1.0 in the first checkpoint, if it states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_a: Option<NonZeroU32>,
    /// The integer that stands for 1.0 in the second checkpoint, if it states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_b: Option<NonZeroU32>,
    /// Scales and zero points in the first checkpoint, if it states them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization_a: Option<Affine>,
    /// Scales and zero points in the second checkpoint, if it states them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization_b: Option<Affine>,
    /// Index on each axis of the first element that differs bitwise, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_index: Option<Vec<u64>>,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The result of comparing one tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// All bits are equal.
    Equal,
    /// Bits or dtypes differ, and all values are within the tolerance.
    Close(Distance),
    /// Values are outside the tolerance.
    Different(Distance),
    /// Not compared: the dtypes or the scales differ (if no tolerance is given, or not both dtypes are floating-point),
    /// or the shapes differ under any order of named axes. Integers without a scale have the scale 1.
    Incomparable,
}

/// How far two tensors are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Distance {
    /// Elements with different bits.
    pub differing: u64,
    /// Elements outside the tolerance.
    pub outside: u64,
    /// Largest absolute difference; infinite where a NaN or infinity has no equal.
    pub max_absolute: f64,
    /// Row-major position of the first element that differs bitwise, in the first checkpoint's shape.
    pub first: u64,
}

impl TensorDifference {
    /// Whether equal integers stand for different numbers.
    pub fn scales_differ(&self) -> bool {
        let other_than_one = |affine: &Option<Affine>| affine.clone().filter(|affine| !affine.is_identity());
        self.scale_a.unwrap_or(NonZeroU32::MIN) != self.scale_b.unwrap_or(NonZeroU32::MIN)
            || other_than_one(&self.quantization_a) != other_than_one(&self.quantization_b)
    }
}

impl Difference {
    /// Whether both checkpoints have the same tensors, all within the tolerance.
    pub fn agrees(&self) -> bool {
        let within = |tensor: &TensorDifference| matches!(tensor.outcome, Outcome::Equal | Outcome::Close(_));
        self.only_in_a.is_empty() && self.only_in_b.is_empty() && self.tensors.iter().all(within)
    }

    /// States how many tensors were not compared because their dtypes differ, and what compares them; `None` if there
    /// are none.
    pub fn advice_on_dtypes(&self) -> Option<Text> {
        let tensors = Some(self.not_compared_for_their_dtypes()).filter(|tensors| *tensors > 0)?;
        Some(text![
            format!(
                "{} {} not compared, since the dtypes differ: to compare values, set ",
                count(tensors, "tensor"),
                verb(tensors, "was", "were")
            ),
            settings::TOLERANCE
        ])
    }

    /// The number of tensors of real numbers that were not compared because their dtypes differ, which a tolerance
    /// changes.
    pub fn not_compared_for_their_dtypes(&self) -> usize {
        let is_one = |tensor: &&TensorDifference| {
            matches!(tensor.outcome, Outcome::Incomparable)
                && tensor.a.0 != tensor.b.0
                && [tensor.a.0, tensor.b.0].iter().all(|dtype| dtype.is_float())
                && tensor.a.1.elements() == tensor.b.1.elements()
        };
        if self.tolerance.is_exact() { self.tensors.iter().filter(is_one).count() } else { 0 }
    }
}

/// Compares all tensors of two checkpoints by name, in bounded memory. The first checkpoint is the reference.
///
/// Without a tolerance, equal means equal bits of the same dtype. With one, tensors of different floating-point dtypes
/// are compared by their values: if both of its parts are 0, all values must be equal.
///
/// Axes are compared by their names where both checkpoints name them: another order of the same axes is not a
/// difference. Where each checkpoint has exactly one tensor, and one of them is a `.npy` file, which stores no name,
/// these two are compared.
///
/// # Errors
/// Whatever keeps a tensor from being read.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let open = || ckpt::Source::open(&ckpt::Registry::builtin(), "examples/data/digits", &Default::default());
/// assert!(ckpt::diff::diff(&open()?, &open()?, Default::default())?.agrees());
/// # Ok(())
/// # }
/// ```
pub fn diff(a: &Source, b: &Source, tolerance: Option<Tolerance>) -> Result<Difference> {
    diff_except(a, b, tolerance, &[Role::Bookkeeping, Role::Counter, Role::Duplicate])
}

/// Like [`diff`], if it is no difference that only one checkpoint has tensors of these roles.
pub fn diff_except(a: &Source, b: &Source, given: Option<Tolerance>, roles: &[Role]) -> Result<Difference> {
    let tolerance = given.unwrap_or_default();
    if let Some(pair) = only_tensors(a, b) {
        let tensors = vec![compare(&pair.0, &pair.1, given)?];
        let (only_in_a, only_in_b, incidental) = (Vec::new(), Vec::new(), Vec::new());
        return Ok(Difference { tolerance, only_in_a, only_in_b, incidental, tensors });
    }
    let (names_a, names_b) = (a.checkpoint().by_name(), b.checkpoint().by_name());
    let mut incidental = Vec::new();
    let mut missing = |from: &Source, other: &HashMap<&str, TensorId>| -> Vec<String> {
        let tensors = from.checkpoint().tensors.iter();
        let missing = tensors.filter(|tensor| !other.contains_key(tensor.name.as_str()));
        let (passed, missing): (Vec<&Tensor>, Vec<&Tensor>) =
            missing.partition(|tensor| roles.contains(&tensor.role));
        incidental.extend(passed.into_iter().map(|tensor| tensor.name.to_string()));
        missing.into_iter().map(|tensor| tensor.name.to_string()).collect()
    };
    let (only_in_a, only_in_b) = (missing(a, &names_b), missing(b, &names_a));
    let common = a.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str());
    let pairs: Vec<(TensorId, TensorId)> =
        common.filter_map(|name| Some((*names_a.get(name)?, *names_b.get(name)?))).collect();
    // What describes a checkpoint's own files.
    let is_own = |source: &Source, id: &TensorId| source.checkpoint().tensors[id.0].role == Role::Bookkeeping;
    let (own, pairs): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(ia, ib)| is_own(a, ia) && is_own(b, ib));
    incidental.extend(own.into_iter().map(|(ia, _)| a.checkpoint().tensors[ia.0].name.to_string()));
    let (of_a, of_b) = (pairs.iter().map(|(id, _)| id), pairs.iter().map(|(_, id)| id));
    announce(&a.files, of_a.filter_map(|id| a.contents.placements.get(id.0)))?;
    announce(&b.files, of_b.filter_map(|id| b.contents.placements.get(id.0)))?;
    let tensors = in_parallel(&pairs, default_threads(), |(ia, ib)| {
        compare(&Side::new(a, ia), &Side::new(b, ib), given)
    })?;
    Ok(Difference { tolerance, only_in_a, only_in_b, incidental, tensors })
}

/// The only tensors of both checkpoints, if their names differ and one of them is that of its file.
fn only_tensors<'a>(a: &'a Source, b: &'a Source) -> Option<(Side<'a>, Side<'a>)> {
    let ([own], [theirs]) = (&a.checkpoint().tensors[..], &b.checkpoint().tensors[..]) else { return None };
    let are_alone = own.name != theirs.name && (is_unnamed(a, own) || is_unnamed(b, theirs));
    are_alone.then(|| (Side::new(a, TensorId(0)), Side::new(b, TensorId(0))))
}

/// Whether this is the only array of a file that does not store its name: it has that of the file.
fn is_unnamed(source: &Source, tensor: &Tensor) -> bool {
    let Some(extension) = source.codec.info().unnamed_array else { return false };
    let file = source.input().entry();
    let stem = file.strip_suffix(extension).and_then(|stem| stem.strip_suffix('.'));
    stem.unwrap_or(file) == tensor.name
}

/// A tensor and the encoding that its elements are compared in.
struct Side<'a> {
    source: &'a Source,
    id: TensorId,
    tensor: &'a Tensor,
    encoding: Encoding,
}

impl<'a> Side<'a> {
    fn new(source: &'a Source, id: TensorId) -> Self {
        Side { source, id, tensor: &source.checkpoint().tensors[id.0], encoding: source.canonical(id) }
    }

    fn described(&self) -> (DType, Shape) {
        (self.encoding.dtype, self.tensor.shape.clone())
    }

    /// The scale of integers that are compared as they are stored.
    fn scale(&self) -> Option<NonZeroU32> {
        self.tensor.scale().filter(|_| !self.encoding.dtype.is_float())
    }

    fn affine(&self) -> Option<Affine> {
        self.tensor.quantization.as_ref().and_then(Quantization::affine).cloned()
    }
}

fn compare(a: &Side, b: &Side, given: Option<Tolerance>) -> Result<TensorDifference> {
    let mut found = TensorDifference {
        name: a.tensor.name.clone(),
        name_b: (a.tensor.name != b.tensor.name).then(|| b.tensor.name.clone()),
        a: a.described(),
        b: b.described(),
        scale_a: a.scale(),
        scale_b: b.scale(),
        quantization_a: a.affine(),
        quantization_b: b.affine(),
        first_index: None,
        outcome: Outcome::Incomparable,
    };
    let order = axis_order(a.tensor, b.tensor)
        .filter(|_| !found.scales_differ())
        .filter(|_| a.tensor.lengths == b.tensor.lengths)
        .filter(|_| a.encoding.dtype == b.encoding.dtype || (given.is_some() && are_comparable_numbers(a, b)))
        .filter(|order| a.encoding.blocks() == b.encoding.blocks() && comparable_blocks(a, b, order));
    if let Some(order) = order {
        let distance = distance(a, b, order, given.unwrap_or_default())?;
        if distance.differing > 0 {
            found.first_index = index_at(&a.encoding, &a.tensor.shape, distance.first);
        }
        found.outcome = match distance {
            Distance { differing: 0, .. } if a.encoding.dtype == b.encoding.dtype => Outcome::Equal,
            distance if distance.outside == 0 => Outcome::Close(distance),
            distance => Outcome::Different(distance),
        };
    }
    Ok(found)
}

/// Whether numbers of two dtypes can be compared by their values.
fn are_comparable_numbers(a: &Side, b: &Side) -> bool {
    let is_number = |side: &Side| {
        let dtype = side.encoding.dtype;
        dtype.is_float() && castable(dtype, DType::F64) && side.encoding.blocks().is_none()
    };
    is_number(a) && is_number(b)
}

/// Opaque blocks are compared as they are stored, in the same order of the same axes.
fn comparable_blocks(a: &Side, b: &Side, order: &[usize]) -> bool {
    a.encoding.blocks().is_none()
        || (a.encoding.order == b.encoding.order && order.iter().copied().eq(0..order.len()))
}

/// Streams both tensors, `b` with its axes in this order.
fn distance(a: &Side, b: &Side, order: Vec<usize>, tolerance: Tolerance) -> Result<Distance> {
    // The values of all floating-point types are values of f64.
    let read_as = |encoding: &Encoding| match a.encoding.dtype == b.encoding.dtype {
        true => encoding.clone(),
        false => encoding.clone().with_dtype(DType::F64),
    };
    let (own, theirs) = (read_as(&a.encoding), read_as(&b.encoding));
    let unit = Unit { is_value: a.encoding.dtype != b.encoding.dtype, ..Unit::new(&own) };
    let reordered = match theirs.blocks() {
        Some(_) => theirs,
        None => theirs.with_order(order),
    };
    let mut streams = (
        a.source.stream(a.id, &own, Budget::default())?,
        b.source.stream(b.id, &reordered, Budget::default())?,
    );
    let mut distance = Distance::default();
    in_lockstep(&mut streams.0, &mut streams.1, (unit.streamed, unit.streamed), |position, a, b| {
        if a != b {
            distance.add(unit, a, b, tolerance, position);
        }
        Ok(())
    })?;
    Ok(distance)
}

/// What is compared at once: an element, or an opaque block.
#[derive(Clone, Copy)]
struct Unit {
    /// What streams hand out.
    streamed: DType,
    /// Bytes compared at once, and elements that they hold.
    bytes: usize,
    elements: u64,
    /// What the bytes are, if they are numbers.
    number: Option<DType>,
    /// Whether only the value counts, because the elements are stored in different dtypes.
    is_value: bool,
}

impl Unit {
    fn new(encoding: &Encoding) -> Self {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(1);
        match encoding.blocks() {
            Some(blocks) => Unit {
                streamed: DType::U8,
                bytes: size(blocks.bytes()),
                elements: blocks.elements(),
                number: None,
                is_value: false,
            },
            None => Unit {
                streamed: encoding.dtype,
                bytes: size(encoding.dtype.bytes().unwrap_or(1)),
                elements: 1,
                number: Some(encoding.dtype),
                is_value: false,
            },
        }
    }

    /// The position of the first element of what was streamed, where `position` counts what streams hand out.
    fn first(self, position: u64) -> u64 {
        if self.number.is_some() { position } else { position / self.bytes as u64 * self.elements }
    }
}

impl Distance {
    /// Compares the same elements of both tensors, of which the first is at `position`.
    fn add(&mut self, unit: Unit, a: &[u8], b: &[u8], tolerance: Tolerance, position: u64) {
        let Unit { bytes, elements, .. } = unit;
        let pairs = a.chunks_exact(bytes).zip(b.chunks_exact(bytes));
        for (number, (a, b)) in (0..).zip(pairs).filter(|(_, (a, b))| a != b) {
            if self.differing == 0 {
                self.first = unit.first(position) + number * elements;
            }
            self.differing += elements;
            let (mut x, mut y) = (f64::NAN, f64::NAN);
            let are_numbers = unit.number.is_some_and(|dtype| {
                for_each_number(dtype, a, |value| x = value) && for_each_number(dtype, b, |value| y = value)
            });
            self.max_absolute = self.max_absolute.max(if are_numbers { apart(x, y) } else { f64::INFINITY });
            // The bits differ, also if both are NaN.
            let is_bits = tolerance.is_exact() && !unit.is_value;
            if is_bits || !are_numbers || !tolerance.allows(x, y) {
                self.outside += elements;
            }
        }
    }
}

/// The distance of two numbers: 0 for equal ones and for two NaN; infinite where a NaN or an infinity has no equal.
fn apart(x: f64, y: f64) -> f64 {
    if x == y || (x.is_nan() && y.is_nan()) {
        return 0.0;
    }
    let distance = (x - y).abs();
    if distance.is_nan() { f64::INFINITY } else { distance }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    fn within(absolute: f64, relative: f64) -> Tolerance {
        Tolerance { absolute, relative }
    }

    #[test]
    fn the_allowed_error_is_the_absolute_part_plus_the_relative_part_times_the_reference() {
        let tolerance = within(0.5, 0.25);
        assert!(tolerance.allows(2.0, 3.0) && tolerance.allows(-2.0, -3.0));
        assert!(!tolerance.allows(2.0, 3.0 + 1e-15) && !tolerance.allows(2.0, 1.0 - 1e-15));
        assert!(tolerance.allows(0.0, -0.5) && !tolerance.allows(0.0, 0.6));
    }

    #[test]
    fn the_relative_part_is_relative_to_the_reference() {
        let tolerance = within(0.0, 0.1);
        assert!(tolerance.allows(10.0, 9.0));
        assert!(!tolerance.allows(9.0, 10.0));
        assert!(!tolerance.allows(0.0, 1e-300));
    }

    #[test]
    fn nan_is_allowed_in_place_of_nan_alone() {
        for tolerance in [Tolerance::default(), within(1e300, 1e300)] {
            assert!(tolerance.allows(f64::NAN, -f64::NAN));
            assert!(!tolerance.allows(f64::NAN, 0.0) && !tolerance.allows(0.0, f64::NAN));
            assert!(!tolerance.allows(f64::NAN, INF) && !tolerance.allows(INF, f64::NAN));
        }
    }

    #[test]
    fn an_infinity_is_allowed_in_place_of_itself_alone() {
        for tolerance in [Tolerance::default(), within(1e300, 1e300)] {
            assert!(tolerance.allows(INF, INF) && tolerance.allows(-INF, -INF));
            assert!(!tolerance.allows(INF, -INF) && !tolerance.allows(INF, f64::MAX));
            assert!(!tolerance.allows(f64::MAX, INF));
        }
    }

    #[test]
    fn no_tolerance_demands_equal_bits() {
        assert!(Tolerance::default().allows(1.0, 1.0) && !Tolerance::default().allows(0.0, -0.0));
        assert!(within(1e-300, 0.0).allows(0.0, -0.0));
    }

    fn elements(a: &[f32], b: &[f32], tolerance: Tolerance) -> Distance {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let mut distance = Distance::default();
        let unit =
            Unit { streamed: DType::F32, bytes: 4, elements: 1, number: Some(DType::F32), is_value: false };
        distance.add(unit, &bytes(a), &bytes(b), tolerance, 0);
        distance
    }

    #[test]
    fn elements_are_measured_from_the_first_checkpoint() {
        let tolerance = within(0.0, 0.1);
        assert_eq!(elements(&[1.0, 10.0], &[1.0, 9.0], tolerance).outside, 0);
        let exchanged = elements(&[1.0, 9.0], &[1.0, 10.0], tolerance);
        assert_eq!((exchanged.differing, exchanged.outside, exchanged.first), (1, 1, 1));
    }

    #[test]
    fn nan_with_another_payload_differs_bitwise_and_is_within_any_tolerance() {
        let (a, b) = ([f32::NAN], [f32::from_bits(f32::NAN.to_bits() ^ 1)]);
        let exact = elements(&a, &b, Tolerance::default());
        assert_eq!((exact.differing, exact.outside, exact.max_absolute), (1, 1, 0.0));
        assert_eq!(elements(&a, &b, within(1e-9, 0.0)).outside, 0);
        let lost = elements(&a, &[0.0], within(1e9, 1e9));
        assert_eq!((lost.outside, lost.max_absolute), (1, INF));
    }
}
