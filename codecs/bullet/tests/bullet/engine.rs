//! Engine files: compared with naive loops, and converted back.

use crate::build::{Files, PRESET, directory, numbers, one, place, read, read_with, refused, write};
use crate::cases;
use ckpt_api::{Contents, Kind};
use std::cell::Cell;

type Values = Vec<Vec<u8>>;

fn shape(contents: &Contents, name: &str) -> Vec<usize> {
    contents.checkpoint.tensor(name).unwrap().1.shape.iter().map(|len| *len as usize).collect()
}

/// The number in units of `scale`, clipped first.
fn units(number: f32, scale: f64, clip: f64) -> i64 {
    (f64::from(number).clamp(-clip, clip) * scale).round() as i64
}

fn i16s(units: impl IntoIterator<Item = i64>) -> Vec<u8> {
    units.into_iter().flat_map(|unit| i16::try_from(unit).unwrap().to_le_bytes()).collect()
}

/// Concatenates members, each padded with zeros to a multiple of 64 bytes.
fn aligned(members: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for member in members {
        file.extend(member);
        file.resize(file.len().next_multiple_of(64), 0);
    }
    file
}

fn plain(contents: &Contents, values: &Values) -> Vec<u8> {
    let of = |name: &str| numbers(contents, values, name);
    let all = f64::INFINITY;
    let (l0w, dims) = (of("l0w"), shape(contents, "l0w"));
    let [outs, features] = dims[..] else { panic!("{dims:?}") };
    let mut columns = Vec::new();
    for feature in 0..features {
        columns.extend((0..outs).map(|out| units(l0w[out * features + feature], 255.0, all)));
    }
    // Row-major is bucket, out, in.
    let rest = [("l0b", 255.0), ("l1w", 64.0), ("l1b", 16320.0)];
    let mut members = vec![i16s(columns)];
    members.extend(rest.map(|(name, scale)| i16s(of(name).iter().map(|n| units(*n, scale, all)))));
    aligned(&members)
}

/// The outputs in the order of AVX2 packs: in each group of 32, blocks of 8 in the order 0, 2, 1, 3.
fn blocks(outs: usize) -> Vec<usize> {
    let mut order = Vec::new();
    for group in 0..outs / 32 {
        for block in [0, 2, 1, 3] {
            order.extend((0..8).map(|k| group * 32 + block * 8 + k));
        }
    }
    order
}

fn multi_avx2(contents: &Contents, values: &Values) -> Vec<u8> {
    let of = |name: &str| numbers(contents, values, name);
    let (l0w, l0f, dims) = (of("l0w"), of("l0f"), shape(contents, "l0w"));
    let [buckets, outs, features] = dims[..] else { panic!("{dims:?}") };
    let order = blocks(outs);
    let mut first = Vec::new();
    for bucket in 0..buckets {
        for feature in 0..features {
            for out in &order {
                let own = l0w[(bucket * outs + out) * features + feature];
                first.push(units(own + l0f[out * features + feature], 255.0, 1.98));
            }
        }
    }
    let l0b = of("l0b");
    let bias = order.iter().map(|out| units(l0b[*out], 255.0, f64::INFINITY));
    let (l1w, dims) = (of("l1w"), shape(contents, "l1w"));
    let [buckets, outs, ins] = dims[..] else { panic!("{dims:?}") };
    let mut second: Vec<u8> = Vec::new();
    for bucket in 0..buckets {
        for group in 0..ins / 4 {
            for out in 0..outs {
                for k in 0..4 {
                    let number = l1w[(bucket * outs + out) * ins + group * 4 + k];
                    second.extend(i8::try_from(units(number, 64.0, 1.98)).unwrap().to_le_bytes());
                }
            }
        }
    }
    let floats = |name: &str| of(name).iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let mut members = vec![b"NNUE\x01\0\0\0".to_vec(), i16s(first), i16s(bias), second];
    members.extend(["l1b", "l2w", "l2b", "l3w", "l3b"].map(floats));
    aligned(&members)
}

