//! Architecture files and presets.

use crate::build::{self, Files, PRESET, one, read, read_with, refused};
use ckpt_api::{ArchitectureFile, Axis, Kind};
use serde_json::{Value, json};

fn net() -> Value {
    json!({
        "format": "bullet", "input": { "features": 3 },
        "layers": [{ "size": 2, "activation": "screlu" }, { "size": 1 }],
        "output_buckets": { "count": 2 },
        "saved": [{ "id": "l0w" }, { "id": "l0b" }, { "id": "l1w" }, { "id": "l1b" }],
    })
}

fn check(net: &Value) -> ckpt_api::Result<()> {
    ckpt_bullet::check_architecture(&ArchitectureFile::from_json(&net.to_string()).unwrap())
}

fn weights() -> Files {
    one("weights.bin", build::records(&build::net()))
}

#[test]
fn an_inconsistent_architecture_is_refused_with_the_field() {
    type Damage = fn(&mut Value);
    let damages: &[(&str, &str, Damage)] = &[
        ("no layers", "", |net| net["layers"] = json!([])),
        ("size is out of range", "layers[1].size", |net| net["layers"][1]["size"] = json!(0)),
        ("size is out of range", "input.features", |net| net["input"]["features"] = json!(1u64 << 32)),
        ("size is out of range", "output_buckets.count", |net| net["output_buckets"]["count"] = json!(0)),
        ("number of perspectives is invalid", "input.perspectives", |net| {
            net["input"]["perspectives"] = json!(3)
        }),
        ("an even size", "layers[0]", |net| net["layers"][0] = json!({ "size": 3, "pairwise": true })),
        ("must not be pairwise", "layers[0]", |net| net["layers"][0]["dual"] = json!(true)),
        ("no output buckets", "layers[1]", |net| {
            net["output_buckets"] = Value::Null;
            net["layers"][1]["bucketed"] = json!(true);
        }),
        ("for every square", "input.buckets.layout", |net| {
            net["input"]["buckets"] = json!({ "count": 2, "layout": [0, 1] });
        }),
        ("does not exist", "input.buckets.layout", |net| {
            net["input"]["buckets"] = json!({ "count": 2, "layout": vec![2; 64] });
        }),
        ("no layer has a tensor", "saved[0]", |net| net["saved"][0]["id"] = json!("l0x")),
        ("'id' for a weight, or 'bytes'", "saved[1]", |net| net["saved"][1] = json!({ "type": "f32" })),
        ("not both", "saved[1]", |net| net["saved"][1]["bytes"] = json!("00")),
        ("no other key", "saved[1]", |net| net["saved"][1] = json!({ "bytes": "00", "round": true })),
        ("hexadecimal", "saved[1].bytes", |net| net["saved"][1] = json!({ "bytes": "0" })),
        ("name of an entry of another tensor", "l1w#1", |net| {
            net["tensors"] = json!([{ "id": "l1w#1", "rows": 2 }])
        }),
        ("has a scale", "saved[0]", |net| net["saved"][0]["scale"] = json!(255)),
        ("has no scale", "saved[0]", |net| net["saved"][0]["type"] = json!("i16")),
        ("merged tensor does not fit", "saved[0]", |net| net["saved"][0]["merge"] = json!("l1w")),
        ("merged tensor does not fit", "saved[0]", |net| net["saved"][0]["merge"] = json!("l0w")),
        ("includes the factoriser's columns", "saved[0]", |net| {
            net["input"]["factoriser"] = json!("columns");
            net["saved"][0]["transpose"] = json!(true);
        }),
        ("not valid", "input.factoriser", |net| net["input"]["factoriser"] = json!("rows")),
        ("round_terms does not apply", "saved[0]", |net| net["saved"][0]["round_terms"] = json!(true)),
        ("round_terms does not apply", "saved[0]", |net| {
            net["input"]["factoriser"] = json!(true);
            net["saved"][0] =
                json!({ "id": "l0w", "type": "i32", "scale": 9, "merge": "l0f", "round_terms": true });
        }),
        ("two tensors have the same id", "tensors", |net| {
            net["tensors"] = json!([{ "id": "l0w", "rows": 2 }])
        }),
        ("id is invalid", "tensors", |net| net["tensors"] = json!([{ "id": "a\nb", "rows": 2 }])),
        ("two tensors have the same id", "'a'", |net| {
            net["tensors"] = json!([{ "id": "a", "rows": 2 }, { "id": "a", "rows": 3 }]);
        }),
        ("too large", "", |net| {
            net["input"] = json!({ "features": u32::MAX, "buckets": { "count": u32::MAX } });
        }),
        ("not valid", "layer", |net| net["layer"] = json!([])),
        ("not valid", "saved[0].scale", |net| net["saved"][0]["scale"] = json!(0)),
        ("not valid", "input.features", |net| net["input"]["features"] = json!(-1)),
    ];
    check(&net()).unwrap();
    for (message, place, damage) in damages {
        let mut damaged = net();
        damage(&mut damaged);
        let error = refused(check(&damaged));
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(
            error.to_string().contains(message) && error.to_string().contains(place),
            "{message}: {error}"
        );
    }
}

