//! A checked architecture: a net and all its parameters.
//!
//! Constructing one checks everything, so that no later code has to: ids are unique and known, sizes are positive and
//! their products do not overflow, layers fit each other, entries fit their weights.

use super::check::check;
use super::description::Net;
use super::entry::{Entry, EntryType, Item};
use super::layout::Layout;
use super::parameter::{Parameter, StoredWeight, parameters};
use crate::format::Content;
use ckpt_api::{ArchitectureFile, Error, Result, nearest};
use std::collections::BTreeSet;

/// A net, its parameters, and how files store them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Architecture {
    pub(crate) net: Net,
    /// Every trained weight, in the order of the layers.
    pub(crate) parameters: Vec<Parameter>,
}

/// The list that an entry comes from.
#[derive(Clone, Copy, PartialEq)]
enum EntryList {
    Saved,
    Members,
}

impl EntryList {
    fn field(self) -> &'static str {
        match self {
            EntryList::Saved => "saved",
            EntryList::Members => "engine.members",
        }
    }
}

impl Architecture {
    /// Checks a net.
    pub(crate) fn new(net: Net) -> Result<Self> {
        check(&net)?;
        let parameters = parameters(&net)?;
        check_ids(&parameters)?;
        let architecture = Architecture { net, parameters };
        architecture.check_items(EntryList::Saved, &architecture.net.saved)?;
        architecture.check_copies(&architecture.net.saved)?;
        if let Some(engine) = &architecture.net.engine {
            architecture.check_items(EntryList::Members, &engine.members)?;
            architecture.check_copies(&engine.members)?;
        }
        Ok(architecture)
    }

    /// Parses and checks an architecture file.
    pub(crate) fn from_file(file: &ArchitectureFile) -> Result<Self> {
        let architecture = file.parse().and_then(Self::new);
        architecture.map_err(|error| match file.name() {
            Some(name) => error.file(name),
            None => error,
        })
    }

    /// The architecture file that describes this net.
    pub(crate) fn to_file(&self) -> Result<ArchitectureFile> {
        ArchitectureFile::new(&self.net)
    }

    /// The parameter with this id.
    pub(crate) fn parameter(&self, id: &str) -> Result<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.id == id).ok_or_else(|| {
            Error::usage("no layer has a tensor with this id")
                .found(format!("'{id}'"))
                .help(nearest(id, self.parameters.iter().map(|parameter| parameter.id.as_str())))
        })
    }

    /// What bullet stores under this id.
    pub(crate) fn stored(&self, id: &str) -> Result<StoredWeight<'_>> {
        let own = self.parameter(id)?;
        if let Some(whole) = own.leads {
            return Err(Error::usage("the tensor is not stored under an id of its own")
                .found(format!("'{id}'"))
                .expected(format!("'{whole}', whose first columns it is")));
        }
        Ok(StoredWeight::new(self.parameters.iter().filter(|other| other.leads == Some(id)), own))
    }

    /// Everything that bullet stores, in the order of the layers.
    pub(crate) fn all_stored(&self) -> impl Iterator<Item = StoredWeight<'_>> {
        let own = self.parameters.iter().filter(|parameter| parameter.leads.is_none());
        own.filter_map(|parameter| self.stored(&parameter.id).ok())
    }

    /// What a file of this content stores as an entry. A parameter that is merged into the entry's no longer precedes
    /// it.
    pub(crate) fn stored_as(&self, entry: &Entry, content: Content) -> Result<StoredWeight<'_>> {
        let is_alone = content == Content::Engine || (content != Content::Raw && entry.merge.is_some());
        if is_alone {
            Ok(StoredWeight::new(std::iter::empty(), self.parameter(&entry.id)?))
        } else {
            self.stored(&entry.id)
        }
    }

    /// What a file of this content consists of, in file order. raw.bin has only the weights of it.
    pub(crate) fn items(&self, content: Content) -> &[Item] {
        match (content, &self.net.engine) {
            (Content::Engine, Some(engine)) => &engine.members,
            (Content::Engine, None) => &[],
            _ => &self.net.saved,
        }
    }

    /// The entries, of bullet's files and of the engine file, into which a weight is merged.
    pub(crate) fn merging<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Entry> {
        let members = self.net.engine.iter().flat_map(|engine| &engine.members);
        let entries = self.net.saved.iter().chain(members).filter_map(Item::weight);
        entries.filter(move |entry| entry.merge.as_deref() == Some(id))
    }

    fn check_items(&self, list: EntryList, items: &[Item]) -> Result<()> {
        for (index, item) in items.iter().enumerate() {
            if let Item::Weight(entry) = item {
                let located =
                    |error: Error| error.field(format!("{}[{index}]", list.field())).tensor(&entry.id);
                self.check_entry(list, entry).map_err(located)?;
            }
        }
        Ok(())
    }

    /// Checks that no weight has a name that the copies of another get: see [`super::section::Section::tensor_name`].
    fn check_copies(&self, items: &[Item]) -> Result<()> {
        let saved = |id: &str| items.iter().filter_map(Item::weight).filter(|entry| entry.id == id).count();
        let is_copy = |parameter: &&Parameter| {
            let Some((id, number)) = parameter.id.rsplit_once('#') else { return false };
            let Ok(other) = self.parameter(id) else { return false };
            let count = saved(other.leads.unwrap_or(id));
            number.parse().is_ok_and(|number| (1..=count).contains(&number))
        };
        match self.parameters.iter().find(|parameter| is_copy(parameter)) {
            Some(parameter) => Err(Error::usage("a tensor's id is the name of an entry of another tensor")
                .field("tensors")
                .tensor(&parameter.id)
                .help("give it an id without '#'")),
            None => Ok(()),
        }
    }

    fn check_entry(&self, list: EntryList, entry: &Entry) -> Result<()> {
        let parameter = self.parameter(&entry.id)?;
        check_order(list, entry, parameter)?;
        check_numbers(entry)?;
        match &entry.merge {
            Some(merged) => self.check_merge(entry, parameter, merged),
            None if list == EntryList::Saved && entry.transpose && self.stored(&entry.id)?.is_composite() => {
                Err(Error::usage("a tensor that includes the factoriser's columns cannot be transposed")
                    .help("merge the factoriser: bullet transposes such a tensor only after merging it"))
            }
            None => Ok(()),
        }
    }

    fn check_merge(&self, entry: &Entry, parameter: &Parameter, merged: &str) -> Result<()> {
        let added = self.parameter(merged)?;
        if merged == entry.id || parameter.broadcast(added).is_none() {
            return Err(Error::usage("the merged tensor does not fit")
                .found(format!("'{merged}' with the axes {}", added.describe()))
                .expected(format!("axes and lengths out of {}", parameter.describe())));
        }
        Ok(())
    }
}

