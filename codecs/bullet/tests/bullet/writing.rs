//! One test per rule of writing.

use crate::build::{
    self, Files, PRESET, directory, headerless, net, numbers, old_records, one, place, quantized, read,
    records, refused, state, within, write,
};
use ckpt_api::{
    Axis, Checkpoint, Codec, DType, Graph, Input, Kind, Limits, LossKind, Options, OutputLayout,
    Quantization, Role, Rounding, Shape, Slot, Tensor,
};
use ckpt_bullet::Bullet;

const ARCH: [(&str, &str); 1] = [("arch", PRESET)];

fn kinds(placed: &OutputLayout) -> Vec<LossKind> {
    let mut kinds: Vec<LossKind> = placed.losses.iter().map(|loss| loss.kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Reads and writes again.
fn rewrite(
    entry: &str,
    files: &Files,
    name: &str,
    read_options: &[(&str, &str)],
    options: &[(&str, &str)],
) -> Files {
    let (contents, values) = read(entry, files, read_options).unwrap();
    write(&contents.checkpoint, &values, name, options).unwrap()
}

/// The net as another format would hold it: row-major, with axes in another order and without metadata.
fn foreign() -> (Checkpoint, Vec<Vec<u8>>) {
    let (contents, values) = read("", &directory(), &ARCH).unwrap();
    let mut checkpoint = Checkpoint::default();
    let mut moved = Vec::new();
    for (tensor, value) in contents.checkpoint.tensors.into_iter().zip(values) {
        if tensor.role != Role::Weight {
            continue;
        }
        let mut bare = Tensor::new(tensor.name, DType::F32, tensor.shape);
        bare.axes = tensor.axes;
        let mut value = value;
        if bare.axes == Some([Axis::Out, Axis::Feature].into()) {
            // [out, feature] to [feature, in].
            let (rows, columns) = (bare.shape[0] as usize, bare.shape[1] as usize);
            value = (0..columns)
                .flat_map(|c| (0..rows).map(move |r| r * columns + c))
                .flat_map(|k| value[k * 4..][..4].to_vec())
                .collect();
            bare.shape = bare.shape.permuted(&[1, 0]);
            bare.axes = Some([Axis::In, Axis::Out].into());
        }
        checkpoint.tensors.push(bare);
        moved.push(value);
    }
    (checkpoint, moved)
}

#[test]
fn a_directory_comes_back_byte_for_byte_in_every_form() {
    let mut radam = directory();
    radam.insert("optimiser_state/step.txt".into(), b"l1b,7\nl0w,7\nl1w,7\nl0b,8\n".to_vec());
    let mut ranger = radam.clone();
    ranger.insert("optimiser_state/slow.bin".into(), records(&net()));
    let mut zeros = directory();
    zeros.insert("quantised.bin".into(), quantized(&[0]));
    let mut logged = directory();
    logged.insert("log.txt".into(), b"1,32,0.0171\n1,64,0.0162\n".to_vec());
    let mut failed = directory();
    failed.insert("quantised.bin".into(), Vec::new());
    let sources = [
        directory(),
        radam,
        ranger,
        zeros,
        failed,
        logged,
        within("optimiser_state/", one("weights.bin", records(&net()))),
        within("optimiser_state/", state(old_records, "weights.bin")),
        within("optimiser_state/", state(headerless, "params.bin")),
        // As bullet wrote it before 2024-10: in the directory itself.
        state(headerless, "params.bin"),
    ];
    for (number, files) in sources.iter().enumerate() {
        assert!(rewrite("", files, "", &ARCH, &[]) == *files, "source {number}");
    }
}

#[test]
fn an_option_without_an_effect_is_refused() {
    let (checkpoint, values) = foreign();
    for (name, option) in [
        ("raw.bin", ("records", "rows")),
        ("raw.bin", ("padding", "zero")),
        ("weights.bin", ("padding", "zero")),
        ("out", ("profile", "plain")),
    ] {
        let error = refused(write(&checkpoint, &values, name, &[("arch", PRESET), option])).to_string();
        assert!(
            error.contains("no effect on what is written") && error.contains(option.0),
            "{name}: {error}"
        );
    }
}

#[test]
fn files_without_records_are_written_where_bullet_looks_for_them() {
    let (checkpoint, values) = foreign();
    let options = [("arch", PRESET), ("records", "headerless"), ("parts", "state")];
    let files = write(&checkpoint, &values, "", &options).unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["momentum.bin", "params.bin", "velocity.bin"]);
    assert_eq!(files["params.bin"], headerless(&net()));
    // The name alone says that there are no records.
    let files = write(&checkpoint, &values, "params.bin", &ARCH).unwrap();
    assert_eq!(files["params.bin"], headerless(&net()));
}

#[test]
fn params_bin_has_no_records() {
    let (checkpoint, values) = foreign();
    let options = [("arch", PRESET), ("records", "rows")];
    let error = refused(write(&checkpoint, &values, "params.bin", &options));
    assert!(error.kind() == Kind::Usage && error.to_string().contains("has no records"), "{error}");
    let error = refused(read("params.bin", &one("params.bin", headerless(&net())), &options));
    assert!(error.kind() == Kind::Usage && error.to_string().contains("has no records"), "{error}");
}

#[test]
fn files_are_in_their_directory_and_the_weights_come_last() {
    let (contents, _) = read("", &directory(), &ARCH).unwrap();
    let placed = place(&contents.checkpoint, "out", &[]).unwrap();
    let names: Vec<&str> = placed.files.iter().map(|file| file.name.as_str()).collect();
    let state =
        ["momentum.bin", "velocity.bin", "weights.bin"].map(|name| format!("out/optimiser_state/{name}"));
    assert_eq!(names, ["out/raw.bin", "out/quantised.bin", &state[0], &state[1], &state[2]]);
    assert_eq!(kinds(&placed), []);
}

#[test]
fn axes_in_any_order_are_written_in_bullets_order() {
    let (checkpoint, values) = foreign();
    let files = write(&checkpoint, &values, "", &ARCH).unwrap();
    assert_eq!(files["raw.bin"], headerless(&net()));
    assert_eq!(files["quantised.bin"], quantized(b"bullet"));
}

#[test]
fn missing_moments_are_filled_with_zeros() {
    let (checkpoint, values) = foreign();
    let placed = place(&checkpoint, "out", &ARCH).unwrap();
    assert_eq!(kinds(&placed), [LossKind::Filled]);
    let files = write(&checkpoint, &values, "", &ARCH).unwrap();
    let (again, moments) = read("", &files, &ARCH).unwrap();
    assert!(numbers(&again, &moments, "momentum/l1w").iter().all(|number| *number == 0.0));
}

#[test]
fn moments_from_another_format_find_their_weight() {
    let (mut checkpoint, mut values) = foreign();
    let mut slot = checkpoint.tensors[0].clone();
    slot.name = "adam/first".into();
    slot.role = Role::Optimizer;
    slot.slot = Some(Box::new(Slot { variable: checkpoint.tensors[0].name.clone(), name: "m".into() }));
    let weight = checkpoint.tensors[0].name.clone();
    checkpoint.tensors.push(slot);
    values.push(values[0].clone());
    let files = write(&checkpoint, &values, "", &ARCH).unwrap();
    let (again, read_values) = read("", &files, &ARCH).unwrap();
    assert_eq!(
        numbers(&again, &read_values, &format!("momentum/{weight}")),
        numbers(&again, &read_values, &weight)
    );
}

#[test]
fn moments_without_a_slot_are_recognized_by_their_names() {
    let (mut contents, values) = read("", &directory(), &ARCH).unwrap();
    contents.checkpoint.metadata = Default::default();
    for tensor in &mut contents.checkpoint.tensors {
        (tensor.slot, tensor.role) = (None, Role::Weight);
    }
    assert!(write(&contents.checkpoint, &values, "", &ARCH).unwrap() == directory());
}

#[test]
fn missing_slow_weights_start_as_copies_of_the_weights() {
    let mut files = directory();
    files.insert("optimiser_state/slow.bin".into(), records(&build::times(&net(), 2.0)));
    let (mut contents, mut values) = read("", &files, &ARCH).unwrap();
    let (id, _) = contents.checkpoint.tensor("slow/l0b").unwrap();
    contents.checkpoint.tensors.remove(id.0);
    values.remove(id.0);
    let written = write(&contents.checkpoint, &values, "", &[]).unwrap();
    let (again, values) = read("", &written, &ARCH).unwrap();
    assert_eq!(numbers(&again, &values, "slow/l0b"), [0.01, -0.02]);
    assert_eq!(numbers(&again, &values, "slow/l1b"), [0.002, -0.004]);
}

#[test]
fn the_name_or_the_content_option_decides_what_a_single_file_contains() {
    let (contents, values) = read("", &directory(), &ARCH).unwrap();
    let alone = |name: &str, options: &[(&str, &str)]| {
        let files = write(&contents.checkpoint, &values, name, options).unwrap();
        assert_eq!(files.len(), 1, "{name}");
        files[name].clone()
    };
    assert_eq!(alone("raw.bin", &[]), headerless(&net()));
    assert_eq!(alone("net.nnue", &[]), quantized(b"bullet"));
    assert_eq!(alone("velocity.bin", &[]), directory()["optimiser_state/velocity.bin"]);
    assert_eq!(alone("net.bin", &[("content", "raw")]), headerless(&net()));
    assert_eq!(alone("net", &[("content", "state")]), directory()["optimiser_state/weights.bin"]);
    assert_eq!(alone("net.bin", &[("padding", "zero")]), quantized(&[0]));
    let error = refused(place(&contents.checkpoint, "net.bin", &[("parts", "raw")]));
    assert!(error.to_string().contains("option content"), "{error}");
}

#[test]
fn the_parts_of_a_directory_can_be_chosen() {
    let (contents, values) = read("", &directory(), &ARCH).unwrap();
    let names = |parts: &str| -> Vec<String> {
        write(&contents.checkpoint, &values, "", &[("parts", parts)]).unwrap().into_keys().collect()
    };
    assert_eq!(names("raw,quantised"), ["quantised.bin", "raw.bin"]);
    assert_eq!(names("state").len(), 3);
    let error = refused(place(&contents.checkpoint, "out", &[("parts", "weights")]));
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert!(refused(place(&contents.checkpoint, "out", &[("parts", "")])).to_string().contains("nothing"));
}

#[test]
fn numbers_that_were_read_as_integers_are_whole_units_of_their_scale() {
    let (contents, _) = read("", &directory(), &ARCH).unwrap();
    let placed = place(&contents.checkpoint, "quantised.bin", &[]).unwrap();
    assert_eq!((&placed.whole_units[..], kinds(&placed)), (&[][..], vec![]));
    let (contents, _) = read("quantised.bin", &one("quantised.bin", quantized(b"bullet")), &ARCH).unwrap();
    let placed = place(&contents.checkpoint, "quantised.bin", &[]).unwrap();
    assert_eq!(placed.whole_units.len(), contents.checkpoint.tensors.len());
    assert_eq!(kinds(&placed), []);
}

#[test]
fn integers_come_back_exactly_even_if_the_net_truncates() {
    let truncating = format!("{PRESET},round=false");
    let options = [("arch", truncating.as_str())];
    let file = one("quantised.bin", quantized(b"bullet"));
    assert!(rewrite("quantised.bin", &file, "quantised.bin", &options, &[]) == file);
    let (contents, _) = read("quantised.bin", &file, &options).unwrap();
    let scaled = place(&contents.checkpoint, "quantised.bin", &[]).unwrap();
    assert_eq!(scaled.placements[0].encoding.scaling().unwrap().rounding, Rounding::Nearest);
    // With another scale, the values are truncated.
    let other = format!("{truncating},qa=181");
    let scaled = place(&contents.checkpoint, "quantised.bin", &[("arch", &other)]).unwrap();
    assert_eq!(scaled.placements[0].encoding.scaling().unwrap().rounding, Rounding::Truncate);
    assert!(!scaled.whole_units.contains(&ckpt_api::TensorId(0)));
}

#[test]
fn an_integer_that_floats_cannot_represent_costs_the_others_nothing() {
    let json = r#"{ "format": "bullet", "input": { "features": 2, "perspectives": 1 }, "layers": [{ "size": 1 }],
        "saved": [{ "id": "l0w", "type": "i32", "scale": 3 }, { "id": "l0b" }] }"#;
    let mut bytes = [29_557i32.to_le_bytes(), 1_309_972_565i32.to_le_bytes(), [0; 4]].concat();
    bytes.extend(b"bullet".iter().cycle().take(52));
    let file = one("quantised.bin", bytes);
    let (contents, values) = build::read_all_with("quantised.bin", &file, json, &[]).unwrap();
    let written = build::write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap();
    assert_eq!(written["quantised.bin"][..4], file["quantised.bin"][..4]);
}

