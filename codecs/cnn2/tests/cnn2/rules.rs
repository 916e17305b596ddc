//! One test for each point in which the specification is silent or contradicts itself, numbered as in the README.

use crate::build::{EXAMPLE, MIXED, Parts, input, place, read, refused, rewrite, write};
use ckpt_api::{Axis, Codec, Kind, LossKind, Match};
use ckpt_cnn2::Cnn2;

/// Asserts that the error is Corrupt and contains all of `words`.
fn says(error: &ckpt_api::Error, words: &[&str]) {
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}

#[test]
fn rule_1_the_size_follows_the_formula() {
    let parts = Parts::of(&EXAMPLE);
    let counts: Vec<[u32; 2]> = parts.table.iter().map(|entry| [entry[3], entry[4]]).collect();
    assert_eq!(counts, [[0, 1080], [1080, 288], [1368, 108]]);
    assert_eq!((parts.total, parts.bytes().len()), (1476, 16 + 20 * 3 + 2 * 1476));
    let (contents, values) = read(&parts.bytes(), &[]).unwrap();
    let written = write(&contents.checkpoint, &values, &[]).unwrap();
    assert_eq!(written.len(), 3028);
    assert_eq!(written, parts.bytes());
}

#[test]
fn rule_2_an_odd_number_of_weights_comes_back_padded_or_not_as_it_was() {
    let padded = Parts::of(&MIXED);
    assert_eq!(padded.total % 2, 1);
    for (parts, pad, bytes) in [(padded.clone(), "zero", 2), (padded.clone().unpadded(), "none", 0)] {
        assert_eq!(parts.rest.len(), bytes);
        let (contents, _) = read(&parts.bytes(), &[]).unwrap();
        assert_eq!(contents.checkpoint.metadata.text("cnn2", "pad"), Some(pad));
        assert_eq!(rewrite(&parts.bytes(), &[], &[]).unwrap(), parts.bytes());
        assert_eq!(
            rewrite(&parts.bytes(), &[], &[("pad", "none")]).unwrap(),
            padded.clone().unpadded().bytes()
        );
        assert_eq!(rewrite(&parts.bytes(), &[], &[("pad", "zero")]).unwrap(), padded.bytes());
    }
    let (mut contents, values) = read(&padded.clone().unpadded().bytes(), &[]).unwrap();
    contents.checkpoint.metadata.remove("cnn2");
    assert_eq!(write(&contents.checkpoint, &values, &[]).unwrap(), padded.bytes(), "padded by default");
}

#[test]
fn rule_2_padding_must_be_zero() {
    let mut parts = Parts::of(&MIXED);
    parts.rest = vec![0, 1];
    let (error, repairs) = refused(&parts);
    says(&error, &["padding", "[00, 01]"]);
    assert_eq!(repairs.unwrap().len(), 1);
}

#[test]
fn rule_2_an_even_number_of_weights_has_no_padding() {
    let mut parts = Parts::of(&EXAMPLE);
    parts.rest = vec![0, 0];
    let (error, _) = refused(&parts);
    says(&error, &["after the weights", "2 more bytes"]);
    let (contents, _) = read(&Parts::of(&EXAMPLE).bytes(), &[]).unwrap();
    assert_eq!(contents.checkpoint.metadata.value("cnn2", "pad"), None);
}

#[test]
fn rule_3_weights_are_where_the_offset_says() {
    let parts = Parts::of(&EXAMPLE);
    let (_, values) = read(&parts.bytes(), &[]).unwrap();
    for (entry, values) in parts.table.iter().zip(&values) {
        let (start, len) = (entry[3] as usize, entry[4] as usize);
        let expected: Vec<u8> =
            parts.weights[start..start + len].iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(*values, expected);
    }
    assert_eq!(values.len(), 3);
}

