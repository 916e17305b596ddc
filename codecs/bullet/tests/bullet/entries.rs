//! The entries of bullet's files: bytes between the weights, and weights that are saved more than once.

use crate::build::{filled, floats, net, numbers, one, place, read_all_with, records, refused, write};
use ckpt_api::{ArchitectureFile, Codec, Contents, Kind, Options, Role, Side};
use ckpt_bullet::Bullet;

/// A header, and `l0w` once in 8 bits and once in 16.
const TWICE: &str = r#"[{ "bytes": "4E4e55" }, { "id": "l0w", "type": "i8", "scale": 64, "transpose": true }, { "id": "l0b" },
    { "bytes": "00" }, { "id": "l0w", "type": "i16", "scale": 255, "round": true }]"#;

fn architecture(saved: &str) -> String {
    format!(
        r#"{{ "format": "bullet", "input": {{ "features": 3, "factoriser": true }}, "layers": [{{ "size": 2 }}, {{ "size": 1 }}],
            "tensors": [], "saved": {saved}, "engine": {{ "header": "ff", "align": 4, "members": {saved} }} }}"#
    )
}

/// quantised.bin of [`TWICE`] with these integers.
fn twice(bytes: [i8; 6], words: [i16; 6]) -> Vec<u8> {
    let mut file = b"NNU".to_vec();
    file.extend(bytes.into_iter().flat_map(i8::to_le_bytes));
    file.extend(floats(&[0.5, -0.5]));
    file.push(0);
    file.extend(words.into_iter().flat_map(i16::to_le_bytes));
    pad(file)
}

fn pad(mut file: Vec<u8>) -> Vec<u8> {
    let filler = filled(file.len()).split_off(file.len());
    file.extend(filler);
    file
}

fn read(bytes: Vec<u8>, saved: &str, options: &[(&str, &str)]) -> ckpt_api::Result<(Contents, Vec<Vec<u8>>)> {
    read_all_with("quantised.bin", &one("quantised.bin", bytes), &architecture(saved), options)
}

fn weights_and_copies(contents: &Contents) -> [Vec<&str>; 2] {
    let of = |role| {
        let tensors = contents.checkpoint.tensors.iter().filter(move |tensor| tensor.role == role);
        tensors.map(|tensor| tensor.name.as_str()).collect()
    };
    [of(Role::Weight), of(Role::Duplicate)]
}

#[test]
fn the_finest_entry_of_a_weight_is_read_as_the_weight_and_the_others_as_copies() {
    let file = twice([1, 2, 3, 4, 5, 6], [51, 255, -51, 0, 1, 2]);
    let (contents, values) = read(file, TWICE, &[]).unwrap();
    assert_eq!(weights_and_copies(&contents), [vec!["l0b", "l0w"], vec!["l0w#1"]]);
    // Columns of two rows; the copy is stored row by row.
    assert_eq!(numbers(&contents, &values, "l0w")[..3], [0.2, -0.2, 1.0 / 255.0]);
    assert_eq!(numbers(&contents, &values, "l0w#1")[..3], [1.0 / 64.0, 2.0 / 64.0, 3.0 / 64.0]);
}

#[test]
fn a_header_and_a_weight_that_is_saved_twice_come_back_byte_for_byte() {
    // No weights make these integers in both entries.
    let file = twice([100, 2, 3, 4, 5, 6], [51, 255, -51, 0, 1, 2]);
    for integers in ["true", "false"] {
        let (contents, values) = read(file.clone(), TWICE, &[("integers", integers)]).unwrap();
        let written = write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap();
        assert_eq!(written["quantised.bin"], file, "integers={integers}");
    }
    // An engine file has the same members, aligned.
    let mut engine = vec![0xff, 0, 0, 0];
    let members = [0..3, 3..9, 9..17, 17..18, 18..30].map(|range| file[range].to_vec());
    for member in members {
        engine.extend(member);
        engine.resize(engine.len().next_multiple_of(4), 0);
    }
    let files = one("net.nnue", engine);
    let options = [("content", "engine")];
    let (contents, values) = read_all_with("net.nnue", &files, &architecture(TWICE), &options).unwrap();
    assert_eq!(write(&contents.checkpoint, &values, "net.nnue", &[]).unwrap(), files);
}