#[test]
fn the_readmes_architecture_is_valid_and_its_engine_has_every_weight() {
    let blocks = include_str!("../../README.md").split("```toml\n").skip(1);
    let text: String = blocks.filter_map(|block| block.split("```").next()).collect();
    let net: Value = toml::from_str(&text).unwrap();
    check(&net).unwrap();
    let ids = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry["id"].to_string()).collect()
    };
    assert_eq!(ids(&net["engine"]["members"]), ids(&net["saved"]));
}

#[test]
fn the_readmes_entries_are_valid_and_have_a_header_and_a_weight_twice() {
    let text = include_str!("../../README.md").split("```text\n").nth(1).unwrap();
    let entries: Value = toml::from_str(text.split("```").next().unwrap()).unwrap();
    let mut net = net();
    net["input"]["features"] = json!(768);
    net["saved"] = entries["saved"].clone();
    check(&net).unwrap();
    assert!(net["saved"][0]["id"].is_null());
}

#[test]
fn the_largest_sizes_do_not_overflow() {
    let mut large = net();
    large["layers"] = json!(vec![json!({ "size": u32::MAX, "dual": true, "activation": "crelu" }); 9]);
    assert!(refused(check(&large)).to_string().contains("too large"));
    large["layers"] = json!([{ "size": 1 }]);
    large["tensors"] = json!(
        (0..200)
            .map(|k| json!({ "id": format!("t{k}"), "rows": 1 << 29, "columns": 1 << 29 }))
            .collect::<Vec<_>>()
    );
    large["saved"] = json!((0..200).map(|k| json!({ "id": format!("t{k}") })).collect::<Vec<_>>());
    check(&large).unwrap();
    let error = refused(read_with("raw.bin", &one("raw.bin", vec![0; 64]), &large.to_string()));
    assert_eq!(error.kind(), Kind::Usage, "{error}");
}

#[test]
fn axes_are_named_bucket_out_in_and_stored_by_columns() {
    let contents = read_with("weights.bin", &weights(), &net().to_string()).unwrap();
    let found = |name: &str| {
        let (id, tensor) = contents.checkpoint.tensor(name).unwrap();
        (
            tensor.shape.to_vec(),
            tensor.axes.clone().unwrap().into_vec(),
            contents.placements[id.0].encoding.order.to_vec(),
        )
    };
    assert_eq!(found("l0w"), (vec![2, 3], vec![Axis::Out, Axis::Feature], vec![1, 0]));
    assert_eq!(found("l0b"), (vec![2], vec![Axis::Out], vec![0]));
    assert_eq!(found("l1w"), (vec![2, 1, 4], vec![Axis::Bucket, Axis::Out, Axis::In], vec![2, 0, 1]));
    assert_eq!(found("l1b"), (vec![2, 1], vec![Axis::Bucket, Axis::Out], vec![0, 1]));
}

