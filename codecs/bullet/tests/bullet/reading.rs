//! One test per rule of reading.

use crate::build::{
    self, Files, PRESET, directory, headerless, net, numbers, old_records, one, quantized, read, records,
    refused, state, times, within,
};
use ckpt_api::{Codec, DType, Input, Kind, Match, Role, Slot};
use ckpt_bullet::Bullet;

const ARCH: [(&str, &str); 1] = [("arch", PRESET)];

fn probe(entry: &str, files: &Files) -> Match {
    Bullet.probe(&Input::memory(entry, files.clone())).unwrap()
}

#[test]
fn records_and_padding_are_certain_and_names_are_not() {
    assert!(matches!(probe("", &directory()), Match::Certain(why) if why.contains("4 records")));
    assert!(matches!(probe("x", &one("x", records(&net()))), Match::Certain(_)));
    assert!(
        matches!(probe("x", &one("x", quantized(b"bullet"))), Match::Certain(why) if why.contains("'bullet'"))
    );
    for name in ["raw.bin", "quantised.bin", "params.bin"] {
        assert!(matches!(probe(name, &one(name, headerless(&net()))), Match::Possible(_)), "{name}");
        assert!(matches!(probe("", &one(name, headerless(&net()))), Match::Possible(_)), "{name}");
    }
    assert_eq!(probe("x", &one("x", headerless(&net()))), Match::No);
    assert_eq!(probe("", &one("model.index", vec![0; 64])), Match::No);
}

#[test]
fn a_file_of_another_program_is_not_bullets_for_its_name() {
    let cut = records(&net())[..20].to_vec();
    assert!(matches!(probe("weights.bin", &one("weights.bin", cut)), Match::Possible(_)));
    // Values alone are many programs', unless the other files of an optimizer are there.
    let mut files = one("weights.bin", headerless(&net()));
    assert_eq!(probe("weights.bin", &files), Match::No);
    files.extend(one("momentum.bin", headerless(&net())));
    assert!(matches!(probe("weights.bin", &files), Match::Possible(_)));
    let pickle = [&b"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94"[..], &[0; 51]].concat();
    let zip = [&b"PK\x03\x04"[..], &[0; 60]].concat();
    let text = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 17\n".to_vec();
    for (name, bytes) in ["weights.bin", "raw.bin", "params.bin", "quantised.bin", "momentum.bin"]
        .iter()
        .flat_map(|name| [&pickle, &zip, &text].map(|bytes| (*name, bytes.clone())))
    {
        assert_eq!(probe(name, &one(name, bytes.clone())), Match::No, "{name}: {bytes:?}");
    }
}

#[test]
fn every_file_gives_the_same_logical_values() {
    let expected = [
        ("l0w", vec![0.5, 0.1, 0.7, -0.25, -0.1, 1.3]),
        ("l0b", vec![0.01, -0.02]),
        // Logically [bucket][out][in], stored [in][bucket][out].
        ("l1w", vec![0.9, 0.3, 0.6, -0.6, -0.9, -0.3, 0.2, -0.2]),
        ("l1b", vec![0.001, -0.002]),
    ];
    let sources = [
        ("", directory()),
        ("raw.bin", one("raw.bin", headerless(&net()))),
        ("weights.bin", one("weights.bin", old_records(&net()))),
        ("quantised.bin", one("quantised.bin", quantized(b"bullet"))),
    ];
    for (entry, files) in sources {
        let (contents, values) = read(entry, &files, &ARCH).unwrap();
        for (name, expected) in &expected {
            // Rounding changes a value by up to half a unit of the coarsest scale.
            let tolerance = if entry == "quantised.bin" { 0.5 / 64.0 } else { 0.0 };
            let found = numbers(&contents, &values, name);
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() <= tolerance, "{entry} {name}: {found} {expected}");
            }
        }
    }
}

