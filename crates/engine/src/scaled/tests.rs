use super::*;
use ckpt_api::DType::{Bf16, F8E4m3, F16, F32, F64, I8, I32, I64, U8, U32};
use ckpt_api::{Checkpoint, Encoding, Shape, TensorId};

fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Tensor {
    Tensor::new(name, dtype, Shape::new(shape.iter().copied()).unwrap())
}

/// The layout of an output that stores each tensor with its own dtype.
fn placed(tensors: &[Tensor]) -> OutputLayout {
    let mut layout = OutputLayout::default();
    let place = |(id, tensor): (usize, &Tensor)| {
        Placement::new(TensorId(id), tensor.name.clone(), vec![], Encoding::row_major(tensor))
    };
    layout.placements.extend(tensors.iter().enumerate().map(place));
    layout
}

/// What is lost of `source` by an output that has `tensors`, each made of the sources that `made_of` names.
fn judged(source: &[Tensor], tensors: &[Tensor], made_of: &[(&str, &[&str])]) -> (Vec<String>, Vec<String>) {
    let checkpoint = Checkpoint { tensors: tensors.to_vec(), ..Checkpoint::default() };
    let mapped = Contents::default().with_checkpoint(checkpoint);
    let owned = |(name, sources): &(&str, &[&str])| {
        ((*name).to_owned(), sources.iter().map(|source| (*source).to_owned()).collect())
    };
    let made_of = made_of.iter().map(owned).collect();
    let (losses, notes) = find(source).judge(None, &made_of, &mapped, &placed(tensors));
    (
        losses.iter().map(|loss| format!("{} {}", loss.subject, loss.detail.as_str())).collect(),
        notes.iter().map(|note| note.as_str().to_owned()).collect(),
    )
}

fn of_each_kind() -> Vec<(Vec<Tensor>, &'static str)> {
    vec![
        (
            vec![tensor("a.weight", F8E4m3, &[130, 4]), tensor("a.weight_scale_inv", F32, &[2, 1])],
            "FP8 in blocks",
        ),
        (
            vec![tensor("a.weight", I8, &[6, 4]), tensor("a.weight_scale", Bf16, &[6, 1])],
            "FP8 or int8 with scales",
        ),
        (
            vec![
                tensor("a.weight", I8, &[6, 4]),
                tensor("a.weight_scale", Bf16, &[6, 1]),
                tensor("a.weight_zero_point", I8, &[6, 1]),
            ],
            "integers with scales and zero points",
        ),
        (
            vec![
                tensor("a.qweight", I32, &[16, 64]),
                tensor("a.scales", F16, &[1, 64]),
                tensor("a.qzeros", I32, &[1, 8]),
            ],
            "GPTQ or AWQ",
        ),
        (vec![tensor("a.weight", U8, &[64, 1]), tensor("a.weight.absmax", F32, &[2])], "NF4 or FP4"),
        (vec![tensor("a.weight", Bf16, &[32, 1]), tensor("a.weight.absmax", F32, &[2])], "NF4 or FP4"),
        (vec![tensor("a.weight", I8, &[6, 4]), tensor("a.SCB", F32, &[6])], "int8 with scales of rows"),
        (
            vec![tensor("a.weight_packed", I32, &[6, 4]), tensor("a.weight_scale", Bf16, &[6, 1])],
            "packed integers with scales",
        ),
        (vec![tensor("a_blocks", U8, &[2, 6, 1, 16]), tensor("a_scales", U8, &[2, 6, 1])], "MXFP4"),
        (
            vec![tensor("a.weight", U32, &[6, 4]), tensor("a.scales", F16, &[6, 1])],
            "packed integers with scales and biases",
        ),
        (vec![tensor("a.weight", F8E4m3, &[6, 4]), tensor("a.scale_weight", F32, &[])], "FP8 with scales"),
    ]
}

#[test]
fn elements_that_are_written_with_their_scales_are_named_in_a_note() {
    for (tensors, title) in of_each_kind() {
        let (losses, notes) = judged(&tensors, &tensors, &[]);
        assert_eq!(losses, [""; 0], "{title}");
        assert!(notes.len() == 1 && notes[0].contains(&format!("({title}, 1 tensor)")), "{notes:?}");
    }
}