#[test]
fn kept_integers_are_written_unchanged() {
    let file = one("quantised.bin", quantized(b"bullet"));
    let (contents, values) = read("quantised.bin", &file, &[ARCH[0], ("integers", "true")]).unwrap();
    assert_eq!(write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap(), file);
    let error = refused(place(&contents.checkpoint, "raw.bin", &[]));
    assert!(error.to_string().contains("integers=true"), "{error}");
}

#[test]
fn quantised_bin_becomes_a_checkpoint_that_bullet_resumes_from() {
    let file = one("quantised.bin", quantized(b"bullet"));
    let (contents, values) = read("quantised.bin", &file, &ARCH).unwrap();
    let files = write(&contents.checkpoint, &values, "", &[("parts", "raw,quantised,state")]).unwrap();
    assert_eq!(files.len(), 5);
    assert_eq!(files["quantised.bin"], file["quantised.bin"]);
}

#[test]
fn a_factoriser_is_added_to_every_bucket_before_quantizing() {
    let arch = ("arch", "simple:2x1x1,inputs=2,factoriser=true,qa=4,qb=4");
    let net = [
        ("l0w", 1, vec![0.25, 0.5, 0.75, 1.0]),
        ("l0f", 1, vec![10.0, 20.0]),
        ("l0b", 1, vec![0.0]),
        ("l1w", 1, vec![0.0; 2]),
        ("l1b", 1, vec![0.0]),
    ];
    let files = within("optimiser_state/", one("weights.bin", records(&net)));
    let written = rewrite("", &files, "", &[arch], &[("parts", "raw,quantised,state")]);
    let integers: Vec<i16> = written["quantised.bin"].as_chunks::<2>().0[..4]
        .iter()
        .map(|bytes| i16::from_le_bytes(*bytes))
        .collect();
    assert_eq!(integers, [41, 82, 43, 84]);
    assert_eq!(
        written["raw.bin"],
        headerless(&[net[0].clone(), net[2].clone(), net[3].clone(), net[4].clone()])
    );
    let (contents, _) = read("", &files, &[arch]).unwrap();
    let merged = |name: &str| {
        let placements = place(&contents.checkpoint, name, &[]).unwrap().placements;
        let (l0f, _) = contents.checkpoint.tensor("l0f").unwrap();
        let is_added =
            placements.iter().flat_map(|placement| placement.added()).any(|added| added.tensor == l0f);
        is_added && placements.iter().all(|placement| placement.tensor != l0f)
    };
    assert!(merged("quantised.bin") && !merged("weights.bin"));
    // Back from quantised.bin, l0w includes l0f, and l0f is zeros.
    let alone = one("quantised.bin", written["quantised.bin"].clone());
    let (contents, values) = read("quantised.bin", &alone, &[arch]).unwrap();
    assert!(
        contents.notes.iter().any(|note| note.contains("'l0f' is merged into 'l0w'")),
        "{:?}",
        contents.notes
    );
    let losses = place(&contents.checkpoint, "weights.bin", &[]).unwrap().losses;
    assert!(losses.iter().any(|loss| loss.kind == LossKind::Filled && loss.subject == "l0f"), "{losses:?}");
    let back = write(&contents.checkpoint, &values, "", &[("parts", "quantised,state")]).unwrap();
    assert_eq!(back["quantised.bin"], alone["quantised.bin"]);
    let (again, values) = read("", &back, &[arch]).unwrap();
    assert_eq!(
        (numbers(&again, &values, "l0w"), numbers(&again, &values, "l0f")),
        (vec![10.25, 20.5, 10.75, 21.0], vec![0.0, 0.0])
    );
    // raw.bin has neither l0f nor the sum.
    let (contents, _) = read("raw.bin", &one("raw.bin", written["raw.bin"].clone()), &[arch]).unwrap();
    for name in ["quantised.bin", "weights.bin"] {
        assert!(refused(place(&contents.checkpoint, name, &[])).to_string().contains("tensor l0f"), "{name}");
    }
}