#[test]
fn quantised_bin_gives_integers_divided_by_their_scale_or_the_integers_themselves() {
    let files = one("quantised.bin", quantized(b"bullet"));
    let (contents, values) = read("quantised.bin", &files, &ARCH).unwrap();
    assert_eq!(contents.checkpoint.tensor("l0w").unwrap().1.dtype, DType::F32);
    assert_eq!(numbers(&contents, &values, "l0b"), [3.0 / 255.0, -5.0 / 255.0]);
    let (contents, values) =
        read("quantised.bin", &files, &[("arch", PRESET), ("integers", "true")]).unwrap();
    let (id, tensor) = contents.checkpoint.tensor("l0b").unwrap();
    assert_eq!((tensor.dtype, tensor.scale().unwrap().get()), (DType::I16, 255));
    assert_eq!(values[id.0], [3i16.to_le_bytes(), (-5i16).to_le_bytes()].concat());
    assert!(contents.checkpoint.graph.is_none());
}

#[test]
fn a_directory_is_read_from_the_optimizers_weights_or_raw_bin_or_quantised_bin() {
    let mut files = directory();
    for (gone, read_from) in
        [("", "optimiser_state/weights.bin"), ("optimiser_state/", "raw.bin"), ("raw", "quantised.bin")]
    {
        files.retain(|name, _| gone.is_empty() || !name.starts_with(gone));
        let (contents, _) = read("", &files, &ARCH).unwrap();
        assert_eq!(contents.files[0], read_from);
    }
    let error = refused(read("", &one("log.txt", vec![1]), &ARCH));
    assert_eq!(error.kind(), Kind::Usage, "{error}");
}

#[test]
fn the_optimizers_folder_can_be_read_by_itself() {
    let (contents, _) = read("", &state(records, "weights.bin"), &ARCH).unwrap();
    assert_eq!(contents.files, ["weights.bin", "momentum.bin", "velocity.bin"]);
}

#[test]
fn moments_are_slots_of_their_weights() {
    let (contents, values) = read("", &directory(), &ARCH).unwrap();
    let (_, moment) = contents.checkpoint.tensor("velocity/l1w").unwrap();
    assert_eq!(moment.role, Role::Optimizer);
    assert_eq!(moment.slot, Some(Box::new(Slot { variable: "l1w".into(), name: "v".into() })));
    assert_eq!(moment.axes, contents.checkpoint.tensor("l1w").unwrap().1.axes);
    assert_eq!(numbers(&contents, &values, "momentum/l0b"), [0.005, -0.01]);
}

#[test]
fn the_optimizers_files_belong_together() {
    for (option, missing) in [
        (None, "momentum.bin"),
        (None, "velocity.bin"),
        (None, "weights.bin"),
        (Some("adamw"), "velocity.bin"),
        (Some("radam"), "step.txt"),
        (Some("ranger"), "slow.bin"),
    ] {
        let mut files = directory();
        files.remove(&format!("optimiser_state/{missing}"));
        let options: Vec<_> = ARCH.into_iter().chain(option.map(|name| ("optimiser", name))).collect();
        let error = refused(read("", &files, &options)).to_string();
        assert!(error.contains(missing), "{error}");
    }
}

#[test]
fn weights_without_moments_are_read() {
    let files = within("optimiser_state/", one("weights.bin", records(&net())));
    let (contents, _) = read("", &files, &ARCH).unwrap();
    assert_eq!(contents.checkpoint.tensors.len(), 4);
    assert!(
        contents.notes.iter().any(|note| note.contains("cannot resume training")),
        "{:?}",
        contents.notes
    );
}

#[test]
fn a_missing_record_is_refused() {
    let without = |id: &str| records(&net().into_iter().filter(|(own, ..)| *own != id).collect::<Vec<_>>());
    let error = refused(read("w", &one("w", without("l1b")), &ARCH));
    assert!(error.to_string().contains("no record (file w, tensor l1b)"), "{error}");
    let mut files = directory();
    files.insert("optimiser_state/velocity.bin".into(), without("l0b"));
    for options in [&ARCH[..], &[]] {
        let error = refused(read("", &files, options)).to_string();
        assert!(error.contains("velocity.bin") && error.contains("l0b"), "{error}");
    }
    files.insert("optimiser_state/velocity.bin".into(), Vec::new());
    let error = refused(read("", &files, &ARCH));
    assert!(error.to_string().contains("keep its initial values"), "{error}");
}

