//! Distributed checkpoints: chunks of every shape, and what may be wrong with them.

use crate::build::{Py, dict, pickle, saved};
use ckpt_api::{Affine, Checkpoint, Contents, Error, Input, TensorId, Ties};
use ckpt_conformance::{Sample, check};
use ckpt_torch::Torch;
use std::collections::BTreeMap;

const METADATA: &str = "torch.distributed.checkpoint.metadata";

/// A chunk: its file, first index, shape and numbers.
type Chunk = (&'static str, [u32; 2], [u32; 2], Vec<f32>);

/// The tensor `w` of shape `[3, 4]` in four chunks of two ranks, with the numbers from 0 to 11.
fn chunks() -> Vec<Chunk> {
    vec![
        ("__0_0.distcp", [0, 0], [2, 1], vec![0.0, 4.0]),
        ("__1_0.distcp", [0, 1], [2, 3], vec![1.0, 2.0, 3.0, 5.0, 6.0, 7.0]),
        ("__0_0.distcp", [2, 0], [1, 1], vec![8.0]),
        ("__1_0.distcp", [2, 1], [1, 3], vec![9.0, 10.0, 11.0]),
    ]
}

/// The files of a checkpoint with these chunks of `w`, and the value `epoch`.
fn files(chunks: &[Chunk]) -> BTreeMap<String, Vec<u8>> {
    files_with(chunks, Some(7))
}

fn files_with(chunks: &[Chunk], epoch: Option<u32>) -> BTreeMap<String, Vec<u8>> {
    files_of(chunks, epoch, |_, shape| Py::Floats(0, shape.to_vec()))
}

/// `tensor` gives the tensor of a chunk, by its number and shape.
fn files_of(
    chunks: &[Chunk],
    epoch: Option<u32>,
    tensor: impl Fn(usize, &[u32]) -> Py,
) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (mut listed, mut located) = (Vec::new(), Vec::new());
    let mut put = |name: &'static str, index: Py, bytes: Vec<u8>| {
        let file = files.entry(name.to_owned()).or_default();
        let info = vec![
            ("relative_path", Py::Text(name)),
            ("offset", Py::Int(file.len() as u32)),
            ("length", Py::Int(bytes.len() as u32)),
        ];
        file.extend(bytes);
        located.push((index, Py::Object("torch.distributed.checkpoint.filesystem", "_StorageInfo", info)));
    };
    let index = |name, offset| {
        Py::Object(METADATA, "MetadataIndex", vec![("fqn", Py::Text(name)), ("offset", offset)])
    };
    for (number, (name, start, shape, numbers)) in chunks.iter().enumerate() {
        let sizes = vec![("offsets", Py::Size(start.to_vec())), ("sizes", Py::Size(shape.to_vec()))];
        listed.push(Py::Object(METADATA, "ChunkStorageMetadata", sizes));
        let stored = saved(&tensor(number, shape), std::slice::from_ref(numbers));
        put(name, index("w", Py::Size(start.to_vec())), stored);
    }
    if let Some(epoch) = epoch {
        put("__0_0.distcp", index("epoch", Py::None), saved(&Py::Int(epoch), &[]));
    }
    let described_tensor = vec![("size", Py::Size(vec![3, 4])), ("chunks", Py::List(listed))];
    let mut described = vec![("w", Py::Object(METADATA, "TensorStorageMetadata", described_tensor))];
    described.extend(epoch.map(|_| ("epoch", Py::Object(METADATA, "BytesStorageMetadata", vec![]))));
    let fields = vec![("state_dict_metadata", dict(described)), ("storage_data", Py::Dict(located))];
    files.insert(".metadata".to_owned(), pickle(&Py::Object(METADATA, "Metadata", fields)));
    files
}

fn error(files: BTreeMap<String, Vec<u8>>) -> Error {
    ckpt_conformance::read(&Torch, &Input::memory("", files), &[]).unwrap_err()
}

