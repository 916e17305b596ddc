//! Pickled modules and TorchScript archives: what their state dicts have, what is packed, what is left out.

use crate::build::archive;
use ckpt_api::{Contents, Input, LossKind};
use ckpt_torch::Torch;
use std::collections::BTreeMap;

pub fn text(text: &str) -> String {
    let len = String::from_utf8((text.len() as u32).to_le_bytes().to_vec()).unwrap();
    format!("X{len}{text}")
}

pub fn dict(entries: &[(&str, String)]) -> String {
    let entries: Vec<String> = entries.iter().map(|(key, value)| text(key) + value).collect();
    format!("}}({}u", entries.concat())
}

/// One number, that of the storage with this key.
pub fn tensor(key: u8) -> String {
    let storage =
        format!("({}ctorch\nFloatStorage\n{}{}K\x01tQ", text("storage"), text(&key.to_string()), text("cpu"));
    format!("ctorch._utils\n_rebuild_tensor_v2\n({storage}K\0(K\x01t(K\x01tI00\nNtR")
}

/// An object of a class whose state is this.
pub fn object(class: &str, state: &str) -> String {
    format!("c{class}\n)R{state}b")
}

fn module(
    class: &str,
    parameters: &[(&str, String)],
    modules: &[(&str, String)],
    others: &[(&str, String)],
) -> String {
    let own = [("_parameters", dict(parameters)), ("_buffers", dict(&[])), ("_modules", dict(modules))];
    object(class, &dict(&[&own[..], others].concat()))
}

/// A file of `torch.save` with this value, four storages of a number each, and other members.
pub fn saved(value: &str, others: &[(&str, &str)]) -> Vec<u8> {
    let pickle = [b"\x80\x02", value.as_bytes(), b"."].concat();
    let numbers: Vec<[u8; 4]> = (0..4u8).map(|number| f32::from(number).to_le_bytes()).collect();
    let mut records: Vec<(String, Vec<u8>)> = vec![("m/data.pkl".to_owned(), pickle)];
    records
        .extend(numbers.iter().enumerate().map(|(key, number)| (format!("m/data/{key}"), number.to_vec())));
    records.push(("m/version".to_owned(), b"3\n".to_vec()));
    records.extend(others.iter().map(|(name, data)| (format!("m/{name}"), data.as_bytes().to_vec())));
    let records: Vec<(&str, &[u8])> =
        records.iter().map(|(name, data)| (name.as_str(), data.as_slice())).collect();
    archive(&records, 64)
}

fn read(value: &str, others: &[(&str, &str)]) -> Contents {
    let input = Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), saved(value, others))]));
    ckpt_conformance::read(&Torch, &input, &[]).unwrap().0
}

fn names(contents: &Contents) -> Vec<&str> {
    contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect()
}

fn lost(contents: &Contents) -> Vec<(LossKind, &str)> {
    contents.losses.iter().map(|loss| (loss.kind, loss.subject.as_str())).collect()
}

const PACKED: &str = "__torch__.torch.classes.quantized.LinearPackedParamsBase";

fn script_object(contents: &str, class: &str) -> String {
    object("torch\nScriptObject", &format!("({contents}{}t", text(class)))
}

#[test]
fn packed_weights_have_the_names_that_a_state_dict_gives_them() {
    let packed = script_object(&format!("({}{}t", tensor(0), tensor(1)), PACKED);
    let packing = module(
        "torch.ao.nn.quantized.modules.linear\nLinearPackedParams",
        &[],
        &[],
        &[("_packed_params", packed)],
    );
    let scale = ("scale", "G?`\0\0\0\0\0\0".to_owned());
    let class = "torch.ao.nn.quantized.modules.linear\nLinear";
    let linear =
        module(class, &[], &[("_packed_params", packing)], &[scale, ("version", "K\x04".to_owned())]);
    let contents = read(&module("torch.nn\nSequential", &[], &[("0", linear)], &[]), &[]);
    let expected = ["0._packed_params._packed_params.0", "0._packed_params._packed_params.1"];
    assert_eq!(names(&contents), expected);
    assert!(contents.losses.is_empty());
    let scale = contents.checkpoint.metadata.value("torch", "0.scale").and_then(|scale| scale.as_f64());
    assert!(scale.is_some(), "{:?}", contents.checkpoint.metadata);
}