#[test]
fn layers_take_the_outputs_of_the_layer_before() {
    let mut net = net();
    net["input"] = json!({ "features": 3, "buckets": { "count": 5 }, "factoriser": true });
    net["layers"] = json!([
        { "size": 4, "pairwise": true, "bucketed": true },
        { "size": 6, "activation": "crelu", "dual": true },
        { "size": 7, "bucketed": false },
        { "size": 1 },
    ]);
    net["psqt"] = json!(true);
    net["saved"] = json!([]);
    let ids: [(&str, &[u64]); 10] = [
        ("pst", &[5, 1, 3]),
        ("l0w", &[5, 4, 3]),
        ("l0f", &[4, 3]),
        ("l0b", &[2, 4]),
        ("l1w", &[2, 6, 4]),
        ("l1b", &[2, 6]),
        ("l2w", &[7, 12]),
        ("l2b", &[7]),
        ("l3w", &[2, 1, 7]),
        ("l3b", &[2, 1]),
    ];
    let all: Vec<_> =
        ids.iter().map(|(id, dims)| (*id, 1, vec![0.0; dims.iter().product::<u64>() as usize])).collect();
    let contents =
        read_with("weights.bin", &one("weights.bin", build::records(&all)), &net.to_string()).unwrap();
    for ((id, dims), tensor) in ids.iter().zip(&contents.checkpoint.tensors) {
        assert_eq!((tensor.name.as_str(), &tensor.shape.to_vec()[..]), (*id, *dims));
    }
    let graph = contents.checkpoint.graph.unwrap();
    graph.check().unwrap();
    let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.name()).collect();
    let side = ["ckpt.FeatureTransformer", "Split", "Mul"];
    let rest = [
        "Concat",
        "ckpt.BucketedGemm",
        "Mul",
        "Concat",
        "Clip",
        "Gemm",
        "ckpt.BucketedGemm",
        "ckpt.FeatureTransformer",
        "Add",
    ];
    assert_eq!(ops, [&side[..], &side, &rest].concat());
}

#[test]
fn a_factoriser_in_the_first_columns_is_a_tensor_without_a_record() {
    let arch = ("arch", "builder:2x1x1,inputs=2,factoriser=true,qa=4,qb=4");
    let net = [
        ("l0w", 1, vec![10.0, 20.0, 0.25, 0.5, 0.75, 1.0]),
        ("l0b", 1, vec![0.0]),
        ("l1w", 1, vec![0.0; 2]),
        ("l1b", 1, vec![0.0]),
    ];
    let mut files = build::within("optimiser_state/", one("weights.bin", build::records(&net)));
    files.insert("optimiser_state/step.txt".into(), b"l1b,1\nl0w,1\nl0b,1\nl1w,1\n".to_vec());
    let (contents, values) = read("", &files, &[arch]).unwrap();
    let numbers = |id| build::numbers(&contents, &values, id);
    assert_eq!((numbers("l0f"), numbers("l0w")), (vec![10.0, 20.0], vec![0.25, 0.5, 0.75, 1.0]));
    let graph = contents.checkpoint.graph.as_ref().unwrap();
    assert!(graph.nodes[0].parameters.iter().any(|parameter| parameter.1 == "l0f"), "{:?}", graph.nodes[0]);
    let parts = [("parts", "raw,quantised,state")];
    let written = build::write(&contents.checkpoint, &values, "", &parts).unwrap();
    assert_eq!(written["optimiser_state/weights.bin"], files["optimiser_state/weights.bin"]);
    assert_eq!(written["optimiser_state/step.txt"], files["optimiser_state/step.txt"]);
    assert_eq!(written["raw.bin"], build::headerless(&net));
    let first: Vec<u8> = [41i16, 82, 43, 84].into_iter().flat_map(i16::to_le_bytes).collect();
    assert_eq!(written["quantised.bin"][..8], first);
    // A record and an entry cover the whole matrix.
    let own = one("weights.bin", build::records(&[("l0f", 1, vec![0.0; 2])]));
    let error = refused(read("weights.bin", &own, &[arch])).to_string();
    assert!(error.contains("l0f"), "{error}");
    let zeros = |id, count| (id, 1, vec![0.0; count]);
    let net = [zeros("l0w", 768 * 3), zeros("l0b", 1), zeros("l1w", 2), zeros("l1b", 1)];
    let contents = read("w", &one("w", build::records(&net)), &[]).unwrap().0;
    let proposed = contents.notes.iter().map(|note| note.as_str()).collect::<Vec<_>>().join("\n");
    assert!(proposed.contains("arch=builder:768x1x1,inputs=2,factoriser=true"), "{proposed}");
}

#[test]
fn a_preset_equals_the_architecture_that_it_stands_for() {
    let (by_preset, _) = read("weights.bin", &weights(), &[("arch", PRESET)]).unwrap();
    let kept = by_preset.checkpoint.metadata.value("bullet", "architecture").unwrap();
    let by_file = read_with("weights.bin", &weights(), &kept.to_string()).unwrap();
    assert_eq!(by_preset, by_file);
    assert_eq!(
        serde_json::to_value(kept).unwrap()["saved"][2],
        json!({ "id": "l1w", "type": "i16", "scale": 64, "round": true, "transpose": true })
    );
}

