//! Finds a file's dialect: all evidence must agree.

use crate::description::Description;
use crate::format::{Dialect, Key, Linear, Part, linears};
use crate::training::History;
use ckpt_api::{Error, Result, Setting, Shape, Text, first_few, text};
use std::collections::{BTreeMap, HashSet};

/// Number of names that a message lists.
const SHOWN: usize = 4;

/// Returns the dialect that the evidence shows, and a note if the evidence is weak.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] if the evidence conflicts; [`ckpt_api::Kind::Usage`] if there is none. Both ask for the
/// option `dialect`.
pub(crate) fn detect(
    description: &Description,
    tensors: &BTreeMap<Key, &Shape>,
) -> Result<(Dialect, Option<Text>)> {
    let layers: Vec<Linear<'_>> = linears(&description.layers).collect();
    if layers.is_empty() || tensors.is_empty() {
        return Ok((Dialect::B, None));
    }
    let mut evidence = Evidence::default();
    evidence.weigh_numbers(&layers, tensors);
    evidence.weigh_weights(&layers, tensors);
    evidence.weigh_biases(tensors);
    evidence.weigh_names(&layers, description);
    evidence.weigh_stages(description);
    evidence.verdict(tensors)
}

#[derive(Default)]
struct Evidence {
    a: Vec<String>,
    b: Vec<String>,
}

impl Evidence {
    fn weigh_numbers(&mut self, layers: &[Linear<'_>], tensors: &BTreeMap<Key, &Shape>) {
        let numbers = |dialect: Dialect| layers.iter().map(|l| dialect.number(l)).collect::<HashSet<_>>();
        let (in_a, in_b) = (numbers(Dialect::A), numbers(Dialect::B));
        for key in tensors.keys() {
            match (in_a.contains(&key.number), in_b.contains(&key.number)) {
                (true, false) => self.a.push(format!("{key}: N is an index among all layers")),
                (false, true) => self.b.push(format!("{key}: N is an index among the Linear layers")),
                _ => {}
            }
        }
    }

    /// Adds the evidence of the weights' shapes. A tensor's layer depends on the dialect. While both dialects are
    /// possible, only layers that have the same number in both count.
    fn weigh_weights(&mut self, layers: &[Linear<'_>], tensors: &BTreeMap<Key, &Shape>) {
        let numbering = match (self.a.is_empty(), self.b.is_empty()) {
            (false, true) => Some(Dialect::A),
            (true, false) => Some(Dialect::B),
            (true, true) => None,
            (false, false) => return,
        };
        for linear in layers {
            let (in_a, in_b) = (Dialect::A.number(linear), Dialect::B.number(linear));
            let number = match numbering {
                Some(dialect) => dialect.number(linear),
                None if in_a == in_b => in_a,
                None => continue,
            };
            let (inputs, outputs) = (linear.layer.inputs, linear.layer.outputs);
            let key = Key { number, part: Part::Weight };
            let Some(shape) = tensors.get(&key).filter(|_| inputs != outputs) else { continue };
            if shape[..] == Dialect::A.weight_dims(inputs, outputs) {
                self.a.push(format!("{key}: {shape} is [in, out]"));
            } else if shape[..] == Dialect::B.weight_dims(inputs, outputs) {
                self.b.push(format!("{key}: {shape} is [out, in]"));
            }
        }
    }

    /// Adds the evidence of biases `[1, out]`, which only dialect a writes. A bias `[out]` is no evidence, because
    /// dialect a allows it, too.
    fn weigh_biases(&mut self, tensors: &BTreeMap<Key, &Shape>) {
        for (key, shape) in tensors.iter().filter(|(key, _)| key.part == Part::Bias) {
            if shape.rank() == 2 && shape[0] == 1 {
                self.a.push(format!("{key}: {shape} is [1, out]"));
            }
        }
    }

    fn weigh_names(&mut self, layers: &[Linear<'_>], description: &Description) {
        for linear in layers.iter().filter(|linear| linear.position != linear.ordinal) {
            let Some(name) = description.name(linear.position) else { continue };
            let field = format!("layers[{}].name: \"{name}\"", linear.position);
            if name == format!("layer{}", linear.position) {
                self.a.push(format!("{field} is an index among all layers"));
            } else if name == format!("layer{}", linear.ordinal) {
                self.b.push(format!("{field} is an index among the Linear layers"));
            }
        }
    }

    fn weigh_stages(&mut self, description: &Description) {
        let (without, with) = description.history().map_or((false, false), History::evidence);
        if without {
            self.a.push("training.stages: a stage without lr_history".to_owned());
        }
        if with {
            self.b.push("training.stages: a stage with lr_history".to_owned());
        }
    }

    fn verdict(self, tensors: &BTreeMap<Key, &Shape>) -> Result<(Dialect, Option<Text>)> {
        let help = || {
            let [a, b] = ["dialect=a", "dialect=b"].map(|option| Setting::READ_OPTION.of(option));
            text!["name the dialect with ", a, " (DataCode 2.1.0) or ", b, " (2.1.1 and later)"]
        };
        match (self.a.is_empty(), self.b.is_empty()) {
            (false, true) => Ok((Dialect::A, None)),
            (true, false) => Ok((Dialect::B, None)),
            (false, false) => {
                let found =
                    format!("for a: {}; for b: {}", first_few(&self.a, SHOWN), first_few(&self.b, SHOWN));
                Err(Error::corrupt("the evidence for the file's dialect conflicts").found(found).help(help()))
            }
            (true, true) => {
                let bias = tensors.iter().find(|(key, shape)| key.part == Part::Bias && shape.rank() == 1);
                let Some((key, shape)) = bias else {
                    let found = "square weights, no bias, and nothing else that differs between the dialects";
                    return Err(Error::usage("nothing in the file shows which dialect it uses")
                        .found(found)
                        .help(help()));
                };
                Ok((
                    Dialect::B,
                    Some(text![
                        format!(
                            "dialect b is inferred from {key}: {shape} alone (DataCode 2.1.0 writes [1, out]); if \
                             another program wrote the file as dialect a, give "
                        ),
                        Setting::READ_OPTION.of("dialect=a"),
                    ]),
                ))
            }
        }
    }
}
