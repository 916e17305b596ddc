//! Where plans and receipts say that a store is.

use ckpt_api::{Address, ReadStore};

/// The directory as the user named it, or its address; empty for the working directory, and for a store without an address.
pub(super) fn directory(store: &(impl ReadStore + ?Sized)) -> String {
    match store.path("") {
        Some(path) if path.as_os_str() == "." => String::new(),
        Some(path) => path.display().to_string(),
        None => {
            store.location().filter(|location| Address::of(location.as_ref()).is_some()).unwrap_or_default()
        }
    }
}
