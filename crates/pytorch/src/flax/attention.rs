//! Attention of several heads: `MultiHeadDotProductAttention` becomes `nn.MultiheadAttention` if that can compute it.

use super::output::{Output, Place, join};
use super::reading::{PROJECTIONS, Shapes};
use super::scan::Scans;
use super::tree::{Leaf, Module, Path, Tree};
use ckpt_api::Result;
use ckpt_engine::recipe::AxisStep;
use std::collections::BTreeSet;

/// Maps the attention layers that PyTorch's module can compute. Returns the paths of their projections.
///
/// # Errors
/// As [`Output::assemble`].
pub(super) fn heads<'t>(
    tree: &Tree<'t>,
    scans: &Scans<'t>,
    output: &mut Output,
) -> Result<BTreeSet<Path<'t>>> {
    let mut taken = BTreeSet::new();
    for path in tree.modules.keys() {
        let Some((&"query", parent)) = path.split_last() else { continue };
        let is_alone =
            || tree.children(parent).len() == PROJECTIONS.len() && !tree.modules.contains_key(parent);
        let modules = PROJECTIONS.map(|name| tree.child(parent, name));
        let [Some(query), Some(key), Some(value), Some(out)] = modules else { continue };
        let place = Place::new(parent, scans);
        let Some(heads) = Heads::of([query, key, value, out], place.scan.is_some()).filter(|_| is_alone())
        else {
            continue;
        };
        heads.map(&place, output)?;
        taken.extend(PROJECTIONS.map(|name| parent.iter().copied().chain([name]).collect()));
    }
    Ok(taken)
}

/// An attention layer that `nn.MultiheadAttention` can compute.
struct Heads<'a, 't> {
    /// Query, key, value, out.
    kernels: [&'a Leaf<'t>; 4],
    biases: Option<[&'a Leaf<'t>; 4]>,
    /// Heads, and the length of each.
    heads: [u64; 2],
    width: u64,
    /// The lengths of keys and values that go in, if they are not the width.
    others: Option<[u64; 2]>,
}

impl<'a, 't> Heads<'a, 't> {
    /// `None` for lengths that the module does not have: then the projections are dense layers.
    fn of(modules: [&'a Module<'t>; 4], is_scanned: bool) -> Option<Self> {
        let shapes = modules.map(|module| Shapes { module, is_scanned });
        let leaf = |module: &'a Module<'t>, name: &str| module.get(name);
        let [query, key, value, out] = shapes.map(|own| own.of("kernel"));
        let (&[width, heads, each], &[keys, ..], &[values, ..]) = (query?, key?, value?) else { return None };
        let inner = [heads, each];
        let is_projection = |kernel: Option<&[u64]>| matches!(kernel, Some([_, rest @ ..]) if *rest == inner);
        let fits = [query, key, value].into_iter().all(is_projection)
            && out == Some(&[heads, each, width])
            && heads.checked_mul(each) == Some(width);
        let is_biased = modules.map(|module| module.contains_key("bias"));
        let fits_bias = shapes.iter().take(3).all(|own| own.of("bias").is_none_or(|bias| *bias == inner))
            && shapes[3].of("bias").is_none_or(|bias| *bias == [width]);
        let is_one = is_biased.iter().all(|own| *own == is_biased[0]);
        let leaves = if is_biased[0] { 2 } else { 1 };
        let is_plain = modules.iter().all(|module| module.len() == leaves);
        if !(fits && fits_bias && is_one && is_plain) {
            return None;
        }
        let [q, k, v, o] = modules;
        let kernels = [leaf(q, "kernel")?, leaf(k, "kernel")?, leaf(v, "kernel")?, leaf(o, "kernel")?];
        let biases = match is_biased[0] {
            true => Some([leaf(q, "bias")?, leaf(k, "bias")?, leaf(v, "bias")?, leaf(o, "bias")?]),
            false => None,
        };
        let others = ([keys, values] != [width; 2]).then_some([keys, values]);
        Some(Heads { kernels, biases, heads: inner, width, others })
    }

    fn map(&self, place: &Place<'_, '_>, output: &mut Output) -> Result<()> {
        let joined = |axis: usize| join(&self.heads, axis).into_iter();
        let weight: Vec<AxisStep> = joined(1).chain([AxisStep::Transpose]).collect();
        let [query, key, value, out] = self.kernels;
        match self.others {
            None => output.merge(place, &[query, key, value], "in_proj_weight", weight)?,
            Some(_) => {
                let each = [("q_proj_weight", query), ("k_proj_weight", key), ("v_proj_weight", value)];
                each.into_iter()
                    .try_for_each(|(name, leaf)| output.one(place, leaf, name, weight.clone()))?;
            }
        }
        output.one(place, out, "out_proj.weight", joined(0).chain([AxisStep::Transpose]).collect())?;
        if let Some([query, key, value, out]) = self.biases {
            output.merge(place, &[query, key, value], "in_proj_bias", joined(0).collect())?;
            output.one(place, out, "out_proj.bias", Vec::new())?;
        }
        let bias = if self.biases.is_some() { "" } else { ", bias=False" };
        let others = self.others.map(|[keys, values]| format!(", kdim={keys}, vdim={values}"));
        output.set(
            place,
            format!(
                "nn.MultiheadAttention({}, {}{bias}{}, batch_first=True)",
                self.width,
                self.heads[0],
                others.unwrap_or_default()
            ),
        );
        Ok(())
    }
}