#[test]
fn chunks_of_any_box_are_put_together() {
    let numbers: Vec<f32> = (0u8..12).map(f32::from).collect();
    let (contents, values) =
        ckpt_conformance::read(&Torch, &Input::memory("", files(&chunks())), &[]).unwrap();
    let expected: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(values, [expected]);
    assert_eq!(contents.placements[0].extents.len(), 4);
    assert_eq!(
        contents.checkpoint.metadata.value("torch", "epoch").and_then(|epoch| epoch.as_u64()),
        Some(7)
    );
}

#[test]
fn the_scale_of_a_quantized_tensor_is_kept_and_must_be_the_same_for_all_chunks() {
    let all = |scale: fn(usize) -> f64| {
        files_of(&chunks(), None, move |number, shape| Py::Quantized(0, shape.to_vec(), scale(number)))
    };
    let (contents, _) = ckpt_conformance::read(&Torch, &Input::memory("", all(|_| 0.5)), &[]).unwrap();
    let scaled = Affine::new([0.5], [3.0], None).unwrap().into();
    assert_eq!(contents.checkpoint.tensors[0].quantization, Some(scaled));
    let error = error(all(|number| if number == 2 { 0.25 } else { 0.5 }));
    assert_eq!(error.kind(), ckpt_api::Kind::Unsupported);
    assert!(error.to_string().contains("scales or zero points of their own"), "{error}");
    assert_eq!(error.context().tensor, Some("w"));
}

#[test]
fn the_codec_keeps_the_contract() {
    let numbers: Vec<f32> = (0u8..12).map(f32::from).collect();
    let header = "versions, times and attributes of the archives, and names of classes that are not used, mean nothing";
    let files = within(&written(files_with(&chunks(), None), &[("ranks", "2")]));
    let sample = Sample::new("a distributed checkpoint", "", files)
        .floats("w", &[3, 4], &numbers)
        .written_as("")
        .open_ended(".metadata", "a pickle ends at its stop")
        .open_ended("__0_0.distcp", "chunks are located by their offsets")
        .open_ended("__1_0.distcp", "chunks are located by their offsets")
        .ignoring(".metadata", .., header)
        .ignoring("__0_0.distcp", .., header)
        .ignoring("__1_0.distcp", .., header);
    check(&Torch, &[sample]);
}

#[test]
fn chunks_that_do_not_cover_the_tensor_are_refused() {
    let mut hole = chunks();
    hole.pop();
    assert!(error(files(&hole)).to_string().contains("do not cover"));
    let mut twice = chunks();
    twice.push(("__0_0.distcp", [1, 0], [1, 1], vec![4.0]));
    twice.remove(2);
    assert!(error(files(&twice)).to_string().contains("overlap"));
    assert!(error(files(&[])).to_string().contains("no chunk"));
}

#[test]
fn a_chunk_of_another_shape_than_stated_is_refused() {
    let mut all = files(&chunks());
    // The shape in the chunk's own pickle: the first size after its offset.
    let file = all.get_mut("__1_0.distcp").unwrap();
    let at = file.windows(6).position(|bytes| bytes == b"tQK\0(J").unwrap() + 6;
    file[at] = 1;
    assert!(["checksum", "shape"].iter().any(|word| error(all.clone()).to_string().contains(word)));
}

#[test]
fn what_is_missing_is_named() {
    let mut without = files(&chunks());
    without.remove("__1_0.distcp");
    assert!(error(without).to_string().contains("no __1_0.distcp"));
    let mut without = files(&chunks());
    without.remove(".metadata");
    assert!(error(without).to_string().contains("'.metadata'"));
    let mut cut = files(&chunks());
    cut.get_mut("__1_0.distcp").unwrap().truncate(300);
    assert!(error(cut).to_string().contains("ends before"));
}