#[test]
fn rule_4_weight_count_is_out_in_k_k() {
    for (count, layer) in [(1079, 0), (0, 1), (u32::MAX, 2)] {
        let mut parts = Parts::of(&EXAMPLE);
        parts.table[layer][4] = count;
        let (error, repairs) = refused(&parts);
        says(
            &error,
            &["does not fit the layer", &format!("layers[{layer}].weight_count"), &count.to_string()],
        );
        assert_eq!(repairs, None);
    }
}

#[test]
fn rule_4_a_product_beyond_64_bits_is_refused() {
    let mut parts = Parts::of(&EXAMPLE);
    parts.table[0] = [u32::MAX, 15, 8, 0, 1080];
    says(&refused(&parts).0, &["does not fit the layer", "4294967295"]);
}

/// The example with 2 unused weights before the layer at `index`.
fn with_gap(index: usize) -> Parts {
    let mut parts = Parts::of(&EXAMPLE);
    let at = parts.table.get(index).map_or(1476, |entry| entry[3]) as usize;
    parts.weights.splice(at..at, [0x7777, 0x7777]);
    parts.total += 2;
    parts.table.iter_mut().skip(index).for_each(|entry| entry[3] += 2);
    parts
}

#[test]
fn rule_5_gaps_between_weights_are_refused_and_reported_when_lenient() {
    let whole = read(&Parts::of(&EXAMPLE).bytes(), &[]).unwrap().1;
    for index in 0..4 {
        let parts = with_gap(index);
        let (error, repairs) = refused(&parts);
        let field =
            if index < 3 { format!("layers[{index}].weight_offset") } else { "total_weights".to_owned() };
        says(&error, &[&field, "lenient=true"]);
        assert_eq!(repairs.unwrap().len(), 1);
        let (contents, values) = read(&parts.bytes(), &[("lenient", "true")]).unwrap();
        assert_eq!(values, whole, "a gap before {index}");
        assert!(contents.checkpoint.graph.is_some());
    }
}

#[test]
fn rule_5_overlaps_are_always_refused() {
    let mut parts = Parts::of(&EXAMPLE);
    parts.table[1][3] -= 1;
    let (error, repairs) = refused(&parts);
    says(&error, &["share weights", "layer2.weight", "layer1.weight", "1079"]);
    assert_eq!(repairs, None);
}

#[test]
fn rule_5_weights_beyond_the_total_are_always_refused() {
    for offset in [1369, u32::MAX] {
        let mut parts = Parts::of(&EXAMPLE);
        parts.table[2][3] = offset;
        let (error, repairs) = refused(&parts);
        says(&error, &["beyond", "layers[2].weight_offset", "1476"]);
        assert_eq!(repairs, None);
    }
}

#[test]
fn rule_6_a_table_longer_than_the_file_is_refused_before_anything_is_allocated() {
    for layers in [152, u32::MAX] {
        let mut parts = Parts::of(&EXAMPLE);
        parts.layers = layers;
        says(&refused(&parts).0, &["layer table is cut short", "num_layers"]);
    }
    let mut parts = Parts::of(&EXAMPLE);
    parts.layers = 0;
    says(&refused(&parts).0, &["no layers"]);
    parts = Parts::of(&EXAMPLE);
    parts.weights.clear();
    says(&refused(&parts).0, &["ends before the weights do", "a file of 76 bytes", "3028 bytes"]);
}

#[test]
fn rule_7_kernels_are_odd_and_1x1_is_one() {
    let (contents, _) = read(&Parts::of(&[[1, 8, 3]]).bytes(), &[]).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].shape.to_vec(), [3, 8, 1, 1]);
    let mut parts = Parts::of(&[[2, 8, 4], [3, 4, 3]]);
    let (error, repairs) = refused(&parts);
    says(&error, &["no center", "layers[0].kernel_size", "found 2"]);
    assert_eq!(repairs.unwrap().len(), 1);
    let (contents, _) = read(&parts.bytes(), &[("lenient", "true")]).unwrap();
    assert_eq!((contents.checkpoint.graph, contents.checkpoint.tensors.len()), (None, 2));
    parts.table[0][0] = 0;
    let (error, repairs) = refused(&parts);
    says(&error, &["kernel is empty", "layers[0].kernel_size"]);
    assert_eq!(repairs, None);
}