#[test]
fn a_weight_that_the_architecture_lacks_and_another_graph_are_losses() {
    let (mut checkpoint, _) = foreign();
    let other =
        |name: &str, role| Tensor::new(name, DType::F32, Shape::new(vec![3]).unwrap()).with_role(role);
    checkpoint.tensors.push(other("more", Role::Weight));
    checkpoint.tensors.push(other("rate", Role::Optimizer));
    checkpoint.tensors.push(other("epoch", Role::Counter));
    checkpoint.graph = Some(Graph::sequential("m", vec![], vec![], vec![]));
    let placed = place(&checkpoint, "raw.bin", &ARCH).unwrap();
    assert_eq!(kinds(&placed), [LossKind::WeightDropped, LossKind::GraphDropped]);
    let unplaced: Vec<&str> = placed.unplaced(&checkpoint).map(|(_, tensor)| tensor.name.as_str()).collect();
    assert_eq!(unplaced, ["more", "rate", "epoch"]);
}

#[test]
fn a_tensor_that_does_not_fit_is_refused_by_name() {
    type Damage = fn(&mut Checkpoint);
    let damages: &[(&str, &str, Damage)] = &[
        ("lacks a weight of the net", "l1b", |checkpoint| {
            checkpoint.tensors.retain(|tensor| tensor.name != "l1b")
        }),
        ("does not fit the architecture", "bucket 2 × out 1", |checkpoint| {
            let l1w = checkpoint.tensors.iter_mut().find(|tensor| tensor.name == "l1w").unwrap();
            l1w.axes = Some([Axis::Out, Axis::Bucket, Axis::In].into());
        }),
        ("32-bit floats", "`Conversion::dtype` of f32", |checkpoint| {
            checkpoint.tensors[0].dtype = DType::F16
        }),
        ("32-bit floats", "integers=true", |checkpoint| {
            checkpoint.tensors[0].dtype = DType::I16;
            checkpoint.tensors[0].quantization = Some(Quantization::Units { scale: 3.try_into().unwrap() });
        }),
        ("under the same id", "l0b", |checkpoint| {
            let mut again = checkpoint.tensors[0].clone();
            again.name = "again".into();
            again.metadata.insert("bullet", "id", checkpoint.tensors[0].name.as_str());
            checkpoint.tensors.push(again);
        }),
        ("cannot be transposed", "l1w", |checkpoint| {
            let l1w = checkpoint.tensors.iter_mut().find(|tensor| tensor.name == "l1w").unwrap();
            (l1w.axes, l1w.shape) = (None, Shape::new(vec![8]).unwrap());
        }),
    ];
    for (message, place_of, damage) in damages {
        let (mut checkpoint, _) = foreign();
        damage(&mut checkpoint);
        let error = refused(place(&checkpoint, "out", &ARCH)).to_string();
        assert!(error.contains(message) && error.contains(place_of), "{message}: {error}");
    }
}

