//! Chooses the rule that must hold, by what changed between two checkpoints and by the device.

use super::criterion::{PEAK, RELATIVE_L2};
use crate::diagnose::MappedNames;
use crate::parameters::{Rounded, SourceParameters, Storage, StorageError};
use crate::report::{Rule, RuleName};
use ckpt_api::{Graph, Node, Rounding, text};
use ckpt_engine::diff::Tolerance;
use ckpt_engine::settings;
use ckpt_engine::words::{count, dtype, number};
use ckpt_forward::{Array, DeviceInfo, Parameters};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What the second checkpoint's storage does to the tensors of the first graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct StorageChanges {
    /// By the first checkpoint's names; a tensor that keeps its precision is absent.
    pub(crate) errors: HashMap<String, StorageError>,
    /// The floating-point types and blocks that tensors are rounded to, by the first checkpoint's names.
    pub(crate) rounded: HashMap<String, Rounded>,
    /// By description (`f32 stored as f16`).
    kinds: BTreeMap<String, ChangeKind>,
}

/// One way in which tensors lose precision.
#[derive(Clone, Debug)]
struct ChangeKind {
    /// The error bound with its derivation.
    bound: String,
    tensors: usize,
}

impl StorageChanges {
    /// Compares the tensors of corresponding nodes, given as pairs of indices, and those of other nodes by their names in
    /// the second checkpoint.
    pub(crate) fn new(
        (a, own): (&Graph, &SourceParameters),
        (b, theirs): (&Graph, &SourceParameters),
        pairs: impl Iterator<Item = (usize, usize)>,
        names: &MappedNames,
    ) -> Self {
        let mut changes = StorageChanges::default();
        let mut paired = HashSet::new();
        for (ia, ib) in pairs {
            let (Some(na), Some(nb)) = (a.nodes.get(ia), b.nodes.get(ib)) else { continue };
            let has_same_roles = na.tensors().map(|(role, _)| role).eq(nb.tensors().map(|(role, _)| role));
            let mut others = nb.tensors();
            for (role, name) in na.tensors() {
                let other = match has_same_roles {
                    true => others.next().map(|(_, name)| name),
                    false => nb.parameters.get(role).map(String::as_str),
                };
                let found = other.and_then(|name| theirs.stored(name));
                if let (Some((_, from)), Some((other, to))) = (own.stored(name), found) {
                    if !has_equal_sums((own, name, &from), (theirs, &other.name, &to)) {
                        changes.add((own, name), &from, &to);
                    }
                    paired.insert(name);
                }
            }
        }
        for (_, name) in a.nodes.iter().flat_map(Node::tensors).filter(|(_, name)| !paired.contains(name)) {
            let found = names.names(name).iter().find_map(|name| theirs.stored(name));
            if let (Some((_, from)), Some((_, to))) = (own.stored(name), found) {
                changes.add((own, name), &from, &to);
            }
        }
        changes
    }

    /// Whether all that storage does is to round numbers to floating-point types, or to what blocks hold.
    pub(crate) fn only_rounds(&self) -> bool {
        self.rounded.len() == self.errors.len()
    }

    fn add(&mut self, (own, name): (&SourceParameters, &str), from: &Storage, to: &Storage) {
        let blocks = to.blocks.as_ref().filter(|_| from.blocks != to.blocks);
        // A tensor that cannot be read fails if it is used.
        let of_blocks = || Some(StorageError::of_blocks(blocks?, largest(&own.load(name).ok()?)));
        let Some(error) = of_blocks().or_else(|| to.error_from(from)) else { return };
        // A tensor that several nodes share counts once.
        let is_new = self.errors.insert(name.to_owned(), error).is_none();
        if to.scaling.is_none() && to.added.is_none() {
            let kind = match blocks {
                Some(blocks) if blocks.is_encodable() => Some(Rounded::Blocks(blocks.clone())),
                Some(_) => None,
                None => Some(Rounded::Float(to.dtype)),
            };
            self.rounded.extend(kind.map(|kind| (name.to_owned(), kind)));
        }
        let kind = self.kinds.entry(format!("{} stored as {}", describe(from), describe(to)));
        let bound = || format!("{}: {}", describe(to), describe_bound(to, error));
        kind.or_insert_with(|| ChangeKind { bound: bound(), tensors: 0 }).tensors += usize::from(is_new);
    }

    /// Returns the rule for the second graph on `device`.
    pub(crate) fn rule(&self, device: &DeviceInfo, tolerance: Option<Tolerance>) -> Rule {
        if let Some(Tolerance { absolute, relative }) = tolerance {
            let [absolute, relative] = [absolute, relative].map(|bound| number(bound, 5));
            let rule = format!("|b − a| ≤ {absolute} + {relative}·|a| for every element");
            let reason = text!["given with ", settings::TOLERANCE];
            return Rule { name: RuleName::Given, reason, layers: rule.clone(), outputs: rule };
        }
        if self.kinds.is_empty() && device.is_reference() {
            let rule = "equal bits in every element; NaN equals NaN".to_owned();
            let reason = "every tensor keeps its precision, and both graphs run on the CPU in f32 and add in the same \
                          order";
            let reason = reason.into();
            return Rule { name: RuleName::Bits, reason, layers: rule.clone(), outputs: rule };
        }
        self.bound(device)
    }

