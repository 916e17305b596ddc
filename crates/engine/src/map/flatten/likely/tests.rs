use super::super::super::rebuild::rebuild;
use super::super::{ImageSteps, conventions};
use crate::recipe::{AxisStep, Join, Recipe, Target};
use ckpt_api::{
    Axis, Checkpoint, Contents, DType, Encoding, Extent, FileId, Loss, LossKind, Placement, Shape, Tensor,
    TensorId,
};

/// A tensor: its name, its shape, and its steps, one behind the other, with commas.
type Row<'a> = (&'a str, &'a [u64], &'a str);

/// The losses of a checkpoint without a graph; matrices and vectors named `kernel` and `bias` have axes if `labeled`.
fn losses_of(rows: &[Row], labeled: bool) -> Vec<Loss> {
    let tensors = rows.iter().map(|(name, shape, _)| {
        let tensor = Tensor::new(*name, DType::F32, Shape::new(shape.to_vec()).unwrap());
        match shape.len() {
            2 if labeled => tensor.with_axes(vec![Axis::In, Axis::Out]),
            4 if labeled => tensor.with_axes(vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out]),
            _ => tensor,
        }
    });
    let tensors: Vec<Tensor> = tensors.collect();
    let placement = |(id, tensor): (usize, &Tensor)| {
        let extent = Extent::new(FileId(0), 0, tensor.value_bytes());
        Placement::new(TensorId(id), tensor.name.clone(), vec![extent], Encoding::row_major(tensor))
    };
    let placements = tensors.iter().enumerate().map(placement).collect();
    let source = Contents::default()
        .with_checkpoint(Checkpoint { tensors, ..Checkpoint::default() })
        .with_placements(placements);
    let targets = rows.iter().map(|(name, _, steps)| {
        let steps =
            steps.split(',').filter(|step| !step.is_empty()).map(|step| AxisStep::parse(step).unwrap());
        let recipe = Recipe { join: Join::One, steps: steps.collect(), ..Recipe::default() };
        Target { name: (*name).to_owned(), sources: vec![(*name).to_owned()], recipe }
    });
    let targets: Vec<Target> = targets.collect();
    let (mut contents, mut steps) = (source.clone(), ImageSteps::default());
    steps.add(&targets);
    rebuild(&mut contents, &targets).unwrap();
    conventions(&source, &contents, &steps)
}

/// The subjects of the losses of an unlabeled checkpoint, and the details, one a line.
fn found(rows: &[Row]) -> (Vec<String>, String) {
    let losses = losses_of(rows, false);
    assert!(losses.iter().all(|loss| loss.kind == LossKind::Convention));
    let details: Vec<&str> = losses.iter().map(|loss| loss.detail.as_str()).collect();
    let details = details.join("\n");
    (losses.into_iter().map(|loss| loss.subject).collect(), details)
}

fn assert_found(rows: &[Row], subjects: &[&str], words: &str) {
    let (found, details) = found(rows);
    assert_eq!(found, subjects, "{rows:?}");
    assert!(details.contains(words), "{details}");
}

const CONV: Row = ("c/kernel", &[3, 3, 2, 4], "permute 3 2 0 1");

#[test]
fn kernels_without_known_axes_count_by_the_order_that_they_get() {
    let dense: Row = ("d/kernel", &[64, 5], "transpose");
    for (shape, step) in [
        (&[3, 2, 4][..], "permute 2 1 0"),
        (&[3, 3, 2, 4], "permute 3 2 0 1"),
        (&[2, 2, 2, 2, 4], "permute 4 3 0 1 2"),
        (&[3, 3, 4, 1], "permute 2 3 0 1"),
        (&[3, 4, 1], "permute 1 2 0"),
        (&[1, 3, 2, 4], "squeeze 0,permute 2 1 0"),
        (&[3, 2, 4], "unsqueeze 0,permute 3 2 0 1"),
    ] {
        assert_found(&[("c/kernel", shape, step), dense], &["d/kernel"], "'flatten_order 16 4'");
        assert_found(&[("c/kernel", shape, ""), dense], &[], "");
    }
    // A kernel of attention: its axes are those of the model, of the heads and of each head.
    assert_found(&[("q/kernel", &[16, 4, 8], "permute 1 2 0"), dense], &[], "");
}

#[test]
fn kernels_that_get_their_channels_last_need_the_inverse_step() {
    let dense: Row = ("d.weight", &[5, 64], "transpose");
    for (shape, step) in [
        (&[4, 2, 3][..], "permute 2 1 0"),
        (&[4, 2, 3, 3], "permute 2 3 1 0"),
        (&[4, 1, 3, 3], "permute 2 3 0 1"),
        (&[4, 2, 2, 2, 2], "permute 2 3 4 1 0"),
    ] {
        assert_found(&[("c.weight", shape, step), dense], &["d.weight"], "'unflatten_order 16 4'");
    }
    // The order tells the direction, whatever the names.
    let named: [Row; 2] =
        [("c/kernel", &[4, 2, 3, 3], "permute 2 3 1 0"), ("d/kernel", &[5, 64], "transpose")];
    assert_found(&named, &["d/kernel"], "'unflatten_order 16 4'");
    let stated = ("d.weight", &[5, 64][..], "transpose,unflatten_order 16 4 on 0");
    assert_found(&[("c.weight", &[4, 2, 3, 3], "permute 2 3 1 0"), stated], &[], "");
}