#[test]
fn moments_of_other_weights_are_refused() {
    let mut files = directory();
    files.insert("optimiser_state/momentum.bin".into(), records(&[("l0w", 1, vec![0.0; 7])]));
    assert!(refused(read("", &files, &[])).to_string().contains("a different length than its weight"));
    files.insert("optimiser_state/momentum.bin".into(), records(&[("l9w", 1, vec![0.0; 7])]));
    assert!(refused(read("", &files, &[])).to_string().contains("belongs to no weight"));
}

#[test]
fn old_records_state_rows_and_columns() {
    let files = one("weights.bin", old_records(&net()));
    let (contents, values) = read("weights.bin", &files, &[]).unwrap();
    assert_eq!(contents.checkpoint.metadata.text("bullet", "records"), Some("rows"));
    assert_eq!(contents.checkpoint.tensor("l0w").unwrap().1.shape.to_vec(), [2, 3]);
    assert_eq!(numbers(&contents, &values, "l0w"), [0.5, 0.1, 0.7, -0.25, -0.1, 1.3]);
    let mut wrong = net();
    wrong[0].1 = 3;
    let error = refused(read("weights.bin", &one("weights.bin", old_records(&wrong)), &ARCH));
    assert!(error.to_string().contains("2 rows and 3 columns"), "{error}");
}

#[test]
fn records_that_parse_in_both_forms_are_refused() {
    // In the current form, two numbers whose bytes are those of a 2, and a record `bcd` of one number; in the form with
    // rows, two rows of two.
    let bytes =
        [b"a\n", &2u64.to_le_bytes()[..], &2u64.to_le_bytes(), b"bcd\n", &1u64.to_le_bytes(), &[0; 4]]
            .concat();
    let of = |options: &[(&str, &str)]| read("w", &one("w", bytes.clone()), options);
    let error = refused(of(&[]));
    assert!(error.kind() == Kind::Usage && error.to_string().contains("option records"), "{error}");
    let count = |form| of(&[("records", form)]).unwrap().0.checkpoint.tensors.len();
    assert_eq!((count("current"), count("rows")), (2, 1));
}

#[test]
fn files_without_records_are_read_in_the_order_of_the_layers() {
    for folder in ["", "optimiser_state/"] {
        let files = within(folder, state(headerless, "params.bin"));
        let (contents, values) = read("", &files, &ARCH).unwrap();
        assert_eq!(numbers(&contents, &values, "velocity/l1b"), [0.001 * 0.25, -0.002 * 0.25]);
        assert_eq!(contents.checkpoint.tensors.len(), 12);
        assert!(refused(read("", &files, &[])).to_string().contains("OpenOptions::architecture"));
    }
    let alone = one("momentum.bin", headerless(&net()));
    let options = [("arch", PRESET), ("records", "headerless")];
    assert_eq!(read("momentum.bin", &alone, &options).unwrap().0.checkpoint.tensors.len(), 4);
    let error = refused(read("momentum.bin", &alone, &ARCH)).to_string();
    assert!(error.contains("records=headerless"), "{error}");
}

#[test]
fn an_option_without_an_effect_is_refused_with_what_it_applies_to() {
    let files = directory();
    let alone = |name: &str| one(name, files[name].clone());
    for (entry, files, option, expected) in [
        ("", files.clone(), ("integers", "true"), "quantised.bin"),
        ("raw.bin", alone("raw.bin"), ("integers", "true"), "quantised.bin"),
        ("", files.clone(), ("content", "raw"), "a single file"),
        ("raw.bin", alone("raw.bin"), ("records", "rows"), "the optimizer's files"),
        ("raw.bin", alone("raw.bin"), ("optimiser", "adamw"), "the optimizer's files"),
        ("weights.bin", one("weights.bin", records(&net())), ("optimiser", "adamw"), "a directory"),
    ] {
        let error = refused(read(entry, &files, &[("arch", PRESET), option]));
        let text = error.to_string();
        assert!(error.kind() == Kind::Usage && text.contains(option.0) && text.contains(expected), "{text}");
    }
    read("", &files, &[("arch", PRESET), ("integers", "false")]).unwrap();
}

