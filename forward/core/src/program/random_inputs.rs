//! Random inputs of a program.

use super::parts::Program;
use super::shapes::moves;
use crate::Array;
use crate::lower::Negative;
use crate::random::Random;
use crate::value::{Numbers, Value};
use std::collections::{BTreeMap, HashMap};

/// Bound on the indices of a value.
#[derive(Clone, Copy)]
struct Bound {
    below: usize,
    padded: bool,
}

impl Program<'_> {
    /// Returns random inputs, the same for a seed on every machine: real numbers in −1..1 that binary32 holds, and
    /// indices in their range, of which one in eight is −1 where padding is allowed. Other integers are 0 and 1.
    pub fn random_inputs(&self, seed: u64) -> BTreeMap<String, Value> {
        let mut random = Random::new(seed);
        let bounds = self.input_bounds();
        let mut inputs = BTreeMap::new();
        for (id, (name, info)) in self.input_values().iter().enumerate() {
            let array = match info.numbers {
                Numbers::Real => Array::F64((0..info.len()).map(|_| random.real()).collect()),
                Numbers::Integer => {
                    let bound = bounds.get(&id).copied().unwrap_or(Bound { below: 2, padded: false });
                    Array::I32((0..info.len()).map(|_| bound.index(&mut random)).collect())
                }
            };
            inputs.insert(name.clone(), Value { shape: info.shape.clone(), array });
        }
        inputs
    }

    /// Returns the tightest bound on the indices of each value.
    fn input_bounds(&self) -> HashMap<usize, Bound> {
        let mut bounds: HashMap<usize, Bound> = HashMap::new();
        let tighten = |bounds: &mut HashMap<usize, Bound>, id: usize, new: Bound| {
            let old = bounds.entry(id).or_insert(new);
            *old = Bound { below: old.below.min(new.below), padded: old.padded && new.padded };
        };
        for (node, step) in self.graph.nodes.iter().zip(&self.steps).rev() {
            for check in &step.lowered.checks {
                if let Some(id) = step.inputs.get(check.input).copied().flatten() {
                    let below = check.bounds.iter().copied().min().unwrap_or(0);
                    let padded = check.negative == Negative::Padding;
                    tighten(&mut bounds, id, Bound { below, padded });
                }
            }
            if moves(&node.op) {
                let made: Vec<Bound> = step.outputs.iter().filter_map(|id| bounds.get(id).copied()).collect();
                for id in step.inputs.iter().flatten() {
                    made.iter().for_each(|bound| tighten(&mut bounds, *id, *bound));
                }
            }
        }
        bounds
    }
}

impl Bound {
    fn index(self, random: &mut Random) -> i32 {
        if self.padded && (self.below == 0 || random.chance(8)) {
            return -1;
        }
        i32::try_from(random.between(0, self.below.max(1) - 1)).unwrap_or(i32::MAX)
    }
}
