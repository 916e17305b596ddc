//! The lifetime of values on the device.

use std::collections::HashSet;

/// When each value of a program is freed.
pub(super) struct Lifetimes(Vec<LastUse>);

/// The last use of a value.
#[derive(Clone, Copy, PartialEq)]
enum LastUse {
    /// Nothing uses it: it is freed as soon as it is computed.
    None,
    /// The step at this index.
    Step(usize),
    /// It is an output of the graph, and is never freed.
    Output,
}

impl Lifetimes {
    /// Finds the last use of each of `values` values: `inputs` are those of each step, `outputs` the graph's.
    pub(super) fn new<'s>(
        inputs: impl Iterator<Item = &'s [Option<usize>]>,
        outputs: &[usize],
        values: usize,
    ) -> Self {
        let mut last = vec![LastUse::None; values];
        let used = inputs
            .enumerate()
            .flat_map(|(index, inputs)| inputs.iter().flatten().map(move |id| (*id, LastUse::Step(index))));
        for (id, at) in used.chain(outputs.iter().map(|id| (*id, LastUse::Output))) {
            if let Some(slot) = last.get_mut(id) {
                *slot = at;
            }
        }
        Lifetimes(last)
    }

    /// Returns the values to free after the step of this index.
    pub(super) fn ended<'s>(
        &'s self,
        index: usize,
        inputs: &'s [Option<usize>],
        outputs: &'s [usize],
    ) -> impl Iterator<Item = usize> + 's {
        let is = move |id: &usize, last| self.0.get(*id) == Some(&last);
        let used = inputs.iter().flatten().filter(move |id| is(id, LastUse::Step(index)));
        let unused = outputs.iter().filter(move |id| is(id, LastUse::None));
        let mut seen = HashSet::new();
        used.chain(unused).copied().filter(move |id| seen.insert(*id))
    }
}
