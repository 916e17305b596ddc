//! Modules that are wrong, each in one way: an error that names the plugin, never a hang, and never a panic.

use super::module::{Wat, description, good, operator};
use ckpt_api::{
    Blocks, Checkpoint, Codec, Compression, Contents, DType, Encoding, Error, Extent, FileId, Input, Kind,
    Limit, Limits, Node, Op, OpCall, OpShapes, Options, OutputFile, OutputLayout, OutputView, Placement,
    Result, Shape, Tensor, TensorId,
};
use ckpt_forms::{
    Bytes, ContentsForm, DamageForm, Document, ErrorForm, Function, MatchForm, OutputLayoutForm,
    PlacementsForm, VERSION, encode,
};
use ckpt_plugin_host::Plugin;
use std::collections::BTreeMap;

const SHOWN: &str = "toys/toy.wasm";

/// Checks that an error names the plugin and has this text, and that the program exits with 1.
fn is_refused<T>(what: &str, result: Result<T>, text: &str) {
    let Err(error) = result else { panic!("{what}: no error") };
    assert!(matches!(error.kind(), Kind::Unsupported | Kind::Limit), "{what}: {error:?}");
    let shown = error.to_string();
    assert!(shown.contains(text), "{what}: '{text}' is not in: {shown}");
    assert_eq!(error.context().file, Some(SHOWN), "{what}: {shown}");
}

fn limits() -> Limits {
    Limits::default().with(Limit::PluginSteps, 3_000_000).with(Limit::PluginMemory, 8 << 20)
}

fn input() -> Input {
    let files = BTreeMap::from([("m.toy".to_owned(), vec![7; 16])]);
    Input::memory("m.toy", files).within(&limits())
}

fn load(wat: &Wat) -> Result<Plugin> {
    Plugin::load_within(&wat.bytes(), SHOWN, &limits())
}

const LIST: &str = r#"(import "ckpt" "list" (func $list (param i32 i32 i32) (result i64)))"#;
const OPEN: &str = r#"(import "ckpt" "open" (func $open (param i32 i32) (result i64)))"#;
const READ: &str = r#"(import "ckpt" "read" (func $read (param i32 i64 i32 i32)))"#;
const TAKE: &str = r#"(import "ckpt" "take" (func $take (param i32)))"#;
const PULL: &str = r#"(import "ckpt" "pull" (func $pull (param i32 i32) (result i32)))"#;
const LOOP: &str = "(loop $forever (br $forever))";

#[test]
fn what_is_no_module_is_refused() {
    let module = Wat::new().bytes();
    let cut = &module[..module.len() - 3];
    let mut odd = module.clone();
    odd[7] = 9;
    for (bytes, text) in [
        (&b""[..], "no bytes"),
        (b"PK\x03\x04", "50 4b 03 04"),
        (b"\x7fELF\x02", "begins with \\0asm"),
        (b"\0asm\x01\0\0\0", "exports no memory"),
        (cut, "no valid WebAssembly"),
        (&odd, "no valid WebAssembly"),
    ] {
        is_refused("a file", Plugin::load(bytes, SHOWN), text);
    }
    let limits = Limits::default().with(Limit::PluginBytes, 8);
    is_refused("a large file", Plugin::load_within(&module, SHOWN, &limits), "plugin_bytes");
}