#[test]
fn rule_8_the_wiring_follows_from_the_numbers_of_channels() {
    let concats = |layers: &[[u32; 3]]| -> Vec<Vec<String>> {
        let (contents, _) = read(&Parts::of(layers).bytes(), &[]).unwrap();
        let graph = contents.checkpoint.graph.unwrap();
        let nodes = graph.nodes.into_iter().filter(|node| node.op.name() == "Concat");
        nodes.map(|node| node.inputs).collect()
    };
    assert_eq!(concats(&[[3, 8, 4], [3, 4, 3]]), Vec::<Vec<String>>::new());
    assert_eq!(concats(&[[3, 9, 4], [3, 4, 3]]), [["static_features", "features"]]);
    assert_eq!(concats(&[[1, 8, 4], [3, 12, 3]]), [["layer1/activation", "static_features"]]);
}

#[test]
fn rule_8_channels_that_imply_no_wiring_are_refused_and_give_tensors_alone_when_lenient() {
    for (layers, index) in
        [([[3, 7, 4], [3, 4, 3]], 0), ([[3, 16, 4], [3, 4, 3]], 0), ([[3, 8, 4], [3, 5, 3]], 1)]
    {
        let parts = Parts::of(&layers);
        let (error, repairs) = refused(&parts);
        says(&error, &[&format!("layers[{index}].in_channels"), "lenient=true"]);
        assert_eq!(repairs.unwrap().len(), 1);
        let (contents, _) = read(&parts.bytes(), &[("lenient", "true")]).unwrap();
        assert_eq!((contents.checkpoint.graph, contents.checkpoint.tensors.len()), (None, 2));
    }
    let mut none = Parts::of(&[[3, 8, 4]]);
    none.table[0][1] = 0;
    says(&refused(&none).0, &["no input channels"]);
}

#[test]
fn rule_9_a_layer_makes_1_to_8_channels() {
    for outputs in [0, 9, 4096] {
        let (error, repairs) = refused(&Parts::of(&[[1, 8, outputs], [1, 8, 1]]));
        says(&error, &["layers[0].out_channels", "1 to 8"]);
        assert_eq!(repairs, None);
    }
    read(&Parts::of(&[[1, 8, 8]]).bytes(), &[]).unwrap();
}

#[test]
fn rule_10_versions_are_1_and_2_and_mip_levels_0_to_3() {
    for version in [0, 3, 0x0100_0000] {
        let mut parts = Parts::of(&EXAMPLE);
        parts.version = version;
        let (error, repairs) = refused(&parts);
        assert_eq!((error.kind(), repairs), (Kind::Unsupported, None), "{error}");
        assert!(error.to_string().contains("version"), "{error}");
    }
    says(&refused(&Parts::of(&EXAMPLE).version_2(4)).0, &["mip level", "found 4", "0 to 3"]);
    for mip in 0..4 {
        let bytes = Parts::of(&EXAMPLE).version_2(mip).bytes();
        let (contents, _) = read(&bytes, &[]).unwrap();
        let level = contents.checkpoint.metadata.value("cnn2", "mip").and_then(|mip| mip.as_u64());
        assert_eq!(level, Some(u64::from(mip)));
        assert_eq!(rewrite(&bytes, &[], &[]).unwrap(), bytes);
    }
}

