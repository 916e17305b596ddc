//! Formats that no codec reads: how they are recognized, and what to do instead. A codec that reads one takes its entry out.

use super::signs;

/// A format, or a program's files.
#[derive(Debug)]
pub(super) struct Format {
    /// What a file of it is, with an article.
    pub(super) what: &'static str,
    /// Any of these shows that an input is of this format.
    pub(super) signs: &'static [Sign],
    /// Endings of names, without the dot. They alone decide if nothing else speaks for a format.
    pub(super) endings: &'static [&'static str],
    pub(super) help: &'static str,
}

#[derive(Debug)]
pub(super) enum Sign {
    /// These bytes at this offset.
    Bytes(usize, &'static [u8]),
    /// A text of JSON that contains all of these near its beginning.
    Json(&'static [&'static str]),
    /// A directory that contains this file, or whose folders do.
    Holds(&'static str),
    /// A zip archive with a member whose name ends so.
    Member(&'static str),
    /// The first bytes parse as the format's do.
    Parses(fn(&[u8]) -> bool),
    /// So do those of what gzip compressed.
    Unpacked(fn(&[u8]) -> bool),
}

use Sign::{Bytes, Holds, Json, Member, Parses, Unpacked};

/// Where weights are that a file without any belongs to.
pub(super) const BESIDE: &str = "name the directory, or the file that has the weights";

pub(super) const FORMATS: &[Format] = &[
    Format {
        what: "a GGML file, of whisper.cpp or of llama.cpp before GGUF",
        signs: &[
            Bytes(0, b"lmgg"),
            Bytes(0, b"fmgg"),
            Bytes(0, b"tjgg"),
            Bytes(0, b"algg"),
            Bytes(0, b"ggml"),
            Bytes(0, b"ggmf"),
            Bytes(0, b"ggjt"),
            Bytes(0, b"ggla"),
        ],
        endings: &["ggml"],
        help: "use the model's GGUF file, or the PyTorch or safetensors files that it was made from",
    },
    Format {
        what: "a TensorFlow graph with its collections (MetaGraphDef), which has no values of variables",
        signs: &[Parses(signs::is_meta_graph)],
        endings: &["meta"],
        help: "it needs the checkpoint's index beside it, PREFIX.index",
    },
    Format {
        what: "a TensorFlow graph as text",
        signs: &[],
        endings: &["pbtxt"],
        help: "use the frozen graph in binary form (.pb), the checkpoint or the SavedModel that it was made from",
    },
    Format {
        what: "an ExportedProgram of PyTorch (.pt2)",
        signs: &[
            Member("/archive_format"),
            Member("serialized_exported_program.json"),
            Member("models/model.json"),
        ],
        endings: &["pt2"],
        help: "load it in Python with torch.export.load, and save its state_dict with torch.save",
    },
    Format {
        what: "an archive of PyTorch without its data.pkl, as torch.save leaves it when it is interrupted",
        signs: &[Member("/data/0"), Member("/.data/serialization_id"), Member("/byteorder")],
        endings: &[],
        help: "use an earlier checkpoint, or copy the file again",
    },
    Format {
        what: "an ExecuTorch program",
        signs: &[Bytes(4, b"ET12")],
        endings: &["pte"],
        help: "use the PyTorch checkpoint that it was made from",
    },
    Format {
        what: "a TensorRT engine",
        signs: &[Bytes(0, b"ftrt"), Bytes(0, b"ptrt")],
        endings: &["engine", "plan", "trt"],
        help: "it is compiled for one kind of device: use the ONNX model or the checkpoint that it was made from",
    },
    Format {
        what: "a compiled Core ML model",
        signs: &[Holds("coremldata.bin")],
        endings: &["mlmodelc"],
        help: "use the .mlpackage or .mlmodel that it was compiled from",
    },
    Format {
        what: "a description of a network of Caffe, or the state of its solver, which has no weights",
        signs: &[],
        endings: &["prototxt", "solverstate"],
        help: "name the .caffemodel: a .prototxt beside it gives its layers",
    },
    Format {
        what: "an ONNX Runtime model (ORT)",
        signs: &[Bytes(4, b"ORTM")],
        endings: &["ort"],
        help: "use the .onnx model that it was made from",
    },
    Format {
        what: "an OpenVINO model",
        signs: &[Parses(signs::is_open_vino)],
        endings: &["xml"],
        help: "use the ONNX model or the checkpoint that it was made from",
    },
    Format {
        what: "an RKNN model",
        signs: &[Bytes(0, b"RKNN")],
        endings: &["rknn"],
        help: "use the ONNX model or the checkpoint that it was made from",
    },
    Format {
        what: "an ncnn model",
        signs: &[Bytes(0, b"7767517\n")],
        endings: &["ncnn", "param"],
        help: "use the ONNX model or the checkpoint that it was made from",
    },
    Format {
        what: "a model of gradient-boosted trees, which is no neural network",
        signs: &[
            Bytes(0, b"CBM1"),
            Bytes(0, b"tree\nversion="),
            Json(&["\"learner\"", "\"gradient_booster\""]),
        ],
        endings: &["cbm", "ubj", "xgb"],
        help: "use the program that wrote it",
    },
    Format {
        what: "a fastText model",
        signs: &[Bytes(0, b"\xba\x16\x4f\x2f")],
        endings: &["ftz"],
        help: "load it in Python with fasttext.load_model, and save get_input_matrix() and get_output_matrix() with numpy.savez",
    },
    Format {
        what: "a DyNet model",
        signs: &[Bytes(0, b"#Parameter# "), Bytes(0, b"#LookupParameter# ")],
        endings: &["dynet"],
        help: "load it in Python with dynet's ParameterCollection.populate, and save each parameter's as_array() with numpy.savez",
    },
    Format {
        what: "a record of Burn",
        signs: &[Parses(signs::is_burn), Unpacked(signs::is_burn)],
        endings: &["mpk"],
        help: "load it in Rust with the recorder that wrote it, and save the model as safetensors with the crate burn-store",
    },
    Format {
        what: "a Kaldi model",
        signs: &[Bytes(0, b"\0B<TransitionModel>"), Bytes(0, b"\0B<Nnet"), Bytes(0, b"<TransitionModel>")],
        endings: &["mdl"],
        help: "write it as text with Kaldi's nnet3-am-copy --binary=false, and read the matrices from that",
    },
    Format {
        what: "a language of Tesseract",
        signs: &[],
        endings: &["traineddata"],
        help: "unpack it with combine_tessdata -u; Tesseract alone reads the network in it",
    },
    Format {
        what: "a NeMo archive",
        signs: &[Parses(signs::is_nemo), Unpacked(signs::is_nemo)],
        endings: &["nemo"],
        help: "unpack it with tar, and name the model_weights.ckpt in it",
    },
    Format {
        what: "a network of Leela Chess Zero",
        signs: &[Parses(signs::is_lc0), Unpacked(signs::is_lc0)],
        endings: &[],
        help: "convert it with `lc0 leela2onnx`, and name the .onnx file",
    },
    Format {
        what: "a network of KataGo",
        signs: &[Parses(signs::is_katago), Unpacked(signs::is_katago)],
        endings: &[],
        help: "use the PyTorch checkpoint that is published beside it, model.ckpt",
    },
    Format {
        what: "an MNN model",
        signs: &[],
        endings: &["mnn"],
        help: "use the ONNX model or the checkpoint that it was made from",
    },
    Format {
        what: "a Python pickle of scikit-learn, which is a program and is never run here",
        signs: &[Parses(signs::is_scikit_learn)],
        endings: &["joblib"],
        help: "load it in Python, and save the arrays of its attributes with numpy.savez, or write it as ONNX with skl2onnx",
    },
    Format {
        what: "the configuration of a model, without its weights",
        signs: &[
            Json(&["\"architectures\""]),
            Json(&["\"model_type\""]),
            Json(&["\"base_model_name_or_path\""]),
            Json(&["\"class_name\"", "\"config\""]),
        ],
        endings: &[],
        help: BESIDE,
    },
    Format {
        what: "a file of a tokenizer",
        signs: &[
            Json(&["\"added_tokens\""]),
            Json(&["\"tokenizer_class\""]),
            Json(&["\"added_tokens_decoder\""]),
        ],
        endings: &[],
        help: BESIDE,
    },
];

/// Containers and texts, which say little of what is in them. An ending of [`FORMATS`] says more.
pub(super) const CONTAINERS: &[Format] = &[
    container("a file compressed with gzip", &[Bytes(0, b"\x1f\x8b")], "decompress it first"),
    container("a file compressed with zstd", &[Bytes(0, b"\x28\xb5\x2f\xfd")], "decompress it first"),
    container("a file compressed with xz", &[Bytes(0, b"\xfd7zXZ")], "decompress it first"),
    container("a file compressed with bzip2", &[Parses(signs::is_bzip2)], "decompress it first"),
    container("a file compressed with lz4", &[Bytes(0, b"\x04\x22\x4d\x18")], "decompress it first"),
    container("a tar archive", &[Bytes(257, b"ustar")], "unpack it first, and name the checkpoint in it"),
    container(
        "a 7z archive",
        &[Bytes(0, b"7z\xbc\xaf\x27\x1c")],
        "unpack it first, and name the checkpoint in it",
    ),
    container(
        "a RAR archive",
        &[Bytes(0, b"Rar!\x1a\x07")],
        "unpack it first, and name the checkpoint in it",
    ),
    container(
        "a Python pickle, which is a program and is never run here",
        &[Parses(signs::is_pickle)],
        "load it in Python, and save its tensors with safetensors or numpy.savez",
    ),
    container("a Parquet file", &[Bytes(0, b"PAR1")], "it is a table, and no checkpoint"),
    container("a SQLite database", &[Bytes(0, b"SQLite format 3\0")], "name the checkpoint itself"),
    container("a PDF document", &[Bytes(0, b"%PDF-")], "name the checkpoint itself"),
    container(
        "a picture",
        &[Bytes(0, b"\x89PNG\r\n\x1a\n"), Bytes(0, b"\xff\xd8\xff"), Bytes(0, b"GIF8")],
        "name the checkpoint itself",
    ),
    container("a program", &[Bytes(0, b"\x7fELF"), Bytes(0, b"MZ\x90\0")], "name the checkpoint itself"),
    container(
        "what macOS stores of another file (AppleDouble)",
        &[Bytes(0, &[0, 5, 0x16, 7])],
        "name the file without '._' before its name",
    ),
];

const fn container(what: &'static str, signs: &'static [Sign], help: &'static str) -> Format {
    Format { what, signs, endings: &[], help }
}

/// What serves in place of a format that was named, by its ending or its name, and is not written.
pub(super) fn instead(name: &str) -> Option<&'static str> {
    Some(match name {
        "ort" => {
            "the format of ONNX Runtime is not supported: use the .onnx model that the file was made from"
        }
        "pkl" | "pickle" => {
            "pickles are not written, because they are programs: use .safetensors, or .pt, as torch.save writes it"
        }
        "pb" | "savedmodel" => "graphs of TensorFlow are not written: use a TensorFlow checkpoint (.index)",
        "ggml" => "GGUF has replaced GGML: use .gguf",
        _ => return None,
    })
}