    fn bound(&self, device: &DeviceInfo) -> Rule {
        let mut reasons: Vec<String> = self
            .kinds
            .iter()
            .map(|(change, kind)| format!("{change} ({})", count(kind.tensors, "tensor")))
            .collect();
        if !device.is_reference() {
            reasons.push(format!("b runs on {device}, and a on the CPU in f64"));
        }
        let bounds: Vec<&str> = self.kinds.values().map(|kind| kind.bound.as_str()).collect();
        let [storage, of_layer, of_output, weights] = match bounds.is_empty() {
            true => ["", "", "", ""].map(str::to_owned),
            false => [
                " + W".to_owned(),
                " + ‖W‖₂/‖y‖₂".to_owned(),
                " + Σ‖W‖₂/‖y‖₂ over all layers (after a softmax from z to p, times ‖z‖₂/(2·‖p‖₂) if that exceeds 1)"
                    .to_owned(),
                format!("; W = Σ|x|·Δw + Δb bounds the effect of how the weights are stored: {}", bounds.join("; ")),
            ],
        };
        let or_rounded = match !bounds.is_empty() && self.only_rounds() && device.api == "cpu" {
            true => {
                "; or all outputs have the bits that a in f32 gives with its weights rounded as b stores them"
            }
            false => "",
        };
        let norm = "‖y‖₂ is at least ‖S‖₂/√k, the norm of a sum whose summands have random signs";
        Rule {
            name: RuleName::Bound,
            reason: reasons.join("; ").into(),
            layers: format!(
                "|e| ≤ 2·√k·u·S + 2u·|y| + 2⁻¹²⁶{storage}, with u = 2⁻²⁴ (f32) and S = Σ|x||w| + |b| over k summands \
                 (measured for correct sums in any order: at most 1.31·√k·u·S); no error if elements are only moved \
                 or selected{weights}; and ‖e‖₂/‖y‖₂ ≤ {RELATIVE_L2:e}{of_layer}, where {norm}"
            ),
            outputs: format!(
                "‖e‖₂/‖y‖₂ ≤ {RELATIVE_L2:e}{of_output}, and max|e|/max|y| ≤ {PEAK} times that (standard deviations), \
                 where {norm}; and the largest element of each row is the same if its margin (its distance to the \
                 next largest) exceeds the allowed error{or_rounded}"
            ),
        }
    }
}

/// The largest magnitude of a tensor's numbers.
fn largest(numbers: &Array) -> f64 {
    numbers.to_f64().into_iter().fold(0.0, |largest, number| number.abs().max(largest))
}

/// Whether a number was added to all elements of a tensor, and all of them came back exactly.
fn has_equal_sums(
    (own, name, from): (&SourceParameters, &str, &Storage),
    (theirs, other, to): (&SourceParameters, &str, &Storage),
) -> bool {
    if to.added.is_none() || from.added.is_some() {
        return false;
    }
    // A tensor that cannot be read fails if it is used.
    own.load(name).ok().is_some_and(|own| theirs.load(other).is_ok_and(|theirs| own == theirs))
}

/// `f32`, or `i16 at 255` for integers with a scale.
fn describe(storage: &Storage) -> String {
    if let Some(blocks) = &storage.blocks {
        return format!("blocks of {}", blocks.name());
    }
    let stored = dtype(storage.dtype, storage.scaling.map(|scaling| scaling.scale));
    storage.added.map_or(stored.clone(), |added| format!("{stored} plus {added}"))
}

/// The bound on the error of storing a number as `to`, for people.
fn describe_bound(to: &Storage, error: StorageError) -> String {
    if let Some(blocks) = &to.blocks {
        let bits = blocks.bytes() * 8 / blocks.elements();
        return format!("Δw = 4·max|w|/2^{bits} + 2⁻¹⁰·|w| (two steps of {bits} bits)");
    }
    if let Some(added) = to.added {
        let relative = number(error.relative, 3);
        return format!(
            "Δw = {relative}·|w| + {} (rounded after {added} is added)",
            number(error.absolute, 3)
        );
    }
    let Some(scaling) = to.scaling else {
        return format!("Δw = 2^{}·|w| + 2^{} (rounded)", error.relative.log2(), error.absolute.log2());
    };
    let scale = scaling.scale;
    let (units, rounding) = match (scaling.rounding, scaling.each_term) {
        (Rounding::Nearest, true) => (format!("1/{scale}"), "two terms rounded"),
        (Rounding::Truncate, true) => (format!("2/{scale}"), "two terms truncated"),
        (Rounding::Nearest, false) => (format!("1/(2·{scale})"), "rounded"),
        (Rounding::Truncate, false) => (format!("1/{scale}"), "truncated"),
    };
    let clipped = scaling.limit.map_or(String::new(), |limit| format!(", plus what is clipped at {limit}"));
    format!("Δw = {units} + 2⁻²⁴·|w| ({rounding}{clipped})")
}