#[test]
fn an_engine_file_matches_naive_loops_and_converts_back_to_weights_that_make_the_same_file() {
    let seen = Cell::new(0);
    cases::each(|name, preset, files, _| {
        let (profile, naive): (_, fn(&Contents, &Values) -> Vec<u8>) = match name {
            "multi" => ("multi-avx2", multi_avx2),
            _ => ("plain", plain),
        };
        // Its values do not fit their integers, which is refused, as in bullet.
        if name == "simple_failquant" {
            return;
        }
        let (contents, values) = read("", files, &[("arch", preset)]).unwrap();
        let options = [("profile", profile)];
        let engine = write(&contents.checkpoint, &values, "net.nnue", &options).unwrap();
        assert!(engine["net.nnue"] == naive(&contents, &values), "{name}");

        let options = [("arch", preset), ("profile", profile), ("content", "engine")];
        let (back, back_values) = read("net.nnue", &engine, &options).unwrap();
        let again = write(&back.checkpoint, &back_values, "net.nnue", &[]).unwrap();
        assert!(again == engine, "{name}: what was read is written differently");
        let state = write(&back.checkpoint, &back_values, "net", &[("parts", "state")]).unwrap();
        let weights = &state["net/optimiser_state/weights.bin"];
        let weights = Files::from([("weights.bin".to_owned(), weights.clone())]);
        let (trained, trained_values) = read("weights.bin", &weights, &[("arch", preset)]).unwrap();
        let options = [("profile", profile)];
        let made = write(&trained.checkpoint, &trained_values, "net.nnue", &options).unwrap();
        assert!(made == engine, "{name}: the weights to train on make another file");
        seen.set(seen.get() + 1);
    });
    assert!(seen.get() == 5 || std::env::var_os("CKPT_CASES").is_none(), "{} cases", seen.get());
}

/// An architecture for [`directory`] with an engine file.
fn json(engine: &str) -> String {
    let saved = r#"[{ "id": "l0w", "type": "i16", "scale": 255, "round": true }, { "id": "l0b" }]"#;
    format!(
        r#"{{ "format": "bullet", "input": {{ "features": 3 }}, "layers": [{{ "size": 2, "activation": "screlu" }}, {{ "size": 1 }}],
            "output_buckets": {{ "count": 2 }}, "saved": {saved}, "engine": {engine} }}"#
    )
}

