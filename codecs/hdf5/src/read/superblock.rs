//! The superblock: where the file begins and ends, and where its root is.

use super::space::{Sizes, Space};
use crate::format::SIGNATURE;
use ckpt_api::fields::le;
use ckpt_api::{Error, File, Limits, Result};
use nom::Parser;

/// Bytes of the longest superblock.
const LONGEST: u64 = 128;

/// Returns the offset of the superblock: 0, or a power of two from 512 on, after a user block of at most `longest` bytes.
pub(crate) fn find(file: &File, longest: u64) -> Result<Option<u64>> {
    let mut at = 0u64;
    while at <= longest && at.checked_add(SIGNATURE.len() as u64).is_some_and(|end| end <= file.len()) {
        if file.bytes(at, SIGNATURE.len() as u64)? == SIGNATURE {
            return Ok(Some(at));
        }
        at = if at == 0 { 512 } else { at.saturating_mul(2) };
    }
    Ok(None)
}

/// Reads the superblock; returns the space of the file, and the address of the root group's object header.
pub(crate) fn read<'a>(file: &'a File, limits: &'a Limits) -> Result<(Space<'a>, u64)> {
    let at = find(file, u64::MAX)?.ok_or_else(|| {
        Error::corrupt("it is not an HDF5 file").expected("the signature \"\\x89HDF\" at its beginning")
    })?;
    let mut space = Space::new(file, limits);
    let block = space.head(at, LONGEST, "the superblock")?;
    let mut fields = block.fields();
    fields.skip(SIGNATURE.len() as u64)?;
    let version = fields.version("the superblock", &[0, 1, 2, 3])?;
    if version < 2 {
        fields.skip(4)?;
    }
    let sizes = fields.parse((le, le).map(|(address, length)| Sizes { address, length }))?;
    if [sizes.address, sizes.length].iter().any(|size| ![2, 4, 8].contains(size)) {
        return Err(Error::unsupported("addresses or lengths have an unusual size")
            .offset(at)
            .found(format!("{} and {} bytes", sizes.address, sizes.length))
            .expected("2, 4 or 8 bytes"));
    }
    space.sizes = sizes;
    let mut fields = super::space::Fields::new(&block.bytes, block.at, sizes);
    // Behind signature, versions and sizes.
    fields.skip(if version < 2 { 15 } else { 11 })?;
    // Flags; before version 2, numbers of children of tree nodes, too, which nodes state themselves.
    fields.skip(match version {
        0 => 1 + 4 + 4,
        1 => 1 + 4 + 4 + 4,
        _ => 1,
    })?;
    let base = fields.some_address("the superblock")?;
    let _extension_or_free_space = fields.address()?;
    let end = fields.some_address("the end of the file")?;
    let root = match version {
        0 | 1 => {
            if fields.address()?.is_some() {
                return Err(Error::unsupported(
                    "the file is one of several of HDF5's family or multi driver",
                )
                .offset(at)
                .help("write it again as one file: h5repack"));
            }
            let _name = fields.address()?;
            fields.some_address("the root group")?
        }
        _ => {
            let root = fields.some_address("the root group")?;
            block.check_sum_of(fields.position().saturating_sub(at).saturating_add(4))?;
            root
        }
    };
    if base != at {
        return Err(Error::corrupt("the superblock does not lie where it says")
            .offset(at)
            .found(base.to_string()));
    }
    if end > file.len() || end < at {
        return Err(Error::corrupt("the file is cut short")
            .found(ckpt_api::count(file.len(), "byte"))
            .expected(format!("{end} bytes, as the superblock states"))
            .help("copy the file again"));
    }
    space.base = base;
    space.end = end;
    Ok((space, root))
}