#[test]
fn step_txt_has_one_line_for_every_weight() {
    let with = |text: &str| {
        let mut files = directory();
        files.insert("optimiser_state/step.txt".into(), text.as_bytes().to_vec());
        read("", &files, &ARCH)
    };
    let text = "l0b,7\nl0w,7\nl1w,7\nl1b,8\n";
    let (contents, _) = with(text).unwrap();
    assert_eq!(contents.checkpoint.metadata.text("bullet", "step"), Some(text));
    for wrong in [
        "",
        "l0b,7\n",
        "l0b,7\nl0w,7\nl1w,7\nl1b,8",
        "l0b,7\nl0b,7\n",
        "l0b;7\n",
        "l0b,-7\n",
        "x,1\n",
        "\u{7f}\n",
    ] {
        let error = refused(with(wrong));
        assert_eq!(error.kind(), Kind::Corrupt, "{wrong:?}");
        assert!(error.to_string().contains("step.txt"), "{error}");
    }
}

#[test]
fn quantised_bin_is_padded_with_bullets_name_or_zeros() {
    for (filler, kept) in [(&b"bullet"[..], None), (&[0], Some("zero"))] {
        let (contents, _) = read("quantised.bin", &one("quantised.bin", quantized(filler)), &ARCH).unwrap();
        assert_eq!(contents.checkpoint.metadata.text("bullet", "padding"), kept);
    }
    let error = refused(read("quantised.bin", &one("quantised.bin", quantized(b"bulleT")), &ARCH));
    assert!(
        error.to_string().contains(
            "padding after the last entry does not follow bullet's format (file quantised.bin, offset 36)"
        ),
        "{error}"
    );
    let mut unfilled = quantized(b"bullet");
    unfilled.truncate(36);
    let error = refused(read("quantised.bin", &one("quantised.bin", unfilled), &ARCH));
    assert!(error.to_string().contains("not padded"), "{error}");
}

#[test]
fn weights_beside_an_empty_quantised_bin_are_read() {
    let mut files = directory();
    files.insert("quantised.bin".into(), Vec::new());
    let (contents, _) = read("", &files, &ARCH).unwrap();
    assert!(contents.notes[0].contains("is empty"), "{:?}", contents.notes);
}

#[test]
fn a_file_of_any_name_is_recognized_by_its_size_or_refused() {
    let arch = ("arch", "simple:3x2x1,buckets=2");
    let of = |bytes: Vec<u8>, options: &[(&str, &str)]| read("net.nnue", &one("net.nnue", bytes), options);
    let parts = |contents: &ckpt_api::Contents| {
        contents.checkpoint.metadata.value("bullet", "parts").unwrap().as_list().unwrap()[0].clone()
    };
    assert_eq!(parts(&of(headerless(&net()), &[arch]).unwrap().0), "raw".into());
    assert_eq!(parts(&of(quantized(b"bullet"), &[arch]).unwrap().0), "quantised".into());
    assert!(refused(of(vec![1; 7], &[arch])).to_string().contains("72 bytes for a raw.bin, or 64"));
    assert!(refused(of(vec![1; 7], &[])).to_string().contains("OpenOptions::architecture"));
    // Sixteen floats are 64 bytes, and so are sixteen integers with padding.
    let both = ("arch", "simple:2x3x1,qa=1,qb=1");
    let bytes = vec![0; 64];
    assert!(refused(of(bytes.clone(), &[both])).to_string().contains("option content"));
    assert!(of(bytes, &[both, ("content", "raw")]).is_ok());
}