#[test]
fn without_an_architecture_only_the_optimizers_files_are_written() {
    let (checkpoint, values) = foreign();
    let files = write(&checkpoint, &values, "", &[]).unwrap();
    assert_eq!(files.len(), 3);
    let (again, read_values) = read("", &files, &ARCH).unwrap();
    assert_eq!(numbers(&again, &read_values, "l0w"), [0.5, 0.1, 0.7, -0.25, -0.1, 1.3]);
    assert_eq!(numbers(&again, &read_values, "l1w"), [0.9, 0.3, 0.6, -0.6, -0.9, -0.3, 0.2, -0.2]);
    let error = refused(place(&checkpoint, "raw.bin", &[]));
    assert!(error.to_string().contains("the option `arch="), "{error}");
    let (contents, _) = read("", &directory(), &[]).unwrap();
    let placed = place(&contents.checkpoint, "out", &[]).unwrap();
    let lost: Vec<&str> = placed.losses.iter().map(|loss| loss.subject.as_str()).collect();
    assert_eq!(lost, ["raw.bin", "quantised.bin"]);
}

#[test]
fn a_name_that_cannot_be_an_id_is_refused() {
    let mut checkpoint = foreign().0;
    checkpoint.tensors[0].name = "a\nb".into();
    checkpoint.tensors[0].axes = None;
    assert!(refused(place(&checkpoint, "weights.bin", &[])).to_string().contains("printable ASCII"));
}