#[test]
fn a_module_of_another_form_is_refused() {
    let changed = |change: fn(&mut Wat)| {
        let mut wat = Wat::new();
        change(&mut wat);
        wat
    };
    let text = |from: &str, to: &str| {
        let text = Wat::new().text();
        assert!(text.contains(from), "{from}");
        wat::parse_str(text.replace(from, to)).unwrap()
    };
    for (what, wat, message) in [
        ("no exported memory", changed(|w| w.memory = "(memory 4)".to_owned()), "exports no memory"),
        ("a start function", changed(|w| w.more = "(func $s) (start $s)".to_owned()), "no valid WebAssembly"),
        ("two memories", changed(|w| w.memory.push_str("(memory 1)")), "no valid WebAssembly"),
        (
            "a large memory",
            changed(|w| w.memory = "(memory (export \"memory\") 4096)".to_owned()),
            "toys/toy.wasm",
        ),
        ("a large table", changed(|w| w.more = "(table 100000000 funcref)".to_owned()), "toys/toy.wasm"),
        (
            "an import of WASI",
            Wat::new().importing(
                r#"(import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32)))"#,
            ),
            "wasi_snapshot_preview1.random_get",
        ),
        ("an unknown import", Wat::new().importing(r#"(import "ckpt" "write" (func))"#), "ckpt.write"),
        (
            "an import of another type",
            Wat::new().importing(r#"(import "ckpt" "take" (func (param i64)))"#),
            "ckpt.take",
        ),
        ("an imported memory", Wat::new().importing(r#"(import "ckpt" "list" (global i32))"#), "ckpt.list"),
        (
            "an older version",
            changed(|w| w.version = "(i32.const 0)".to_owned()),
            "version 0 of the interface",
        ),
        ("a newer version", changed(|w| w.version = "(i32.const 7)".to_owned()), "install a newer ckpt"),
        ("a version that loops", changed(|w| w.version = format!("{LOOP} (i32.const 2)")), "plugin_steps"),
        ("a version that stops", changed(|w| w.version = "unreachable".to_owned()), "stopped"),
    ] {
        is_refused(what, load(&wat), message);
    }
    for (what, bytes) in [
        ("no call", text("\"ckpt_call\"", "\"ckpt_coll\"")),
        ("no reserve", text("\"ckpt_reserve\"", "\"reserve\"")),
        ("a version of another type", text("(result i32) (i32.const", "(result i64) (i64.const")),
    ] {
        is_refused(what, Plugin::load(&bytes, SHOWN), "lacks a function");
    }
    assert_eq!(VERSION, 2, "the tests state versions");
}

#[test]
fn a_description_that_lies_is_refused() {
    let described = |change: fn(&mut ckpt_forms::Description)| {
        let mut description = description();
        change(&mut description);
        Wat::new().answering(Function::Describe, &good(description))
    };
    let answering = |bytes: &[u8]| Wat::new().answering(Function::Describe, bytes);
    let defect = encode(&Err::<(), _>(ErrorForm::from(&Error::defect("it is the program's fault")))).unwrap();
    for (what, wat, text) in [
        ("no message", answering(&[]), "malformed"),
        ("noise", answering(&[0xff; 40]), "malformed"),
        ("an error", answering(&defect), "the plugin has a defect"),
        (
            "an id that cannot be typed",
            described(|d| d.format.id = "../toy".to_owned()),
            "an id that cannot be used",
        ),
        ("a title of two lines", described(|d| d.format.title = "a\nb".to_owned()), "cannot be shown"),
        (
            "blocks of another format",
            described(|d| d.blocks = vec![Document(Blocks::opaque("gguf.q4_0", 32, 18))]),
            "name of another format",
        ),
        ("an operator twice", described(|d| d.operators = vec![operator(); 2]), "a name twice"),
        (
            "an operator with a role twice",
            described(|d| {
                let mut twice = operator();
                twice.parameters = vec![twice.parameters[0].clone(); 2];
                d.operators = vec![twice];
            }),
            "a name twice",
        ),
        ("an end within it", Wat::new().doing(Function::Describe, "unreachable"), "stopped"),
        (
            "an answer outside of memory",
            Wat::new().doing(Function::Describe, "(return (i64.const 0x7fffffff00000010))"),
            "an answer outside its memory",
        ),
        (
            "an answer without an end",
            Wat::new().doing(Function::Describe, "(return (i64.const 0x00000001ffffffff))"),
            "an answer outside its memory",
        ),
    ] {
        is_refused(what, load(&wat), text);
    }
    let mut outside = Wat::new();
    outside.reserve = "(i32.const 0x7fffff00)".to_owned();
    is_refused("a message outside of memory", load(&outside), "an address outside its memory");
}

#[test]
fn a_module_that_does_not_end_or_takes_everything_is_stopped() {
    let deep = "(drop (call $call (local.get 0) (local.get 1)))";
    let grow = "(loop $more (drop (memory.grow (i32.const 1))) (br $more))";
    let fill = "(loop $more (memory.fill (i32.const 0) (i32.const 7) (i32.const 200000)) (br $more))";
    for (what, instructions, text) in [
        ("a loop", LOOP, "plugin_steps"),
        ("calls within calls", deep, "within each other"),
        ("memory without an end", grow, "plugin_memory"),
        ("filling without an end", fill, "plugin_steps"),
        ("a division by zero", "(drop (i32.div_u (i32.const 1) (i32.const 0)))", "stopped"),
        ("an address outside of memory", "(drop (i32.load (i32.const -4)))", "stopped"),
        ("an end", "unreachable", "stopped"),
    ] {
        let plugin = load(&Wat::new().doing(Function::Probe, instructions)).unwrap();
        is_refused(what, plugin.probe(&input()), text);
        let plugin = load(&Wat::new().doing(Function::Place, instructions)).unwrap();
        // Writing has the limits of loading.
        is_refused(what, plugin.place(&Checkpoint::default(), "m.toy", &Options::default()), text);
    }
    // A loop of calls of the program costs steps, too.
    let asks = Wat::new().importing(LIST).doing(
        Function::Probe,
        "(loop $more (drop (call $list (i32.const 0) (i32.const 0) (i32.const 2))) (br $more))",
    );
    is_refused("questions without an end", load(&asks).unwrap().probe(&input()), "plugin_steps");
}

#[test]
fn a_module_that_asks_for_what_it_may_not_have_is_stopped() {
    let name = |bytes: &str| format!("(i64.store (i32.const 64) (i64.const {bytes}))");
    for (what, instructions, text) in [
        (
            "a file that is not open",
            "(call $read (i32.const 3) (i64.const 0) (i32.const 0) (i32.const 1))".to_owned(),
            "a file that is not open",
        ),
        (
            "bytes to outside of memory",
            format!(
                "{} (drop (call $open (i32.const 64) (i32.const 5)))
                 (call $read (i32.const 0) (i64.const 0) (i32.const -8) (i32.const 4))",
                name("0x796f742e6d")
            ),
            "an address outside its memory",
        ),
        (
            "an answer to outside of memory",
            format!(
                "{} (drop (call $open (i32.const 64) (i32.const 5))) (call $take (i32.const -2))",
                name("0x796f742e6d")
            ),
            "an address outside its memory",
        ),
        (
            "a name outside of memory",
            "(drop (call $open (i32.const -8) (i32.const 100)))".to_owned(),
            "a name outside",
        ),
        (
            "a name that is no text",
            format!("{} (drop (call $open (i32.const 64) (i32.const 2)))", name("0xffff")),
            "no UTF-8",
        ),
        (
            "a long name",
            "(drop (call $open (i32.const 0) (i32.const 100000)))".to_owned(),
            "of more than 64 KiB",
        ),
        (
            "stored bytes without a stream",
            "(drop (call $pull (i32.const 0) (i32.const 1)))".to_owned(),
            "while no stream is decoded",
        ),
    ] {
        let wat = [LIST, OPEN, READ, TAKE, PULL].iter().fold(Wat::new(), |wat, import| wat.importing(import));
        let plugin = load(&wat.doing(Function::Probe, &instructions)).unwrap();
        is_refused(what, plugin.probe(&input()), text);
    }
}

#[test]
fn files_elsewhere_and_bytes_after_the_end_are_refused_as_for_any_codec() {
    let wat = |instructions: &str| {
        let wat = [OPEN, READ, TAKE].iter().fold(Wat::new(), |wat, import| wat.importing(import));
        load(&wat.answering(Function::Probe, &good(MatchForm::No)).doing(Function::Probe, instructions))
            .unwrap()
    };
    // `../m` is answered by an error, which the module may ignore; nothing is open then.
    let elsewhere =
        "(i64.store (i32.const 64) (i64.const 0x6d2f2e2e)) (drop (call $open (i32.const 64) (i32.const 4)))";
    wat(elsewhere).probe(&input()).unwrap();
    let then_read =
        format!("{elsewhere} (call $read (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 1))");
    is_refused("a file elsewhere", wat(&then_read).probe(&input()), "a file that is not open");
    let after =
        "(i64.store (i32.const 64) (i64.const 0x796f742e6d)) (drop (call $open (i32.const 64) (i32.const 5)))
                 (call $read (i32.const 0) (i64.const 10) (i32.const 0) (i32.const 50))";
    let error = wat(after).probe(&input()).unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains("cut short"), "{error}");
}

fn tensor() -> Tensor {
    Tensor::new("w", DType::F32, Shape::new([2]).unwrap())
}

fn placement() -> Placement {
    Placement::new(TensorId(0), "w", Extent::new(FileId(0), 4, 8), Encoding::row_major(&tensor()))
}

fn contents() -> Contents {
    Contents::default()
        .with_checkpoint(Checkpoint { tensors: vec![tensor()], ..Checkpoint::default() })
        .with_files(vec!["m.toy".to_owned()])
        .with_placements(vec![placement()])
}

#[test]
fn contents_that_lie_are_refused_as_for_any_codec() {
    type Damage = fn(&mut Contents);
    let damages: &[(&str, Damage)] = &[
        ("an extent after the end", |c| c.placements[0].extents[0].offset = 1 << 40),
        ("an extent whose end overflows", |c| c.placements[0].extents[0].offset = u64::MAX),
        ("a file that does not exist", |c| c.placements[0].extents[0].file = FileId(3)),
        ("a length that does not fit", |c| c.placements[0].extents[0].len = 4),
        ("no placement", |c| c.placements.clear()),
        ("two tensors of one name", |c| {
            c.checkpoint.tensors.push(tensor());
            c.placements.push(placement().with_tensor(TensorId(1)));
        }),
        ("a file elsewhere", |c| c.files[0] = "../m.toy".to_owned()),
    ];
    for (what, damage) in damages {
        let mut damaged = contents();
        damage(&mut damaged);
        let plugin = load(&Wat::new().answering(Function::Read, &good(ContentsForm::from(damaged)))).unwrap();
        let read = plugin.read(&input(), &Options::default(), &limits()).unwrap();
        let checked =
            read.check(&limits()).and_then(|()| read.check_data(&input(), [TensorId(0)].into_iter()));
        assert!(checked.is_err(), "{what}");
    }
    let few = limits().with(Limit::Tensors, 0);
    let plugin = load(&Wat::new().answering(Function::Read, &good(ContentsForm::from(contents())))).unwrap();
    is_refused("too many tensors", plugin.read(&input(), &Options::default(), &few), "'tensors'");
}

#[test]
fn a_message_that_lies_is_refused() {
    // A list of 2^60 names, of which none is there.
    let endless = [&[0][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    let cut = good(ContentsForm::from(contents()));
    for (what, answer, text) in [
        ("a list without an end", endless.as_slice(), "malformed"),
        ("a message that is cut", &cut[..cut.len() - 1], "malformed"),
        ("the message of another function", &good(MatchForm::No), "malformed"),
    ] {
        let plugin = load(&Wat::new().answering(Function::Read, answer)).unwrap();
        is_refused(what, plugin.read(&input(), &Options::default(), &limits()), text);
    }
    let small = limits().with(Limit::HeaderBytes, 10);
    let plugin = load(&Wat::new().answering(Function::Read, &cut)).unwrap();
    is_refused("a long message", plugin.read(&input(), &Options::default(), &small), "header_bytes");
}

#[test]
fn a_layout_that_lies_is_refused() {
    type Damage = fn(&mut OutputLayout);
    let layout = || {
        OutputLayout::default()
            .with_files(vec![OutputFile::new("m.toy", 12)])
            .with_placements(vec![placement()])
    };
    let damages: &[(&str, Damage, &str)] = &[
        ("a file elsewhere", |l| l.files[0].name = "../m.toy".to_owned(), "outside the output's directory"),
        ("a tensor that does not exist", |l| l.placements[0].tensor = TensorId(9), "does not exist"),
        ("pieces that overlap", |l| l.placements.push(placement().with_name("v")), "overlap"),
        ("bytes after the end", |l| l.placements[0].extents[0].offset = 8, "outside their file"),
        ("a tensor that does not fit", |l| l.placements[0].extents[0].len = 4, "does not fit"),
    ];
    for (what, damage, text) in damages {
        let mut damaged = layout();
        damage(&mut damaged);
        let plugin =
            load(&Wat::new().answering(Function::Place, &good(OutputLayoutForm::from(damaged)))).unwrap();
        is_refused(what, plugin.place(&contents().checkpoint, "m.toy", &Options::default()), text);
    }
    let plugin = load(&Wat::new().doing(Function::Finish, "unreachable")).unwrap();
    is_refused("a finish that stops", plugin.finish(&layout(), &[]), "stopped");
    let _ = PlacementsForm::default();
}

#[test]
fn decoders_and_blocks_that_lie_are_refused() {
    let plugin = |function, answer: &[u8]| load(&Wat::new().answering(function, answer)).unwrap();
    let decoded = plugin(Function::DecodeBlocks, &good(Bytes(vec![0; 4])));
    is_refused(
        "too few numbers",
        decoded.block_encodings()[0].decode(&[0; 3], &mut Vec::new()),
        "another number",
    );
    let encoded = plugin(Function::EncodeBlocks, &good((0.0, Bytes(vec![0; 9]))));
    is_refused(
        "too many blocks",
        encoded.block_encodings()[0].encode(0, &[0; 8], &mut Vec::new()),
        "another number of blocks",
    );
    let file = input().main().unwrap();
    let read = |plugin: &Plugin, number: usize| {
        let compression = Compression::new(plugin.decoders()[number], 8);
        let extent = Extent::new(FileId(0), 0, 16).with_compression(compression);
        extent.open(&file).and_then(|file| file.bytes(0, 16))
    };
    let unbounded = good(u64::MAX);
    let short = Wat::new()
        .answering(Function::LongestOutput, &unbounded)
        .answering(Function::DecodeWhole, &good(Ok::<_, DamageForm>((2_u64, Bytes(vec![0; 2])))));
    is_refused("too few decoded bytes", read(&load(&short).unwrap(), 0), "another number of decoded bytes");
    let long = Wat::new()
        .answering(Function::LongestOutput, &unbounded)
        .answering(Function::StartStream, &good(Ok::<_, DamageForm>(())))
        .answering(Function::ReadStream, &good(Ok::<_, DamageForm>(Bytes(vec![0; 4000]))));
    is_refused("too many decoded bytes", read(&load(&long).unwrap(), 1), "more decoded bytes");
    let stops = Wat::new().answering(Function::LongestOutput, &unbounded).doing(Function::StartStream, LOOP);
    is_refused("a stream that does not start", read(&load(&stops).unwrap(), 1), "plugin_steps");
    // A plugin that cannot bound a decoder decodes nothing.
    let error =
        read(&load(&Wat::new().doing(Function::LongestOutput, "unreachable")).unwrap(), 0).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let damage: std::result::Result<(), _> = Err(DamageForm::Damage("a code is unknown".to_owned()));
    let damaged = Wat::new()
        .answering(Function::LongestOutput, &unbounded)
        .answering(Function::StartStream, &good(damage));
    let error = read(&load(&damaged).unwrap(), 1).unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains("a code is unknown"), "{error}");
}

#[test]
fn an_operator_that_lies_is_refused() {
    let node = Node::new("n", Op::custom("toy.Op"));
    let (inputs, parameters) = ([Some(vec![2])], [("slope", vec![2])]);
    let shapes = OpShapes::new(&node, &inputs, &parameters);
    let with_operator = || {
        let mut description = description();
        description.operators = vec![operator()];
        Wat::new().answering(Function::Describe, &good(description))
    };
    for (what, wat, text) in [
        ("no shape", with_operator(), "malformed"),
        ("65 axes", with_operator().answering(Function::OperatorShape, &good(vec![1_u64; 65])), "more axes"),
        ("a shape that loops", with_operator().doing(Function::OperatorShape, LOOP), "plugin_steps"),
        ("a shape that stops", with_operator().doing(Function::OperatorShape, "unreachable"), "stopped"),
    ] {
        is_refused(what, load(&wat).unwrap().ops()[0].shape(&shapes), text);
    }
    let call = OpCall::new(shapes, &[&[1.0, 2.0]], &[&[3.0, 4.0]]);
    let elements = |count| good(Bytes::of_floats(&vec![1.5; count]));
    for (what, wat, text) in [
        ("too few", with_operator().answering(Function::RunOperator, &elements(1)), "another number of"),
        ("too many", with_operator().answering(Function::RunOperator, &elements(3)), "another number of"),
        (
            "bytes",
            with_operator().answering(Function::RunOperator, &good(Bytes(vec![0; 17]))),
            "another number of",
        ),
        (
            "a call that grows",
            with_operator().doing(Function::RunOperator, "(drop (memory.grow (i32.const 9999)))"),
            "plugin_memory",
        ),
    ] {
        let mut values = [0.0; 2];
        let computed = load(&wat).unwrap().ops()[0].compute(&call, &mut OutputView::new(&[2], &mut values));
        is_refused(what, computed, text);
        assert_eq!(values, [0.0; 2], "{what}");
    }
}