#[test]
fn files_beside_the_weights_must_fit_the_architecture() {
    for (name, len) in [("raw.bin", 71), ("raw.bin", 73), ("quantised.bin", 63), ("quantised.bin", 128)] {
        let mut files = directory();
        files.get_mut(name).unwrap().resize(len, 0);
        let error = refused(read("", &files, &ARCH)).to_string();
        assert!(error.contains(name), "{error}");
        read("", &files, &[]).unwrap();
    }
}

#[test]
fn check_compares_networks_with_the_weights() {
    let checked = |files: &Files, arch: &str| read("", files, &[("arch", arch), ("check", "true")]);
    checked(&directory(), PRESET).unwrap();
    let mut files = directory();
    // The second bias: the biases follow 6 numbers of 2 bytes.
    files.get_mut("quantised.bin").unwrap()[14] = 9;
    read("", &files, &ARCH).unwrap();
    let error = refused(checked(&files, PRESET));
    assert_eq!(error.kind(), Kind::Mismatch);
    let said = error.to_string();
    for part in
        ["quantised.bin", "offset 14", "l0b", "element 1", "found -247", "expected -5 as i16, from -0.02"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Another rounding gives other integers.
    let said = refused(checked(&directory(), "simple:3x2x1,buckets=2,round=false")).to_string();
    assert!(said.contains("l0w") && said.contains("rounding"), "{said}");
    let mut files = directory();
    files.get_mut("raw.bin").unwrap()[3] ^= 0x80;
    let said = refused(checked(&files, PRESET)).to_string();
    assert!(
        said.contains("raw.bin") && said.contains("found -0.5") && said.contains("expected 0.5"),
        "{said}"
    );
    // Without the optimizer's files, quantised.bin is compared with raw.bin.
    let mut files = directory();
    files.retain(|name, _| !name.starts_with("optimiser"));
    checked(&files, PRESET).unwrap();
    files.remove("raw.bin");
    for (files, entry) in [(files, ""), (one("raw.bin", headerless(&net())), "raw.bin")] {
        let error = refused(read(entry, &files, &[("arch", PRESET), ("check", "true")]));
        assert!(error.to_string().contains("nothing to compare"), "{error}");
    }
    let error = refused(read("", &directory(), &[("check", "true")]));
    assert!(error.to_string().contains("OpenOptions::architecture"), "{error}");
}

#[test]
fn check_names_a_missing_weight() {
    let raw = one("raw.bin", vec![0; 4 * (12 + 2 + 4 + 1)]);
    let mut files = one("quantised.bin", build::filled(2 * (12 + 2 + 4 + 1)));
    files.extend(raw);
    let arch = ("arch", "simple:3x2x1,inputs=2,factoriser=true");
    let error = refused(read("", &files, &[arch, ("check", "true")])).to_string();
    assert!(error.contains("cannot be compared") && error.contains("l0f"), "{error}");
}

#[test]
fn integers_that_floats_cannot_represent_are_reported() {
    let json = r#"{ "format": "bullet", "input": { "features": 1, "perspectives": 1 }, "layers": [{ "size": 1 }],
        "saved": [{ "id": "l0w", "type": "i32", "scale": 16777216 }, { "id": "l0b" }] }"#;
    let file = |integer: i32| {
        let mut bytes = [integer.to_le_bytes(), [0; 4]].concat();
        bytes.extend(b"bullet".iter().cycle().take(56));
        one("quantised.bin", bytes)
    };
    let read = |integer: i32, integers: &str| {
        build::read_all_with("quantised.bin", &file(integer), json, &[("integers", integers)]).unwrap()
    };
    let lost = |contents: &ckpt_api::Contents| {
        let placed = build::place(&contents.checkpoint, "quantised.bin", &[]).unwrap();
        !placed.whole_units.contains(&ckpt_api::TensorId(0))
    };
    for (integer, told) in [(1 << 23, false), ((1 << 23) + 1, true), (i32::MIN, true)] {
        let (contents, values) = read(integer, "false");
        assert_eq!(
            (contents.notes.iter().any(|note| note.contains("integers=true")), lost(&contents)),
            (told, told)
        );
        if !told {
            assert_eq!(
                build::write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap(),
                file(integer)
            );
        }
        let (contents, values) = read(integer, "true");
        assert_eq!(build::write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap(), file(integer));
    }
}