#[test]
fn elements_that_are_written_without_their_scales_or_as_another_dtype_lose_them() {
    for (tensors, title) in of_each_kind() {
        let elements = &tensors[..1];
        let (losses, notes) = judged(&tensors, elements, &[]);
        assert!(losses.len() == 1 && losses[0].contains("is not written"), "{title}: {losses:?}");
        assert_eq!(notes, [""; 0]);
        let mut cast = tensors.clone();
        cast[0].dtype = F32;
        let (losses, _) = judged(&tensors, &cast, &[]);
        assert!(losses.len() == 1 && losses[0].contains("become f32 without"), "{title}: {losses:?}");
        let mut cast = tensors.clone();
        cast[1].dtype = F64;
        let (losses, _) = judged(&tensors, &cast, &[]);
        assert!(losses.len() == 1 && losses[0].contains("becomes f64"), "{title}: {losses:?}");
    }
}

#[test]
fn integers_of_keras_stop_where_a_dtype_of_floats_is_asked_for() {
    let kernel = [tensor("layers/dense/vars/0", I8, &[4, 3]), tensor("layers/dense/vars/1", F32, &[3])];
    let old = [tensor("d/kernel", I8, &[4, 3]), tensor("d/kernel_scale", F32, &[3])];
    let table = [tensor("e/embeddings", I8, &[4, 3]), tensor("e/embeddings_scale", F32, &[4])];
    for tensors in [kernel, old, table] {
        let checkpoint = Checkpoint { tensors: tensors.to_vec(), ..Checkpoint::default() };
        let mapped = Contents::default().with_checkpoint(checkpoint);
        let judge = |asked| find(&tensors).judge(asked, &BTreeMap::new(), &mapped, &placed(&tensors));
        let (losses, notes) = judge(Some(F32));
        assert_eq!((losses.len(), notes.len()), (1, 0));
        assert_eq!((losses[0].kind, &*losses[0].subject), (LossKind::ScaleDropped, &*tensors[0].name));
        assert!(losses[0].detail.contains("do not become f32"), "{}", losses[0].detail.as_str());
        let (losses, notes) = judge(None);
        assert_eq!((losses.len(), notes.len()), (0, 1));
    }
}

#[test]
fn a_mapping_that_multiplies_elements_and_scales_loses_nothing() {
    let source = [tensor("a.weight", F8E4m3, &[130, 4]), tensor("a.weight_scale_inv", F32, &[2, 1])];
    let numbers = [tensor("b", Bf16, &[130, 4])];
    let (losses, notes) = judged(&source, &numbers, &[("b", &["a.weight", "a.weight_scale_inv"])]);
    assert!(losses.is_empty() && notes.is_empty(), "{losses:?} {notes:?}");
    let renamed = [tensor("b", F8E4m3, &[130, 4]), tensor("b_scale_inv", F32, &[2, 1])];
    let made_of: [(&str, &[&str]); 2] = [("b", &["a.weight"]), ("b_scale_inv", &["a.weight_scale_inv"])];
    let (losses, notes) = judged(&source, &renamed, &made_of);
    assert!(losses.is_empty() && notes.len() == 1, "{losses:?} {notes:?}");
    let (losses, _) = judged(&source, &renamed[..1], &made_of[..1]);
    assert!(losses[0].starts_with("b quantized (FP8 in blocks)"), "{losses:?}");
}

#[test]
fn integers_without_scales_and_scales_of_floats_are_no_groups() {
    let tensors = [
        tensor("position_ids", I64, &[1, 512]),
        tensor("bn.num_batches_tracked", I64, &[]),
        tensor("table", U8, &[256]),
        tensor("norm.weight", F32, &[4]),
        tensor("norm.weight_scale", F32, &[4]),
        tensor("index", I8, &[4]),
        tensor("index_scale", I64, &[4]),
        tensor("b.qweight", I32, &[4, 4]),
    ];
    let (losses, notes) = judged(&tensors, &tensors[..1], &[]);
    assert!(losses.is_empty() && notes.is_empty(), "{losses:?} {notes:?}");
    assert!(find(&tensors).notes().is_empty());
}
