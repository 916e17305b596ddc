//! Writes a file whose arrays are those that were read.

use crate::format::NAMESPACE;
use crate::read::{Form, parse, rename};
use ckpt_api::{Checkpoint, File, Limit, Limits, OutputFile, OutputLayout};
use ckpt_containers::structure::Structure;
use std::sync::Arc;

/// The layout of the file that the checkpoint was read from; `None` if there is none, if it is not the same any more, or if
/// the output has another form.
pub(super) fn place(checkpoint: &Checkpoint, name: &str, is_records: bool) -> Option<OutputLayout> {
    let structure = Arc::new(Structure::kept(&checkpoint.metadata, NAMESPACE)?);
    let file = File::new(structure.clone(), name).ok()?;
    let was_pickle = structure.bytes.first() == Some(&0x80);
    (was_pickle != is_records).then_some(())?;
    let bf16 = checkpoint.metadata.value(NAMESPACE, crate::read::KEY_BF16).is_some();
    let form = if was_pickle { Form::Pickle { bf16 } } else { Form::Records };
    let unlimited = Limits::default().with(Limit::HeaderBytes, u64::MAX).with(Limit::Tensors, u64::MAX);
    let mut before = parse(&file, form, &unlimited).ok()?;
    rename(&mut before, &checkpoint.metadata);
    let ids = checkpoint.by_name();
    let mut placements = Vec::with_capacity(before.placements.len());
    for (tensor, placement) in before.checkpoint.tensors.iter().zip(&before.placements) {
        let id = *ids.get(tensor.name.as_str())?;
        let own = checkpoint.tensors.get(id.0)?;
        (own.dtype == tensor.dtype && own.shape == tensor.shape).then_some(())?;
        placements.push(placement.clone().with_tensor(id));
    }
    // Further tensors need a new file.
    (checkpoint.tensors.len() == placements.len()).then_some(())?;
    let layout = OutputLayout::default()
        .with_files(vec![OutputFile::new(name, structure.file_len()?)])
        .with_placements(placements)
        .with_literals(structure.to_literals())
        .with_working_memory(structure.bytes.len() as u64);
    layout.check(checkpoint).ok().map(|()| layout)
}
