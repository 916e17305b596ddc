//! Files that MXNet wrote, and changed ones, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Contents, Input, Kind};
use ckpt_conformance::Case;
use ckpt_mxnet::Mxnet;

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = Case::all("mxnet") else { return };
    let seen = Case::try_all(&cases, &Mxnet, Case::differences, |error| {
        let context = error.context();
        error.kind() == Kind::Corrupt && context.offset.is_some() && context.file.is_some()
    });
    assert_eq!(seen, [("ok: read", 10), ("refuse: refused", 17)].map(|(k, n)| (k.to_owned(), n)).into());
}

#[test]
fn every_file_that_is_read_comes_back_byte_for_byte_unless_it_is_sparse() {
    let Some(cases) = Case::all("mxnet") else { return };
    let (mut same, mut others) = (0, Vec::new());
    for case in &cases {
        if case.expect() != "ok" {
            continue;
        }
        let (contents, values) = case.read(&Mxnet).unwrap();
        let checkpoint = &contents.checkpoint;
        let files = ckpt_conformance::write(&Mxnet, checkpoint, &values, "out.params", &[]).unwrap();
        if files["out.params"] == std::fs::read(&case.path).unwrap() {
            same += 1;
            continue;
        }
        others.push(case.name.as_str());
        let (again, back) = ckpt_conformance::read(&Mxnet, &Input::memory("out.params", files), &[]).unwrap();
        let names = |contents: &Contents| -> Vec<String> {
            contents.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string()).collect()
        };
        assert_eq!(names(&again), names(&contents), "{}", case.name);
        assert!(back == values, "{}: other values", case.name);
    }
    assert_eq!((same, &others[..]), (8, &["csr", "row_sparse"][..]));
}

#[test]
fn a_symbol_beside_the_parameters_is_the_graph() {
    let Some(cases) = Case::all("mxnet") else { return };
    let case = cases.iter().find(|case| case.name == "module").unwrap();
    let (contents, _) = case.read(&Mxnet).unwrap();
    let graph = contents.checkpoint.graph.unwrap();
    let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(ops, ["Conv", "BatchNormalization", "Relu", "MaxPool", "Flatten", "Gemm", "Softmax"]);
    assert_eq!(graph.inputs[0].shape, [None, Some(3), None, None]);
    assert_eq!((graph.inputs.len(), graph.outputs[0].name.as_str()), (1, "softmax_output"));
}
