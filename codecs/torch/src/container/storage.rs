//! The persistent ids by which a pickle names its storages.

use crate::format::StorageClass;
use ckpt_api::{Error, Result};
use ckpt_containers::pickle::{Id, Tree, Value, shown};

/// What a persistent id states of a storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageId<'a> {
    pub(crate) class: StorageClass,
    pub(crate) key: &'a str,
    /// Elements of `class`.
    pub(crate) elements: u64,
    /// For a part of another storage: its first element in it, and how many; the other one has `key`.
    pub(crate) part: Option<(u64, u64)>,
}

impl<'a> StorageId<'a> {
    /// Parses the id of a storage: `('storage', class, key, location, elements)`, in old files with a sixth item.
    pub(crate) fn parse(tree: &'a Tree, id: Id) -> Result<Self> {
        let wrong = || {
            Error::corrupt("a persistent id of the pickle is not that of a storage")
                .expected("('storage', class, key, location, elements)")
        };
        let Value::Tuple(list) = tree.value(id) else { return Err(wrong()) };
        let mut items = [Id::NONE; 6];
        if !matches!(list.len(), 5 | 6) {
            return Err(wrong());
        }
        items.iter_mut().zip(tree.items(list)).for_each(|(item, id)| *item = id);
        let [kind, class, key, _location, elements, part] = items;
        if !tree.is_text(kind, "storage") {
            return Err(wrong());
        }
        let (module, name) = tree.global(class).ok_or_else(wrong)?;
        let class = StorageClass::named(module, name)
            .ok_or_else(|| Error::unsupported("a storage has an unknown class").found(shown(module, name)))?;
        let key = tree.text(key).ok_or_else(wrong)?;
        let count = |id: Id| tree.int(id).and_then(|number| u64::try_from(number).ok());
        let elements = count(elements).ok_or_else(wrong)?;
        let part = match part {
            Id::NONE => None,
            view => {
                let [_key, offset, len] = tree.tuple(view).ok_or_else(wrong)?;
                Some(count(offset).zip(count(len)).ok_or_else(wrong)?)
            }
        };
        Ok(StorageId { class, key, elements, part })
    }
}

/// Checks every persistent id of a pickle.
pub(super) fn check_ids(tree: &Tree) -> Result<()> {
    for id in tree.ids() {
        if let Some(id) = tree.persistent(id) {
            let is_module = match tree.value(id) {
                Value::Tuple(list) => {
                    tree.items(list).next().is_some_and(|kind| tree.is_text(kind, "module"))
                }
                _ => false,
            };
            if !is_module {
                StorageId::parse(tree, id)?;
            }
        }
    }
    Ok(())
}