#[test]
fn an_engine_file_with_another_header_gap_or_size_is_refused() {
    let engine =
        json(r#"{ "header": "0a0B0c", "align": 16, "members": [{ "id": "l0b" }, { "id": "l1b" }] }"#);
    let mut good = vec![10, 11, 12];
    good.resize(48, 0);
    let refusal = |bytes: Vec<u8>| refused(read_with("net.nnue", &one("net.nnue", bytes), &engine));
    read_with("net.nnue", &one("net.nnue", good.clone()), &engine).unwrap();

    let mut changed = good.clone();
    changed[1] = 99;
    let error = refusal(changed);
    assert_eq!(error.kind(), Kind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("0a0b0c") && text.contains("0a630c"), "{text}");

    for gap in [3, 24, 47] {
        let mut filled = good.clone();
        filled[gap] = 1;
        let text = refusal(filled).to_string();
        assert!(text.contains("not zeros") && text.contains(&gap.to_string()), "{text}");
    }
    // Files of 32 or 64 bytes are recognized as raw.bin or quantised.bin.
    for len in [0, 2, 16, 33, 47, 49, 65] {
        let mut cut = good.clone();
        cut.resize(len, 0);
        assert_eq!(refusal(cut).kind(), Kind::Usage, "{len}");
    }
}

#[test]
fn an_engine_file_of_wrong_size_is_refused_with_the_member_and_its_numbers() {
    let refusal = |len: usize| {
        let options = [("arch", PRESET), ("profile", "plain"), ("content", "engine")];
        refused(read("net.nnue", &one("net.nnue", vec![0; len]), &options)).to_string()
    };
    let text = refusal(130);
    assert!(text.contains("l1w") && text.contains("1 numbers, 7 too few"), "{text}");
    let text = refusal(192);
    assert!(text.contains("l1b") && text.contains("0 numbers, 2 too few"), "{text}");
    for len in [196, 255, 257, 320] {
        let text = refusal(len);
        assert!(text.contains("256 bytes, with members aligned to 64"), "{text}");
    }
}

#[test]
fn an_inconsistent_engine_is_refused_with_the_member() {
    let member = |words: &str| json(&format!(r#"{{ "members": [{{ "id": "l0b" }}, {{ {words} }}] }}"#));
    for (architecture, reason) in [
        (member(r#""id": "l0w", "layout": ["feature/2", "out", "feature%2"]"#), "does not divide"),
        (member(r#""id": "l0w", "layout": ["out"]"#), "every index"),
        (member(r#""id": "l0w", "layout": ["feature", "out"], "transpose": true"#), "transposed"),
        (member(r#""id": "l0w", "clip": 1.98"#), "clip bound is invalid"),
        (member(r#""id": "l0w", "type": "i8", "scale": 64, "clip": -1"#), "clip bound is invalid"),
        (member(r#""id": "l0w", "type": "i8", "scale": 64, "clip": 0.001"#), "clip bound is invalid"),
        (member(r#""id": "l9w""#), "no layer"),
        (member(r#""id": "l0w", "merge": "l0b", "type": "i8""#), "no scale"),
        (json(r#"{ "members": [], "header": "abc" }"#), "hexadecimal"),
        (json(r#"{ "members": [], "header": "zz" }"#), "hexadecimal"),
        (json(r#"{ "members": [], "align": 48 }"#), "power of two"),
        (json(r#"{ "members": [], "align": 0 }"#), "power of two"),
        (json(r#"{ "members": [], "align": 1048576 }"#), "power of two"),
        (
            json("null").replace(r#""id": "l0b" }]"#, r#""id": "l0b", "layout": ["out"] }]"#),
            "members of 'engine'",
        ),
    ] {
        let error = refused(read_with("", &directory(), &architecture));
        assert_eq!(error.kind(), Kind::Usage, "{architecture}");
        assert!(error.to_string().contains(reason), "{reason}: {error}");
    }
}

#[test]
fn a_profile_whose_blocks_do_not_divide_the_net_is_refused() {
    let options =
        [("arch", "multi:3x32x8x16x1,inputs=2,factoriser=true,buckets=2"), ("profile", "multi-avx512")];
    let text = refused(read("", &directory(), &options)).to_string();
    assert!(text.contains("engine.members[0]") && text.contains("multiple of 64"), "{text}");
    let text = refused(read("", &directory(), &[("arch", PRESET), ("profile", "plane")])).to_string();
    assert!(text.contains("did you mean 'plain'"), "{text}");
}

#[test]
fn clipping_is_a_loss_once_and_not_again_for_values_that_were_clipped_before() {
    let engine = r#"{ "members": [{ "id": "l0w", "type": "i16", "scale": 255, "clip": 1, "round": true }, { "id": "l0b" },
        { "id": "l1w" }, { "id": "l1b" }] }"#;
    let contents = read_with("", &state_only(), &json(engine)).unwrap();
    // Whether the values are known to be whole units, and whether they are clipped.
    let stored = |contents: &Contents| {
        let placed = place(&contents.checkpoint, "net.nnue", &[]).unwrap();
        let placement = &placed.placements[0];
        let limit = placement.encoding.scaling().unwrap().limit;
        (placed.whole_units.contains(&placement.tensor), limit.is_some())
    };
    assert_eq!(stored(&contents), (false, true));

    let (checkpoint, values) = {
        let (read, values) = read("", &directory(), &[("arch", PRESET)]).unwrap();
        let mut checkpoint = contents.checkpoint.clone();
        checkpoint.tensors.clone_from(&read.checkpoint.tensors);
        (checkpoint, values)
    };
    let file = write(&checkpoint, &values, "net.nnue", &[]).unwrap();
    // 1.3 is clipped at 1.
    let first: Vec<i16> =
        file["net.nnue"][..12].as_chunks::<2>().0.iter().map(|b| i16::from_le_bytes(*b)).collect();
    assert_eq!(first, [128, -64, 26, -26, 178, 255]);
    let back = read_with("net.nnue", &file, &json(engine)).unwrap();
    assert_eq!(stored(&back), (true, false));
}

#[test]
fn values_from_quantised_bin_are_clipped_for_an_engine() {
    let engine = |clip: &str| {
        let member = format!(r#"{{ "id": "l0w", "type": "i16", "scale": 255, "round": true{clip} }}"#);
        json(&format!(r#"{{ "members": [{member}, {{ "id": "l0b" }}] }}"#))
    };
    // l0w, with a value of 1.3; l0b, zeros; padded.
    let mut bytes: Vec<u8> =
        [128i16, -64, 26, -26, 178, 332].into_iter().flat_map(i16::to_le_bytes).collect();
    bytes.resize(64, 0);
    let contents =
        read_with("quantised.bin", &one("quantised.bin", bytes), &engine(r#", "clip": 1"#)).unwrap();
    let placed = place(&contents.checkpoint, "net.nnue", &[]).unwrap();
    let limit = |placed: &ckpt_api::OutputLayout| placed.placements[0].encoding.scaling().unwrap().limit;
    assert_eq!(limit(&placed).map(std::num::NonZeroU32::get), Some(255));
    assert_eq!(contents.checkpoint.tensors[placed.placements[0].tensor.0].name, "l0w");
    let contents = read_with("net.nnue", &one("net.nnue", vec![0; 20]), &engine(r#", "clip": 1"#)).unwrap();
    assert_eq!(limit(&place(&contents.checkpoint, "net.nnue", &[]).unwrap()), None);
}

fn state_only() -> Files {
    let mut files = directory();
    files.retain(|name, _| name.starts_with("optimiser_state/"));
    files
}