#[test]
fn a_preset_with_psqt_saves_it_first_as_floats() {
    for (preset, ids) in [
        ("builder:3x2x1,inputs=2,factoriser=true,psqt=true", &["pstf", "pst", "l0f", "l0w"][..]),
        ("simple:3x2x1,psqt=true", &["pst", "l0w"]),
    ] {
        let count = |id: &str| if id == "pst" { 3 } else { 6 };
        let merged = if ids.len() == 4 { 3 } else { 1 };
        let net = [
            ("l0w", 2, vec![0.0; count("l0w") * merged]),
            ("l0b", 2, vec![0.0; 2]),
            ("l1w", 1, vec![0.0; 4]),
            ("l1b", 1, vec![0.0]),
            ("pst", 1, vec![0.25; count("pst") * merged]),
        ];
        let files = build::within("optimiser_state/", one("weights.bin", build::records(&net)));
        let (contents, values) = read("", &files, &[("arch", preset)]).unwrap();
        assert!(ids.iter().all(|id| contents.checkpoint.tensor(id).is_some()), "{preset}");
        let written = build::write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap();
        let first = f32::from_le_bytes(written["quantised.bin"][..4].try_into().unwrap());
        assert_eq!(first, if merged == 3 { 0.5 } else { 0.25 }, "{preset}");
    }
}

#[test]
fn an_invalid_preset_is_refused_with_what_is_known() {
    for (text, message) in [
        ("simpel:3x2x1", "did you mean 'simple'"),
        ("simple:3x2", "wrong number of sizes"),
        ("multi:3x2x1", "wrong number of sizes"),
        ("simple:3x2x1,bucket=2", "did you mean 'buckets'"),
        ("simple:3x2x1,buckets=two", "'two' is not a number"),
        ("simple:3x2x1,round=1", "true or false"),
        ("simple:3x2x1,qa=0", "positive number"),
        ("simple:3x2x99999999999999999999", "not a number"),
        ("", "multi"),
    ] {
        let error = refused(read("weights.bin", &weights(), &[("arch", text)]));
        assert_eq!(error.kind(), Kind::Usage, "{text}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
    let zero = refused(read("weights.bin", &weights(), &[("arch", "simple:3x0x1")]));
    assert!(zero.to_string().contains("layers[0].size"), "{zero}");
}

#[test]
fn a_wrong_size_is_refused_with_the_entry_and_the_difference() {
    let check = |entry: &str, files: Files, arch: &str, expected: [&str; 2]| {
        let error = refused(read(entry, &files, &[("arch", arch)])).to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    };
    check("weights.bin", weights(), "simple:3x3x1,buckets=2", ["tensor l0w", "3 too few"]);
    check("weights.bin", weights(), "simple:2x2x1,buckets=2", ["tensor l0w", "2 too many"]);
    let raw = || one("raw.bin", build::headerless(&build::net()));
    check("raw.bin", raw(), "simple:3x2x1,buckets=3", ["tensor l1w", "2 too few"]);
    check("raw.bin", raw(), "simple:3x2x1", ["20 bytes", "5 numbers"]);
    let quantized = || one("quantised.bin", build::quantized(b"bullet"));
    check("quantised.bin", quantized(), "simple:3x12x1,buckets=2", ["tensor l0w", "4 too few"]);
    check(
        "quantised.bin",
        quantized(),
        "simple:3x2x1",
        ["padding after the last entry does not follow", "a different net"],
    );
}

#[test]
fn a_net_with_extra_tensors_is_read_without_a_graph() {
    let mut net = net();
    net["tensors"] = json!([{ "id": "extra", "rows": 2, "columns": 3 }]);
    let mut records = build::net();
    records.push(("extra", 2, vec![1.0; 6]));
    let contents =
        read_with("weights.bin", &one("weights.bin", build::records(&records)), &net.to_string()).unwrap();
    assert_eq!(contents.checkpoint.tensor("extra").unwrap().1.axes, None);
    assert!(contents.checkpoint.graph.is_none());
    let missing = contents.missing_graph.unwrap();
    assert!(missing.reason.contains("no layer explains"), "{missing:?}");
}