fn check_ids(parameters: &[Parameter]) -> Result<()> {
    let mut ids = BTreeSet::new();
    for Parameter { id, .. } in parameters {
        let invalid = |what| Error::usage(what).field("tensors").found(format!("'{}'", id.escape_debug()));
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid("a tensor's id is invalid").expected("printable ASCII without spaces"));
        }
        if !ids.insert(id) {
            return Err(invalid("two tensors have the same id")
                .help("the layers' tensors are l0w, l0b, l1w, …: give those under 'tensors' other ids"));
        }
    }
    Ok(())
}

/// Checks the order in which an entry is stored.
fn check_order(list: EntryList, entry: &Entry, parameter: &Parameter) -> Result<()> {
    if list == EntryList::Saved && (!entry.layout.is_empty() || entry.clip.is_some()) {
        return Err(Error::usage("layout and clip do not apply to bullet's own files")
            .help("move them to the members of 'engine'"));
    }
    if entry.transpose && !entry.layout.is_empty() {
        return Err(Error::usage("a member has a layout and is transposed")
            .help("remove transpose: the layout states the whole order"));
    }
    Layout::of(entry, parameter).map(drop)
}

/// Checks how an entry stores its numbers.
fn check_numbers(entry: &Entry) -> Result<()> {
    if entry.clip.is_some() && entry.limit().is_none() {
        return Err(Error::usage("the clip bound is invalid")
            .found(entry.clip.map(|clip| clip.to_string()).unwrap_or_default())
            .expected("at least one unit of the scale, for an entry of integers"));
    }
    match (entry.kind, entry.scale) {
        (EntryType::F32, Some(_)) => return Err(Error::usage("an entry of type f32 has a scale")),
        (EntryType::I8 | EntryType::I16 | EntryType::I32, None) => {
            return Err(Error::usage("an entry of integers has no scale"));
        }
        _ => {}
    }
    let is_small = matches!(entry.kind, EntryType::I8 | EntryType::I16);
    if entry.round_terms && (entry.merge.is_none() || !is_small) {
        return Err(Error::usage("round_terms does not apply to this entry")
            .expected("an entry of type i8 or i16 with merge"));
    }
    Ok(())
}