#[test]
fn a_packed_embedding_is_its_weight_and_a_packed_convolution_its_arguments() {
    let class = "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase";
    let packed = script_object(&format!("(K\x01]{}a]](K\x08et", tensor(0)), class);
    let embedding = module("a\nPackedParams", &[], &[], &[("_packed_weight", packed)]);
    let arguments: Vec<String> = (0..10).map(|_| "N".to_owned()).chain([tensor(1), tensor(2)]).collect();
    let state = format!("({}G?\0\0\0\0\0\0\0K\x07I01\nt", arguments.concat());
    let convolution = object("torch.ao.nn.quantized.modules.conv\nConv2d", &state);
    let contents = read(&module("a\nNet", &[], &[("e", embedding), ("c", convolution)], &[]), &[]);
    assert_eq!(names(&contents), ["e._packed_weight", "c.weight", "c.bias"]);
    assert_eq!(
        contents.checkpoint.metadata.value("torch", "c.zero_point").and_then(|zero| zero.as_u64()),
        Some(7)
    );
}

#[test]
fn attributes_that_hold_tensors_are_losses_by_name_and_parameters_that_they_repeat_are_not() {
    let weight = format!("{}q\x01", tensor(0));
    let list = format!("](h\x01{}e", tensor(1));
    let others = [("_flat_weights", "](h\x01e".to_owned()), ("stride", tensor(2)), ("layers", list)];
    let net = module("a\nNet", &[("w", weight)], &[], &others);
    let contents = read(&dictionary_of("model", &net), &[]);
    assert_eq!(names(&contents), ["model.w"]);
    let dropped = LossKind::MetadataDropped;
    assert_eq!(lost(&contents), [(dropped, "model.stride"), (dropped, "model.layers")]);
    assert!(!contents.is_complete());
}

fn dictionary_of(key: &'static str, value: &str) -> String {
    dict(&[(key, value.to_owned())])
}

#[test]
fn a_module_of_which_nothing_is_left_loses_its_weights() {
    let contents = read(&module("a\nNet", &[], &[], &[("anchors", tensor(0))]), &[]);
    assert_eq!(names(&contents), [""; 0]);
    assert_eq!(lost(&contents), [(LossKind::WeightDropped, "anchors")]);
    let inner = module("a\nHead", &[], &[], &[("stride", tensor(0))]);
    let contents = read(&module("a\nNet", &[("w", tensor(1))], &[("head", inner)], &[]), &[]);
    assert_eq!(lost(&contents), [(LossKind::MetadataDropped, "head.stride")]);
}

#[test]
fn attributes_of_torchscript_are_told_from_parameters_and_buffers_by_its_code() {
    let code =
        "class Net(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = [\"mean\", ]\n  stride : Tensor\n";
    let state = dict(&[
        ("w", tensor(0)),
        ("mean", tensor(1)),
        ("stride", tensor(2)),
        ("packed", object(&PACKED.replace("d.L", "d\nL"), &format!("({}Nt", tensor(3)))),
    ]);
    let net = object("__torch__\nNet", &state);
    let contents = read(&net, &[("code/__torch__.py", code), ("constants.pkl", ").")]);
    assert_eq!(names(&contents), ["w", "mean", "packed.0"]);
    assert_eq!(lost(&contents), [(LossKind::MetadataDropped, "stride")]);
    // Code that does not state the buffers tells nothing.
    let old = code.replace("  __buffers__ = [\"mean\", ]\n", "");
    let contents = read(&net, &[("code/__torch__.py", &old), ("constants.pkl", ").")]);
    assert_eq!(names(&contents), ["w", "mean", "stride", "packed.0"]);
}
