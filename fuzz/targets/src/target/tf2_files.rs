//! TensorFlow checkpoints of any files, named in any way, read with any options (see `inputs::files`); what was read is
//! written again without its object graph, or without its first tensor.

use crate::{check, inputs};
use ckpt_api::{Checkpoint, Input};
use ckpt_tf2::Tf2;

/// What the low bits of the first byte switch on.
const OPTIONS: [(&str, &str); 3] = [("keys", "true"), ("lenient", "true"), ("activations", "relu")];
const PLAIN: u8 = 8;
const WITHOUT_FIRST: u8 = 16;

pub(super) fn fuzz(data: &[u8]) {
    let (first, rest) = data.split_first().unwrap_or((&0, data));
    let options = (0..).zip(OPTIONS).filter(|(bit, _)| first >> bit & 1 == 1);
    let options: Vec<_> = options.map(|(_, option)| option).collect();
    let options = check::options(&Tf2, &options);
    let Some((contents, mut values)) = check::read(&Tf2, &inputs::files(rest), &options) else {
        return;
    };
    let mut checkpoint = contents.checkpoint;
    if first & WITHOUT_FIRST != 0 && !values.is_empty() {
        checkpoint.graph = None;
        checkpoint.tensors.remove(0);
        values.remove(0);
    }
    if first & (PLAIN | WITHOUT_FIRST) != 0 {
        rewrite(&checkpoint, &values, first & PLAIN != 0);
    }
}

/// Under `plain` keys, which are the names, every tensor but the object graph has its name and values again.
fn rewrite(checkpoint: &Checkpoint, values: &[Vec<u8>], plain: bool) {
    let options = [("names".to_owned(), if plain { "plain" } else { "stored" }.to_owned())];
    let Ok(files) = ckpt_conformance::write(&Tf2, checkpoint, values, "m", &options) else { return };
    let input = Input::memory("m", files);
    let (again, same) = ckpt_conformance::read(&Tf2, &input, &[]).expect("what was written can be read");
    if !plain {
        return;
    }
    for (tensor, value) in again.checkpoint.tensors.iter().zip(&same) {
        let (id, before) = checkpoint.tensor(&tensor.name).expect("a name of before");
        assert_eq!((&before.shape, &values[id.0]), (&tensor.shape, value), "{}", tensor.name);
    }
    assert!(again.checkpoint.tensors.len() + 1 >= checkpoint.tensors.len());
}
