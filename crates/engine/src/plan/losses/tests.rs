use super::*;
use ckpt_api::{
    Added, AddedAxis, Blocks, DType, Encoding, Extent, FileId, Network, Node, Op, Quantization, Rounding,
    Shape, Slot, Ties,
};
use std::num::NonZeroU32;

static PLAIN: FormatInfo =
    FormatInfo::new("plain", "").with_writes(Network::ALL).with_dtypes(&[DType::F32]).with_free_names();

fn rich() -> FormatInfo {
    PLAIN.clone().with_keeps(Aspect::ALL)
}

fn tensor(name: &str, dtype: DType) -> Tensor {
    Tensor::new(name, dtype, Shape::new([2]).unwrap())
}

fn placement(id: usize, encoding: Encoding) -> Placement {
    let extent = Extent::new(FileId(0), 0, 8);
    Placement::new(TensorId(id), id.to_string(), vec![extent], encoding)
}

fn contents(tensors: Vec<Tensor>) -> Contents {
    let placements = tensors.iter().enumerate().map(|(id, t)| placement(id, Encoding::row_major(t)));
    let placements = placements.collect();
    let checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
    Contents::default().with_checkpoint(checkpoint).with_placements(placements)
}

/// The target of a codec that stores every tensor as it is.
fn placed(contents: &Contents) -> OutputLayout {
    OutputLayout::default().with_placements(contents.placements.clone())
}

fn scaling(scale: u32, limit: u32) -> Option<Scaling> {
    let scale = NonZeroU32::new(scale).unwrap();
    Some(Scaling { scale, rounding: Rounding::Nearest, limit: NonZeroU32::new(limit), each_term: false })
}

fn kinds(contents: &Contents, placed: &OutputLayout) -> Vec<(LossKind, String)> {
    losses(contents, placed, &rich()).into_iter().map(|loss| (loss.kind, loss.subject)).collect()
}

