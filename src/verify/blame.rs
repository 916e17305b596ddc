//! What is to blame where a layer computes something else.

use super::mapped::Mapped;
use super::metrics::index;
use super::parameters::{SourceParameters, StorageError};
use super::report::{Blame, TensorBlame, TensorPair, TensorSide};
use crate::layout::axis_order;
use ckpt_api::{Axis, Node, Result, Shape, Tensor};
use ckpt_forward::Parameters;
use std::collections::{BTreeSet, HashMap};

/// Most axes of a tensor whose orders are tried.
const MOST_AXES: usize = 4;

/// Both sides of a comparison.
pub(super) struct Sides<'a> {
    pub(super) a: &'a SourceParameters<'a>,
    pub(super) b: &'a SourceParameters<'a>,
    /// What storage does to `a`'s tensors.
    pub(super) errors: &'a HashMap<String, StorageError>,
    pub(super) mapped: &'a Mapped<'a>,
    /// Every tensor of the first graph's layers: layer, role, name.
    pub(super) layers: Vec<(&'a str, &'a str, &'a str)>,
}

/// The tensors of a node and of its counterpart, by role.
pub(super) fn tensor_pairs(sides: &Sides, a: Option<&Node>, b: Option<&Node>) -> Vec<TensorPair> {
    let name = |node: Option<&Node>, role: &str| node.and_then(|node| node.parameters.get(role)).cloned();
    let roles: BTreeSet<&String> =
        [a, b].into_iter().flatten().flat_map(|node| node.parameters.keys()).collect();
    let pair = |role: &String| {
        let (own, theirs) = (name(a, role), name(b, role));
        TensorPair {
            role: role.clone(),
            mapped_by: own.as_ref().and_then(|name| sides.mapped.by(name)),
            a: own.and_then(|name| side(sides.a, &name)),
            b: theirs.and_then(|name| side(sides.b, &name)),
        }
    };
    roles.into_iter().map(pair).collect()
}

fn side(parameters: &SourceParameters, name: &str) -> Option<TensorSide> {
    let (tensor, stored) = parameters.stored(name)?;
    Some(TensorSide {
        name: name.to_owned(),
        dtype: stored.dtype,
        scale: stored.scaling.map(|scaling| f64::from(scaling.scale.get())),
        shape: tensor.shape.clone(),
    })
}

impl Sides<'_> {
    /// The tensors of two nodes that differ by more than how they are stored explains. Where one node has tensors that the other has
    /// not (a factoriser that is merged), what they compute decides.
    ///
    /// # Errors
    /// Whatever keeps a tensor from being read.
    pub(super) fn differing(&self, a: &Node, b: &Node) -> Result<Vec<TensorBlame>> {
        let mut found = Vec::new();
        if !a.parameters.keys().eq(b.parameters.keys()) {
            return Ok(found);
        }
        for ((role, own), theirs) in a.parameters.iter().zip(b.parameters.values()) {
            found.extend(differing(self, role, own, theirs)?);
        }
        Ok(found)
    }
}

/// Why `b` gives something else than `a` on the same inputs; `tensors` are those that differ.
pub(super) fn blame(a: &Node, b: &Node, pairs: &[TensorPair], tensors: Vec<TensorBlame>) -> Blame {
    let mut reasons = Vec::new();
    if a.op != b.op {
        reasons.push(format!("it computes {}, and the reference {}", b.op, a.op));
    }
    let attributes: BTreeSet<&String> = a.attributes.keys().chain(b.attributes.keys()).collect();
    for name in attributes {
        let shown = |node: &Node| {
            let value = node.attributes.get(name).and_then(|value| serde_json::to_string(value).ok());
            value.unwrap_or_else(|| "left out".to_owned())
        };
        if a.attributes.get(name) != b.attributes.get(name) {
            reasons.push(format!("its attribute '{name}' is {}, and the reference's {}", shown(b), shown(a)));
        }
    }
    for pair in pairs {
        match (&pair.a, &pair.b) {
            (Some(own), None) => {
                reasons.push(format!("it has no {}; the reference has '{}'", pair.role, own.name))
            }
            (None, Some(theirs)) => {
                reasons.push(format!("it has a {}, '{}'; the reference has none", pair.role, theirs.name));
            }
            _ => {}
        }
    }
    reasons.extend(tensors.iter().map(describe));
    if reasons.is_empty() {
        reasons.push(
            "operator, attributes and tensors are the same: the device computes it otherwise".to_owned(),
        );
    }
    Blame { reason: reasons.join("; "), tensors }
}