#[test]
fn kernels_that_get_their_channels_at_different_ends_are_a_loss() {
    let rows: [Row; 3] =
        [CONV, ("b/kernel", &[4, 2, 3, 3], "permute 2 3 1 0"), ("d/kernel", &[64, 5], "transpose")];
    assert_found(&rows, &["b/kernel"], "now come last, but those of 'c/kernel' come first");
    let [first, second, dense] = rows;
    assert_found(&[second, first, dense], &["c/kernel"], "now come first, but those of 'b/kernel' come last");
}

#[test]
fn of_kernels_that_do_not_show_an_end_most_decide_for_all() {
    // Reversed axes are their own inverse, and the names say nothing: the shorter end may be the window's.
    let dense: Row = ("d", &[64, 5], "transpose");
    let (short, long): (Row, Row) = (("a", &[3, 2, 4], "permute 2 1 0"), ("b", &[9, 4, 4], "permute 2 1 0"));
    assert_found(&[short, ("c", &[3, 4, 4], "permute 2 1 0"), long, dense], &["d"], "'flatten_order 16 4'");
    assert_found(&[long, short, ("c", &[3, 4, 4], "permute 2 1 0"), dense], &["d"], "'flatten_order 16 4'");
}

#[test]
fn the_multiplied_channels_of_a_depthwise_kernel_are_those_of_its_bias() {
    let rows: [Row; 3] = [
        ("dw/kernel", &[3, 3, 2, 3], "permute 3 2 0 1"),
        ("dw/bias", &[6], ""),
        ("d/kernel", &[96, 5], "transpose"),
    ];
    assert_found(&rows, &["d/kernel"], "'flatten_order 16 6'");
}

#[test]
fn vectors_between_a_flatten_and_a_dense_layer_are_reordered_like_it() {
    let [bias, gamma]: [Row; 2] = [("d/bias", &[5], ""), ("bn/gamma", &[64], "")];
    let dense: Row = ("d/kernel", &[64, 5], "transpose");
    assert_found(&[CONV, gamma, dense, bias], &["d/kernel", "bn/gamma"], "'flatten_order 16 4'");
    let stated: Row = ("d/kernel", &[64, 5], "flatten_order 16 4,transpose");
    assert_found(&[CONV, gamma, stated, bias], &["bn/gamma"], "'flatten_order 16 4'");
    assert_found(&[CONV, ("bn/gamma", &[64], "flatten_order 4 4 4"), stated, bias], &[], "");
    // A convolution of 64 channels has its own.
    let wide: Row = ("a/kernel", &[3, 3, 3, 64], "permute 3 2 0 1");
    assert_found(&[wide, ("c/kernel", &[1, 1, 64, 4], "permute 3 2 0 1"), gamma, stated], &[], "");
}

#[test]
fn inputs_that_pooling_explains_are_no_images() {
    let pooled: Row = ("d/kernel", &[4, 64], "transpose");
    assert_found(&[CONV, pooled, ("e/kernel", &[64, 5], "transpose")], &[], "");
    let tower: Row = ("t/kernel", &[7, 60], "transpose");
    assert_found(&[CONV, tower, ("d/kernel", &[64, 5], "transpose")], &[], "");
    let recurrent: [Row; 6] = [
        CONV,
        ("f/gru/kernel", &[4, 24], "transpose"),
        ("f/gru/recurrent_kernel", &[8, 24], "transpose"),
        ("b/gru/kernel", &[4, 24], "transpose"),
        ("b/gru/recurrent_kernel", &[8, 24], "transpose"),
        ("d/kernel", &[16, 5], "transpose"),
    ];
    assert_found(&recurrent, &[], "");
    assert!(losses_of(&recurrent, true).is_empty());
    let table: Row = ("table", &[64, 16], "");
    assert_found(&[CONV, table, ("d/kernel", &[16, 5], "transpose"), pooled], &[], "");
    // Each block of a DenseNet adds its channels to those that it takes.
    let block: Row = ("b/kernel", &[3, 3, 60, 4], "permute 3 2 0 1");
    let before: Row = ("a/kernel", &[3, 3, 56, 4], "permute 3 2 0 1");
    assert_found(&[CONV, before, block, ("d/kernel", &[64, 5], "transpose")], &[], "");
    // Of one block alone, 60 may be the channels of the first images.
    assert_found(&[CONV, block, ("d/kernel", &[64, 5], "transpose")], &["d/kernel"], "may be");
    assert_found(&[CONV, ("d/kernel", &[8, 5], "transpose")], &["d/kernel"], "may be");
}

