//! Manifests of databases, as they are, and with a length and a checksum that fit.

use crate::inputs;

pub(super) fn fuzz(data: &[u8]) {
    let _ = ckpt_orbax::parts::parse_manifest(data);
    let _ = ckpt_orbax::parts::parse_manifest(&inputs::ocdbt(0x0cdb_3a2a, data));
}
