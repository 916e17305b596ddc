//! Small files that are read whole: mappings, receipts, plans.

use crate::store::Addresses;
use ckpt_api::{Address, Error, Limit, Limits, Result};
use std::path::Path;

/// A text file of as many bytes as the limit called `limit` allows.
pub fn read_text(addresses: &Addresses, path: &Path, limits: &Limits, limit: Limit) -> Result<String> {
    String::from_utf8(read_bytes(addresses, path, limits, limit)?).map_err(|error| {
        Error::usage("the file is not UTF-8 text")
            .file(Address::display(path))
            .offset(error.utf8_error().valid_up_to() as u64)
    })
}

/// A file of as many bytes as the limit called `limit` allows.
pub fn read_bytes(addresses: &Addresses, path: &Path, limits: &Limits, limit: Limit) -> Result<Vec<u8>> {
    let file = addresses.input(path, limits)?.main()?;
    limits.check(limit, file.len()).map_err(|error| error.file(Address::display(path)))?;
    file.bytes(0, file.len())
}
