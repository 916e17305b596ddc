//! Which rule must hold: by what changed between two checkpoints, and where the second one runs.

use super::compare::{PEAK, RELATIVE_L2};
use super::parameters::{SourceParameters, StorageError, Stored};
use super::report::{Rule, RuleName};
use crate::diff::Tolerance;
use ckpt_api::{Graph, Rounding};
use ckpt_forward::{Arithmetic, DeviceInfo};
use std::collections::{BTreeMap, HashMap};

/// What storage does to the tensors of the first graph, as the second checkpoint has them.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// By the first checkpoint's names.
    pub(super) errors: HashMap<String, StorageError>,
    /// In words: what was stored as what, and how often.
    kinds: BTreeMap<String, (String, usize)>,
}

impl Changes {
    /// Of nodes that correspond, by index.
    pub(super) fn new(
        (a, own): (&Graph, &SourceParameters),
        (b, theirs): (&Graph, &SourceParameters),
        pairs: impl Iterator<Item = (usize, usize)>,
    ) -> Self {
        let mut changes = Changes::default();
        for (ia, ib) in pairs {
            let (Some(na), Some(nb)) = (a.nodes.get(ia), b.nodes.get(ib)) else { continue };
            for (role, name) in &na.parameters {
                let found = nb.parameters.get(role).and_then(|name| theirs.stored(name));
                let (Some((_, from)), Some((_, to))) = (own.stored(name), found) else { continue };
                if let Some(error) = to.error_from(from) {
                    let (change, derivation) = describe(from, to);
                    // A tensor that several nodes share is one.
                    let new = changes.errors.insert(name.clone(), error).is_none();
                    changes.kinds.entry(change).or_insert((derivation, 0)).1 += usize::from(new);
                }
            }
        }
        changes
    }

    /// The rule for the second graph on `device`.
    pub(super) fn rule(&self, device: &DeviceInfo, tolerance: Option<Tolerance>) -> Rule {
        if let Some(Tolerance { absolute, relative }) = tolerance {
            let rule = format!("|a − b| ≤ {absolute:e} + {relative:e}·|a| for every element");
            return Rule {
                name: RuleName::Given,
                reason: "given with --atol and --rtol".to_owned(),
                layers: rule.clone(),
                outputs: rule,
            };
        }
        if self.kinds.is_empty() && device.api == "cpu" && device.arithmetic == Arithmetic::F32 {
            let rule = "equal bits of every element; NaN equals NaN".to_owned();
            return Rule {
                name: RuleName::Bits,
                reason:
                    "no tensor is stored with less precision, so that only format, names and layout can have \
                         changed; and both graphs run on the CPU in binary32, every sum in the same order"
                        .to_owned(),
                layers: rule.clone(),
                outputs: rule,
            };
        }
        self.bound(device)
    }

    fn bound(&self, device: &DeviceInfo) -> Rule {
        let mut reasons: Vec<String> = self
            .kinds
            .iter()
            .map(|(change, (_, times))| format!("{change} ({})", crate::words::count(*times, "tensor")))
            .collect();
        if device.api != "cpu" {
            reasons.push(format!("the second graph runs on {device}, the first in binary64 on the CPU"));
        }
        let mut layers = "|e| ≤ 2·√k·u·S + 2u·|y| + 2⁻¹²⁶, with u = 2⁻²⁴ (binary32), S = Σ|x||w| + |b| over k summands (1.31·√k·u·S is \
                          the most that was measured of correct sums, in any order), and nothing where elements are only moved or \
                          chosen"
            .to_owned();
        let derived: Vec<&str> = self.kinds.values().map(|(derivation, _)| derivation.as_str()).collect();
        let mut limit = format!("{RELATIVE_L2:e}");
        if !derived.is_empty() {
            layers = layers.replace("2⁻¹²⁶,", "2⁻¹²⁶ + W,");
            layers +=
                &format!("; W = Σ|x|·Δw + Δb is what storage may do to the weights: {}", derived.join("; "));
            limit += " + Σ‖W‖₂/‖y‖₂ of all layers (behind a softmax of z to p times ‖z‖₂/(2·‖p‖₂) where that is more than 1)";
        }
        let size = "‖y‖₂ at least ‖S‖₂/√k, the size of a sum whose summands have random signs";
        layers += &format!(
            "; and ‖e‖₂/‖y‖₂ ≤ {RELATIVE_L2:e}{}, with {size}",
            if derived.is_empty() { "" } else { " + ‖W‖₂/‖y‖₂" }
        );
        Rule {
            name: RuleName::Bound,
            reason: reasons.join("; "),
            layers,
            outputs: format!(
                "‖e‖₂/‖y‖₂ ≤ {limit}, and max|e|/max|y| ≤ {PEAK} times that (standard deviations); with {size}; and the largest of \
                 each row is the same where it leads by more than both errors"
            ),
        }
    }
}

/// What changed, and the bound that follows.
fn describe(from: Stored, to: Stored) -> (String, String) {
    let stored = |stored: Stored| match stored.scaling {
        Some(scaling) => format!("{} at {}", stored.dtype, scaling.scale),
        None => stored.dtype.to_string(),
    };
    let bound = match (to.scaling, to.error_from(from)) {
        (Some(scaling), _) => {
            let (units, rounding) = match scaling.rounding {
                Rounding::Nearest if scaling.each_term => {
                    (format!("1/{}", scaling.scale), "two terms rounded")
                }
                Rounding::Truncate if scaling.each_term => {
                    (format!("2/{}", scaling.scale), "two terms truncated")
                }
                Rounding::Nearest => (format!("1/(2·{})", scaling.scale), "rounded"),
                Rounding::Truncate => (format!("1/{}", scaling.scale), "truncated"),
            };
            let clipped =
                scaling.limit.map_or(String::new(), |limit| format!(", and what is clipped at {limit}"));
            format!("Δw = {units} + 2⁻²⁴·|w| ({rounding}{clipped})")
        }
        (None, Some(error)) => {
            format!("Δw = 2^{}·|w| + 2^{} (rounded)", error.relative.log2(), error.absolute.log2())
        }
        (None, None) => String::new(),
    };
    (format!("{} stored as {}", stored(from), stored(to)), format!("{}: {bound}", stored(to)))
}
