//! SavedModels: object graph, functions and Keras's metadata beside a few variables. After a zero, the bytes are these three
//! (see `saved_model`); else they say how they are made.

use crate::check;
use crate::saved_model::Parts;
use arbitrary::Unstructured;
use ckpt_api::{Codec, Limits};
use ckpt_tf2::Tf2;
use std::collections::BTreeSet;

pub(super) fn fuzz(data: &[u8]) {
    let parts = match data.split_first() {
        Some((0, rest)) => Parts::split(rest),
        _ => match Parts::arbitrary(&mut Unstructured::new(data)) {
            Ok(parts) => parts,
            Err(_) => return,
        },
    };
    let input = parts.input();
    for options in [&[][..], &[("activations", "relu")]] {
        let options = check::options(&Tf2, options);
        let Ok(contents) = Tf2.read(&input, &options, &Limits::default()) else { continue };
        contents.check(&Limits::default()).expect("what is read is sound");
        let names: BTreeSet<&str> =
            contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        for node in contents.checkpoint.graph.iter().flat_map(|graph| &graph.nodes) {
            assert!(node.parameters.values().all(|name| names.contains(name.as_str())), "{node:?}");
        }
    }
}
