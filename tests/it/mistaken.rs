//! Files that are not what their names promise, directories of one file, and the errors for them.

use crate::common::cases;
use crate::common::workplace::{DIGITS, Workplace};
use std::fs;
use std::path::Path;

const LFS: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a4d7a\nsize 12345678\n";
const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n";
const JSON: &str = "{\"error\":\"Repository not found\"}";
const XML: &str = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>";

/// Each text, and what its error says.
const TEXTS: [(&str, &[&str]); 5] = [
    (LFS, &["a Git LFS pointer", "of 12345678 bytes", "git lfs pull"]),
    (PAGE, &["an HTML page", "'Sign in'", "download"]),
    (JSON, &["in JSON", "'Repository not found'", "download"]),
    (XML, &["in XML", "'AccessDenied'", "download"]),
    ("Entry not found", &["a line of text", "'Entry not found'", "download"]),
];

const ENDINGS: [&str; 16] = [
    "pt",
    "pth",
    "bin",
    "ckpt",
    "safetensors",
    "gguf",
    "h5",
    "keras",
    "weights.h5",
    "npz",
    "npy",
    "onnx",
    "index",
    "nn",
    "index.json",
    "weights.json",
];

/// A model of ONNX whose only tensor is in `w.bin`.
fn onnx() -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat();
    let pair =
        |key: &str, value: &str| field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat());
    let tensor = [&[8, 1, 16, 1][..], &field(8, b"w"), &pair("location", "w.bin"), &[14 << 3, 1]].concat();
    let graph = [field(2, b"g"), field(5, &tensor)].concat();
    [&[8, 8][..], &field(7, &graph), &field(8, &[16, 17])].concat()
}

#[test]
fn a_text_in_the_place_of_a_file_is_named_whatever_its_ending_and_its_format() {
    let place = Workplace::new();
    let formats = ["safetensors", "torch", "onnx", "keras", "npz", "gguf", "nn", "cnn2", "tf2"];
    for (text, says) in TEXTS {
        for ending in ENDINGS {
            let name = format!("m.{ending}");
            place.write(&name, text);
            place.refuses(&["inspect", &name], 5, &[says, &[name.as_str(), "not the file itself"]].concat());
            if text == LFS {
                for format in formats {
                    place.refuses(&["inspect", &name, "--from", format], 5, says);
                }
            }
            fs::remove_file(place.path(&name)).unwrap();
        }
    }
}

