//! The fields before the transformer.

use crate::format::{MAX_DESCRIPTION, VERSIONS};
use ckpt_api::fields::le;
use ckpt_api::{Error, Fields, Limit, Limits, Result};

/// The fields before the transformer.
pub(super) struct Header {
    pub(super) version: u32,
    /// The hash of the whole network.
    pub(super) hash: u32,
    pub(super) description: String,
    pub(super) transformer_hash: u32,
}

impl Header {
    pub(super) fn read(fields: &mut Fields<'_>, limits: &Limits) -> Result<Self> {
        let version = fields.parse(le::<u32>)?;
        if !VERSIONS.contains(&version) {
            let known = VERSIONS.map(|version| format!("{version:#010x}")).join(", ");
            let error = Error::unsupported("the network has a version that is not known");
            return Err(error.offset(0).found(format!("{version:#010x}")).expected(known));
        }
        let hash = fields.parse(le::<u32>)?;
        let at = fields.position();
        let len = u64::from(fields.parse(le::<u32>)?);
        if len > MAX_DESCRIPTION {
            return Err(Error::limit("the description is too long")
                .offset(at)
                .found(ckpt_api::count(len, "byte"))
                .expected(format!("at most {}", ckpt_api::count(MAX_DESCRIPTION, "byte"))));
        }
        let description = fields.text(len, limits, Limit::NameBytes)?;
        Ok(Header { version, hash, description, transformer_hash: fields.parse(le::<u32>)? })
    }
}