fn describe(tensor: &TensorBlame) -> String {
    let mut text = format!(
        "'{}' differs from '{}' in {} of {} elements",
        tensor.b, tensor.a, tensor.differing, tensor.elements
    );
    if let Some(most) = tensor.max_absolute {
        text += &format!(" by at most {most:e}, first at {:?}", tensor.first);
    }
    for more in [&tensor.likeness, &tensor.mapped_by].into_iter().flatten() {
        text += &format!(" ({more})");
    }
    text
}

/// How a tensor differs from its counterpart; `None` where it does not, or no more than by how it is stored.
fn differing(sides: &Sides, role: &str, a: &str, b: &str) -> Result<Option<TensorBlame>> {
    let (Some(own), Some(theirs)) = (sides.a.tensor(a), sides.b.tensor(b)) else { return Ok(None) };
    let elements = own.shape.elements();
    let mut blame = TensorBlame {
        role: role.to_owned(),
        a: a.to_owned(),
        b: b.to_owned(),
        differing: elements,
        elements,
        max_absolute: None,
        first: vec![0; own.shape.rank()],
        likeness: None,
        mapped_by: sides.mapped.by(a),
    };
    let (single, other) = (without_units(own)?, without_units(theirs)?);
    let Some(order) = axis_order(&single, &other) else {
        blame.likeness = Some(format!("shape {}, and in the reference {}", theirs.shape, own.shape));
        return Ok(Some(blame));
    };
    let (x, stored) = (values(sides.a, a)?, values(sides.b, b)?);
    let y = permuted(&stored, &lens(&other), &order);
    let error = sides.errors.get(a);
    let is_off = |(_, (x, y)): &(usize, (&f64, &f64))| {
        let same = x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
        // Written so that NaN is off.
        !same && !error.is_some_and(|error| (*x - *y).abs() <= error.of(**x))
    };
    let off: Vec<usize> = x.iter().zip(&y).enumerate().filter(is_off).map(|(place, _)| place).collect();
    let Some(first) = off.first().copied() else { return Ok(None) };
    let apart = |place: &usize| x.get(*place).zip(y.get(*place)).map_or(f64::NAN, |(x, y)| (x - y).abs());
    blame.differing = off.len() as u64;
    blame.max_absolute = off.iter().map(apart).try_fold(0f64, |most, e| e.is_finite().then(|| most.max(e)));
    blame.first = index(first as u64, &lens(own));
    blame.likeness = if off.len() == 1 {
        x.get(first).zip(y.get(first)).and_then(|(x, y)| flipped(*x, *y))
    } else {
        match reordered(&single, &x, &y, &stored) {
            Some(order) => Some(order),
            None => another(sides, role, own, &y)?,
        }
    };
    Ok(Some(blame))
}

/// The tensor without the axes along which there is one of something: a bias `[1, out]` is a bias `[out]`.
fn without_units(tensor: &Tensor) -> Result<Tensor> {
    let Some(axes) = &tensor.axes else { return Ok(tensor.clone()) };
    let each = tensor.shape.iter().copied().zip(axes.iter().cloned());
    let (lens, axes): (Vec<u64>, Vec<Axis>) =
        each.filter(|(len, axis)| !(*len == 1 && *axis == Axis::Unit)).unzip();
    Ok(Tensor { shape: Shape::new(lens)?, ..tensor.clone() }.with_axes(axes))
}

/// Which bit makes the difference of two binary32 numbers, where one does.
#[expect(clippy::cast_possible_truncation, reason = "what binary32 does not hold is left out")]
fn flipped(x: f64, y: f64) -> Option<String> {
    let (a, b) = (x as f32, y as f32);
    let bits = a.to_bits() ^ b.to_bits();
    let single = f64::from(a) == x && f64::from(b) == y;
    (single && bits.count_ones() == 1).then(|| format!("bit {} of it is flipped", bits.trailing_zeros()))
}

