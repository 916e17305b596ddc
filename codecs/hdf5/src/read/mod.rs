//! Reads the groups, datasets and attributes of a file, and where the elements are.

mod arrays;
mod attribute;
mod chunks;
mod dataset;
mod group;
mod header;
mod heap;
mod message;
pub(crate) mod space;
pub(crate) mod superblock;
mod tree1;
mod tree2;

use crate::tree::{Dataset, Group, Left, Tree, is_repeated};
use ckpt_api::{Error, File, Kind, Limit, Limits, Result};
use group::Target;
use heap::GlobalHeap;
use space::Space;
use std::collections::HashMap;

/// Groups within groups.
const DEEPEST: usize = 64;

/// Reads a whole file but for the elements of datasets.
pub(crate) fn read(file: &File, limits: &Limits) -> Result<Tree> {
    let (space, root) = superblock::read(file, limits)?;
    let mut tree = Tree { user_block: space.base, end: space.end, ..Tree::default() };
    let mut walk =
        Walk { space: &space, tree: &mut tree, heap: GlobalHeap::default(), filled: 0, seen: HashMap::new() };
    let mut waiting = vec![Waiting { path: String::new(), depth: 0, address: root }];
    while let Some(object) = waiting.pop() {
        let path = object.path.clone();
        walk.object(object, &mut waiting).map_err(|error| error.file(file.name()).field(shown(&path)))?;
    }
    check_overlaps(&tree)?;
    Ok(tree)
}

fn shown(path: &str) -> String {
    format!("/{path}")
}

/// An object that is not read yet.
struct Waiting {
    path: String,
    depth: usize,
    address: u64,
}

struct Walk<'a, 's> {
    space: &'a Space<'s>,
    tree: &'a mut Tree,
    heap: GlobalHeap,
    /// Bytes of elements that were never written.
    filled: u64,
    /// Objects that were read, and their paths: so a circle of groups comes to an end.
    seen: HashMap<u64, String>,
}

impl Walk<'_, '_> {
    fn object(&mut self, object: Waiting, waiting: &mut Vec<Waiting>) -> Result<()> {
        let Waiting { path, depth, address } = object;
        if let Some(first) = self.seen.get(&address) {
            self.leave(
                &path,
                Error::unsupported("it is a second name of an object").found(shown(first)),
                false,
            );
            return Ok(());
        }
        self.seen.insert(address, path.clone());
        self.space.limits.check(Limit::Tensors, self.seen.len() as u64)?;
        let messages = header::read(self.space, address)?;
        if dataset::is_dataset(&messages) {
            let attributes = attribute::attributes(self.space, &mut self.heap, &messages)?;
            match dataset::read(self.space, &messages, &mut self.filled) {
                Ok(dataset::Content { datatype, shape, stored }) => {
                    self.tree.datasets.push(Dataset { path, datatype, shape, stored, attributes });
                }
                Err(error) if error.kind() == Kind::Unsupported => self.leave(&path, error, true),
                Err(error) => return Err(error),
            }
            return Ok(());
        }
        if !group::is_group(&messages) {
            self.leave(&path, Error::unsupported("it is neither a group nor a dataset"), true);
            return Ok(());
        }
        let attributes = attribute::attributes(self.space, &mut self.heap, &messages)?;
        let links = group::links(self.space, &messages)?;
        if depth == DEEPEST && !links.is_empty() {
            return Err(Error::limit("groups nest too deep").expected(format!("at most {DEEPEST} levels")));
        }
        self.tree.groups.push(Group { path: path.clone(), attributes });
        for link in links.into_iter().rev() {
            self.link(&path, depth, link, waiting)?;
        }
        Ok(())
    }

    fn link(
        &mut self,
        group: &str,
        depth: usize,
        link: group::Link,
        waiting: &mut Vec<Waiting>,
    ) -> Result<()> {
        let group::Link { name, target } = link;
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            return Err(
                Error::corrupt("a member of a group has an impossible name").found(format!("'{name}'"))
            );
        }
        let path = if group.is_empty() { name } else { format!("{group}/{name}") };
        self.space.limits.check(Limit::NameBytes, path.len() as u64)?;
        self.space.spend(path.len() as u64)?;
        self.space.limits.check(Limit::Tensors, waiting.len().saturating_add(self.seen.len()) as u64)?;
        match target {
            Target::Hard(address) => waiting.push(Waiting { path, depth: depth + 1, address }),
            Target::Soft(to) => {
                self.leave(
                    &path,
                    Error::unsupported("it is a soft link, which is not followed").found(to),
                    false,
                );
            }
            Target::External(file) => {
                let error = Error::unsupported("it is a link to another file, which is not followed");
                let help = "no other file is opened; copy the object into a new file with h5py";
                self.leave(&path, error.found(format!("'{file}'")).help(help), true);
            }
            Target::UserDefined(kind) => {
                let error = Error::unsupported("it is a link that only another program can follow");
                self.leave(&path, error.found(format!("kind {kind}")), true);
            }
        }
        Ok(())
    }

    fn leave(&mut self, path: &str, error: Error, has_content: bool) {
        self.tree.left.push(Left { path: path.to_owned(), error, has_content });
    }
}

/// Checks that no two datasets share bytes.
fn check_overlaps(tree: &Tree) -> Result<()> {
    let extents =
        tree.datasets.iter().flat_map(|dataset| dataset.stored.extents.iter().map(move |own| (dataset, own)));
    let mut pieces: Vec<(u64, u64, &str)> = extents
        .filter(|(_, extent)| extent.stored_len() > 0 && !is_repeated(extent))
        .map(|(dataset, extent)| (extent.offset, extent.stored_len(), dataset.path.as_str()))
        .collect();
    pieces.sort_unstable();
    for pair in pieces.windows(2) {
        if let [(start, len, path), (next, _, other)] = pair
            && start.saturating_add(*len) > *next
        {
            return Err(Error::corrupt("datasets share bytes").offset(*next).found(format!(
                "'{}' and '{}'",
                shown(path),
                shown(other)
            )));
        }
    }
    Ok(())
}
