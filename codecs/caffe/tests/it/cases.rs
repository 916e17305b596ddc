//! Models with what they hold: the directory that `CKPT_CASES` names; without it, these tests say that they skip.

use ckpt_api::{Codec, Input, Kind, Match};
use ckpt_caffe::Caffe;
use ckpt_conformance::Case;

#[test]
fn every_case_is_read_with_its_values_and_written_again_or_refused() {
    let Some(cases) = Case::all("caffe") else { return };
    let seen = Case::try_all(
        &cases,
        &Caffe,
        |case, contents, values| {
            let mut wrong = case.differences(contents, values);
            if !matches!(Caffe.probe(&Input::open(&case.path).unwrap()).unwrap(), Match::Certain(_)) {
                wrong.push("not recognized".to_owned());
            }
            let text = case.path.with_file_name("deploy.prototxt");
            if contents.checkpoint.graph.is_some() != text.exists() {
                wrong.push(format!("{:?}", contents.missing_graph));
            }
            let files = ckpt_conformance::write(&Caffe, &contents.checkpoint, values, "out.caffemodel", &[]);
            if case.name == "unpacked" {
                assert!(files.unwrap_err().to_string().contains("like=FILE"));
                return wrong;
            }
            let files = files.unwrap();
            assert!(files["out.caffemodel"] == std::fs::read(&case.path).unwrap(), "{}", case.name);
            let is_same = !text.exists() || files["out.prototxt"] == std::fs::read(&text).unwrap();
            assert!(is_same, "{}: another text", case.name);
            wrong
        },
        |error| {
            let context = error.context();
            let is_known = matches!(error.kind(), Kind::Corrupt | Kind::Unsupported);
            let is_placed = context.offset.is_some() || context.field.is_some() || context.help.is_some();
            is_known && context.file.is_some() && is_placed
        },
    );
    let expected = [("ok: read", 8), ("ok-or-refuse: refused", 2), ("refuse: refused", 15)];
    assert_eq!(seen, expected.map(|(k, n)| (k.to_owned(), n)).into());
}
