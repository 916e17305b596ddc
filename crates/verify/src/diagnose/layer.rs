//! Diagnoses a layer that diverges.

use crate::report::{Diagnosis, TensorDiagnosis, TensorPair};
use ckpt_api::Node;
use ckpt_engine::words::{count, number};
use std::collections::BTreeSet;

/// Returns why `b` computes something else than `a` on the same inputs. `tensors` are those that differ.
pub(crate) fn diagnose(a: &Node, b: &Node, pairs: &[TensorPair], tensors: Vec<TensorDiagnosis>) -> Diagnosis {
    let mut reasons = Vec::new();
    if a.op != b.op {
        reasons.push(format!("it computes {}; the reference computes {}", b.op, a.op));
    }
    reasons.extend(other_attributes(a, b));
    reasons.extend(pairs.iter().filter_map(unpaired));
    reasons.extend(tensors.iter().map(describe));
    if reasons.is_empty() {
        let same = "operator, attributes and tensors are the same, so the device computes a different result";
        reasons.push(same.to_owned());
    }
    Diagnosis { reason: reasons.join("; "), tensors }
}

fn other_attributes(a: &Node, b: &Node) -> Vec<String> {
    let names: BTreeSet<&String> = a.attributes.keys().chain(b.attributes.keys()).collect();
    let differing = names.into_iter().filter(|name| a.attributes.get(*name) != b.attributes.get(*name));
    differing
        .map(|name| {
            let shown = |node: &Node| {
                let value = node.attributes.get(name).and_then(|value| serde_json::to_string(value).ok());
                value.unwrap_or_else(|| "absent".to_owned())
            };
            format!("its attribute '{name}' is {}; in the reference it is {}", shown(b), shown(a))
        })
        .collect()
}

/// A tensor that only one side has.
fn unpaired(pair: &TensorPair) -> Option<String> {
    match (&pair.a, &pair.b) {
        (Some(own), None) => Some(format!("it has no {}; the reference has '{}'", pair.role, own.name)),
        (None, Some(theirs)) => {
            Some(format!("it has a {}, '{}'; the reference has none", pair.role, theirs.name))
        }
        _ => None,
    }
}

fn describe(tensor: &TensorDiagnosis) -> String {
    let (a, b) = (&tensor.a, &tensor.b);
    let pair = if a == b {
        format!("its tensor '{a}' differs between a and b")
    } else {
        format!("its tensor '{b}' differs from '{a}'")
    };
    let mut text = format!("{pair} in {} of {}", tensor.differing, count(tensor.elements, "element"));
    if let Some(max) = tensor.max_absolute {
        text += &format!(", by at most {}, first at {:?}", number(max, 4), tensor.first);
    }
    for detail in [&tensor.cause, &tensor.mapped_by].into_iter().flatten() {
        text += &format!(" ({detail})");
    }
    text
}
