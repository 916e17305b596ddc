//! Lowers sums of products along named axes.

use super::local::Local;
use super::lowering::{Lowering, elements, misfit};
use super::strides::row_major;
use crate::kernel::Reduction;
use crate::value::Numbers;
use ckpt_api::{Attribute, Error, Result};

/// The name of an axis: a letter, or the place of an axis of the ellipsis, counted from the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

/// A value whose axes have names, each once.
#[derive(Clone)]
struct Labeled {
    value: Local,
    labels: Vec<Label>,
}

impl Labeled {
    fn len(&self, label: Label) -> Option<usize> {
        let axis = self.labels.iter().position(|own| *own == label)?;
        self.value.shape().get(axis).copied()
    }
}

/// Lowers ONNX's `Einsum`: products of two values after each other, from the first, as soon as a label is in no later
/// value summed over it.
pub(super) fn einsum(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["equation"])?;
    lowering.allow_roles(&[])?;
    let equation = lowering.node.text("equation")?.unwrap_or_default().replace(' ', "");
    let refuse = |what: String| Attribute::Text(equation.clone()).invalid("equation", what);
    let (terms, result) = match equation.split_once("->") {
        Some((terms, result)) => (terms, Some(result)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = terms.split(',').collect();
    if terms.len() != lowering.inputs.len() {
        return Err(refuse(format!("{} terms, one for each input", lowering.inputs.len())));
    }
    let mut operands = Vec::with_capacity(terms.len());
    for (index, term) in terms.iter().enumerate() {
        let value = lowering.local(index)?;
        let labels = labels(term, value.shape().len()).ok_or_else(|| {
            refuse(format!("a letter for each axis of {:?}, or an ellipsis", value.shape()))
        })?;
        operands.push(diagonal(lowering, &value, &labels)?);
    }
    let first = operands.first().map_or(Numbers::Real, |operand| operand.value.info.numbers);
    for operand in &operands {
        lowering.check_numbers(&operand.value.info, first)?;
    }
    let wanted = match result {
        Some(result) => wanted(result, &operands),
        None => Some(implicit(&terms, &operands)),
    };
    let is_known = |label: &Label| operands.iter().any(|operand| operand.labels.contains(label));
    let wanted = wanted
        .filter(|labels| labels.iter().all(is_known) && is_unique(labels))
        .ok_or_else(|| refuse("a result of letters that the terms have, each once".to_owned()))?;
    let mut left = operands.into_iter();
    let mut product = left.next().ok_or_else(|| Error::corrupt("the layer lacks an input"))?;
    loop {
        let needed = |label: &Label| {
            wanted.contains(label) || left.as_slice().iter().any(|later| later.labels.contains(label))
        };
        product = summed(lowering, product, needed)?;
        let Some(next) = left.next() else { break };
        let needed = |label: &Label| {
            wanted.contains(label) || left.as_slice().iter().any(|later| later.labels.contains(label))
        };
        let next = summed(lowering, next, |label| needed(label) || product.labels.contains(label))?;
        product = multiplied(lowering, &product, &next, needed)?;
    }
    let order: Option<Vec<usize>> =
        wanted.iter().map(|label| product.labels.iter().position(|own| own == label)).collect();
    let order = order.ok_or_else(|| refuse("a result of letters that the terms have".to_owned()))?;
    let value = lowering.transposed(&product.value, &order)?;
    lowering.finish(&value, value.shape())
}

/// The labels of a term for a value of `rank` axes.
fn labels(term: &str, rank: usize) -> Option<Vec<Label>> {
    let letters = |text: &str| -> Option<Vec<Label>> {
        text.chars().map(|c| c.is_ascii_alphabetic().then_some(Label::Letter(c))).collect()
    };
    let Some((before, behind)) = term.split_once("...") else {
        return letters(term).filter(|labels| labels.len() == rank);
    };
    let (before, behind) = (letters(before)?, letters(behind)?);
    let count = rank.checked_sub(before.len() + behind.len())?;
    Some(before.into_iter().chain((0..count).rev().map(Label::Ellipsis)).chain(behind).collect())
}

/// The axes of the ellipsis, of all values together.
fn ellipsis(operands: &[Labeled]) -> impl Iterator<Item = Label> {
    let labels = operands.iter().flat_map(|operand| &operand.labels);
    let count = labels.filter_map(|label| match label {
        Label::Ellipsis(place) => Some(place + 1),
        Label::Letter(_) => None,
    });
    (0..count.max().unwrap_or(0)).rev().map(Label::Ellipsis)
}

/// The labels of the result that an equation states.
fn wanted(result: &str, operands: &[Labeled]) -> Option<Vec<Label>> {
    let letters = |text: &str| -> Option<Vec<Label>> {
        text.chars().map(|c| c.is_ascii_alphabetic().then_some(Label::Letter(c))).collect()
    };
    match result.split_once("...") {
        Some((before, behind)) => {
            Some(letters(before)?.into_iter().chain(ellipsis(operands)).chain(letters(behind)?).collect())
        }
        // An ellipsis is not summed over.
        None if ellipsis(operands).next().is_some() => None,
        None => letters(result),
    }
}

/// The labels of the result of an equation that does not state them: the ellipsis, and the letters that occur once, in
/// alphabetic order.
fn implicit(terms: &[&str], operands: &[Labeled]) -> Vec<Label> {
    let mut letters: Vec<char> = terms.concat().chars().filter(char::is_ascii_alphabetic).collect();
    letters.sort_unstable();
    let once = letters.chunk_by(|a, b| a == b).filter_map(|letters| match letters {
        [letter] => Some(Label::Letter(*letter)),
        _ => None,
    });
    ellipsis(operands).chain(once).collect()
}

fn is_unique(labels: &[Label]) -> bool {
    let mut sorted = labels.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// Takes the diagonal of axes that have one name.
fn diagonal(lowering: &mut Lowering, value: &Local, labels: &[Label]) -> Result<Labeled> {
    let (mut own, mut shape, mut strides) = (Vec::new(), Vec::new(), Vec::new());
    for ((label, len), stride) in labels.iter().zip(value.shape()).zip(row_major(value.shape())) {
        match own.iter().position(|other| other == label) {
            None => {
                own.push(*label);
                shape.push(*len);
                strides.push(stride);
            }
            Some(axis) if shape[axis] == *len => strides[axis] += stride,
            Some(_) => return Err(misfit(value.shape(), "axes of one length for one letter")),
        }
    }
    let value = match own.len() == labels.len() {
        true => value.clone(),
        false => lowering.viewed(value, shape, &strides)?,
    };
    Ok(Labeled { value, labels: own })
}

/// Sums over the axes that are not needed.
fn summed(lowering: &mut Lowering, operand: Labeled, needed: impl Fn(&Label) -> bool) -> Result<Labeled> {
    let axes = 0..operand.labels.len();
    let (kept, others): (Vec<usize>, Vec<usize>) = axes.partition(|axis| needed(&operand.labels[*axis]));
    if others.is_empty() {
        return Ok(operand);
    }
    let turned = lowering.transposed(&operand.value, &[&kept[..], &others].concat())?;
    let value = lowering.reduced(Reduction::Sum, &turned, others.len())?;
    Ok(Labeled { value, labels: kept.iter().map(|axis| operand.labels[*axis]).collect() })
}

/// Multiplies two values and sums over the labels that both have and that are not needed.
fn multiplied(
    lowering: &mut Lowering,
    a: &Labeled,
    b: &Labeled,
    needed: impl Fn(&Label) -> bool,
) -> Result<Labeled> {
    let both: Vec<Label> = a.labels.iter().copied().filter(|label| b.labels.contains(label)).collect();
    let (batch, inner): (Vec<Label>, Vec<Label>) = both.into_iter().partition(|label| needed(label));
    let alone = |one: &Labeled, other: &Labeled| -> Vec<Label> {
        one.labels.iter().copied().filter(|label| !other.labels.contains(label)).collect()
    };
    let (rows, columns) = (alone(a, b), alone(b, a));
    for label in &inner {
        if a.len(*label) != b.len(*label) {
            return Err(misfit(b.value.shape(), "axes of one length for one letter"));
        }
    }
    let lens = |of: &Labeled, labels: &[Label]| -> Vec<usize> {
        labels.iter().map(|label| of.len(*label).unwrap_or(1)).collect()
    };
    let turned = |lowering: &mut Lowering, of: &Labeled, [first, second, third]: [&[Label]; 3]| {
        let labels = [first, second, third].concat();
        let order: Vec<usize> =
            labels.iter().filter_map(|label| of.labels.iter().position(|own| own == label)).collect();
        let value = lowering.transposed(&of.value, &order)?;
        let mut shape = lens(of, first);
        shape.extend([elements(&lens(of, second))?, elements(&lens(of, third))?]);
        Ok::<_, Error>(value.reshaped(shape))
    };
    let left = turned(lowering, a, [&batch, &rows, &inner])?;
    let right = turned(lowering, b, [&batch, &inner, &columns])?;
    let product = lowering.multiplied(&left, &right)?;
    let mut shape = product.shape()[..batch.len()].to_vec();
    shape.extend(lens(a, &rows));
    shape.extend(lens(b, &columns));
    Ok(Labeled { value: product.reshaped(shape), labels: [batch, rows, columns].concat() })
}
