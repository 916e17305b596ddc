//! Values beside the tensors: only what is not plain is left out, and is named.

use crate::build::{Py, dict, pickle, saved};
use crate::cases::case_dir;
use ckpt_api::{Codec, Contents, Input, MetadataValue, Options};
use ckpt_conformance::case_folder;
use ckpt_conformance::read;
use ckpt_torch::Torch;
use std::collections::BTreeMap;

fn open(value: Py) -> Contents {
    let all = dict(vec![("w", Py::Floats(0, vec![2])), ("x", value)]);
    let file = saved(&all, &[vec![1.0, 2.0]]);
    read(&Torch, &Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), file)])), &[]).unwrap().0
}

fn json(contents: &Contents, key: &str) -> String {
    serde_json::to_string(contents.checkpoint.metadata.value("torch", key).unwrap()).unwrap()
}

fn has_note(contents: &Contents, text: &str) -> bool {
    contents.notes.iter().any(|note| note.contains(text))
}

fn object() -> Py {
    Py::Object("mine", "Thing", Vec::new())
}

#[test]
fn only_the_value_that_is_not_plain_is_left_out() {
    let list = Py::List(vec![Py::Int(1), object(), dict(vec![("x", Py::Int(3)), ("o", object())])]);
    let contents = open(dict(vec![("a", dict(vec![("b", object()), ("d", Py::Int(1))])), ("l", list)]));
    assert_eq!(json(&contents, "x"), r#"{"a":{"d":1},"l":[1,null,{"x":3}]}"#);
    for name in ["'x.a.b' (a call of mine.Thing)", "'x.l.1' (", "'x.l.2.o' (", "3 values beside the tensors"]
    {
        assert!(has_note(&contents, name), "{name}: {:?}", contents.notes);
    }
}

#[test]
fn a_key_without_a_text_and_a_second_key_of_one_text_are_left_out_alone() {
    let pairs = vec![
        (Py::Int(1), Py::Int(10)),
        (Py::Text("1"), Py::Int(11)),
        (Py::Tuple(vec![object()]), Py::Int(12)),
        (Py::Text("k"), Py::Int(13)),
    ];
    let contents = open(Py::Dict(pairs));
    assert_eq!(json(&contents, "x"), r#"{"1":10,"k":13}"#);
    assert!(has_note(&contents, "2 values beside the tensors"), "{:?}", contents.notes);
}

#[test]
fn a_list_that_is_too_long_is_left_out_alone() {
    let long = Py::Shared(Box::new(Py::Int(7)), 70_000);
    let contents = open(dict(vec![("a", Py::Int(1)), ("long", long), ("z", Py::Int(2))]));
    assert_eq!(json(&contents, "x"), r#"{"a":1,"z":2}"#);
    assert!(has_note(&contents, "'x.long' (a list with too many values)"), "{:?}", contents.notes);
}

#[test]
fn the_containers_of_omegaconf_are_read_as_plain_values() {
    let node = |kind: &'static str, value: Py| {
        Py::Object("omegaconf.nodes", kind, vec![("_metadata", object()), ("_val", value)])
    };
    let content = dict(vec![
        ("dim", node("IntegerNode", Py::Int(3))),
        ("name", node("AnyNode", Py::Text("${other}"))),
        ("kind", node("EnumNode", object())),
        (
            "layers",
            Py::Object(
                "omegaconf.listconfig",
                "ListConfig",
                vec![("_content", Py::List(vec![node("AnyNode", Py::Int(1)), node("AnyNode", Py::None)]))],
            ),
        ),
    ]);
    let fields = vec![("_metadata", object()), ("_parent", Py::None), ("_content", content)];
    let contents = open(Py::Object("omegaconf.dictconfig", "DictConfig", fields));
    assert_eq!(json(&contents, "x"), r#"{"dim":3,"name":"${other}","layers":[1,null]}"#);
    assert!(has_note(&contents, "1 value beside the tensors left out: 'x.kind' (a call of mine.Thing)"));
}

#[test]
fn reports_have_the_values_around_what_is_left_out() {
    let Some(path) = case_folder("reports/metadata-all-or-nothing") else { return };
    let of = |file: &str| read(&Torch, &Input::open(path.join(file)).unwrap(), &[]).unwrap().0;
    let contents = of("lightning.ckpt");
    assert_eq!(json(&contents, "hyper_parameters"), r#"{"dim":3,"lr":0.001}"#);
    assert!(has_note(&contents, "'hyper_parameters.act' (torch.nn.modules.activation.ReLU)"));
    let contents = of("nested.pt");
    assert_eq!(
        (&*json(&contents, "a"), &*json(&contents, "l")),
        (r#"{"b":{"d":1},"e":2}"#, r#"[1,null,{"x":3}]"#)
    );
    assert!(has_note(&contents, "'a.b.c' (") && has_note(&contents, "'l.1' ("));
    let contents = of("nested_with_tensor.pt");
    assert_eq!((&*json(&contents, "a.b.d"), &*json(&contents, "a.e")), ("1", "2"));
    assert!(has_note(&contents, "'a.b.c' ("));
}

#[test]
fn what_trainers_store_beside_a_distributed_checkpoint_is_metadata_of_its_own() {
    let Some(path) = case_dir("dcp_single") else { return };
    let files = std::fs::read_dir(path.join("dcp")).unwrap().map(|entry| entry.unwrap());
    let mut files: BTreeMap<String, Vec<u8>> = files
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    let value = dict(vec![
        ("epoch", Py::Int(4)),
        ("rng", Py::Floats(0, vec![2])),
        ("hyper_parameters", dict(vec![("lr", Py::Int(1)), ("act", object())])),
    ]);
    files.insert("meta.pt".to_owned(), saved(&value, &[vec![1.0, 2.0]]));
    files.insert("common.pt".to_owned(), saved(&dict(vec![("iteration", Py::Int(9))]), &[]));
    files.insert("other.pt".to_owned(), pickle(&Py::None));
    let (contents, _) = read(&Torch, &Input::memory("", files.clone()), &[]).unwrap();
    let metadata = &contents.checkpoint.metadata;
    let number = |namespace: &str, key: &str| metadata.value(namespace, key).and_then(MetadataValue::as_u64);
    assert_eq!((number("torch.meta", "epoch"), number("torch.common", "iteration")), (Some(4), Some(9)));
    for note in [
        "1 tensor of 'meta.pt' left out, which can be read from that file: rng",
        "1 value of 'meta.pt' left out: 'hyper_parameters.act' (a call of mine.Thing)",
        "1 file beside the shards not read: other.pt",
    ] {
        assert!(has_note(&contents, note), "{note}: {:?}", contents.notes);
    }
    // Neither form of PyTorch's own has a place for them.
    for name in ["out.pt", "out"] {
        let placed = Torch.place(&contents.checkpoint, name, &Options::default()).unwrap();
        let lost = |subject: &str| placed.losses.iter().any(|loss| loss.subject == subject);
        assert!(lost("torch.meta.epoch") && lost("torch.common.iteration"), "{:?}", placed.losses);
    }
    files.insert("common.pt".to_owned(), pickle(&Py::None));
    let (contents, _) = read(&Torch, &Input::memory("", files), &[]).unwrap();
    assert!(
        has_note(&contents, "'common.pt' beside the shards not read: the file is a pickle"),
        "{:?}",
        contents.notes
    );
}
