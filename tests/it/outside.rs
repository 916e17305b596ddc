//! Files of other people, each with the right answer, and what a command says of them.

use crate::common::{cases, files, workplace::Workplace};
use std::path::{Path, PathBuf};

/// A file of a report; `None`, said aloud, without the cases.
fn report(name: &str) -> Option<PathBuf> {
    cases("reports").map(|root| root.join(name))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a command that succeeds says of its work, beside its output.
fn reported(place: &Workplace, arguments: &[&str]) -> String {
    let output = place.ckpt(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

#[test]
fn quantized_weights_are_not_written_without_their_scales() {
    let Some(root) = report("fp8-cast-without-scale") else { return };
    let place = Workplace::new();
    let mut seen = 0;
    for (name, target, more, says) in [
        ("blocks", "o.gguf", &[][..], "fp8 e4m3 128x128"),
        ("blocks", "o.npz", &[], "fp8 e4m3 128x128"),
        ("blocks", "o.safetensors", &["--exclude", "**.weight_scale_inv"], "is not written"),
        ("gptq", "o.safetensors", &["--dtype", "bf16"], "GPTQ"),
        ("gptq", "o.safetensors", &["--exclude", "**.scales"], "'.scales' is not written"),
        ("nf4", "o.gguf", &[], "bitsandbytes nf4 g64"),
    ] {
        let source = root.join(format!("{name}.safetensors"));
        let said = place.refused(&[&["convert", text(&source), target][..], more].concat());
        assert!(said.contains("scale-dropped") && said.contains(says), "{name} to {target}: {said}");
        seen += 1;
    }
    for (name, target, more) in [
        ("blocks", "b.safetensors", &[][..]),
        ("gptq", "g.npz", &[]),
        ("nf4", "n.npz", &["--keep-quantized"]),
    ] {
        let source = root.join(format!("{name}.safetensors"));
        let said = reported(&place, &[&["convert", text(&source), target][..], more].concat());
        assert!(said.contains("quantized weights"), "{name} to {target}: {said}");
        seen += 1;
    }
    let blocks = root.join("blocks.safetensors");
    let map = ["--map", "fp8-blocks-to-bf16", "--allow", "narrowed"];
    let said = reported(&place, &[&["convert", text(&blocks), "numbers.safetensors"][..], &map].concat());
    assert!(!said.contains("quantized weights") && said.contains("dequantized"), "{said}");
    for name in ["blocks", "nf4"] {
        let (source, target) = (root.join(format!("{name}.safetensors")), format!("{name}-f16.safetensors"));
        let said = reported(&place, &["convert", text(&source), &target, "--dtype", "f16"]);
        assert!(said.contains("dequantized (1)"), "{name}: {said}");
        seen += 1;
    }
    assert_eq!(seen, 11);
}

#[test]
fn a_file_of_pytorch_states_its_framework_in_safetensors() {
    let Some(root) = report("bin-to-safetensors-for-transformers") else { return };
    let place = Workplace::new();
    place.says(&["convert", text(&root.join("pytorch_model.bin")), "model.safetensors"]);
    let said = place.says(&["inspect", "model.safetensors"]);
    assert!(said.contains("safetensors.format: pt"), "{said}");
}

#[test]
fn tensors_that_an_index_does_not_list_are_read_and_copies_are_noted() {
    let Some(root) = report("index-with-extra-tensors") else { return };
    let place = Workplace::new();
    for (name, tensors, says) in [
        (
            "unlisted",
            "4 tensors",
            "does not list tensors of its files, which are read, too: 'rotary.inv_freq'",
        ),
        ("copy", "3 tensors", "equal copies of tensors that the index places in another file: 'a'"),
    ] {
        let said = place.says(&["inspect", text(&root.join(name))]);
        assert!(said.contains(tensors) && said.contains(says), "{name}: {said}");
    }
}

#[test]
fn a_name_with_a_leading_slash_is_a_name() {
    let Some(root) = report("npz-leading-slash") else { return };
    let place = Workplace::new();
    place.says(&["convert", text(&root.join("slash.onnx")), "slash.npz"]);
    for path in [root.join("np.npz"), place.path("slash.npz")] {
        let said = place.says(&["inspect", text(&path)]);
        assert!(said.contains("/Constant_output_0"), "{said}");
    }
}

#[test]
fn a_mapping_that_changes_nothing_says_so() {
    let place = Workplace::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/safetensors/accept/two_tensors.safetensors");
    let said = reported(&place, &["convert", source, "same.safetensors", "--map", "fp8-blocks-to-bf16"]);
    assert!(said.contains("the mapping changes nothing"), "{said}");
}

#[test]
fn a_file_that_is_not_written_byte_for_byte_is_noted() {
    let place = Workplace::new();
    let (mut kept, mut noted) = (0, 0);
    for (format, ending) in [("safetensors", ".safetensors"), ("npz", ".npz"), ("gguf", ".gguf")] {
        let folder = format!("{}/corpus/{format}/accept", env!("CARGO_MANIFEST_DIR"));
        for source in files(Path::new(&folder), ending) {
            let target = format!("{}{ending}", kept + noted);
            let output = place.ckpt(&["convert", text(&source), &target, "--clone", "never"]);
            let said = String::from_utf8(output.stderr).unwrap();
            if !output.status.success() || said.contains("dropped or changed") {
                continue;
            }
            let (before, after) =
                (std::fs::read(&source).unwrap(), std::fs::read(place.path(&target)).unwrap());
            let (is_same, is_noted) = (before == after, said.contains("not written byte for byte"));
            assert_eq!(is_noted, !is_same, "{}: {said}", source.display());
            *(if is_same { &mut kept } else { &mut noted }) += 1;
        }
    }
    assert!(kept >= 5 && noted >= 3, "{kept} kept, {noted} noted");
}

#[test]
fn run_replaces_a_file_with_force_but_never_the_model() {
    let place = Workplace::new();
    let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits_saved_model");
    place.says(&["convert", model, "digits.nn"]);
    place.says(&["run", "digits.nn", "--output", "out.npz"]);
    let said = place.refused(&["run", "digits.nn", "--output", "out.npz"]);
    assert!(said.contains("--force"), "{said}");
    place.says(&["run", "digits.nn", "--output", "out.npz", "--force"]);
    place.says(&["convert", digits, "digits.safetensors"]);
    let before = std::fs::read(place.path("digits.safetensors")).unwrap();
    let said = place.refused(&["run", "digits.safetensors", "--output", "digits.safetensors", "--force"]);
    assert!(said.contains("replace the model"), "{said}");
    assert_eq!(std::fs::read(place.path("digits.safetensors")).unwrap(), before);
}

#[test]
fn weights_of_another_model_are_refused_with_both_shapes_and_both_files() {
    let place = Workplace::new();
    let corpus = |name: &str| format!("{}/corpus/keras/accept/{name}", env!("CARGO_MANIFEST_DIR"));
    let weights = corpus("outside_weights.weights.h5");
    for (target, model) in [("o.onnx", "archive/m.keras"), ("o.keras", "archive/m.keras")] {
        let says = [
            "a tensor has another shape",
            "outside_weights.weights.h5",
            "tensor    layers/dense/vars/0",
            "found     [4, 3]",
            "expected  [2, 3], as in ",
            "m.keras",
        ];
        place.refuses(&["convert", &weights, target, "--arch", &corpus(model)], 2, &says);
    }
    let Some(root) = report("keras-weights-and-arch") else { return };
    let (weights, model) = (root.join("only_weights.h5"), corpus("outside_model.keras"));
    for more in [&["--map", "keras-to-torch"][..], &[]] {
        let arguments = [&["convert", text(&weights), "o.onnx", "--arch", &model][..], more].concat();
        let says = [
            "only_weights.h5",
            "tensor    b1/b1/beta:0",
            "found     [2]",
            "expected  [3], as in ",
            "outside_model.keras",
        ];
        place.refuses(&arguments, 2, &says);
    }
}

#[test]
fn integers_of_keras_stop_a_conversion_to_floats_and_no_other() {
    let Some(root) = cases("keras") else { return };
    let place = Workplace::new();
    let source = root.join("k3_int8").join("model.keras");
    for dtype in ["f32", "f16"] {
        let says = ["scale-dropped", "int8 or int4 of Keras", "layers/dense/vars/0"];
        place.refuses(&["convert", text(&source), "o.safetensors", "--dtype", dtype], 1, &says);
    }
    place.says(&["convert", text(&source), "o.safetensors", "--dtype", "f32", "--allow", "scale-dropped"]);
    let said = reported(&place, &["convert", text(&source), "as_they_are.safetensors"]);
    assert!(said.contains("quantized weights"), "{said}");
}
