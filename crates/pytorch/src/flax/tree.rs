//! The tensors of a Flax checkpoint as modules with leaves.

use ckpt_api::{Role, Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// The collections of Linen that hold weights.
const COLLECTIONS: [&str; 2] = ["params", "batch_stats"];

/// How deep collections may be within each other, and within a state: `state.params.params`.
const MOST_WRAPPERS: usize = 4;

/// The parts of a path, at most: a tensor deeper than that belongs to no layer that is known.
const MOST_PARTS: usize = 64;

/// What nnx ends every name with.
const VALUE: &str = "value";

/// The path of a module: the parts of its name.
pub(super) type Path<'t> = Vec<&'t str>;

/// A tensor of a module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'t> {
    /// The tensor's name in the checkpoint.
    pub(super) name: &'t str,
    pub(super) shape: &'t [u64],
}

/// The leaves of a module, by their names: `kernel`, `bias`.
pub(super) type Module<'t> = BTreeMap<&'t str, Leaf<'t>>;

/// The modules of a checkpoint.
#[derive(Default)]
pub(super) struct Tree<'t> {
    pub(super) modules: BTreeMap<Path<'t>, Module<'t>>,
    /// Names of tensors in other collections, and of those for which there is one of the same path and leaf.
    pub(super) others: Vec<&'t str>,
    /// Names of the states of random generators.
    pub(super) random: Vec<&'t str>,
}

impl<'t> Tree<'t> {
    /// The weights among these tensors.
    pub(super) fn new(tensors: &'t [Tensor]) -> Self {
        let mut tree = Tree::default();
        let weights = tensors.iter().filter(|tensor| tensor.role == Role::Weight);
        let mut named: Vec<(Path<'t>, Leaf<'t>)> = Vec::new();
        for tensor in weights {
            let leaf = Leaf { name: tensor.name.as_str(), shape: &tensor.shape };
            match leaf.name.split('.').take(MOST_PARTS + 1).count() {
                0..=MOST_PARTS => named.push((leaf.name.split('.').collect(), leaf)),
                _ => tree.others.push(leaf.name),
            }
        }
        for _ in 0..MOST_WRAPPERS {
            if !tree.unwrap(&mut named) {
                break;
            }
        }
        for (mut path, leaf) in named {
            if path.len() > 1 && path.last() == Some(&VALUE) {
                path.pop();
            }
            if is_random(&path) {
                tree.random.push(leaf.name);
                continue;
            }
            let own = path.pop().unwrap_or_default();
            let module = tree.modules.entry(path).or_default();
            if module.contains_key(own) {
                tree.others.push(leaf.name);
            } else {
                module.insert(own, leaf);
            }
        }
        tree
    }

    /// Takes one level of names away that is no module: the collections, or a state that holds them.
    fn unwrap(&mut self, named: &mut Vec<(Path<'t>, Leaf<'t>)>) -> bool {
        let first = |(path, _): &(Path<'t>, Leaf<'t>)| path.first().copied().filter(|_| path.len() > 1);
        let firsts: BTreeSet<Option<&str>> = named.iter().map(first).collect();
        let is_collection = |own: &Option<&str>| own.is_some_and(|own| COLLECTIONS.contains(&own));
        if firsts.contains(&Some(COLLECTIONS[0])) || (!firsts.is_empty() && firsts.iter().all(is_collection))
        {
            named.retain_mut(|one| {
                let is_kept = is_collection(&first(one));
                if is_kept {
                    one.0.remove(0);
                } else {
                    self.others.push(one.1.name);
                }
                is_kept
            });
            return true;
        }
        let holds_collections =
            named.iter().any(|(path, _)| path.get(1) == Some(&COLLECTIONS[0]) && path.len() > 2);
        if firsts.len() == 1 && !firsts.contains(&None) && holds_collections {
            named.iter_mut().for_each(|(path, _)| {
                path.remove(0);
            });
            return true;
        }
        false
    }

    /// The paths of all modules, and of those that hold them.
    pub(super) fn holders(&self) -> BTreeSet<Path<'t>> {
        self.modules
            .keys()
            .flat_map(|path| (0..=path.len()).filter_map(|len| path.get(..len).map(<[_]>::to_vec)))
            .collect()
    }

    /// The names of the modules directly below a path.
    pub(super) fn children(&self, path: &[&'t str]) -> BTreeSet<&'t str> {
        let mut children = BTreeSet::new();
        let mut next = self.below(path).find(|below| below.len() > path.len());
        while let Some(child) = next.and_then(|below| below.get(path.len()).copied()) {
            children.insert(child);
            // The first path that is not below this child.
            let own: Path<'t> = path.iter().copied().chain([child]).collect();
            let after = |below: &&Path<'t>| !below.starts_with(&own);
            next = self
                .modules
                .range(own.clone()..)
                .map(|(path, _)| path)
                .find(after)
                .filter(|other| other.starts_with(path));
        }
        children
    }

    /// The paths of a module and of all below it.
    pub(super) fn below<'a>(&'a self, path: &'a [&'t str]) -> impl Iterator<Item = &'a Path<'t>> {
        self.modules.range(path.to_vec()..).map(|(own, _)| own).take_while(move |own| own.starts_with(path))
    }

    /// The module at a child of a path.
    pub(super) fn child(&self, path: &[&'t str], name: &'t str) -> Option<&Module<'t>> {
        let own: Path<'t> = path.iter().copied().chain([name]).collect();
        self.modules.get(&own)
    }
}

/// Whether a path is the state of a random generator of nnx: `rngs.default.key`.
fn is_random(path: &[&str]) -> bool {
    matches!(path, [.., "rngs", _, "key" | "count"] | [.., "rngs", "key" | "count"])
}