/// The kinds for one tensor of `from`, stored in each of these encodings.
fn stored_as(from: DType, encodings: &[(DType, Option<Scaling>)]) -> Vec<LossKind> {
    let contents = contents(vec![tensor("w", from)]);
    let encoding = |(dtype, scaling): &(DType, Option<Scaling>)| {
        let own = Encoding::row_major(&contents.checkpoint.tensors[0]);
        placement(0, own.with_dtype(*dtype).with_scaling(*scaling))
    };
    let placed = OutputLayout::default().with_placements(encodings.iter().map(encoding).collect());
    kinds(&contents, &placed).into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn a_tensor_stored_as_it_is_loses_nothing() {
    assert_eq!(stored_as(DType::F32, &[(DType::F32, None)]), []);
}

#[test]
fn a_narrower_dtype_is_narrowed_and_one_that_holds_every_value_is_retyped() {
    assert_eq!(stored_as(DType::F32, &[(DType::F16, None)]), [LossKind::Narrowed]);
    assert_eq!(stored_as(DType::I64, &[(DType::I32, None)]), [LossKind::Narrowed]);
    assert_eq!(stored_as(DType::Bf16, &[(DType::F32, None)]), [LossKind::Retyped]);
}

#[test]
fn scaled_integers_are_quantized_and_a_limit_clips() {
    assert_eq!(stored_as(DType::F32, &[(DType::I16, scaling(64, 0))]), [LossKind::Quantized]);
    assert_eq!(
        stored_as(DType::F32, &[(DType::I8, scaling(64, 127))]),
        [LossKind::Quantized, LossKind::Clipped]
    );
}

#[test]
fn a_tensor_stored_twice_loses_what_both_lose() {
    let exact = (DType::F32, None);
    let quantized = (DType::I16, scaling(64, 0));
    let clipped = (DType::I8, scaling(64, 127));
    assert_eq!(stored_as(DType::F32, &[quantized, exact]), []);
    assert_eq!(stored_as(DType::F32, &[clipped, quantized]), [LossKind::Quantized]);
}

#[test]
fn copied_integers_and_whole_units_are_not_quantized() {
    let mut contents = contents(vec![tensor("w", DType::F32)]);
    let mut placed = placed(&contents);
    let own = Encoding::row_major(&tensor("w", DType::F32));
    let integers = |scale| own.clone().with_dtype(DType::I16).with_scaling(scaling(scale, 0));
    placed.placements[0].encoding = integers(64);
    assert_eq!(kinds(&contents, &placed), [(LossKind::Quantized, "w".into())]);
    contents.placements[0].encoding = integers(64);
    assert_eq!(kinds(&contents, &placed), []);
    contents.placements[0].encoding.scaling_mut().unwrap().rounding = Rounding::Truncate;
    assert_eq!(kinds(&contents, &placed), [(LossKind::Quantized, "w".into())]);
    placed.whole_units = vec![TensorId(0)];
    assert_eq!(kinds(&contents, &placed), []);
}

#[test]
fn a_tensor_without_a_place_is_dropped_by_its_role() {
    let contents =
        contents(vec![tensor("w", DType::F32), tensor("step", DType::I64).with_role(Role::Counter)]);
    let found = kinds(&contents, &OutputLayout::default());
    assert_eq!(found, [(LossKind::WeightDropped, "w".into()), (LossKind::CounterDropped, "step".into())]);
}

#[test]
fn the_loss_of_a_dropped_tensor_says_why() {
    let mut words = tensor("words", DType::String);
    words.lengths = Some([1, 1].into());
    let mut contents = contents(vec![tensor("w", DType::F32), tensor("rest", DType::F32), words]);
    let node = Node::new("dense", Op::Gemm).parameter("weight", "w");
    contents.checkpoint.graph = Some(Graph::sequential("m", vec![], vec![], vec![node]));
    let details = |info: &FormatInfo| -> Vec<String> {
        losses(&contents, &OutputLayout::default(), info)
            .into_iter()
            .map(|loss| loss.detail.as_str().to_owned())
            .collect()
    };
    let no_place = "not supported by format 'plain'";
    let no_strings = "format 'plain' has no string tensors";
    assert_eq!(details(&rich()), [no_place, no_place, no_strings]);
    // A format without free names stores the tensors of its layers.
    let unused = "not used by any layer, and format 'plain' stores only the tensors of layers";
    let mut layers_only = rich();
    layers_only.free_names = false;
    assert_eq!(details(&layers_only), [no_place, unused, no_strings]);
}

#[test]
fn a_tensor_that_is_only_added_to_others_is_merged_once() {
    let contents = contents(vec![tensor("w", DType::F32), tensor("b", DType::F32)]);
    let mut placed = placed(&contents);
    placed.placements.pop();
    let added = Added { tensor: TensorId(1), axes: vec![AddedAxis::Along(0)] };
    placed.placements[0].set_added(vec![added; 2]);
    let found = losses(&contents, &placed, &rich());
    assert_eq!(found, [Loss::new(LossKind::Merged, "b", "added to 'w' and not stored by itself")]);
}

#[test]
fn what_a_codec_declares_itself_appears_once_in_its_words() {
    let counter = tensor("step", DType::I64).with_role(Role::Counter);
    let contents = contents(vec![tensor("w", DType::F32), counter]);
    let half = Encoding::row_major(&contents.checkpoint.tensors[0]).with_dtype(DType::F16);
    let own = vec![
        Loss::new(LossKind::Narrowed, "w", "halved"),
        Loss::new(LossKind::BookkeepingDropped, "step", "a new one is written"),
    ];
    let placed = OutputLayout::default().with_placements(vec![placement(0, half)]).with_losses(own.clone());
    assert_eq!(losses(&contents, &placed, &rich()), own);
}

#[test]
fn a_weaker_loss_of_the_codec_does_not_hide_a_stronger_one() {
    let contents = contents(vec![tensor("w", DType::F32)]);
    let half = Encoding::row_major(&contents.checkpoint.tensors[0]).with_dtype(DType::F16);
    let retyped = Loss::new(LossKind::Retyped, "w", "exactly");
    let mut placed =
        OutputLayout::default().with_placements(vec![placement(0, half)]).with_losses(vec![retyped]);
    assert!(kinds(&contents, &placed).contains(&(LossKind::Narrowed, "w".into())));
    placed.placements.clear();
    placed.losses = vec![Loss::new(LossKind::CounterDropped, "w", "only counts")];
    assert!(kinds(&contents, &placed).contains(&(LossKind::WeightDropped, "w".into())));
}

#[test]
fn a_graph_and_the_metadata_of_other_formats_are_dropped_where_the_format_keeps_none() {
    let mut contents = contents(vec![]);
    contents.checkpoint.graph = Some(Graph { name: "mlp".into(), ..Graph::default() });
    for namespace in ["nn", "plain", "plain.index"] {
        contents.checkpoint.metadata.insert(namespace, "key", "value");
    }
    let found = losses(&contents, &OutputLayout::default(), &PLAIN);
    let found: Vec<(LossKind, &str)> = found.iter().map(|loss| (loss.kind, &*loss.subject)).collect();
    assert_eq!(found, [(LossKind::GraphDropped, "mlp"), (LossKind::MetadataDropped, "nn")]);
    assert_eq!(losses(&contents, &OutputLayout::default(), &rich()), []);
    let own = vec![Loss::new(LossKind::GraphDropped, "activations", "not stored")];
    let declared = losses(&contents, &OutputLayout::default().with_losses(own.clone()), &PLAIN);
    assert_eq!(declared.iter().filter(|loss| loss.kind == LossKind::GraphDropped).count(), 1);
}

/// A tensor with something of every aspect, and one with metadata of the format's own.
fn described() -> Contents {
    let mut first = tensor("w", DType::I8).with_axes([ckpt_api::Axis::Out]).with_role(Role::Optimizer);
    first.slot = Some(Box::new(Slot { variable: "v".into(), name: "m".into() }));
    first.quantization = Some(Quantization::Units { scale: NonZeroU32::new(64).unwrap() });
    first.metadata.insert("nn", "key", "value");
    let mut own = tensor("own", DType::F32);
    own.metadata.insert("plain", "key", "value");
    contents(vec![first, own])
}

#[test]
fn what_tensors_mean_is_a_loss_where_the_format_keeps_it_not() {
    let contents = described();
    let found = losses(&contents, &placed(&contents), &PLAIN);
    let (scales, others): (Vec<&Loss>, Vec<&Loss>) = found.iter().partition(|loss| loss.subject == "w");
    assert!(scales.iter().all(|loss| loss.kind == LossKind::ScaleDropped));
    assert!(others.iter().all(|loss| loss.kind == LossKind::MetadataDropped));
    let subjects: Vec<&str> = found.iter().map(|loss| loss.subject.as_str()).collect();
    assert_eq!(subjects, ["axes", "roles", "slots", "metadata of tensors", "w"]);
    assert_eq!(found[0].detail, "not supported by format 'plain' (1 tensor)");
    assert_eq!(found[4].detail, "scale of 64 per 1.0: not supported by format 'plain'");
    assert_eq!(kinds(&contents, &placed(&contents)), []);
}

#[test]
fn what_a_codec_leaves_out_is_lost_for_its_reason_with_its_own_metadata_of_tensors() {
    let contents = described();
    let left_out = Aspect::ALL.iter().map(|aspect| (*aspect, "as asked".to_owned())).collect();
    let found = losses(&contents, &placed(&contents).with_left_out(left_out), &rich());
    let of_metadata = found.iter().find(|loss| loss.subject == "metadata of tensors").unwrap();
    assert_eq!(of_metadata.detail, "as asked (2 tensors)");
}

/// Three tensors of the same bytes, stored under their own names.
fn tied() -> Contents {
    let mut contents = contents(["a", "b", "c"].map(|name| tensor(name, DType::F32)).to_vec());
    contents.checkpoint.ties = Ties::of(&contents);
    contents
}

/// The target of a codec that stores every tensor apart.
fn apart(contents: &Contents) -> OutputLayout {
    let mut placed = placed(contents);
    for (number, placement) in placed.placements.iter_mut().enumerate() {
        placement.extents[0].offset = 8 * number as u64;
    }
    placed
}

#[test]
fn ties_that_are_stored_apart_are_untied_each_from_the_first() {
    let contents = tied();
    let detail = "shares its bytes with 'a' in the source, and is stored separately";
    let expected = ["b", "c"].map(|name| Loss::new(LossKind::Untied, name, detail));
    assert_eq!(losses(&contents, &apart(&contents), &rich()), expected);
    assert_eq!(losses(&contents, &placed(&contents), &rich()), []);
}

#[test]
fn a_tie_whose_first_tensor_is_dropped_is_untied_from_the_next() {
    let contents = tied();
    let mut placed = apart(&contents);
    placed.placements.remove(0);
    let found = kinds(&contents, &placed);
    assert_eq!(found, [(LossKind::WeightDropped, "a".into()), (LossKind::Untied, "c".into())]);
}

#[test]
fn tensors_that_a_mapping_made_of_one_are_not_untied() {
    let mut contents = tied();
    contents.placements.iter_mut().for_each(|placement| placement.name = "shared".into());
    assert_eq!(losses(&contents, &apart(&contents), &rich()), []);
}

#[test]
fn blocks_that_the_codec_declares_to_be_read_as_numbers_are_declared_once() {
    let tensor = Tensor::new("w", DType::F32, Shape::new([4]).unwrap());
    let numbers = Encoding::row_major(&tensor);
    let stored =
        |len, encoding| Placement::new(TensorId(0), "w", vec![Extent::new(FileId(0), 0, len)], encoding);
    let blocks = Blocks::decoded("test.blocks", 4, 5, |_, _| ());
    let source = stored(5, numbers.clone().in_blocks(blocks));
    let checkpoint = Checkpoint { tensors: vec![tensor], ..Checkpoint::default() };
    let contents = Contents::default().with_checkpoint(checkpoint).with_placements(vec![source]);
    let mut placed = OutputLayout::default().with_placements(vec![stored(16, numbers)]);
    let entries = crate::plan::compile::entries(&contents, &placed).unwrap();
    let found = |placed: &OutputLayout| of_blocks(&contents.checkpoint, placed, &entries).len();
    assert_eq!(found(&placed), 1);
    placed.losses.push(Loss::new(LossKind::Dequantized, "w", "in the codec's own words"));
    assert_eq!(found(&placed), 0);
}