#[test]
fn a_layer_does_not_explain_what_only_it_follows_from() {
    let autoencoder: [Row; 3] =
        [CONV, ("a/kernel", &[16, 64], "transpose"), ("b/kernel", &[64, 16], "transpose")];
    assert_found(&autoencoder, &["b/kernel"], "'flatten_order 16 4'");
    let square: [Row; 3] =
        [CONV, ("d1/kernel", &[64, 64], "transpose"), ("d2/kernel", &[64, 64], "transpose")];
    assert_found(&square, &["d1/kernel"], "or for 'd2/kernel'");
    assert_found(&square, &["d1/kernel"], "'flatten_order 16 4 on 0'");
    for (step, subjects) in
        [("flatten_order 16 4 on 0", &[][..]), ("flatten_order 16 4 on 1", &["d1/kernel"])]
    {
        let steps = format!("{step},transpose");
        assert_found(&[CONV, ("d1/kernel", &[64, 64], &steps), square[2]], subjects, "");
    }
    let narrowing: [Row; 3] = [
        ("a/kernel", &[3, 3, 2, 64], "permute 3 2 0 1"),
        ("c/kernel", &[3, 3, 64, 4], "permute 3 2 0 1"),
        ("d/kernel", &[64, 5], "transpose"),
    ];
    assert_found(&narrowing, &["d/kernel"], "'flatten_order 16 4'");
}

#[test]
fn all_likely_numbers_of_channels_are_named() {
    // The head of 2 channels seems to feed the tower, which takes images of 2 channels.
    let heads: [Row; 3] = [
        ("a/kernel", &[3, 3, 2, 64], "permute 3 2 0 1"),
        ("b/kernel", &[1, 1, 64, 2], "permute 3 2 0 1"),
        ("d/kernel", &[128, 5], "transpose"),
    ];
    assert_found(&heads, &["d/kernel"], "'flatten_order 2 64' or 'flatten_order 64 2'");
}

#[test]
fn images_together_with_other_inputs_cannot_be_reordered_by_a_step() {
    assert_found(&[CONV, ("d/kernel", &[67, 5], "transpose")], &["d/kernel"], "together with other inputs");
    assert_found(&[CONV, ("d/kernel", &[7, 5], "transpose")], &[], "");
}

#[test]
fn a_layer_that_takes_no_images_is_declared_by_a_step_of_one_channel() {
    assert_found(&[CONV, ("d/kernel", &[64, 5], "flatten_order 64 1,transpose")], &[], "");
}

#[test]
fn a_step_that_the_kernels_contradict_is_a_loss() {
    let with = |step: &str| losses_of(&[CONV, ("d/kernel", &[48, 5], &format!("{step},transpose"))], true);
    for (step, words) in [
        ("flatten_order 16 3", "the convolutions make 4"),
        ("flatten_order 1 48", "the convolutions make 4"),
        ("unflatten_order 12 4", "the step is 'flatten_order'"),
    ] {
        let losses = with(step);
        assert_eq!((losses.len(), losses[0].subject.as_str()), (1, "d/kernel"), "{step}");
        assert!(losses[0].detail.contains(words), "{}", losses[0].detail.as_str());
    }
    assert_eq!(with("flatten_order 12 4"), []);
    assert_eq!(with("flatten_order 8 6"), [], "images of 2 and 4 channels, concatenated");
    let kept =
        losses_of(&[("c/kernel", &[3, 3, 2, 4], ""), ("d/kernel", &[48, 5], "flatten_order 12 4")], true);
    assert_eq!(kept.len(), 1);
    assert!(kept[0].detail.contains("still have their channels last"), "{}", kept[0].detail.as_str());
}

#[test]
fn beyond_what_is_counted_every_length_may_be_one_of_images() {
    // Without that bound this takes minutes.
    let names: Vec<String> = (0..6000).map(|index| format!("layer{index}")).collect();
    let shapes: Vec<[u64; 4]> = (0..3000).map(|index| [1, 1, 2, 3001 + 2 * index]).collect();
    let matrices: Vec<[u64; 2]> = (0..3000).map(|index| [1_000_003 + 2 * index, 7]).collect();
    let kernels =
        names.iter().zip(&shapes).map(|(name, shape)| (name.as_str(), &shape[..], "permute 3 2 0 1"));
    let dense =
        names[3000..].iter().zip(&matrices).map(|(name, shape)| (name.as_str(), &shape[..], "transpose"));
    let rows: Vec<Row> = kernels.chain(dense).collect();
    assert_eq!(found(&rows).0.len(), 3000);
}
