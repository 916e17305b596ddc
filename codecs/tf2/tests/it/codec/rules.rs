//! Rules of reading, one test each, on bundles that the tests build.

use super::common::{
    Bundle, Files, Layout, Values, block, bundle, entry, mask, read, slice_key, table_of, varint,
    with_restarts,
};
use ckpt_api::{Axis, Codec, Contents, Error, Input, Kind, Limits, Match, Options, Role};

fn refused(bundle: &Bundle) -> Error {
    bundle.read().expect_err("the bundle must be refused")
}

fn inspected(input: &Input, limits: &Limits) -> ckpt_api::Result<Contents> {
    let contents = ckpt_tf2::Tf2.read(input, &Options::default(), limits)?;
    contents.check(limits)?;
    Ok(contents)
}

fn twenty(layout: Layout) -> Bundle {
    (0..20u8)
        .fold(bundle(), |bundle, i| bundle.floats(&format!("l{i:02}/bias"), &[1], &[f32::from(i)]))
        .layout(layout)
}

#[test]
fn a_table_reads_the_same_with_any_blocks_and_compression() {
    let expected = twenty(Layout::default()).read().unwrap().1;
    for (restart_interval, entries_per_block, snappy) in
        [(1, 1, false), (3, 4, true), (16, 7, false), (2, 100, true)]
    {
        let layout = Layout { restart_interval, entries_per_block, snappy };
        assert_eq!(twenty(layout).read().unwrap().1, expected);
    }
}

/// Twenty tensors in one block under `separator`, with these restart points.
fn restarted(separator: &[u8], restarts: impl Fn(u32) -> Vec<u32>) -> Input {
    let bundle = twenty(Layout::default());
    let entries: Vec<_> = std::iter::once((vec![], vec![8, 1])).chain(bundle.entries.clone()).collect();
    let mut contents = block(&entries, 100);
    contents.truncate(contents.len() - 8);
    let end = u32::try_from(contents.len()).unwrap();
    let mut files = bundle.files("m");
    let table = table_of(&[(separator.to_vec(), with_restarts(contents, &restarts(end)))], 0);
    files.insert("m.index".to_owned(), table);
    Input::memory("m", files)
}

#[test]
fn wrong_restart_points_and_separators_are_repaired_only_with_lenient() {
    let expected = twenty(Layout::default()).read().unwrap().1;
    // The last one is what Swift for TensorFlow writes.
    type Wrong = (&'static [u8], fn(u32) -> Vec<u32>, usize);
    let wrong: [Wrong; 5] = [
        (b"z", |end| vec![0, end], 1),
        (b"z", |_| vec![4], 2),
        (b"z", |_| vec![0, 1], 1),
        (b"a", |_| vec![0], 1),
        (b"", |end| vec![0, end], 2),
    ];
    for (separator, restarts, repairs) in wrong {
        let input = restarted(separator, restarts);
        let error = read(&input, &[]).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains("lenient=true"), "{error}");
        let (contents, values) = read(&input, &[("lenient", "true")]).unwrap();
        assert_eq!(values, expected);
        assert_eq!(contents.repairs.len(), repairs, "{:?}", contents.repairs);
    }
    assert!(read(&restarted(b"z", |_| vec![0]), &[("lenient", "true")]).unwrap().0.repairs.is_empty());
}

#[test]
fn keys_out_of_order_are_refused_within_and_across_blocks() {
    let good = bundle().floats("a", &[], &[1.]).floats("b", &[], &[2.]);
    let header = (vec![], vec![8, 1]);
    let (a, b) =
        ((b"a".to_vec(), good.entries[&b"a"[..]].clone()), (b"b".to_vec(), good.entries[&b"b"[..]].clone()));
    let one = table_of(&[(b"z".to_vec(), block(&[header.clone(), b.clone(), a.clone()], 16))], 0);
    let first = (b"x".to_vec(), block(&[header, b], 16));
    let two = table_of(&[first, (b"z".to_vec(), block(&[a], 16))], 0);
    for table in [one, two] {
        let mut files = good.files("m");
        files.insert("m.index".to_owned(), table);
        for lenient in ["false", "true"] {
            let error = read(&Input::memory("m", files.clone()), &[("lenient", lenient)]).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        }
    }
}