#[test]
fn a_raw_bin_without_the_factoriser_has_no_graph() {
    let arch = ("arch", "simple:3x2x1,inputs=2,factoriser=true");
    let raw = one("raw.bin", vec![0; 4 * (12 + 2 + 4 + 1)]);
    let (contents, _) = read("raw.bin", &raw, &[arch]).unwrap();
    assert!(contents.checkpoint.graph.is_none());
    let missing = contents.missing_graph.unwrap();
    assert!(missing.reason.contains("'l0f'"), "{missing:?}");
    let integers = one("quantised.bin", build::filled(2 * (12 + 2 + 4 + 1)));
    let (contents, _) = read("quantised.bin", &integers, &[arch]).unwrap();
    assert!(contents.checkpoint.graph.is_some(), "{:?}", contents.notes);
}

#[test]
fn hostile_records_are_refused_before_anything_is_allocated() {
    let number = |n: u64| n.to_le_bytes().to_vec();
    let cases: [(&str, Vec<u8>); 9] = [
        ("huge count", [b"a\n".to_vec(), number(u64::MAX)].concat()),
        ("huge rows", [b"a\n".to_vec(), number(u64::MAX), number(u64::MAX), vec![0; 4]].concat()),
        ("no numbers", [b"a\n".to_vec(), number(0)].concat()),
        ("no id", [b"\n".to_vec(), number(1), vec![0; 4]].concat()),
        ("id that is no text", [b"\xff\n".to_vec(), number(1), vec![0; 4]].concat()),
        ("id without end", vec![b'a'; 1 << 20]),
        ("id too long", [vec![b'a'; (1 << 20) + 1], b"\n".to_vec(), number(1), vec![0; 4]].concat()),
        ("twice the same", [records(&net()), records(&net())].concat()),
        ("rest of a record", [records(&net()), b"b".to_vec()].concat()),
    ];
    for (what, bytes) in cases {
        let error = refused(read("weights.bin", &one("weights.bin", bytes), &[]));
        assert!(matches!(error.kind(), Kind::Corrupt | Kind::Limit), "{what}: {error}");
        assert!(error.to_string().contains("file weights.bin"), "{what}: {error}");
    }
}

#[test]
fn without_an_architecture_notes_propose_a_preset() {
    let (contents, _) = read("", &directory(), &[]).unwrap();
    let notes = contents.notes.iter().map(|note| note.as_str()).collect::<Vec<_>>().join("\n");
    assert!(notes.contains("arch=simple:3x2x1,buckets=2"), "{notes}");
    let missing = contents.missing_graph.unwrap();
    assert!(missing.reason.contains("neither shapes nor activations"), "{missing:?}");
    assert!(missing.help.is_some_and(|help| help.contains("arch=PRESET")));
    let (contents, _) = read("w", &one("w", records(&times(&net()[..2], 1.0))), &[]).unwrap();
    assert!(contents.notes.is_empty() && contents.missing_graph.is_some(), "{:?}", contents.notes);
}

#[test]
fn a_file_and_a_preset_together_are_refused() {
    let options = ckpt_api::Options::parse(
        "bullet",
        Bullet.info().options,
        ckpt_api::Side::Read,
        &[("arch".into(), PRESET.into())],
    );
    let file = ckpt_api::ArchitectureFile::from_json(r#"{"format":"bullet"}"#).unwrap();
    let options = options.unwrap().with_architecture(Some(file));
    let error = refused(Bullet.read(&Input::memory("", directory()), &options, &Default::default()));
    assert!(error.to_string().contains("not both"), "{error}");
}
