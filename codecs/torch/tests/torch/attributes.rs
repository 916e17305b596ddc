//! Attributes that a pickle gets of its objects, such as bound methods: values that nobody may call.

use crate::build::{saved_pickle, text};
use ckpt_api::{Contents, Input, Kind, Result};
use ckpt_conformance::case_folder;
use ckpt_conformance::read;
use ckpt_torch::Torch;
use std::collections::BTreeMap;

/// Reads a file with the tensor `w` and, as `x`, what these opcodes make.
fn with(odd: &[u8], options: &[(&str, &str)]) -> Result<Contents> {
    let id = [&text("storage")[..], b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), b"K\x02"].concat();
    let good = [b"ctorch._utils\n_rebuild_tensor_v2\n((", &id[..], b"tQK\0(K\x02t(K\x01t\x89NtR"].concat();
    let pickle = [b"\x80\x02}(", &text("w")[..], &good, &text("x"), odd, b"u."].concat();
    let input = Input::memory(
        "m.pt",
        BTreeMap::from([("m.pt".to_owned(), saved_pickle(&pickle, &[vec![1.0, 2.0]]))]),
    );
    let options: Vec<_> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ckpt_conformance::read(&Torch, &input, &options).map(|(contents, _)| contents)
}

const GETTER: &[u8] = b"c__builtin__\ngetattr\n";
const OBJECT: &[u8] = b"cyolo\nConv\n)\x81";

/// The opcodes of `getattr(of, name)`.
fn attribute(of: &[u8], name: &str) -> Vec<u8> {
    [GETTER, b"(", of, &text(name), b"tR"].concat()
}

#[test]
fn bound_methods_of_pickled_models_are_left_out() {
    let Some(path) = case_folder("reports/pickled-bound-method") else { return };
    for (file, names) in [
        ("fused.pt", &["model.conv.weight", "model.conv.bias"][..]),
        ("hook.pt", &["l.weight", "l.bias"]),
        ("classmethod.pt", &["w"]),
    ] {
        let input = Input::open(path.join(file)).unwrap();
        let (contents, _) = read(&Torch, &input, &[]).unwrap();
        let found: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| &*tensor.name).collect();
        assert_eq!(found, names, "{file}");
        assert!(contents.notes.iter().any(|note| note.contains("getattr")), "{file}: {:?}", contents.notes);
        assert!(contents.repairs.is_empty());
    }
}

#[test]
fn an_attribute_of_an_object_or_a_class_is_left_out_by_its_name() {
    for (odd, found) in [
        (attribute(OBJECT, "forward_fuse"), "'x' (the attribute 'forward_fuse' of yolo.Conv)"),
        (
            attribute(b"c__builtin__\ndict\n", "fromkeys"),
            "'x' (the attribute 'fromkeys' of __builtin__.dict)",
        ),
    ] {
        let contents = with(&odd, &[]).unwrap();
        assert_eq!(contents.checkpoint.tensors.len(), 1);
        assert!(contents.notes.iter().any(|note| note.contains(found)), "{:?}", contents.notes);
    }
    // One that is got twice is looked at twice.
    let twice = [b"(", &attribute(OBJECT, "a")[..], &attribute(OBJECT, "b"), b"l"].concat();
    let contents = with(&twice, &[]).unwrap();
    assert!(
        contents.notes.iter().any(|note| note.contains("'x.1' (the attribute 'b'")),
        "{:?}",
        contents.notes
    );
}

#[test]
fn what_is_got_may_not_be_called_nor_given_nor_changed() {
    let method = attribute(OBJECT, "run");
    let nested = attribute(&method, "__globals__");
    let memoized =
        [GETTER, b"q\x01(", OBJECT, &text("a"), b"tR0h\x01(ctorch\nos\n", &text("system"), b"tR"].concat();
    for (odd, what) in [
        ([&method[..], b"(tR"].concat(), "called"),
        ([b"cmine\nrun\n(", &method[..], b"tR"].concat(), "given to a call"),
        ([&method[..], b"}b"].concat(), "given a state"),
        ([&method[..], b"Na"].concat(), "appended to"),
        (
            [b"cmine\nThing\n)\x81}", &text("__setstate__")[..], &method, b"sb"].concat(),
            "a method that is called",
        ),
        (nested, "an attribute of an attribute"),
        (attribute(b"cos\npath\n", "join"), "of a module"),
        (attribute(b"ctorch\nos\n", "system"), "of a module that another one imports"),
        (attribute(b"cposix\nsystem\n)R", "x"), "of what a dangerous call returns"),
        (memoized, "the second call of the same getter"),
        ([GETTER, b"(", OBJECT, &text("a"), b"NtR"].concat(), "with a default"),
        (attribute(&text("text"), "format"), "of a text"),
    ] {
        let error = with(&odd, &[]).map(|contents| contents.notes).expect_err(what);
        assert_eq!(error.kind(), Kind::Unsupported, "{what}: {error}");
        assert!(error.to_string().contains("can run any program"), "{what}: {error}");
        assert_eq!(with(&odd, &[("lenient", "true")]).unwrap().checkpoint.tensors.len(), 1, "{what}");
    }
}