#[test]
fn lengths_beyond_their_block_are_refused() {
    let most = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let (shared, key, value) = (&[0][..], &[1][..], &[2][..]);
    for lengths in [[&most, key, value], [shared, &most, value], [shared, key, &most], [shared, &most, &most]]
    {
        let error = read_with(&[&lengths.concat(), &b"a"[..]].concat()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
}

/// What is read of a block that has the header's entry, and these bytes after it.
fn read_with(entry: &[u8]) -> ckpt_api::Result<(Contents, Values)> {
    let contents = block(&[(vec![], vec![8, 1])], 16);
    let entries = [&contents[..contents.len() - 8], entry].concat();
    let table = table_of(&[(b"z".to_vec(), with_restarts(entries, &[0]))], 0);
    read(&Input::memory("m", Files::from([("m.index".to_owned(), table)])), &[])
}

#[test]
fn varints_that_are_too_long_or_too_large_are_refused() {
    let empty = entry(1, &[0], 0, 0, 0, 0xa282_ead8);
    let len = u8::try_from(empty.len()).unwrap();
    let good = [&[0, 1, len, b'a'][..], &empty].concat();
    assert_eq!(read_with(&good).unwrap().0.checkpoint.tensors.len(), 1);
    // A varint may have more bytes than it needs.
    let padded = [&[0x80, 0x00, 0x81, 0x80, 0x00, len, b'a'][..], &empty].concat();
    assert_eq!(read_with(&padded).unwrap().0.checkpoint.tensors.len(), 1);
    let too_long = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
    let beyond_64_bits = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
    for number in [&too_long[..], &beyond_64_bits, &[0x80, 0x80, 0x80, 0x80, 0x10]] {
        let error = read_with(&[number, &good[1..]].concat()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("an invalid length"), "{error}");
    }
    for number in [&too_long[..], &beyond_64_bits] {
        let mut changed = bundle().strings("s", &[1], &[b"abc"]);
        changed.data.splice(..1, number.iter().copied());
        let size = changed.data.len() as u64;
        let error = refused(&changed.raw("s", entry(7, &[1], 0, 0, size, 0)));
        assert!(error.to_string().contains("longer than 64 bits"), "{error}");
    }
}

#[test]
fn an_unknown_compression_is_unsupported() {
    let good = bundle().floats("a", &[], &[1.]);
    let mut entries = vec![(vec![], good.header.clone())];
    entries.extend(good.entries.clone());
    let mut files = good.files("m");
    files.insert("m.index".to_owned(), table_of(&[(b"z".to_vec(), block(&entries, 16))], 2));
    let error = read(&Input::memory("m", files), &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
}

#[test]
fn limits_are_checked_before_memory_is_allocated() {
    for (limit, value, bundle) in [
        ("block_bytes", "64", twenty(Layout::default())),
        ("block_bytes", "64", twenty(Layout { snappy: true, ..Layout::default() })),
        ("tensors", "19", twenty(Layout::default())),
        ("header_bytes", "50", twenty(Layout::default())),
        ("string_elements", "2", bundle().strings("s", &[3], &[b"", b"a", b"b"])),
        // The limit is for all tensors together, which could share the same bytes.
        (
            "string_elements",
            "3",
            bundle().strings("s", &[2], &[b"a", b"b"]).strings("t", &[2], &[b"a", b"b"]),
        ),
    ] {
        let mut limits = Limits::default();
        limits.set_by_name(limit, value).unwrap();
        let error = inspected(&bundle.input(), &limits).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit, "{limit}: {error}");
    }
}

#[test]
fn strings_have_lengths_and_one_extent() {
    let bundle = bundle().strings("s", &[2, 2], &[b"ab", b"", &[0xff; 200], b"\0"]).strings("e", &[0], &[]);
    let (contents, values) = bundle.read().unwrap();
    assert_eq!(values["s"].len(), 203);
    let (id, tensor) = contents.checkpoint.tensor("s").unwrap();
    assert_eq!(tensor.lengths, Some([2, 0, 200, 1].into()));
    assert_eq!(contents.placements[id.0].extents.len(), 1);
    let (id, tensor) = contents.checkpoint.tensor("e").unwrap();
    assert_eq!((tensor.lengths.clone(), contents.placements[id.0].extents.len()), (Some([].into()), 0));
}

#[test]
fn strings_whose_lengths_do_not_add_up_to_their_size_are_refused() {
    let good = bundle().strings("s", &[1], &[b"abc"]);
    for size in [0, 4, 5, 7, 9] {
        let mut changed = good.clone().raw("s", entry(7, &[1], 0, 0, size, 0));
        changed.data.push(0);
        assert_eq!(refused(&changed).kind(), Kind::Corrupt, "size {size}");
    }
}

#[test]
fn damage_to_a_strings_length_checksum_or_bytes_is_found() {
    for position in 0..8 {
        let mut bundle = bundle().strings("s", &[1], &[b"abc"]);
        bundle.data[position] ^= 1;
        assert_eq!(refused(&bundle).kind(), Kind::Corrupt, "byte {position}");
    }
}

#[test]
fn more_strings_than_bytes_are_refused_even_without_the_data() {
    let bundle = bundle().raw("s", entry(7, &[1_000_000_000], 0, 0, 15, 0));
    let mut files = bundle.files("m");
    files.remove("m.data-00000-of-00001");
    assert_eq!(read(&Input::memory("m", files), &[]).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn variants_are_opaque_elements_with_checksums() {
    let (first, second): (&[u8], &[u8]) = (b"\x0a\x01t\x12\x02ab", b"");
    let good = bundle().variants("v", &[2], &[first, second]);
    let (contents, values) = good.read().unwrap();
    assert_eq!(values["v"], first);
    assert_eq!(contents.checkpoint.tensors[0].lengths, Some([7, 0].into()));
    for position in 0..good.data.len() {
        let mut changed = good.clone();
        changed.data[position] ^= 1;
        assert_eq!(refused(&changed).kind(), Kind::Corrupt, "byte {position}");
    }
}

#[test]
fn a_variant_that_is_not_a_message_is_refused() {
    let longest = b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    for garbage in [&b"\x0a\x09t"[..], b"\x00", b"\x0b", b"\x0a", b"\x09123", b"\xff\xff", longest] {
        assert_eq!(refused(&bundle().variants("v", &[], &[garbage])).kind(), Kind::Corrupt, "{garbage:?}");
    }
}

#[test]
fn big_endian_values_are_swapped_by_component() {
    let bundle = bundle()
        .big_endian()
        .tensor("c", 8, &[1], &[1, 2, 3, 4, 5, 6, 7, 8])
        .tensor("h", 19, &[2], &[0x3c, 0x00, 0x40, 0x00])
        .strings("s", &[1], &[b"abc"]);
    let (contents, values) = bundle.read().unwrap();
    assert_eq!(values["c"], [4, 3, 2, 1, 8, 7, 6, 5]);
    assert_eq!(values["h"], [0x00, 0x3c, 0x00, 0x40]);
    assert_eq!(values["s"], b"abc");
    assert_eq!(contents.checkpoint.metadata.text("tf2", "endian"), Some("big"));
}

#[test]
fn slices_of_any_dtype_are_joined() {
    let (left, right) = ([(0, 2), (0, 1)], [(0, 2), (1, 2)]);
    for dtype in [5, 19, 14, 17] {
        let bundle = bundle()
            .partitioned("v", dtype, &[2, 3], &[&right, &left])
            .tensor(slice_key("v", &left), dtype, &[2, 1], &[1, 0, 4, 0])
            .tensor(slice_key("v", &right), dtype, &[2, 2], &[2, 0, 3, 0, 5, 0, 6, 0]);
        let (contents, values) = bundle.read().unwrap();
        assert_eq!(values["v"], [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0], "dtype {dtype}");
        assert_eq!(contents.checkpoint.tensors.len(), 1);
    }
}

#[test]
fn slices_of_strings_are_joined_in_row_major_order() {
    let (left, right) = ([(0, 2), (0, 1)], [(0, 2), (1, 2)]);
    let good = bundle()
        .partitioned("v", 7, &[2, 3], &[&left, &right])
        .strings(slice_key("v", &left), &[2, 1], &[b"a", b"dd"])
        .strings(slice_key("v", &right), &[2, 2], &[b"b", b"", b"e", b"fff"]);
    let (contents, values) = good.read().unwrap();
    assert_eq!(values["v"], b"abddefff");
    assert_eq!(contents.checkpoint.tensors[0].lengths, Some([1, 1, 0, 2, 1, 3].into()));
    for position in 0..good.data.len() {
        let mut changed = good.clone();
        changed.data[position] ^= 1;
        assert_eq!(refused(&changed).kind(), Kind::Corrupt, "byte {position}");
    }
}

#[test]
fn slices_that_do_not_make_up_their_tensor_are_refused() {
    let (top, low, both) = ([(0, 1)], [(1, 1)], [(0, 2)]);
    let slice = |bundle: Bundle, at: &[(u8, u8)]| {
        bundle.tensor(slice_key("v", at), 4, &[u64::from(at[0].1)], &vec![7; at[0].1.into()])
    };
    let all = slice(slice(slice(bundle(), &top), &low), &both);
    let missing = slice(bundle(), &top).partitioned("v", 4, &[2], &[&top, &low]);
    let repeated = slice(bundle(), &top).partitioned("v", 4, &[2], &[&top, &top]);
    let overlapping = all.clone().partitioned("v", 4, &[3], &[&top, &low, &both]);
    let unlisted = all.partitioned("v", 4, &[2], &[&top, &low]);
    // One half is of another integer of a byte.
    let mixed = slice(bundle(), &top).tensor(slice_key("v", &low), 6, &[1], &[7]);
    let mixed = mixed.partitioned("v", 4, &[2], &[&top, &low]);
    for bundle in [missing, repeated, overlapping, unlisted, mixed] {
        assert_eq!(refused(&bundle).kind(), Kind::Corrupt);
    }
}

#[test]
fn an_object_graph_in_a_slice_is_read_from_the_slices_data_file() {
    const GRAPH: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";
    let slice = [b"\0", GRAPH.as_bytes(), b"\0\x01\0"].concat();
    let mut bundle = bundle().partitioned(GRAPH, 7, &[], &[&[]]).strings(slice.clone(), &[], &[b"graph"]);
    bundle.header = vec![0x08, 0x02];
    // The same entry in shard 1; the entry of the whole tensor is in none.
    let mut in_shard_1 = bundle.entries[&slice].clone();
    in_shard_1.splice(4..4, [0x18, 1]);
    let files = Files::from([
        ("m.index".to_owned(), bundle.clone().raw(slice, in_shard_1).index()),
        ("m.data-00001-of-00002".to_owned(), bundle.data.clone()),
    ]);
    let (contents, values) = read(&Input::memory("m", files), &[]).unwrap();
    assert_eq!(values[GRAPH], b"graph");
    assert_eq!(contents.checkpoint.metadata.text("tf2", "object_graph"), Some("Z3JhcGg="));
}

#[test]
fn gaps_trailing_bytes_shared_bytes_and_missing_unused_shards_are_accepted() {
    let mut bundle = bundle().floats("a", &[1], &[1.]);
    bundle.header = vec![0x08, 0x02];
    bundle.data.splice(0..0, [9; 3]);
    bundle.data.extend([9; 5]);
    let crc = mask(crc32c::crc32c(&1f32.to_le_bytes()));
    bundle = bundle.raw("a", entry(1, &[1], 1, 3, 4, crc)).raw("b", entry(1, &[], 1, 3, 4, crc));
    let files = Files::from([
        ("m.index".to_owned(), bundle.index()),
        ("m.data-00001-of-00002".to_owned(), bundle.data.clone()),
    ]);
    let (contents, values) = read(&Input::memory("m", files), &[]).unwrap();
    assert_eq!(values["a"], values["b"]);
    assert_eq!(contents.files, ["m.data-00001-of-00002"]);
}

#[test]
fn without_its_data_a_checkpoint_without_strings_can_be_inspected() {
    let mut files = bundle().floats("a", &[1], &[1.]).floats("e", &[0], &[]).files("m");
    files.remove("m.data-00000-of-00001");
    let input = Input::memory("m", files);
    assert_eq!(inspected(&input, &Limits::default()).unwrap().checkpoint.tensors.len(), 2);
    assert_eq!(read(&input, &[]).unwrap_err().kind(), Kind::Io);
}

#[test]
fn an_empty_tensor_needs_no_data_but_the_right_checksum() {
    let right = bundle().raw("e", entry(1, &[0, 5], 0, 99, 0, 0xa282_ead8));
    assert!(right.read().unwrap().1["e"].is_empty());
    let wrong = bundle().raw("e", entry(1, &[0, 5], 0, 99, 0, 1));
    assert_eq!(refused(&wrong).kind(), Kind::Corrupt);
}

#[test]
fn small_elements_take_a_byte_each() {
    for dtype in 29..=33 {
        let (contents, values) = bundle().tensor("t", dtype, &[3], &[1, 0, 1]).read().unwrap();
        assert_eq!(values["t"], [1, 0, 1]);
        assert!(contents.checkpoint.tensors[0].dtype.bits().unwrap() <= 4);
    }
}

#[test]
fn a_key_that_is_not_utf_8_is_escaped_with_a_record() {
    let bundle = bundle().tensor(b"a\xff\\".to_vec(), 4, &[], &[1]).tensor(b"b\\".to_vec(), 4, &[], &[2]);
    let (contents, values) = bundle.read().unwrap();
    assert_eq!(values.keys().collect::<Vec<_>>(), ["a\\xff\\\\", "b\\"]);
    let escaped = |name: &str| contents.checkpoint.tensor(name).unwrap().1.metadata.text("tf2", "escaped");
    assert_eq!((escaped("a\\xff\\\\"), escaped("b\\")), (Some("a\\xff\\\\"), None));
}

#[test]
fn keys_determine_axes_and_roles() {
    let bundle = bundle()
        .floats("dense/kernel", &[1, 1], &[1.])
        .floats("dense/kernel/Adam", &[1, 1], &[1.])
        .floats("dense/bias", &[1], &[1.])
        .tensor("global_step", 9, &[], &[0; 8]);
    let (contents, _) = bundle.read().unwrap();
    let tensor = |name: &str| contents.checkpoint.tensor(name).unwrap().1.clone();
    assert_eq!(tensor("dense/kernel").axes, Some([Axis::In, Axis::Out].into()));
    assert_eq!(tensor("dense/bias").axes, Some([Axis::Out].into()));
    assert_eq!(tensor("dense/kernel/Adam").role, Role::Optimizer);
    assert_eq!(tensor("global_step").role, Role::Counter);
}

#[test]
fn activations_for_a_checkpoint_without_layers_are_refused() {
    let input = bundle().floats("a", &[1, 1], &[1.]).input();
    let error = read(&input, &[("activations", "relu")]).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("OpenOptions::architecture"), "{error}");
    let input = bundle().floats("a", &[], &[1.]).input();
    let error = read(&input, &[("activations", "relu")]).unwrap_err();
    assert!(error.to_string().contains("an architecture file cannot describe this model"), "{error}");
    assert_eq!(read(&input, &[("activations", "swich")]).unwrap_err().kind(), Kind::Usage);
}

fn with_state(path: &str) -> Files {
    let mut files = bundle().floats("a", &[], &[1.]).files("m");
    files.extend(bundle().floats("b", &[], &[1.]).files("sub/n"));
    files.insert("checkpoint".to_owned(), format!("model_checkpoint_path: \"{path}\"\n").into_bytes());
    files
}

#[test]
fn a_state_file_is_followed_within_its_directory() {
    for (path, tensor, notes) in [
        ("m", "a", 0),
        ("./m", "a", 0),
        ("sub/n", "b", 0),
        ("sub/../m", "a", 0),
        ("/home/trainer/run/m", "a", 1),
        ("C:\\\\run\\\\m", "a", 1),
        ("../../elsewhere/m", "a", 1),
        ("gone/m", "a", 1),
        // The only checkpoint of the directory, whatever was there before.
        ("gone", "a", 1),
        ("checkpoint", "a", 1),
    ] {
        for entry in ["checkpoint", ""] {
            let (contents, _) = read(&Input::memory(entry, with_state(path)), &[]).unwrap();
            assert_eq!(contents.checkpoint.tensors[0].name, tensor, "{path}");
            assert_eq!(contents.notes.len(), notes, "{path}: {:?}", contents.notes);
        }
    }
}

#[test]
fn a_state_file_that_names_no_existing_checkpoint_is_never_a_certain_match() {
    let mut several = with_state("gone");
    several.extend(bundle().floats("a", &[], &[1.]).files("n"));
    let mut none = with_state("gone");
    none.remove("m.index");
    for (files, kind, says) in [
        (several, Kind::Usage, "contains m, n"),
        (none, Kind::Corrupt, "was moved or removed"),
        (with_state("../../../../etc/passwd"), Kind::Corrupt, "contains m"),
    ] {
        let input = Input::memory("checkpoint", files);
        assert!(matches!(ckpt_tf2::Tf2.probe(&input), Ok(Match::Possible(_))), "{says}");
        let error = read(&input, &[]).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_directory_of_several_checkpoints_without_a_state_file_lists_them() {
    let mut files = bundle().files("one");
    files.extend(bundle().files("two"));
    let input = Input::memory("", files);
    let error = read(&input, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("one, two"), "{error}");
    assert!(matches!(ckpt_tf2::Tf2.probe(&input), Ok(Match::Possible(_))));
    let empty = Input::memory("", Files::new());
    assert_eq!(ckpt_tf2::Tf2.probe(&empty).unwrap(), Match::No);
}

#[test]
fn a_truncated_index_is_reported_as_such_at_any_length() {
    let whole = bundle().floats("a", &[2], &[1., 2.]).files("m");
    let index = whole["m.index"].clone();
    for len in 0..index.len() {
        for has_data in [false, true] {
            let mut files = whole.clone();
            files.insert("m.index".to_owned(), index[..len].to_vec());
            files.retain(|name, _| has_data || name == "m.index");
            let input = Input::memory("m.index", files);
            let has_header = len >= 4;
            let probed = ckpt_tf2::Tf2.probe(&input).unwrap();
            assert_eq!(
                matches!(probed, Match::Possible(_)),
                has_header || has_data,
                "{len} bytes: {probed:?}"
            );
            let error = read(&input, &[]).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
            let (message, context) = (error.message(), error.context());
            assert_eq!(
                message.contains("TensorFlow index is cut short"),
                has_header,
                "{len} bytes: {message}"
            );
            let labels: Vec<&str> = context.pairs().map(|(label, _)| label).collect();
            assert_eq!(labels, ["file", "offset", "found", "expected", "help"], "{error}");
            let found = if len == 0 { "no bytes".to_owned() } else { format!("{len} bytes") };
            assert!(context.found.unwrap().starts_with(&found), "{error}");
        }
    }
}

#[test]
fn a_table_of_another_program_is_not_a_certain_match() {
    let files = Files::from([("000005.ldb".to_owned(), bundle().index())]);
    let probed = ckpt_tf2::Tf2.probe(&Input::memory("000005.ldb", files)).unwrap();
    assert!(matches!(probed, Match::Possible(_)), "{probed:?}");
}

#[test]
fn an_entry_that_is_too_long_is_refused() {
    let slices = varint(7 << 3 | 2).into_iter().chain([0]).collect::<Vec<u8>>().repeat(5 << 20);
    assert_eq!(refused(&bundle().raw("a", slices)).kind(), Kind::Limit);
}

#[test]
fn a_saved_model_without_variables_and_constants_is_refused() {
    for entry in ["", "saved_model.pb"] {
        let files = Files::from([("saved_model.pb".to_owned(), vec![8, 1])]);
        let input = Input::memory(entry, files);
        let probed = ckpt_tf2::Tf2.probe(&input).unwrap();
        assert!(matches!(probed, Match::Certain(_)), "{probed:?}");
        let error = inspected(&input, &Limits::default()).expect_err("no variables");
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.message().contains("the SavedModel has no variables"), "{error}");
        assert_eq!(error.context().file, Some("saved_model.pb"));
    }
}

#[test]
fn a_file_that_only_has_the_name_of_a_saved_model_is_none() {
    for bytes in [&b"text"[..], b"", b"\x08"] {
        let files = Files::from([("saved_model.pb".to_owned(), bytes.to_vec())]);
        let probed = ckpt_tf2::Tf2.probe(&Input::memory("saved_model.pb", files)).unwrap();
        assert_eq!(probed, Match::No);
    }
}