#[test]
fn a_text_in_the_place_of_a_part_is_named_before_anything_is_written() {
    let place = Workplace::new();
    let tensors: Vec<_> = (0..4).map(|k| (format!("t{k}"), vec![2], vec![1.0, k as f32])).collect();
    place.checkpoint("m.safetensors", &tensors);
    place.says(&["convert", "m.safetensors", "s.safetensors", "--shard-size", "8", "-q"]);
    place.copy_digits("digits");
    let data = fs::read_dir(place.path("digits"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let data = format!("digits/{}", data.into_iter().find(|name| name.contains(".data-")).unwrap());
    place.write("m.onnx", onnx());
    place.write("w.bin", 1f32.to_le_bytes());
    for (part, named) in [
        ("s-00002-of-00004.safetensors", "s.safetensors.index.json"),
        ("s.safetensors.index.json", "s.safetensors.index.json"),
        (&data, "digits"),
        ("w.bin", "m.onnx"),
    ] {
        place.says(&["inspect", named]);
        let whole = fs::read(place.path(part)).unwrap();
        for (text, says) in &TEXTS[..4] {
            place.write(part, text);
            for arguments in [&["inspect", named][..], &["convert", named, "o.npz"], &["hash", named]] {
                place.refuses(arguments, 5, &[says, &[part][..]].concat());
            }
        }
        place.write(part, whole);
        place.says(&["hash", named]);
    }
}

#[test]
fn an_empty_file_is_called_empty_whatever_its_ending() {
    let place = Workplace::new();
    for ending in ENDINGS {
        let name = format!("m.{ending}");
        place.write(&name, "");
        assert!(place.refused(&["inspect", &name]).contains("the file is empty"), "{ending}");
    }
}

#[test]
fn a_directory_of_one_file_is_that_file_and_of_several_a_question() {
    let place = Workplace::new();
    place.checkpoint("m.safetensors", &[("w".to_owned(), vec![2], vec![1.0, 2.0])]);
    for ending in ["pt", "pth", "bin", "h5", "npz", "npy", "onnx", "nn"] {
        let (directory, target) = (format!("of-{ending}"), format!("of-{ending}/model.{ending}"));
        fs::create_dir(place.path(&directory)).unwrap();
        let file = match ending {
            "pth" | "bin" => "of-pt/model.pt",
            "onnx" | "nn" => {
                if ending == "nn" {
                    let activations = ["--set", "activations=relu,softmax", "--allow", "all", "-q"];
                    place.says(&[&["convert", DIGITS, &target][..], &activations].concat());
                } else {
                    place.write(&target, onnx());
                    place.write("of-onnx/w.bin", 1f32.to_le_bytes());
                }
                &target
            }
            _ => {
                place.says(&["convert", "m.safetensors", &target, "-q"]);
                &target
            }
        };
        if file != target {
            fs::copy(place.path(file), place.path(&target)).unwrap();
        }
        for other in ["config.json", "README.md", "._model.pt", "tokenizer.json"] {
            place.write(&format!("{directory}/{other}"), "{\"model_type\": \"x\"}");
        }
        assert_eq!(hash(&place, &directory), hash(&place, &target), "{ending}");
        place.says(&["convert", &directory, "o.safetensors", "--force", "--allow", "all", "-q"]);
    }
    place.says(&["inspect", "of-pt", "--from", "torch"]);
    fs::copy(place.path("of-pt/model.pt"), place.path("of-pt/training_args.bin")).unwrap();
    place.refuses(
        &["inspect", "of-pt"],
        2,
        &["several files", "model.pt, training_args.bin", "name the one"],
    );
    fs::create_dir(place.path("foreign")).unwrap();
    place.write("foreign/model.json", "{\"learner\": {\"gradient_booster\": {}}}");
    place.write("foreign/weights.bin", [0; 8]);
    place.refuses(&["inspect", "foreign"], 1, &["gradient-boosted trees", "foreign/model.json"]);
    fs::copy(place.path("of-npz/model.npz"), place.path("foreign/x.npz")).unwrap();
    place.refuses(&["inspect", "foreign"], 2, &["several files", "x.npz, model.json"]);
    place.says(&["inspect", "foreign", "--from", "npz"]);
    fs::create_dir(place.path("pointer")).unwrap();
    place.write("pointer/model.pt", LFS);
    place.refuses(&["inspect", "pointer"], 5, &["a Git LFS pointer", "pointer/model.pt"]);
    place.write("pointer/notes.npy", fs::read(place.path("of-npy/model.npy")).unwrap());
    place.refuses(&["inspect", "pointer"], 5, &["a Git LFS pointer", "pointer/model.pt"]);
}

#[test]
fn a_tensorflow_checkpoint_with_an_empty_prefix_is_read_by_each_of_its_names() {
    let place = Workplace::new();
    place.copy_digits("digits");
    fs::create_dir(place.path("empty")).unwrap();
    for entry in fs::read_dir(place.path("digits")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some((_, ending)) = name.split_once('.') {
            fs::copy(place.path("digits").join(&name), place.path("empty").join(format!(".{ending}")))
                .unwrap();
        }
    }
    let expected = hash(&place, "digits");
    for name in ["empty", "empty/", "empty/.index", "empty/.data-00000-of-00001"] {
        assert_eq!(hash(&place, name), expected, "{name}");
    }
}

#[test]
fn a_name_that_is_suggested_can_be_read() {
    let place = Workplace::new();
    place.copy_digits(".");
    place.write("ckpt-1.meta", "x");
    place.write("chkpt-2.txt", "x");
    place.refuses(&["inspect", "ckpt-1.inde"], 1, &["did you mean 'ckpt-1.index'?"]);
    let error = place.refused(&["inspect", "ckpt"]);
    assert!(error.contains("did you mean 'ckpt-1.") && !error.contains(".meta"), "{error}");
    place.refuses(&["inspect", "chkpt-2.tx"], 1, &["chkpt-2.tx"]);
    assert!(!place.refused(&["inspect", "chkpt-2.tx"]).contains("chkpt-2.txt"));
}

#[cfg(unix)]
#[test]
fn a_hubs_cache_is_read_through_its_links_and_a_link_out_of_a_model_is_refused() {
    use std::os::unix::fs::symlink;
    let place = Workplace::new();
    let tensors: Vec<_> = (0..2).map(|k| (format!("t{k}"), vec![2], vec![1.0, k as f32])).collect();
    place.checkpoint("m.safetensors", &tensors);
    fs::create_dir_all(place.path("hub/snapshots/0f")).unwrap();
    fs::create_dir_all(place.path("hub/blobs")).unwrap();
    place.says(&["convert", "m.safetensors", "hub/blobs/s.safetensors", "--shard-size", "8", "-q"]);
    place.write("hub/blobs/m.onnx", onnx());
    place.write("hub/blobs/w.bin", 1f32.to_le_bytes());
    for entry in fs::read_dir(place.path("hub/blobs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        symlink(format!("../../blobs/{name}"), place.path("hub/snapshots/0f").join(name)).unwrap();
    }
    let index = "hub/snapshots/0f/s.safetensors.index.json";
    for name in [index, "hub/snapshots/0f/m.onnx"] {
        place.says(&["hash", name]);
    }
    // What a model names must not be elsewhere; what the user names may.
    fs::create_dir(place.path("model")).unwrap();
    fs::copy(place.path(index), place.path("model/s.safetensors.index.json")).unwrap();
    place.write("model/m.onnx", onnx());
    for name in ["s-00001-of-00002.safetensors", "s-00002-of-00002.safetensors", "w.bin"] {
        symlink(
            fs::canonicalize(place.path("hub/blobs").join(name)).unwrap(),
            place.path("model").join(name),
        )
        .unwrap();
    }
    let says = ["a symbolic link leads out", "a symbolic link to '/", "copy it into the directory"];
    for (name, part) in
        [("model/s.safetensors.index.json", "s-00001-of-00002.safetensors"), ("model/m.onnx", "w.bin")]
    {
        for command in ["inspect", "hash"] {
            place.refuses(&[command, name], 2, &[&says[..], &[part][..]].concat());
        }
    }
    place.says(&["hash", "model/s-00001-of-00002.safetensors"]);
    symlink("model", place.path("link")).unwrap();
    place.refuses(&["hash", "link/m.onnx"], 2, &says);
    symlink("hub/snapshots/0f", place.path("revision")).unwrap();
    place.says(&["hash", "revision/m.onnx"]);
    fs::create_dir(place.path("found")).unwrap();
    symlink(fs::canonicalize(place.path("m.safetensors")).unwrap(), place.path("found/m.safetensors"))
        .unwrap();
    symlink(fs::canonicalize(place.path("model/m.onnx")).unwrap(), place.path("found/m.onnx")).unwrap();
    place.refuses(&["inspect", "found"], 2, &says[..2]);
    symlink(".git/annex/objects/x/SHA256E-s1--0.pt", place.path("annexed.pt")).unwrap();
    place.refuses(&["inspect", "annexed.pt"], 1, &["a symbolic link to '.git/annex", "git annex get"]);
}

#[test]
fn pickles_of_paddle_are_taken_by_no_other_format() {
    let Some(directory) = cases("paddle") else { return };
    let mut seen = 0;
    for case in fs::read_dir(directory).unwrap() {
        let path = case.unwrap().path();
        let is_whole = !path.file_name().unwrap().to_str().unwrap().contains("bad_");
        for file in ["model.pdparams", "model.pdopt", "inference.pdiparams"] {
            if is_whole && path.join(file).exists() && !is_empty(&path.join(file)) {
                assert_eq!(ckpt::open(path.join(file)).unwrap().format(), "paddle", "{}", path.display());
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 10);
}

fn hash(place: &Workplace, name: &str) -> String {
    place.says(&["hash", name]).split_whitespace().next().unwrap().to_owned()
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == 0)
}
