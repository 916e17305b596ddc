//! Files that PaddlePaddle wrote, and changed ones, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Contents, DType, Input, Kind};
use ckpt_conformance::Case;
use ckpt_paddle::Paddle;

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = Case::all("paddle") else { return };
    let seen = Case::try_all(&cases, &Paddle, Case::differences, |error| {
        matches!(error.kind(), Kind::Corrupt | Kind::Unsupported) && error.context().file.is_some()
    });
    let expected = [("ok: read", 9), ("ok-or-refuse: read", 1), ("refuse: refused", 18)];
    assert_eq!(seen, expected.map(|(k, n)| (k.to_owned(), n)).into());
}

#[test]
fn every_file_that_is_read_comes_back_byte_for_byte_unless_it_is_a_text() {
    let Some(cases) = Case::all("paddle") else { return };
    let (mut same, mut others) = (0, Vec::new());
    for case in &cases {
        if case.expect() == "refuse" {
            continue;
        }
        let (contents, values) = case.read(&Paddle).unwrap();
        let output = case.path.file_name().unwrap().to_str().unwrap();
        let files = ckpt_conformance::write(&Paddle, &contents.checkpoint, &values, output, &[]).unwrap();
        if files[output] == std::fs::read(&case.path).unwrap() {
            same += 1;
            continue;
        }
        others.push(case.name.as_str());
        let (again, back) = ckpt_conformance::read(&Paddle, &Input::memory(output, files), &[]).unwrap();
        let names = |contents: &Contents| -> Vec<String> {
            contents.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string()).collect()
        };
        assert_eq!(names(&again), names(&contents), "{}", case.name);
        assert!(back == values, "{}: other values", case.name);
    }
    // In protocol 2, bytes are characters of a text.
    assert_eq!((same, &others[..]), (8, &["pdparams_big_slices", "pdparams_protocol2"][..]));
}

#[test]
fn integers_of_16_bits_are_bf16_on_request() {
    let Some(cases) = Case::all("paddle") else { return };
    let case = cases.iter().find(|case| case.name == "pdparams_bfloat16").unwrap();
    let input = Input::open(&case.path).unwrap();
    let (contents, values) =
        ckpt_conformance::read(&Paddle, &input, &[("bf16".to_owned(), "true".to_owned())]).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].dtype, DType::Bf16);
    let written = ckpt_conformance::write(&Paddle, &contents.checkpoint, &values, "m.pdparams", &[]).unwrap();
    assert_eq!(written["m.pdparams"], std::fs::read(&case.path).unwrap());
    let (plain, bits) = case.read(&Paddle).unwrap();
    assert_eq!((plain.checkpoint.tensors[0].dtype, bits), (DType::U16, values));
    assert!(plain.all_notes().any(|note| note.contains("bf16=true")));
}

#[test]
fn a_program_beside_the_parameters_is_the_graph() {
    let Some(cases) = Case::all("paddle") else { return };
    let ops = |name: &str| {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let (contents, _) = case.read(&Paddle).unwrap();
        let graph = contents.checkpoint.graph.unwrap();
        graph.nodes.iter().map(|node| node.op.name().to_owned()).collect::<Vec<String>>()
    };
    assert_eq!(ops("inference_mlp"), ["Gemm", "Relu", "Gemm"]);
    assert_eq!(
        ops("inference_convnet"),
        ["Conv", "BatchNormalization", "Relu", "MaxPool", "Flatten", "Gemm"]
    );
}
