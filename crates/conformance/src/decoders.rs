//! Checks that a codec registers the decoders that its extents need.

use ckpt_api::{Codec, Contents};
use std::collections::HashSet;

/// No two decoders have the same name.
pub(crate) fn check_names(codec: &dyn Codec) {
    let id = codec.info().id;
    let mut names = HashSet::new();
    for decoder in codec.decoders() {
        assert!(!decoder.name().is_empty(), "{id}: a decoder has no name");
        assert!(names.insert(decoder.name()), "{id}: two decoders are called '{}'", decoder.name());
    }
}

/// A plan that is written to a file and read again finds every decoder.
pub(crate) fn check_registered(codec: &dyn Codec, contents: &Contents, name: &str) {
    for placement in &contents.placements {
        let written = serde_json::to_string(placement);
        let read = written.and_then(|json| serde_json::from_str::<ckpt_api::Placement>(&json));
        let Ok(mut read) = read else { continue };
        if let Err((error, _)) = read.attach_decoders(codec.decoders()) {
            panic!("{name}: '{}' needs a decoder that Codec::decoders lacks: {error}", placement.name);
        }
    }
}