#[test]
fn a_shard_or_the_metadata_under_another_name_is_to_be_renamed_back() {
    let renamed = |from: &str, to: &str| {
        let mut all = files(&chunks());
        let file = all.remove(from).unwrap();
        all.insert(to.to_owned(), file);
        let error = error(all);
        let context = error.context();
        let texts = [context.found, context.help].map(|text| text.unwrap().to_owned());
        assert!(texts[1].contains("rename"), "{error}");
        texts[0].clone()
    };
    for name in ["__1_0 (1).distcp", "rank1.distcp", "shard1.pt"] {
        let found = renamed("__1_0.distcp", name);
        assert_eq!(found, format!("no __1_0.distcp, and {name}, which '.metadata' does not name"));
    }
    assert_eq!(renamed(".metadata", "metadata"), "it as 'metadata'");
}

#[test]
fn chunks_with_more_elements_than_the_tensor_are_refused_before_any_is_opened() {
    let mut more = chunks();
    more.push(("__0_0.distcp", [1, 0], [1, 1], vec![4.0]));
    let mut all = files(&more);
    all.values_mut().filter(|file| file.starts_with(b"PK")).for_each(|file| file.fill(0));
    assert!(error(all).to_string().contains("do not cover"));
}

/// The files that writing a checkpoint with the tensor `w` as the directory `out` gives.
fn written(source: BTreeMap<String, Vec<u8>>, options: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let (mut contents, values) = ckpt_conformance::read(&Torch, &Input::memory("", source), &[]).unwrap();
    contents.checkpoint.ties = Ties::of(&contents);
    let options: Vec<_> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ckpt_conformance::write(&Torch, &contents.checkpoint, &values, "out", &options).unwrap()
}

/// A directory's files, without the directory.
fn within(files: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, bytes)| (name.strip_prefix("out/").unwrap().to_owned(), bytes.clone())).collect()
}

#[test]
fn every_way_of_distributing_tensors_is_read_with_the_same_values() {
    let source = files(&chunks());
    let (_, values) = ckpt_conformance::read(&Torch, &Input::memory("", source.clone()), &[]).unwrap();
    type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: [Case; 4] = [
        (&[], &["out/.metadata", "out/__0_0.distcp"]),
        (&[("ranks", "2")], &["out/.metadata", "out/__0_0.distcp", "out/__1_0.distcp"]),
        (&[("ranks", "9")], &["out/.metadata", "out/__0_0.distcp", "out/__1_0.distcp", "out/__2_0.distcp"]),
        (&[("form", "dcp"), ("shard_size", "4")], &["out/.metadata", "out/__0_0.distcp"]),
    ];
    for (options, names) in cases {
        let written = written(source.clone(), options);
        assert_eq!(written.keys().collect::<Vec<_>>(), names);
        let (contents, found) =
            ckpt_conformance::read(&Torch, &Input::memory("", within(&written)), &[]).unwrap();
        assert_eq!(found, values, "{options:?}");
        let epoch = contents.checkpoint.metadata.value("torch", "epoch");
        assert_eq!(epoch.and_then(|epoch| epoch.as_u64()), Some(7));
    }
}

#[test]
fn what_was_written_comes_back_byte_for_byte() {
    for options in [&[][..], &[("ranks", "2")]] {
        let once = written(files(&chunks()), options);
        assert_eq!(written(within(&once), &[]), once);
    }
}

#[test]
fn a_name_with_the_ending_of_a_file_and_the_option_form_choose_a_file() {
    let (contents, values) =
        ckpt_conformance::read(&Torch, &Input::memory("", files(&chunks())), &[]).unwrap();
    let file = |name: &str, options: &[(String, String)]| {
        let written = ckpt_conformance::write(&Torch, &contents.checkpoint, &values, name, options).unwrap();
        assert_eq!(written.keys().collect::<Vec<_>>(), [name]);
    };
    file("out.pt", &[]);
    file("out", &[("form".to_owned(), "file".to_owned())]);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let (contents, values) =
        ckpt_conformance::read(&Torch, &Input::memory("", files(&chunks())), &[]).unwrap();
    for options in [
        &[("ranks", "0")][..],
        &[("ranks", "65536")],
        &[("ranks", "2"), ("shard_size", "1k")],
        &[("ranks", "2"), ("form", "file")],
        &[("form", "dcp"), ("shard_size", "0")],
    ] {
        let options: Vec<_> =
            options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let error =
            ckpt_conformance::write(&Torch, &contents.checkpoint, &values, "out", &options).unwrap_err();
        assert_eq!(error.kind(), ckpt_api::Kind::Usage, "{options:?}: {error}");
    }
}

