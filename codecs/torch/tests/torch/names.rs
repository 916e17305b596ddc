//! Names of tensors: the keys that lead to them, joined with dots.

use crate::build::{Py, dict, saved};
use ckpt_api::{Input, Kind};
use ckpt_torch::Torch;
use std::collections::BTreeMap;

#[test]
fn two_tensors_of_one_name_are_told_apart_by_their_keys() {
    let value = dict(vec![
        ("a.b", Py::Floats(0, vec![2])),
        ("a", dict(vec![("b", Py::Floats(1, vec![2]))])),
        ("c", Py::Floats(0, vec![2])),
    ]);
    let bytes = saved(&value, &[vec![1.0, 2.0], vec![3.0, 4.0]]);
    let input = Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), bytes)]));
    let error = ckpt_conformance::read(&Torch, &input, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    for part in ["tensor a.b", "['a.b'] and ['a']['b']", "--set root="] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    let root = [("root".to_owned(), "a".to_owned())];
    let (contents, _) = ckpt_conformance::read(&Torch, &input, &root).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].name, "b");
}
