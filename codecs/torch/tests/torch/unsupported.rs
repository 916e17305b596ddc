//! Tensors that cannot be represented: each is refused by its name, and left out where that is asked for.

use crate::build::saved_pickle;
use ckpt_api::{Contents, Input, Kind, Result};
use ckpt_torch::Torch;
use std::collections::BTreeMap;

const GOOD: &str = "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ";

fn text(text: &str) -> String {
    let len = String::from_utf8((text.len() as u32).to_le_bytes().to_vec()).unwrap();
    format!("X{len}{text}")
}

/// What is read of a file with the tensor `good` and, as `odd`, what these opcodes make.
fn read(odd: &[u8], options: &[(&str, &str)]) -> Result<Contents> {
    let good = format!("{}ctorch._utils\n_rebuild_tensor_v2\n({GOOD}K\0(K\x02t(K\x01tI00\nNtR", text("good"));
    let pickle = [b"\x80\x02}(", good.as_bytes(), text("odd").as_bytes(), odd, b"u."].concat();
    let bytes = saved_pickle(&pickle, &[vec![1.0, 2.0]]);
    let options: Vec<_> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let input = Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), bytes)]));
    ckpt_conformance::read(&Torch, &input, &options).map(|(contents, _)| contents)
}

fn check(odd: &str, message: &str, instead: &str) {
    let error = read(odd.as_bytes(), &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    for part in [message, instead, "tensor odd", "leave the tensor out with the option `lenient=true`"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    let contents = read(odd.as_bytes(), &[("lenient", "true")]).unwrap();
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["good"]);
    let [repair] = &contents.repairs[..] else { panic!("{:?}", contents.repairs) };
    assert!(repair.subject == "odd" && repair.detail.ends_with("it is left out"), "{repair:?}");
}

#[test]
fn sparse_tensors_of_every_layout_are_refused_by_it() {
    for layout in ["coo", "csr", "csc", "bsr", "bsc"] {
        let layout = format!("torch.sparse_{layout}");
        let of = format!("ctorch.serialization\n_get_layout\n({}tR", text(&layout));
        let odd = format!("ctorch._utils\n_rebuild_sparse_tensor\n({of}(NNNttR");
        check(&odd, "a sparse tensor is not supported", "tensor.to_dense()");
        let error = read(odd.as_bytes(), &[]).unwrap_err().to_string();
        assert!(error.contains(&layout), "{error}");
    }
}

#[test]
fn nested_tensors_and_those_of_unknown_functions_are_refused() {
    let nested = "ctorch._utils\n_rebuild_nested_tensor\n(NNNNtR";
    check(nested, "a nested tensor is not supported", "tensor.unbind()");
    let made = |function: &str| {
        format!("ctorch._tensor\n_rebuild_from_type_v2\n(c{function}\nctorch\nTensor\n(NNt}}tR")
    };
    let jagged = made("torch.nested._internal.nested_tensor\n_rebuild_njt");
    check(&jagged, "a nested tensor is not supported", "tensor.unbind()");
    let wrapper = "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_subclass\ncmine\nWrapper\n\
                   (cmine\nWrapper\nctorch\nfloat32\n(K\x02t(K\x01tt}tR";
    check(wrapper, "a subclass of a tensor that wraps others is not supported", "save a dense tensor");
    let error = read(wrapper.as_bytes(), &[]).unwrap_err().to_string();
    assert!(error.contains("mine.Wrapper"), "{error}");
    check(&made("mine\nrebuild"), "an unknown function makes is not supported", "save a plain tensor");
    let error = read(made("mine\nrebuild").as_bytes(), &[]).unwrap_err().to_string();
    assert!(error.contains("mine.rebuild"), "{error}");
}

#[test]
fn negated_views_of_integers_are_refused_by_what_resolves_them() {
    for (class, flag) in [("Int", "neg"), ("Float", "conj"), ("Bool", "neg")] {
        let storage = GOOD.replace("FloatStorage", &format!("{class}Storage"));
        let odd = format!(
            "ctorch._utils\n_rebuild_tensor_v2\n({storage}K\0(K\x01t(K\x01tI00\nN}}{}I01\nstR",
            text(flag)
        );
        check(&odd, "a conjugated or negated view of numbers that are no floats", "tensor.resolve_conj()");
    }
}

#[test]
fn types_that_no_other_format_has_are_refused_by_what_replaces_them() {
    for (name, instead) in [
        ("complex32", "tensor.to(torch.complex64)"),
        ("bcomplex32", "save it as another type"),
        ("float4_e2m1fn_x2", "tensor.view(torch.uint8)"),
        ("bits8", "tensor.view(torch.uint8)"),
        ("bits16", "tensor.view(torch.uint8)"),
        ("int9", "save it as another type"),
    ] {
        let storage = GOOD.replace("torch\nFloatStorage", "torch.storage\nUntypedStorage");
        let odd =
            format!("ctorch._utils\n_rebuild_tensor_v3\n({storage}K\0(K\x01t(K\x01tI00\nNctorch\n{name}\ntR");
        check(&odd, "the tensor's type is not supported", instead);
        let error = read(odd.as_bytes(), &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("torch.{name}")), "{error}");
    }
    for class in ["QUInt4x2", "QUInt2x4"] {
        let storage = GOOD.replace("FloatStorage", &format!("{class}Storage"));
        let scheme = "(ctorch\nper_tensor_affine\nF1.0\nK\0t";
        let odd = format!("ctorch._utils\n_rebuild_qtensor\n({storage}K\0(K\x02t(K\x01t{scheme}I00\nNtR");
        check(&odd, "the tensor's type is not supported", "tensor.dequantize()");
    }
}