#[test]
fn raw_bin_has_every_entry_of_a_weight_and_none_of_the_bytes_between() {
    let file = |factor| {
        let twice: Vec<f32> = [0.1f32, 0.2, 0.3, 0.4, 0.5, 0.6].map(|value| value * factor).to_vec();
        [floats(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), floats(&[7.0, 8.0]), floats(&twice)].concat()
    };
    // The second entry need not be equal: both come back.
    for factor in [1.0, 2.0] {
        let raw = one("raw.bin", file(factor));
        let (contents, values) = read_all_with("raw.bin", &raw, &architecture(TWICE), &[]).unwrap();
        assert_eq!(weights_and_copies(&contents), [vec!["l0w", "l0b"], vec!["l0w#2"]]);
        assert_eq!(write(&contents.checkpoint, &values, "raw.bin", &[]).unwrap(), raw);
    }
}

#[test]
fn raw_bin_lacks_entries_that_bullet_saves_without_an_id() {
    let all = r#"[{ "id": "l0w" }, { "id": "l0f" }, { "id": "l0b" }, { "id": "l1w" }, { "id": "l1b", "type": "i32", "scale": 16320 },
        { "id": "l1b", "raw": false }]"#;
    let values: Vec<f32> = (0..19u8).map(|k| f32::from(k) / 64.0).collect();
    let json = architecture(all);
    let json = json.replace(r#", "engine""#, r#", "unused""#);
    let (saved, _) = json.split_once(r#", "unused""#).unwrap();
    let json = format!("{saved} }}");
    let raw = one("raw.bin", floats(&values));
    let (contents, found) = read_all_with("raw.bin", &raw, &json, &[]).unwrap();
    assert_eq!(weights_and_copies(&contents)[0].len(), 5);
    let written = write(&contents.checkpoint, &found, "raw.bin", &[]).unwrap();
    assert_eq!(written, raw);
    // l1b is 18/64: truncated to 4590, and as a float.
    let written = write(&contents.checkpoint, &found, "quantised.bin", &[]).unwrap();
    assert_eq!(
        written["quantised.bin"][72..80],
        [4590i32.to_le_bytes(), (18.0f32 / 64.0).to_le_bytes()].concat()
    );
    let members = architecture(all);
    let error = refused(read_all_with("raw.bin", &raw, &members, &[])).to_string();
    assert!(error.contains("raw = false for 'l1b'"), "{error}");
}

#[test]
fn a_header_whose_bytes_nobody_states_is_kept_by_its_length() {
    let saved = r#"[{ "id": "l0w" }, { "id": "l0f" }, { "id": "l0b" }, { "id": "l1w" }, { "id": "l1b" }]"#;
    let file = pad([b"head".to_vec(), floats(&[0.5; 19])].concat());
    let (contents, values) = read(file.clone(), saved, &[("header", "4")]).unwrap();
    let written = write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap();
    assert_eq!(written["quantised.bin"], file);
    for (length, says) in
        [("5", "padding after the last entry"), ("5000", "impossible length"), ("0", "impossible length")]
    {
        let error = refused(read(file.clone(), saved, &[("header", length)])).to_string();
        assert!(error.contains(says), "{length}: {error}");
    }
    let options =
        Options::parse("bullet", Bullet.info().options, Side::Read, &[("header".into(), "4".into())]);
    let input = ckpt_api::Input::memory("quantised.bin", one("quantised.bin", file));
    let error = Bullet.read(&input, &options.unwrap(), &ckpt_api::Limits::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
}

#[test]
fn both_entries_of_a_weight_are_made_from_the_weights() {
    let mut all: Vec<_> = net().into_iter().filter(|(id, ..)| id.starts_with("l0")).collect();
    all.push(("l0f", 2, vec![0.0; 6]));
    all.push(("l1w", 1, vec![0.0; 4]));
    all.push(("l1b", 1, vec![0.0]));
    let files = one("weights.bin", records(&all));
    let (contents, values) = read_all_with("weights.bin", &files, &architecture(TWICE), &[]).unwrap();
    let written = write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap();
    // 0.5 -0.25, 0.1 -0.1, 0.7 1.3 are the columns: truncated row by row, and rounded column by column.
    let mut expected = twice([32, 6, 44, -16, -6, 83], [128, -64, 26, -26, 178, 331]);
    expected[9..17].copy_from_slice(&floats(&[0.01, -0.02]));
    assert_eq!(written["quantised.bin"], expected);
}

#[test]
fn copies_have_no_place_in_the_optimizers_files() {
    let all = r#"[{ "id": "l0w" }, { "id": "l0f" }, { "id": "l0b" }, { "id": "l1w" }, { "id": "l1b" }, { "id": "l0b" }]"#;
    let file = pad(vec![0; 4 * (6 + 6 + 2 + 4 + 1 + 2)]);
    let (contents, _) = read(file, all, &[]).unwrap();
    let placed = place(&contents.checkpoint, "weights.bin", &[]).unwrap();
    let unplaced: Vec<_> = placed.unplaced(&contents.checkpoint).map(|(_, tensor)| &tensor.name).collect();
    assert_eq!(unplaced, ["l0b#2"]);
}

#[test]
fn other_bytes_than_the_architecture_states_are_refused_with_their_place() {
    let good = twice([0; 6], [0; 6]);
    read(good.clone(), TWICE, &[]).unwrap();
    for (at, field) in [(1, "saved[0]"), (17, "saved[3]")] {
        let mut changed = good.clone();
        changed[at] = 7;
        let error = refused(read(changed, TWICE, &[]));
        assert_eq!((error.kind(), error.context().offset), (Kind::Corrupt, Some(at as u64)));
        assert!(error.to_string().contains(field), "{error}");
    }
    assert_eq!(refused(read(good[..16].to_vec(), TWICE, &[])).context().tensor, Some("l0b"));
    assert_eq!(refused(read(good[..18].to_vec(), TWICE, &[])).context().tensor, Some("l0w"));
}

#[test]
fn a_file_that_ends_before_the_bytes_that_the_architecture_states_is_refused_with_how_many_are_missing() {
    let saved = format!(r#"[{{ "id": "l0b" }}, {{ "bytes": "{}" }}]"#, "07".repeat(20));
    for (size, found) in [(8, "0 bytes, 20 missing"), (9, "1 byte, 19 missing"), (27, "19 bytes, 1 missing")]
    {
        let file: Vec<u8> = [vec![0; 8], vec![7; size - 8]].concat();
        let unaligned = architecture(&saved).replace(r#""header": "ff", "align": 4"#, r#""align": 1"#);
        let engine = one("net.nnue", file.clone());
        let engine = read_all_with("net.nnue", &engine, &unaligned, &[("content", "engine")]);
        for error in [refused(read(file, &saved, &[])), refused(engine)] {
            let context = error.context();
            assert_eq!((context.offset, context.found), (Some(8), Some(found)), "{error}");
            assert!(context.field.is_some() && context.expected == Some("20 bytes"), "{error}");
        }
    }
}

#[test]
fn of_many_stated_bytes_an_error_shows_those_around_the_first_difference() {
    let saved = format!(r#"[{{ "id": "l0b" }}, {{ "bytes": "{}" }}]"#, "07".repeat(4096));
    for (at, found, expected) in [
        (0, "ff070707070707070707070707070707…", "07070707070707070707070707070707…"),
        (2000, "…07070707ff0707070707070707070707…", "…07070707070707070707070707070707…"),
        (4095, "…070707070707070707070707070707ff", "…07070707070707070707070707070707"),
    ] {
        let mut file: Vec<u8> = [vec![0; 8], vec![7; 4096]].concat();
        file[8 + at] = 255;
        let error = refused(read(pad(file), &saved, &[]));
        let context = error.context();
        assert_eq!(context.offset, Some(8 + at as u64), "{error}");
        assert_eq!((context.found, context.expected), (Some(found), Some(expected)));
    }
}

#[test]
fn an_entry_without_the_factoriser_is_read_as_the_weight_if_the_file_has_both() {
    let scaled = |id: &str, merge: &str| format!(r#"{{ "id": "{id}", "type": "i16", "scale": 10{merge} }}"#);
    let (pure, merged) = (scaled("l0w", ""), scaled("l0w", r#", "merge": "l0f""#));
    let factoriser = scaled("l0f", "");
    let read = |entries: &[&String]| {
        let file = pad(vec![0; 12 * entries.len()]);
        let saved = entries.iter().map(|entry| entry.as_str()).collect::<Vec<_>>().join(",");
        read(file, &format!("[{saved}]"), &[]).unwrap().0
    };
    let names = |contents: &Contents| weights_and_copies(contents).map(|names| names.join(" "));
    assert_eq!(names(&read(&[&merged, &pure, &factoriser])), ["l0w l0f", "l0w#1"]);
    assert_eq!(names(&read(&[&pure, &merged])), ["l0w", "l0w#1"]);
    // The factoriser is in `l0w` already: as a weight, it would count twice.
    assert_eq!(names(&read(&[&merged, &factoriser])), ["l0w", "l0f#1"]);
}

/// Zeros in place of the factoriser would be wrong: the weights were read without it.
#[test]
fn a_factoriser_that_the_weights_do_not_include_is_missed() {
    let saved = r#"[{ "id": "l0w", "type": "i16", "scale": 10, "merge": "l0f" }, { "id": "l0w", "type": "i16", "scale": 10 },
        { "id": "l0f", "type": "i16", "scale": 10 }, { "id": "l0b" }, { "id": "l1w" }, { "id": "l1b" }]"#;
    let (mut contents, _) = read(pad(vec![0; 36 + 4 * 7]), saved, &[]).unwrap();
    place(&contents.checkpoint, "weights.bin", &[]).unwrap();
    contents.checkpoint.tensors.retain(|tensor| tensor.name != "l0f");
    let error = refused(place(&contents.checkpoint, "weights.bin", &[]));
    assert!(error.to_string().contains("lacks a weight") && error.to_string().contains("l0f"), "{error}");
}

#[test]
fn a_copy_is_written_only_into_the_very_entry_that_it_was_read_from() {
    let (contents, _) = read(twice([0; 6], [0; 6]), TWICE, &[]).unwrap();
    let first = |saved: &str| {
        let options = Options::parse("bullet", Bullet.info().options, Side::Write, &[]).unwrap();
        let file = ArchitectureFile::from_json(&architecture(saved)).unwrap();
        let options = options.with_architecture(Some(file));
        let placed = Bullet.place(&contents.checkpoint, "quantised.bin", &options).unwrap();
        contents.checkpoint.tensors[placed.placements[0].tensor.0].name.clone()
    };
    assert_eq!(first(TWICE), "l0w#1");
    assert_eq!(first(&TWICE.replace(r#""scale": 64"#, r#""scale": 32"#)), "l0w");
}

/// As [`architecture`], with two more weights, which no layer has.
fn with_two_more(saved: &str) -> String {
    let more = r#""tensors": [{ "id": "a", "rows": 2 }, { "id": "b", "rows": 2 }]"#;
    architecture(saved).replace(r#""tensors": []"#, more)
}

#[test]
fn of_two_entries_that_merge_each_other_one_is_read_as_the_weight_and_both_come_back() {
    let saved = r#"[{ "id": "l0b" }, { "id": "a", "merge": "b" }, { "id": "b", "merge": "a" }]"#;
    let file = pad(floats(&[1.0, 2.0, 3.0, 4.0, 3.0, 4.0]));
    let files = one("quantised.bin", file.clone());
    let (contents, values) = read_all_with("quantised.bin", &files, &with_two_more(saved), &[]).unwrap();
    assert_eq!(weights_and_copies(&contents), [vec!["l0b", "a"], vec!["b#1"]]);
    assert_eq!(write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap()["quantised.bin"], file);
}

#[test]
fn a_file_that_has_a_weight_in_a_copy_alone_is_refused() {
    let saved = r#"[{ "id": "a", "merge": "b" }, { "id": "a", "merge": "c" }]"#;
    let json = with_two_more(saved).replace(r#""tensors": ["#, r#""tensors": [{ "id": "c", "rows": 2 }, "#);
    let error = refused(read_all_with("quantised.bin", &one("quantised.bin", pad(vec![0; 16])), &json, &[]));
    let context = error.context();
    assert_eq!((error.kind(), context.tensor, context.offset), (Kind::Unsupported, Some("c"), Some(8)));
    assert_eq!(context.found, Some("entry 2 of 'a', which includes it"));
    // raw.bin has each entry without what is merged into it.
    read_all_with("raw.bin", &one("raw.bin", vec![0; 16]), &json, &[]).unwrap();
}
