//! HDF5 files, and each of their extents.

use ckpt_api::{File, Limit, Limits};
use std::sync::Arc;

pub(super) fn fuzz(data: &[u8]) {
    let Ok(file) = File::new(Arc::new(data.to_vec()), "m.h5") else { return };
    let limits = Limits::default().with(Limit::ChunkBytes, 1 << 20);
    let Ok(tree) = ckpt_hdf5::read(&file, &limits) else { return };
    for extent in tree.datasets.iter().flat_map(|dataset| &dataset.stored.extents) {
        let inside = extent.offset.checked_add(extent.stored_len()).is_some_and(|end| end <= file.len());
        assert!(inside, "{extent:?} in {} bytes", file.len());
        if let Ok(opened) = extent.open(&file) {
            let _ = opened.bytes(0, opened.len().min(1 << 20));
        }
    }
}
