//! Two checkpoints, tensor by tensor.

use crate::execute::in_lockstep;
use crate::layout::axis_order;
use crate::resources::{Budget, default_threads, in_parallel};
use crate::source::Source;
use crate::transform::for_each_number;
use ckpt_api::{DType, Encoding, Result, Shape, TensorId};
use serde::Serialize;

/// How far values may differ: `|a − b| ≤ absolute + relative·|b|`, element by element. Zero and zero is bit equality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tolerance {
    /// Absolute part.
    pub absolute: f64,
    /// Part relative to the second checkpoint's value.
    pub relative: f64,
}

/// The result of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The rule that was applied.
    pub tolerance: Tolerance,
    /// Names that only the first has.
    pub only_in_a: Vec<String>,
    /// Names that only the second has.
    pub only_in_b: Vec<String>,
    /// What both have, in the first one's order.
    pub tensors: Vec<TensorDifference>,
}

/// The comparison of one tensor.
#[derive(Clone, Debug, Serialize)]
pub struct TensorDifference {
    /// Name in both.
    pub name: String,
    /// dtype and shape in each.
    pub a: (DType, Shape),
    /// dtype and shape in each.
    pub b: (DType, Shape),
    /// What was found.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What the comparison of one tensor found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// The same bits.
    Equal,
    /// Different bits, all within the tolerance.
    Close(Distance),
    /// Values outside the tolerance.
    Different(Distance),
    /// dtypes, or shapes that no naming of axes reconciles: not compared.
    Incomparable,
}

/// How far two tensors are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distance {
    /// Elements with different bits.
    pub differing: u64,
    /// Elements outside the tolerance.
    pub outside: u64,
    /// Largest absolute difference; infinite where a NaN or infinity has no equal.
    pub max_absolute: f64,
    /// Position, row-major in the first one's shape, of the first element with different bits.
    pub first: u64,
}

impl Difference {
    /// Whether everything that both have agrees within the tolerance, and neither has more.
    pub fn agrees(&self) -> bool {
        let within = |tensor: &TensorDifference| matches!(tensor.outcome, Outcome::Equal | Outcome::Close(_));
        self.only_in_a.is_empty() && self.only_in_b.is_empty() && self.tensors.iter().all(within)
    }
}

/// Compares all tensors of two checkpoints by name, streaming both. Where both name their axes, a different order
/// of the same axes is no difference.
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
pub fn diff(a: &Source, b: &Source, tolerance: Tolerance) -> Result<Difference> {
    let (names_a, names_b) = (a.checkpoint().by_name(), b.checkpoint().by_name());
    let missing = |from: &Source, other: &std::collections::HashMap<&str, TensorId>| -> Vec<String> {
        let names = from.checkpoint().tensors.iter().map(|tensor| &tensor.name);
        names.filter(|name| !other.contains_key(name.as_str())).cloned().collect()
    };
    let pairs: Vec<(TensorId, TensorId)> = a
        .checkpoint()
        .tensors
        .iter()
        .filter_map(|tensor| Some((names_a[tensor.name.as_str()], *names_b.get(tensor.name.as_str())?)))
        .collect();
    let tensors = in_parallel(&pairs, default_threads(), |(ia, ib)| compare(a, ia, b, ib, tolerance))?;
    Ok(Difference { tolerance, only_in_a: missing(a, &names_b), only_in_b: missing(b, &names_a), tensors })
}

fn compare(
    a: &Source,
    ia: TensorId,
    b: &Source,
    ib: TensorId,
    tolerance: Tolerance,
) -> Result<TensorDifference> {
    let (ta, tb) = (&a.checkpoint().tensors[ia.0], &b.checkpoint().tensors[ib.0]);
    let (ea, mut eb) = (a.canonical(ia), b.canonical(ib));
    let described = |outcome| TensorDifference {
        name: ta.name.clone(),
        a: (ea.dtype, ta.shape.clone()),
        b: (b.canonical(ib).dtype, tb.shape.clone()),
        outcome,
    };
    match axis_order(ta, tb) {
        Some(order) if ta.lengths == tb.lengths && ea.dtype == eb.dtype => eb.order = order,
        _ => return Ok(described(Outcome::Incomparable)),
    }
    let distance = distance(a, ia, &ea, b, ib, &eb, tolerance)?;
    Ok(described(match distance {
        Distance { differing: 0, .. } => Outcome::Equal,
        Distance { outside: 0, .. } => Outcome::Close(distance),
        _ => Outcome::Different(distance),
    }))
}

fn distance(
    a: &Source,
    ia: TensorId,
    ea: &Encoding,
    b: &Source,
    ib: TensorId,
    eb: &Encoding,
    tolerance: Tolerance,
) -> Result<Distance> {
    let mut streams = (a.stream(ia, ea, Budget::default())?, b.stream(ib, eb, Budget::default())?);
    let size = usize::try_from(ea.dtype.bytes().unwrap_or(1)).unwrap_or(1);
    let mut result = Distance::default();
    in_lockstep(&mut streams.0, &mut streams.1, (ea.dtype, eb.dtype), |position, a, b| {
        if a != b {
            compare_elements(ea.dtype, size, a, b, tolerance, position, &mut result);
        }
        Ok(())
    })?;
    Ok(result)
}

fn compare_elements(
    dtype: DType,
    size: usize,
    a: &[u8],
    b: &[u8],
    tolerance: Tolerance,
    position: u64,
    result: &mut Distance,
) {
    for (k, (bytes_a, bytes_b)) in a.chunks_exact(size).zip(b.chunks_exact(size)).enumerate() {
        if bytes_a == bytes_b {
            continue;
        }
        if result.differing == 0 {
            result.first = position + k as u64;
        }
        result.differing += 1;
        let (mut x, mut y) = (f64::NAN, f64::NAN);
        let numbers = for_each_number(dtype, bytes_a, |value| x = value)
            && for_each_number(dtype, bytes_b, |value| y = value);
        let apart = if numbers && x == y { 0.0 } else { (x - y).abs() };
        let apart = if apart.is_nan() { f64::INFINITY } else { apart };
        result.max_absolute = result.max_absolute.max(apart);
        let exact = tolerance == Tolerance::default();
        if exact || apart > tolerance.absolute + tolerance.relative * y.abs() || apart.is_infinite() {
            result.outside += 1;
        }
    }
}
