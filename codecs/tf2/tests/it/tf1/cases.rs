//! Files that TensorFlow wrote, or that were damaged since, each with what it holds.

use super::build::read;
use ckpt_api::Input;
use ckpt_conformance::{Case, cases};
use ckpt_tf2::Tf1;

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = Case::all("graphdef") else { return };
    let seen = Case::try_all(&cases, &Tf1, Case::differences, |_| true);
    let expected = [("ok: read", 8), ("ok-or-refuse: refused", 1), ("refuse: refused", 18)];
    assert_eq!(seen, expected.map(|(k, n)| (k.to_owned(), n)).into());
}

#[test]
fn the_graphs_of_all_frozen_models_are_read() {
    let Some(cases) = cases("graphdef") else { return };
    let mut seen = Vec::new();
    for (path, expected) in cases.iter().filter(|(_, expected)| expected["io"].is_string()) {
        let input = Input::open(path.join(expected["open"].as_str().unwrap())).unwrap();
        let contents = read(&input).unwrap();
        let reason = contents.missing_graph.map(|missing| missing.reason);
        assert!(contents.checkpoint.graph.is_some(), "{}: {reason:?}", path.display());
        seen.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    assert_eq!(seen, ["frozen_attention", "frozen_cnn", "frozen_mlp"]);
}
