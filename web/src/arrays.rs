//! Files of arrays that a network is run on: the engine opens them by an address.

use crate::files;
use crate::pages::Pages;
use crate::request::ChosenFile;
use ckpt::api::{Input, Limits, Result};
use ckpt::store::{AddressOpener, Destination, Store};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What the addresses of these files begin with.
pub(crate) const SCHEME: &str = "chosen://";

/// The files that the person chose for the inputs of a network, by their names. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChosenArrays(Arc<Mutex<BTreeMap<String, Input>>>);

impl ChosenArrays {
    /// Takes these files in place of those before, and returns their addresses.
    pub(crate) fn replace(&self, chosen: Vec<ChosenFile>, pages: &Arc<Pages>) -> Vec<PathBuf> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.clear();
        let add = |file: ChosenFile| {
            let name = file.name.clone();
            held.insert(name.clone(), files::input(vec![file], &name, pages));
            PathBuf::from(format!("{SCHEME}{name}"))
        };
        chosen.into_iter().map(add).collect()
    }
}

impl AddressOpener for ChosenArrays {
    fn input(&self, address: &str, limits: &Limits) -> Result<Option<Input>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = address.strip_prefix(SCHEME).and_then(|name| held.get(name));
        Ok(found.map(|input| input.clone().within(limits)))
    }

    fn destination(&self, _: &str) -> Result<Option<Destination>> {
        Ok(None)
    }

    fn directory(&self, _: &str, _: bool) -> Result<Option<Arc<dyn Store>>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_address_until_others_are_chosen() {
        let chosen = |name: &str| ChosenFile { number: 0, name: name.to_owned(), size: 1, modified: 0.0 };
        let (arrays, pages) = (ChosenArrays::default(), Arc::default());
        let paths = arrays.replace(vec![chosen("x.npy")], &pages);
        assert_eq!(paths, [PathBuf::from("chosen://x.npy")]);
        let found = |address: &str| arrays.input(address, &Limits::default()).unwrap().is_some();
        assert!(found("chosen://x.npy") && !found("chosen://y.npy") && !found("s3://x.npy"));
        arrays.replace(vec![chosen("y.npy")], &pages);
        assert!(found("chosen://y.npy") && !found("chosen://x.npy"));
    }
}