/// In a directory, `momentum/a` would be read as the momentum of `a`.
#[test]
fn a_weight_with_the_name_of_a_slot_is_refused_in_a_directory() {
    let weights = |names: &[&str]| {
        let weight = |name: &&str| Tensor::new(*name, DType::F32, Shape::new([2]).unwrap());
        Checkpoint { tensors: names.iter().map(weight).collect(), ..Checkpoint::default() }
    };
    for kept in ["momentum/a", "velocity/a"] {
        let both = weights(&["a", kept]);
        let error = place(&both, "net", &[]).unwrap_err();
        assert_eq!(error.kind(), Kind::Mapping, "{error}");
        assert!(error.to_string().contains(kept), "{error}");
        // A single file has no slots, and without a weight `a` there is no ambiguity.
        place(&both, "weights.bin", &[]).unwrap();
        place(&weights(&["b", kept]), "net", &[]).unwrap();
    }
}

/// A weight `w` of two elements, and a moment of it or of another weight with as many as given.
fn with_moment(variable: &str, elements: u64) -> Checkpoint {
    let tensor = |name: &str, len: u64| Tensor::new(name, DType::F32, Shape::new([len]).unwrap());
    let slot = Slot { variable: variable.into(), name: "m".to_owned() };
    let moment = tensor("moment", elements).with_role(Role::Optimizer).with_slot(Some(slot));
    Checkpoint { tensors: vec![tensor("w", 2), moment], ..Checkpoint::default() }
}

