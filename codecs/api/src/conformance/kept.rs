//! Checks that a format keeps what it declares to keep.

use super::memory::place;
use super::{Sample, read, write};
use crate::{
    Aspect, Axis, Checkpoint, Codec, Contents, DType, Graph, Input, LossKind, Node, Op, Placed, Quantization,
    Role, Slot,
};
use std::num::NonZeroU32;

/// Adds each aspect that the format keeps to the checkpoint of a sample. The codec must refuse it, declare a loss, or
/// bring it back.
pub(super) fn check_kept(codec: &dyn Codec, sample: &Sample, contents: &Contents, values: &[Vec<u8>]) {
    for aspect in codec.info().keeps {
        let Some(given) = with_aspect(&contents.checkpoint, *aspect) else { continue };
        let Ok(placed) = place(codec, &given, &sample.output, &sample.write) else { continue };
        if is_declared(&placed, *aspect) || placed.unplaced(&given).next().is_some() {
            continue;
        }
        let name = sample.name;
        let files = write(codec, &given, values, &sample.output, &sample.write)
            .unwrap_or_else(|error| panic!("{name}: with {aspect:?} it cannot be written: {error}"));
        let entry = sample.written_entry(&files);
        let (again, _) = read(codec, &Input::memory(entry, files), &sample.read)
            .unwrap_or_else(|error| panic!("{name}: with {aspect:?} it cannot be read again: {error}"));
        let came_back = again.checkpoint == given;
        assert!(came_back, "{name}: {aspect:?} is declared as kept and does not come back");
    }
}

fn is_declared(placed: &Placed, aspect: Aspect) -> bool {
    let kind = if aspect == Aspect::Graph { LossKind::GraphDropped } else { LossKind::MetadataDropped };
    placed.left_out.contains_key(&aspect) || placed.losses.iter().any(|loss| loss.kind == kind)
}

/// The checkpoint with more of an aspect than it has; `None` where it has no tensor for that.
fn with_aspect(checkpoint: &Checkpoint, aspect: Aspect) -> Option<Checkpoint> {
    const AXES: [Axis; 4] = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];
    let mut given = checkpoint.clone();
    let last = given.tensors.last().map(|tensor| tensor.name.clone());
    let first = given.tensors.first_mut();
    match aspect {
        Aspect::Graph => {
            let node = Node::new("foreign", Op::Gemm).parameter("weight", first?.name.as_str());
            let graph = Graph::sequential("foreign", vec![None], vec![None], vec![node]);
            given.graph = given.graph.is_none().then_some(graph);
            given.graph.as_ref()?;
        }
        Aspect::Axes => {
            let bare = |rank: usize| (2..=AXES.len()).contains(&rank);
            let tensor = given.tensors.iter_mut().find(|t| t.axes.is_none() && bare(t.shape.rank()))?;
            tensor.axes = AXES.get(..tensor.shape.rank()).map(<[Axis]>::to_vec);
        }
        Aspect::Roles => first?.role = Role::Optimizer,
        Aspect::Slots => {
            let first = first?;
            first.role = Role::Optimizer;
            first.slot = Some(Box::new(Slot { variable: last?, name: "m".to_owned() }));
        }
        Aspect::Scales => {
            let is_integer = |dtype: DType| dtype.bits().is_some() && !dtype.is_float();
            let tensor = given.tensors.iter_mut().find(|tensor| is_integer(tensor.dtype))?;
            tensor.quantization = Some(Quantization { scale: NonZeroU32::MIN });
        }
        Aspect::TensorMetadata => first?.metadata.insert("foreign", "key", "value"),
        Aspect::Metadata => given.metadata.insert("foreign", "key", "value"),
    }
    Some(given)
}