#[test]
fn rule_10_a_mip_level_above_0_is_a_loss_in_version_1() {
    let (contents, values) = read(&Parts::of(&EXAMPLE).version_2(2).bytes(), &[]).unwrap();
    let placed = place(&contents.checkpoint, &[("version", "1")]).unwrap();
    let losses: Vec<(LossKind, &str)> =
        placed.losses.iter().map(|loss| (loss.kind, &*loss.subject)).collect();
    assert_eq!(losses, [(LossKind::MetadataDropped, "cnn2.mip")]);
    let bytes = write(&contents.checkpoint, &values, &[("version", "1")]).unwrap();
    assert_eq!(bytes, Parts::of(&EXAMPLE).bytes());
    let none = place(&contents.checkpoint, &[("version", "1"), ("mip", "0")]).unwrap();
    assert_eq!(none.losses, []);
}

#[test]
fn rule_10_a_mip_level_above_0_is_written_as_version_2() {
    let bytes = Parts::of(&EXAMPLE).bytes();
    assert_eq!(rewrite(&bytes, &[], &[("mip", "1")]).unwrap(), Parts::of(&EXAMPLE).version_2(1).bytes());
    assert_eq!(rewrite(&bytes, &[], &[("version", "2")]).unwrap(), Parts::of(&EXAMPLE).version_2(0).bytes());
}

#[test]
fn rule_11_a_swapped_magic_number_has_its_own_error() {
    let mut parts = Parts::of(&EXAMPLE);
    parts.magic = *b"2NNC";
    let (error, _) = refused(&parts);
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("big-endian"), "{error}");
    assert!(matches!(Cnn2.probe(&input(&parts.bytes())).unwrap(), Match::Possible(_)));
}

#[test]
fn rule_12_the_content_decides_not_the_name() {
    let verdict = |bytes: &[u8]| Cnn2.probe(&input(bytes)).unwrap();
    assert!(matches!(verdict(&Parts::of(&EXAMPLE).bytes()), Match::Certain(_)));
    assert_eq!(verdict(&[0; 4096]), Match::No);
    let mut noise = Parts::of(&EXAMPLE);
    noise.layers = 152;
    assert!(matches!(verdict(&noise.bytes()), Match::Possible(_)), "more layers than the file has room for");
    noise.version = 0x3f80_0000;
    assert!(matches!(verdict(&noise.bytes()), Match::Possible(_)), "a version that does not exist");
    assert!(matches!(verdict(b"CNN2\x01\0\0\0"), Match::Possible(_)), "no whole header");
    let bytes = Parts::of(&EXAMPLE).bytes();
    let why = |verdict| if let Match::Possible(why) = verdict { why } else { panic!("{verdict:?}") };
    assert!(why(verdict(&bytes[..15])).contains("the header is cut short"));
    assert!(why(verdict(&bytes[..16])).contains("too short for 3 layers"));
    assert!(why(verdict(&bytes[..75])).contains("too short for 3 layers"));
    assert!(matches!(verdict(&bytes[..76]), Match::Certain(_)), "the header and the table, without weights");
    assert_eq!(verdict(b"CNN"), Match::No);
}

#[test]
fn rule_13_trailing_bytes_are_refused_and_reported_when_lenient() {
    for (layers, len) in [(EXAMPLE, 1), (EXAMPLE, 4), (MIXED, 3), (MIXED, 6)] {
        let mut parts = Parts::of(&layers);
        parts.rest = vec![0; len];
        let more = len - parts.total as usize % 2 * 2;
        let (error, repairs) = refused(&parts);
        says(&error, &["after the weights", &ckpt_api::count(more, "more byte")]);
        assert_eq!(repairs.unwrap().len(), 1);
    }
}

#[test]
fn rule_13_a_file_that_is_cut_short_is_always_refused() {
    let bytes = Parts::of(&MIXED).unpadded().bytes();
    for cut in 1..=bytes.len() {
        for lenient in ["false", "true"] {
            let error = read(&bytes[..bytes.len() - cut], &[("lenient", lenient)]).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        }
    }
    let mut odd = Parts::of(&MIXED);
    odd.rest = vec![0];
    says(&refused(&odd).0, &["1 more byte"]);
}

