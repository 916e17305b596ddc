//! Models that TensorFlow.js and its converter wrote, each with what it holds: the directory that `CKPT_CASES` names; without
//! it, these tests say that they skip.

use ckpt_api::{Codec, Contents, DType, Input, Match};
use ckpt_conformance::Case;
use ckpt_tfjs::Tfjs;

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = Case::all("tfjs") else { return };
    let read = |case: &Case, contents: &Contents, values: &[Vec<u8>]| {
        let mut wrong = case.differences(contents, values);
        // Texts are stated by their names alone.
        for name in case.expected["strings"].as_array().unwrap_or(&Vec::new()) {
            let name = name.as_str().unwrap();
            let own = contents.checkpoint.tensors.iter().find(|tensor| tensor.name == name);
            let is_text = own.is_some_and(|tensor| tensor.dtype == DType::String);
            let unstated = wrong.iter().position(|what| *what == format!("'{name}' is not stated"));
            match unstated.filter(|_| is_text) {
                Some(at) => drop(wrong.remove(at)),
                None => wrong.push(format!("'{name}' is no text")),
            }
        }
        if !matches!(Tfjs.probe(&Input::open(&case.path).unwrap()).unwrap(), Match::Certain(_)) {
            wrong.push("not recognized".to_owned());
        }
        wrong
    };
    let seen = Case::try_all(&cases, &Tfjs, read, |_| true);
    let expected =
        [("ok-or-refuse: read", 2), ("ok-or-refuse: refused", 1), ("ok: read", 36), ("refuse: refused", 34)];
    assert_eq!(seen, expected.map(|(sort, count)| (sort.to_owned(), count)).into());
}
