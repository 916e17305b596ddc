//! Descriptions of arrays, of both versions of zarr; also as that of a checkpoint's array, with the rest as its only chunk.

use crate::{check, inputs};
use ckpt_api::Input;

/// A tree with the array `w`, in a folder.
const TREE: &[u8] = br#"{"tree_metadata": {"('w',)": {"key_metadata": [{"key": "w", "key_type": 2}],
    "value_metadata": {"value_type": "np.ndarray"}}}, "use_ocdbt": false}"#;

pub(super) fn fuzz(data: &[u8]) {
    let (text, chunk) = inputs::split_at_zero(data);
    let versions = [(false, "w/.zarray", ["w/0", "w/0.0"]), (true, "w/zarr.json", ["w/c/0", "w/c/0/0"])];
    for (is_version_3, file, chunks) in versions {
        let _ = ckpt_orbax::parts::parse_array(text, is_version_3);
        let chunks = chunks.map(|name| (name.to_owned(), chunk.to_vec()));
        let described = [(file.to_owned(), text.to_vec()), ("_METADATA".to_owned(), TREE.to_vec())];
        let files = chunks.into_iter().chain(described).collect();
        let codec = &ckpt_orbax::Orbax;
        check::read(codec, &Input::memory("", files), &check::options(codec, &[]));
    }
}