#[test]
fn a_moment_of_another_length_than_its_weight_is_refused_with_both() {
    place(&with_moment("w", 2), "net", &[]).unwrap();
    for name in ["net", "momentum.bin"] {
        let error = refused(place(&with_moment("w", 3), name, &[]));
        assert_eq!((error.kind(), error.context().tensor), (Kind::Unsupported, Some("moment")), "{error}");
        assert!(error.to_string().contains("3") && error.to_string().contains("2, as 'w' has"), "{error}");
    }
}

#[test]
fn a_moment_without_its_weight_is_not_written_into_a_directory() {
    let checkpoint = with_moment("other", 3);
    let placed = place(&checkpoint, "net", &[]).unwrap();
    let unplaced: Vec<_> = placed.unplaced(&checkpoint).map(|(_, tensor)| tensor.name.as_str()).collect();
    assert_eq!(unplaced, ["moment"]);
}

#[test]
fn steps_of_other_weights_are_not_written() {
    let mut files = directory();
    files.insert("optimiser_state/step.txt".into(), b"l0b,7\nl0w,7\nl1w,7\nl1b,8\n".to_vec());
    let (mut contents, _) = read("", &files, &[]).unwrap();
    contents.checkpoint.tensors.retain(|tensor| !tensor.name.ends_with("l1b"));
    let placed = place(&contents.checkpoint, "out", &[]).unwrap();
    assert!(kinds(&placed).contains(&LossKind::CounterDropped));
    assert!(placed.files.iter().all(|file| !file.name.ends_with("step.txt")));
}