/// The order of axes in which one tensor's elements are the other's.
fn reordered(tensor: &Tensor, x: &[f64], y: &[f64], stored: &[f64]) -> Option<String> {
    let rank = tensor.shape.rank();
    if rank > MOST_AXES {
        return None;
    }
    let axis = |axis: &usize| match tensor.axes.as_ref().and_then(|axes| axes.get(*axis)) {
        Some(axis) => axis.name().to_owned(),
        None => axis.to_string(),
    };
    let same =
        |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
    orders(rank).into_iter().skip(1).find_map(|order| {
        let turned = permuted(x, &lens(tensor), &order);
        (same(&turned, y) || same(&turned, stored)).then(|| {
            let words: Vec<String> = order.iter().map(axis).collect();
            format!("its elements are the reference's in the order of axes {}", words.join(" "))
        })
    })
}

/// The layer whose tensor it is instead.
fn another(sides: &Sides, role: &str, own: &Tensor, y: &[f64]) -> Result<Option<String>> {
    for (layer, other_role, name) in &sides.layers {
        let Some(other) = sides.a.tensor(name) else { continue };
        if *other_role != role || other.name == own.name || other.shape != own.shape {
            continue;
        }
        if values(sides.a, name)? == y {
            return Ok(Some(format!("it is what '{layer}' has: '{name}'")));
        }
    }
    Ok(None)
}

/// A tensor's numbers; what integers stand for, where that is known.
fn values(parameters: &SourceParameters, name: &str) -> Result<Vec<f64>> {
    let values = parameters.load(name)?.to_f64();
    let scale = parameters.tensor(name).and_then(|tensor| tensor.quantization.as_ref());
    Ok(match scale {
        Some(quantization) => {
            let scale = f64::from(quantization.scale.get());
            values.into_iter().map(|value| value / scale).collect()
        }
        None => values,
    })
}

fn lens(tensor: &Tensor) -> Vec<usize> {
    // What is in memory has lengths that fit.
    tensor.shape.iter().map(|len| usize::try_from(*len).unwrap_or(usize::MAX)).collect()
}

/// Row-major elements with the axes in another order.
fn permuted(values: &[f64], shape: &[usize], order: &[usize]) -> Vec<f64> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut turned = Vec::new();
    crate::transform::permute(&bytes, shape, order, size_of::<f64>(), &mut turned);
    turned.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

/// Every order of `0..len`, the identity first.
fn orders(len: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..len {
        let longer = orders.iter().flat_map(|order| {
            let left = (0..len).filter(|axis| !order.contains(axis));
            left.map(|axis| [&order[..], &[axis]].concat()).collect::<Vec<_>>()
        });
        orders = longer.collect();
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_begin_with_the_identity_and_are_all_of_them() {
        assert_eq!(orders(3).len(), 6);
        assert_eq!(orders(3)[0], [0, 1, 2]);
        assert_eq!(orders(0), [[0; 0]]);
    }

    #[test]
    fn the_bit_that_is_flipped_is_named() {
        let flip = |bit: u32| f64::from(f32::from_bits(1.5f32.to_bits() ^ (1 << bit)));
        assert_eq!(flipped(1.5, flip(13)).unwrap(), "bit 13 of it is flipped");
        assert_eq!(flipped(1.5, 2.25), None);
        assert_eq!(flipped(0.1, 0.2), None);
    }

    #[test]
    fn elements_in_another_order_of_axes_are_recognized() {
        use ckpt_api::{Axis, DType, Shape};
        let tensor =
            Tensor::new("w", DType::F32, Shape::new([2, 2]).unwrap()).with_axes([Axis::Out, Axis::In]);
        let found = reordered(&tensor, &[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0], &[]).unwrap();
        assert_eq!(found, "its elements are the reference's in the order of axes in out");
        assert_eq!(reordered(&tensor, &[1.0, 2.0, 3.0, 4.0], &[4.0, 3.0, 2.0, 1.0], &[]), None);
    }
}