#[test]
fn rule_14_every_bit_of_every_half_survives() {
    let mut parts = Parts::of(&EXAMPLE);
    let special = [0x7e00, 0x7c01, 0xfe2a, 0x7c00, 0xfc00, 0x8000, 0x0001, 0x83ff, 0x7bff];
    parts.weights[..special.len()].copy_from_slice(&special);
    assert_eq!(rewrite(&parts.bytes(), &[], &[]).unwrap(), parts.bytes());
}

#[test]
fn rule_15_names_and_axes_are_those_of_the_format() {
    let (contents, _) = read(&Parts::of(&EXAMPLE).bytes(), &[]).unwrap();
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["layer1.weight", "layer2.weight", "layer3.weight"]);
    for (tensor, [kernel, inputs, outputs]) in contents.checkpoint.tensors.iter().zip(EXAMPLE) {
        assert_eq!(tensor.shape.to_vec(), [outputs, inputs, kernel, kernel].map(u64::from));
        let axes = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];
        assert_eq!(tensor.axes.as_deref(), Some(&axes[..]));
    }
}

#[test]
fn rule_16_activations_and_border_are_unstated_unless_options_state_them() {
    let bytes = Parts::of(&MIXED).bytes();
    let ops = |options: &[(&str, &str)]| -> Vec<String> {
        let (contents, _) = read(&bytes, options).unwrap();
        let nodes = contents.checkpoint.graph.unwrap().nodes;
        nodes
            .iter()
            .map(|node| match node.attributes.get("mode") {
                Some(ckpt_api::Attribute::Text(mode)) => format!("{} {mode}", node.op),
                _ => node.op.name().to_owned(),
            })
            .collect()
    };
    let open = "ckpt.Unspecified";
    let unstated = "Pad unspecified";
    assert_eq!(ops(&[]), ["Conv", open, "Concat", unstated, "Conv", open, unstated, "Conv", open]);
    let given = [("activation", "sigmoid,relu,none"), ("border", "clamp")];
    assert_eq!(ops(&given), ["Conv", "Sigmoid", "Concat", "Pad edge", "Conv", "Relu", "Pad edge", "Conv"]);
    let same = [("activation", "tanh"), ("border", "zero")];
    assert_eq!(ops(&same), ["Conv", "Tanh", "Concat", "Conv", "Tanh", "Conv", "Tanh"]);
    let clamp = [("activation", "clamp"), ("border", "zero")];
    assert_eq!(ops(&clamp)[1], "Clip");
    let (contents, _) = read(&bytes, &[("border", "zero")]).unwrap();
    let nodes = contents.checkpoint.graph.unwrap().nodes;
    let pads: Vec<Option<&ckpt_api::Attribute>> = nodes
        .iter()
        .filter(|node| node.op.name() == "Conv")
        .map(|node| node.attributes.get("pads"))
        .collect();
    let ints = |pad| ckpt_api::Attribute::Ints(vec![pad; 4]);
    assert_eq!(pads, [None, Some(&ints(1)), Some(&ints(2))]);
}

#[test]
fn rule_16_activations_are_known_and_one_for_all_or_one_for_each() {
    let bytes = Parts::of(&MIXED).bytes();
    for (given, word) in [("relu,relu", "3, one for each"), ("softmax", "known: clamp"), ("", "1 for all")] {
        let error = read(&bytes, &[("activation", given)]).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn rule_17_static_features_are_an_input_of_the_graph() {
    let (contents, _) = read(&Parts::of(&EXAMPLE).bytes(), &[]).unwrap();
    let graph = contents.checkpoint.graph.unwrap();
    let inputs: Vec<(&str, Option<u64>)> =
        graph.inputs.iter().map(|input| (input.name.as_str(), input.shape[1])).collect();
    assert_eq!(inputs, [("static_features", Some(8)), ("features", Some(7))]);
    assert_eq!(graph.outputs[0].shape, [None, Some(3), None, None]);
}