#[test]
fn steps_and_the_log_are_losses_if_no_file_has_a_place_for_them() {
    let mut files = directory();
    files.insert("optimiser_state/step.txt".into(), b"l0b,7\nl0w,7\nl1w,7\nl1b,8\n".to_vec());
    files.insert("log.txt".into(), b"1,32,0.5\n".to_vec());
    let (contents, _) = read("", &files, &ARCH).unwrap();
    let placed = place(&contents.checkpoint, "raw.bin", &[]).unwrap();
    let told = placed.losses.iter().filter(|loss| loss.subject.ends_with(".txt"));
    let told: Vec<_> = told.map(|loss| (loss.kind, loss.subject.as_str())).collect();
    assert_eq!(told, [(LossKind::CounterDropped, "step.txt"), (LossKind::MetadataDropped, "log.txt")]);
    let placed = place(&contents.checkpoint, "out", &[]).unwrap();
    assert!(placed.losses.is_empty(), "{:?}", placed.losses);
}

#[test]
fn a_renamed_tensor_keeps_its_id() {
    let (mut contents, values) = read("weights.bin", &one("weights.bin", records(&net())), &ARCH).unwrap();
    contents.checkpoint.rename(&[("l0w".to_owned(), "features".to_owned())].into()).unwrap();
    assert_eq!(write(&contents.checkpoint, &values, "raw.bin", &[]).unwrap()["raw.bin"], headerless(&net()));
}

/// bullet would load such files silently and keep its initial values.
#[test]
fn empty_tensors_and_empty_checkpoints_are_refused() {
    let empty = Tensor::new("w", DType::F32, Shape::new([0, 3]).unwrap());
    let checkpoint = |tensors| Checkpoint { tensors, ..Checkpoint::default() };
    let refused = |tensors| place(&checkpoint(tensors), "net", &[]).unwrap_err();
    let error = refused(vec![empty]);
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(
        error.to_string().contains("tensor w") && error.to_string().contains("Conversion::exclude"),
        "{error}"
    );
    assert_eq!(refused(Vec::new()).kind(), Kind::Unsupported);
}

/// Time that grows with the square of this number would be minutes.
#[test]
fn time_grows_linearly_with_the_number_of_weights() {
    let count = if cfg!(miri) { 100 } else { 20_000u32 };
    let record = |k: u32| [format!("w{k}\n").as_bytes(), &1u64.to_le_bytes(), &k.to_le_bytes()].concat();
    let bytes: Vec<u8> = (0..count).flat_map(record).collect();
    let names = ["weights.bin", "momentum.bin", "velocity.bin"];
    let files: Files = names.map(|name| (format!("optimiser_state/{name}"), bytes.clone())).into();
    let input = Input::memory("", files);
    let contents = Bullet.read(&input, &Options::default(), &Limits::default()).unwrap();
    let placed = place(&contents.checkpoint, "out", &[]).unwrap();
    assert_eq!(placed.placements.len(), 3 * count as usize);
    assert_eq!(placed.losses, []);
}
