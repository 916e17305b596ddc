//! Names of values that are in use.

use ckpt_api::Graph;
use std::collections::{HashMap, HashSet};

/// Returns the names that values of several graphs within nodes have.
pub(super) fn ambiguous(graph: &Graph) -> HashSet<String> {
    let (mut seen, mut several) = (HashSet::new(), HashSet::new());
    let inputs = graph.levels().flat_map(|level| &level.inputs).map(|value| &value.name);
    for name in graph.all_nodes().flat_map(|node| &node.outputs).chain(inputs) {
        if !seen.insert(name) {
            several.insert(name.clone());
        }
    }
    several
}

/// Names that are in use.
#[derive(Default)]
pub(super) struct Taken {
    names: HashSet<String>,
    /// The last number that was added to each name.
    numbers: HashMap<String, u64>,
}

impl Taken {
    /// Takes a name; `false` if it is in use.
    pub(super) fn take(&mut self, name: &str) -> bool {
        self.names.insert(name.to_owned())
    }

    /// Takes a name that is not in use: `name` with a number.
    pub(super) fn unused(&mut self, name: &str) -> String {
        let number = self.numbers.entry(name.to_owned()).or_insert(1);
        loop {
            *number = number.saturating_add(1);
            let wanted = format!("{name}#{number}");
            if self.names.insert(wanted.clone()) {
                return wanted;
            }
        }
    }
}
