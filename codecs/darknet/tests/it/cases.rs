//! Weights with what they hold: the directory that `CKPT_CASES` names; without it, these tests say that they skip.

use ckpt_api::{Codec, Input, Kind, Match};
use ckpt_conformance::Case;
use ckpt_darknet::Darknet;

#[test]
fn every_case_is_read_with_its_values_and_written_again_or_refused() {
    let Some(cases) = Case::all("darknet") else { return };
    let seen = Case::try_all(
        &cases,
        &Darknet,
        |case, contents, values| {
            let mut wrong = case.differences(contents, values);
            if !matches!(Darknet.probe(&Input::open(&case.path).unwrap()).unwrap(), Match::Certain(_)) {
                wrong.push("not recognized".to_owned());
            }
            if contents.checkpoint.graph.is_none() {
                wrong.push(format!("{:?}", contents.missing_graph));
            }
            let files =
                ckpt_conformance::write(&Darknet, &contents.checkpoint, values, "out.weights", &[]).unwrap();
            for (written, read) in [("out.weights", "model.weights"), ("out.cfg", "model.cfg")] {
                let read = std::fs::read(case.path.with_file_name(read)).unwrap();
                assert!(files[written] == read, "{}: {written}", case.name);
            }
            wrong
        },
        |error| {
            let context = error.context();
            let is_known = matches!(error.kind(), Kind::Corrupt | Kind::Unsupported | Kind::Usage);
            let is_placed = context.offset.is_some() || context.field.is_some() || context.help.is_some();
            is_known && context.file.is_some() && is_placed && context.found.is_some()
        },
    );
    assert_eq!(seen, [("ok: read", 9), ("refuse: refused", 17)].map(|(k, n)| (k.to_owned(), n)).into());
}
