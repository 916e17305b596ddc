//! Nodes of databases, as they are, and with a length and a checksum that fit. The first byte is the height.

use crate::inputs;

pub(super) fn fuzz(data: &[u8]) {
    let Some((height, data)) = data.split_first() else { return };
    let _ = ckpt_orbax::parts::parse_node(data, *height);
    let _ = ckpt_orbax::parts::parse_node(&inputs::ocdbt(0x0cdb_20de, data), *height);
}
