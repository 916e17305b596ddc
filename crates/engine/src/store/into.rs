//! What can be given as a checkpoint's place: a path, an address, a place in a store.

use super::addresses::Addresses;
use super::destination::Destination;
use ckpt_api::{Input, Limits, Result};
use std::path::{Path, PathBuf};

/// What can be opened as a checkpoint: a path, a [`Destination`] in a store, an [`Input`].
pub trait IntoInput {
    /// The input, within `limits`. A path may be one of `addresses`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if nothing is there.
    fn into_input(self, addresses: &Addresses, limits: &Limits) -> Result<Input>;
}

impl IntoInput for Input {
    fn into_input(self, _addresses: &Addresses, limits: &Limits) -> Result<Input> {
        Ok(self.within(limits))
    }
}

/// What can be taken for a [`Destination`]: itself, or a path.
pub trait IntoDestination {
    /// The destination. A path may be one of `addresses`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a path that cannot be one.
    fn into_destination(self, addresses: &Addresses) -> Result<Destination>;
}

impl IntoInput for Destination {
    fn into_input(self, _addresses: &Addresses, limits: &Limits) -> Result<Input> {
        Ok(Input::within_store(self.store, &self.name).within(limits))
    }
}

impl IntoDestination for Destination {
    fn into_destination(self, _addresses: &Addresses) -> Result<Destination> {
        Ok(self)
    }
}

macro_rules! paths {
    ($($path:ty),*) => {
        $(impl IntoDestination for $path {
            fn into_destination(self, addresses: &Addresses) -> Result<Destination> {
                addresses.destination(self.as_ref())
            }
        }

        impl IntoInput for $path {
            fn into_input(self, addresses: &Addresses, limits: &Limits) -> Result<Input> {
                addresses.input(self.as_ref(), limits)
            }
        })*
    };
}

paths!(&str, &String, String, &Path, &PathBuf, PathBuf);