#[test]
fn chunks_that_share_bytes_are_refused_before_any_is_opened() {
    let mut all = files(&chunks());
    // The value is behind all chunks of its file: its offset becomes that of the chunk before it.
    let metadata = all.get_mut(".metadata").unwrap();
    let offsets: Vec<usize> = (0..metadata.len() - 12)
        .filter(|at| metadata[*at..].starts_with(b"offsetJ"))
        .map(|at| at + 7)
        .collect();
    assert_eq!(offsets.len(), 5);
    let before = metadata[offsets[2]..offsets[2] + 4].to_vec();
    metadata[offsets[4]..offsets[4] + 4].copy_from_slice(&before);
    all.values_mut().filter(|file| file.starts_with(b"PK")).for_each(|file| file.fill(0));
    let error = error(all).to_string();
    assert!(error.contains("share bytes"), "{error}");
}

#[test]
fn axes_of_one_element_do_not_matter_for_the_order_in_which_chunks_are_stored() {
    let chunks: Vec<Chunk> = vec![
        ("__0_0.distcp", [0, 0], [1, 4], vec![0.0, 1.0, 2.0, 3.0]),
        ("__0_0.distcp", [1, 0], [2, 4], vec![4.0, 8.0, 5.0, 9.0, 6.0, 10.0, 7.0, 11.0]),
    ];
    let columns = |number, shape: &[u32]| match number {
        0 => Py::Floats(0, shape.to_vec()),
        _ => Py::Columns(0, [shape[0], shape[1]]),
    };
    let all = files_of(&chunks, None, columns);
    let (_, values) = ckpt_conformance::read(&Torch, &Input::memory("", all), &[]).unwrap();
    let numbers = (0u8..12).map(f32::from);
    assert_eq!(values, [numbers.flat_map(f32::to_le_bytes).collect::<Vec<u8>>()]);
    let two_rows: Vec<Chunk> =
        vec![("__0_0.distcp", [0, 0], [3, 2], vec![0.0; 6]), ("__0_0.distcp", [0, 2], [3, 2], vec![0.0; 6])];
    let error = error(files_of(&two_rows, None, columns)).to_string();
    assert!(error.contains("stored differently"), "{error}");
}

#[test]
fn paths_stay_in_their_directory_and_name_a_file() {
    let renamed = |name: &'static str| {
        let mut all = files(&[(name, [0, 0], [3, 4], vec![1.0; 12])]);
        let shard = all.remove(name).unwrap();
        let rest = all.remove("__0_0.distcp").unwrap();
        BTreeMap::from([
            (".metadata".to_owned(), all.remove(".metadata").unwrap()),
            ("x.distcp".to_owned(), shard),
            ("__0_0.distcp".to_owned(), rest),
        ])
    };
    for name in ["./x.distcp", "././x.distcp"] {
        let read = ckpt_conformance::read(&Torch, &Input::memory("", renamed(name)), &[]);
        assert_eq!(read.unwrap().1[0].len(), 48, "{name}");
    }
    for name in ["", ".", "./"] {
        let error = error(renamed(name));
        assert_eq!(error.kind(), ckpt_api::Kind::Corrupt, "'{name}': {error}");
        assert_eq!(error.context().field, Some("relative_path"));
        assert!(error.to_string().contains(".metadata"), "'{name}': {error}");
    }
}

