//! Scanned layers: modules whose tensors have a first axis that numbers the layers of `nn.scan`.

use super::kinds::{Kind, Kinds};
use super::reading::{Hint, KNOWN, Shapes, read};
use super::tree::{Path, Tree};
use ckpt_api::{Error, Result};

/// The layers that one scan may have.
const MOST_LAYERS: u64 = 4096;

/// A module below which the first axis of every tensor numbers layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scan<'t> {
    pub(super) path: Path<'t>,
    pub(super) len: u64,
}

/// All scans of a tree; none is within another.
#[derive(Default)]
pub(super) struct Scans<'t>(Vec<Scan<'t>>);

impl<'t> Scans<'t> {
    /// The scan that the module at this path is in.
    pub(super) fn of(&self, path: &[&'t str]) -> Option<&Scan<'t>> {
        let after = self.0.partition_point(|scan| scan.path.as_slice() <= path);
        after.checked_sub(1).and_then(|at| self.0.get(at)).filter(|scan| path.starts_with(&scan.path))
    }
}

/// Finds the scans: in each branch of the tree, the modules nearest to the root.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a module that is stated to be scanned and whose tensors are no stacks.
pub(super) fn find<'t>(tree: &Tree<'t>, kinds: &Kinds) -> Result<Scans<'t>> {
    let mut scans = Scans::default();
    let mut open: Vec<Path<'t>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        match len(tree, &path, kinds) {
            Some(len) => scans.0.push(Scan { path: narrowed(tree, path, kinds), len }),
            None if kinds.of(&path) == Some(Kind::Scan) => {
                return Err(Error::usage("the tensors below this module are no scanned layers")
                    .field(path.join("."))
                    .expected(
                        "tensors whose first axes have one length, and layers that are known without them",
                    ));
            }
            None => {
                let children = tree.children(&path);
                open.extend(children.into_iter().map(|child| path.iter().copied().chain([child]).collect()));
            }
        }
    }
    scans.0.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(scans)
}

/// The number of layers if all tensors below a path are stacks of them, and something shows that they are.
fn len(tree: &Tree<'_>, path: &[&str], kinds: &Kinds) -> Option<u64> {
    let below = || tree.modules.range(path.to_vec()..).take_while(|(own, _)| own.starts_with(path));
    let mut leaves = below().flat_map(|(_, module)| module.values());
    let len = leaves.next()?.shape.first().copied().filter(|len| (1..=MOST_LAYERS).contains(len))?;
    if leaves.any(|leaf| leaf.shape.first() != Some(&len)) {
        return None;
    }
    let mut is_shown = kinds.of(path) == Some(Kind::Scan);
    for (own, module) in below() {
        let hint = Hint::of(tree, own, kinds);
        let is_layer = module.keys().any(|leaf| KNOWN.contains(leaf));
        let [whole, each] = [false, true].map(|is_scanned| read(Shapes { module, is_scanned }, hint));
        if is_layer && each.is_err() {
            return None;
        }
        let is_bare_kernel = module.contains_key("kernel") && !module.contains_key("bias");
        is_shown |= is_layer && whole.is_err() && !is_bare_kernel;
        is_shown |= own.iter().any(|part| is_named_so(part));
    }
    is_shown.then_some(len)
}

/// Whether a name is what Linen calls a scanned or vectorized class: `ScanBlock_0`.
fn is_named_so(part: &str) -> bool {
    let rest = ["Scan", "Vmap"].iter().find_map(|word| part.strip_prefix(word));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// The layers themselves, of modules of which each holds nothing but the next: the one that is stated or named so, or else the
/// deepest that is not named after a class, as one layer of a scanned block may be.
fn narrowed<'t>(tree: &Tree<'t>, start: Path<'t>, kinds: &Kinds) -> Path<'t> {
    let mut chain = vec![start];
    while let Some(last) = chain.last().filter(|last| !tree.modules.contains_key(*last)) {
        let children = tree.children(last);
        let mut children = children.into_iter();
        let (Some(only), None) = (children.next(), children.next()) else { break };
        chain.push(last.iter().copied().chain([only]).collect());
    }
    let is_stated = |path: &&Path<'t>| kinds.of(path) == Some(Kind::Scan);
    let named = |path: &&Path<'t>| path.last().is_some_and(|part| is_named_so(part));
    let is_holder = |path: &&Path<'t>| {
        !tree.modules.contains_key(*path) && path.last().is_some_and(|part| !is_named_after_a_class(part))
    };
    let found = chain.iter().find(is_stated).or(chain.iter().find(named));
    found.or(chain.iter().rev().find(is_holder)).or(chain.last()).cloned().unwrap_or_default()
}

/// Whether Linen gave the name: `Dense_0`.
fn is_named_after_a_class(part: &str) -> bool {
    let number = part.rsplit_once('_').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