/// What is read of a file, written as a directory, and read again.
fn through_a_directory(value: &Py, storages: &[Vec<f32>], options: &[(&str, &str)]) -> (Contents, Contents) {
    let bytes = saved(value, storages);
    let input = Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), bytes)]));
    let (given, values) = ckpt_conformance::read(&Torch, &input, &[]).unwrap();
    let checkpoint = Checkpoint { ties: Ties::of(&given), ..given.checkpoint.clone() };
    let options: Vec<_> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let written = ckpt_conformance::write(&Torch, &checkpoint, &values, "out", &options).unwrap();
    let files = written.into_iter().map(|(name, bytes)| (name.replace("out/", ""), bytes)).collect();
    let (read, again) = ckpt_conformance::read(&Torch, &Input::memory("", files), &[]).unwrap();
    assert_eq!(again, values);
    (given, read)
}

#[test]
fn ties_that_share_their_chunks_are_ties_when_they_are_read() {
    let tied = || Py::Floats(0, vec![3, 2]);
    let value = dict(vec![("a", tied()), ("b", Py::Floats(1, vec![2])), ("c", tied())]);
    let numbers = [vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], vec![6.0, 7.0]];
    for options in [&[("form", "dcp")][..], &[("ranks", "2")]] {
        let (given, read) = through_a_directory(&value, &numbers, options);
        assert_eq!(read.checkpoint.tensors, given.checkpoint.tensors);
        let ties = Ties::of(&read);
        assert!(ties.first_of(TensorId(2)) == TensorId(0) && !Ties::of(&given).is_empty(), "{ties:?}");
    }
}

#[test]
fn values_of_a_file_are_entries_as_pytorch_has_them() {
    let group = dict(vec![("lr", Py::Int(3)), ("params", Py::List(vec![Py::Int(0)]))]);
    let state = dict(vec![("exp_avg", Py::Floats(0, vec![2]))]);
    let optimizer =
        dict(vec![("state", Py::Dict(vec![(Py::Int(0), state)])), ("param_groups", Py::List(vec![group]))]);
    let value = dict(vec![("optimizer", optimizer), ("names", Py::List(vec![Py::Text("a")]))]);
    let (_, read) = through_a_directory(&value, &[vec![1.0, 2.0]], &[("form", "dcp")]);
    assert_eq!(read.checkpoint.tensors[0].name, "optimizer.state.0.exp_avg");
    assert_eq!(read.checkpoint.tensors[0].role, ckpt_api::Role::Optimizer);
    let own = read.checkpoint.metadata.namespace("torch").unwrap();
    let names: Vec<&str> = own.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["optimizer.param_groups.0.lr", "optimizer.param_groups.0.params", "names"]);
}

#[test]
fn a_branch_is_read_under_names_without_it() {
    let model = dict(vec![("w", Py::Floats(0, vec![2])), ("modelled", Py::Floats(1, vec![1]))]);
    let value = dict(vec![
        ("model", model),
        ("optimizer", dict(vec![("w", Py::Floats(2, vec![1]))])),
        ("model_step", Py::Int(3)),
    ]);
    let input = Input::memory(
        "m.pt",
        BTreeMap::from([("m.pt".to_owned(), saved(&value, &[vec![1.0, 2.0], vec![3.0], vec![4.0]]))]),
    );
    let (given, values) = ckpt_conformance::read(&Torch, &input, &[]).unwrap();
    let form = [("form".to_owned(), "dcp".to_owned())];
    let written = ckpt_conformance::write(&Torch, &given.checkpoint, &values, "out", &form).unwrap();
    let read = |root: &str| {
        let options = [("root".to_owned(), root.to_owned())];
        ckpt_conformance::read(&Torch, &Input::memory("", within(&written)), &options)
    };
    let (branch, _) = read("model").unwrap();
    let names: Vec<&str> = branch.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["w", "modelled"]);
    assert!(branch.checkpoint.metadata.value("torch", "model_step").is_none());
    let error = read("mode").unwrap_err();
    assert_eq!(error.kind(), ckpt_api::Kind::Usage);
    assert!(error.to_string().contains("expected one of model, optimizer"), "{error}");
}
