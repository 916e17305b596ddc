//! The library as a program uses it: open, read, convert, write from memory.

use crate::toy;
use ckpt::api::{Axis, DType, Graph, Input, LossKind, Network, Role};
use ckpt::store::MemoryStore;
use ckpt::{Conversion, Kind, OpenOptions, Registry, Source, View, Writer};
use half::{bf16, f16};
use std::borrow::Cow;
use std::collections::BTreeMap;

fn registry() -> Registry {
    let mut registry = Registry::builtin();
    registry.add(toy::Toy).unwrap();
    registry
}

/// Big-endian, column-major: every row is spread over the file.
fn toy(tensors: &[(&str, &[u16])]) -> Source {
    let input = Input::memory("m.toy", BTreeMap::from([("m.toy".to_owned(), toy::file(tensors))]));
    Source::open(&registry(), input, &OpenOptions::new()).unwrap()
}

#[test]
fn rows_of_a_transposed_tensor_are_those_of_the_whole() {
    let source = toy(&[("w", &[7, 3, 5])]);
    let tensor = source.tensor("w").unwrap();
    let all: Vec<f32> = tensor.read().unwrap();
    assert_eq!(all, (0..105).map(|k| k as f32).collect::<Vec<_>>());
    for start in 0..=7 {
        for end in start..=7 {
            let rows = tensor.rows(start..end).unwrap();
            assert_eq!(rows.shape()[..], [end - start, 3, 5]);
            assert_eq!(rows.read::<f32>().unwrap(), all[start as usize * 15..end as usize * 15]);
        }
    }
    let nested = tensor.rows(2..6).unwrap().rows(1..3).unwrap();
    assert_eq!(nested.read::<f64>().unwrap(), (45..75).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn rows_that_do_not_exist_are_an_error() {
    let source = toy(&[("w", &[7, 3]), ("s", &[])]);
    let rows =
        |name: &str, start, end| source.tensor(name).unwrap().rows(start..end).map(|_| ()).unwrap_err();
    for error in [rows("w", 0, 8), rows("w", 5, 4), rows("s", 0, 1)] {
        assert_eq!(error.kind(), Kind::Usage);
    }
    assert!(rows("w", 0, 8).to_string().contains("within 0..7"));
}

#[test]
fn chunks_together_are_the_whole_and_bounded_each() {
    let source = toy(&[("w", &[300, 400, 60])]);
    let tensor = source.tensor("w").unwrap();
    let (mut all, mut count) = (Vec::new(), 0);
    for chunk in tensor.chunks::<f32>().unwrap() {
        let chunk = chunk.unwrap();
        assert!(chunk.len() * 4 <= 32 << 20);
        all.extend(chunk);
        count += 1;
    }
    assert!(count > 1);
    assert_eq!(all, tensor.read::<f32>().unwrap());
    assert_eq!(all.len(), 300 * 400 * 60);
}

#[test]
fn a_tensor_that_does_not_exist_is_named_with_its_neighbors() {
    let error = toy(&[("kernel", &[2])]).tensor("kernal").unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("did you mean 'kernel'"), "{error}");
}

#[test]
fn a_type_that_does_not_hold_every_value_is_refused() {
    let memory = MemoryStore::new();
    Writer::to(memory.at("m.npz")).tensor("steps", &[2], &[1_i64, i64::MAX]).unwrap().finish().unwrap();
    let source = ckpt::open(memory.at("m.npz")).unwrap();
    let tensor = source.tensor("steps").unwrap();
    let error = tensor.read::<f32>().unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("read them as i64"), "{error}");
    assert_eq!(tensor.read::<i64>().unwrap(), [1, i64::MAX]);
}

/// Every element type, in every format that takes any name and these dtypes.
#[test]
fn what_is_written_from_memory_is_read_back_from_every_format_of_any_tensors() {
    let formats: Vec<&str> = Registry::builtin()
        .codecs()
        .map(|codec| codec.info())
        .filter(|info| info.free_names && Network::ALL.iter().all(|network| info.writes.contains(network)))
        .map(|info| info.id)
        .collect();
    assert!(formats.len() >= 2, "{formats:?}");
    for format in formats {
        let memory = MemoryStore::new();
        // Keras's other files need a model.
        let name = if format == "keras" { "out.h5" } else { "out" };
        let mut writer = Writer::to(memory.at(name)).format(format);
        let info = Registry::builtin().writer(format).unwrap().info().clone();
        let floats: [f32; 6] = [1.0, -2.5, f32::MAX, f32::MIN_POSITIVE, 0.0, -0.0];
        let (halves, brains) = (floats.map(f16::from_f32), floats.map(bf16::from_f32));
        let mut expected = vec![("f32", DType::F32)];
        writer = writer.tensor("f32", &[2, 3], &floats).unwrap();
        macro_rules! add {
            ($($name:literal, $dtype:ident, $values:expr;)*) => {$(
                if info.dtypes.contains(&DType::$dtype) {
                    writer = writer.tensor($name, &[3, 2], $values).unwrap();
                    expected.push(($name, DType::$dtype));
                }
            )*};
        }
        add! {
            "f64", F64, &[1.0f64, f64::MAX, -0.0, 1e-300, 2.0, 3.0];
            "f16", F16, &halves;
            "bf16", Bf16, &brains;
            "i64", I64, &[i64::MIN, -1, 0, 1, 2, i64::MAX];
            "i32", I32, &[i32::MIN, -1, 0, 1, 2, i32::MAX];
            "i16", I16, &[i16::MIN, -1, 0, 1, 2, i16::MAX];
            "i8", I8, &[i8::MIN, -1, 0, 1, 2, i8::MAX];
            "u64", U64, &[0u64, 1, 2, 3, 4, u64::MAX];
            "u32", U32, &[0u32, 1, 2, 3, 4, u32::MAX];
            "u16", U16, &[0u16, 1, 2, 3, 4, u16::MAX];
            "u8", U8, &[0u8, 1, 2, 3, 4, u8::MAX];
            "bool", Bool, &[true, false, true, true, false, false];
        }
        let summary = writer.finish().unwrap();
        assert_eq!(summary.tensors, expected.len(), "{format}");
        let source = ckpt::open(memory.at(name)).unwrap();
        for (name, dtype) in expected {
            let tensor = source.tensor(name).unwrap();
            assert_eq!(tensor.dtype(), dtype, "{format} {name}");
            assert_eq!(tensor.shape().elements(), 6);
        }
        assert_eq!(source.tensor("f32").unwrap().read::<f32>().unwrap(), floats, "{format}");
        if info.dtypes.contains(&DType::F16) {
            let halves: Vec<f32> = halves.iter().map(|half| half.to_f32()).collect();
            assert_eq!(source.tensor("f16").unwrap().read::<f32>().unwrap(), halves, "{format}");
        }
        if info.dtypes.contains(&DType::Bool) {
            let values = [true, false, true, true, false, false];
            assert_eq!(source.tensor("bool").unwrap().read::<bool>().unwrap(), values, "{format}");
        }
    }
}

#[test]
fn a_writer_that_cannot_keep_everything_stops_unless_that_is_allowed() {
    let registry = registry();
    let memory = MemoryStore::new();
    let steps = [1_i32];
    let writer = || {
        let writer = Writer::to(memory.at("m.toy")).registry(registry.clone());
        writer.tensor("w", &[1], &[1.0_f32]).unwrap().tensor("steps", &[1], &steps).unwrap()
    };
    assert_eq!(writer().finish().unwrap_err().kind(), Kind::Lossy);
    assert!(memory.names().is_empty());
    assert_eq!(writer().allow(LossKind::WeightDropped).finish().unwrap().tensors, 1);
    assert_eq!(writer().role(Role::Counter).unwrap().finish().unwrap_err().kind(), Kind::Usage, "it exists");
    writer().role(Role::Counter).unwrap().overwrite(true).finish().unwrap();
}

#[test]
fn a_shape_with_another_number_of_elements_and_a_name_twice_are_errors() {
    let writer = || Writer::to(MemoryStore::new().at("m.npz"));
    for error in [
        writer().tensor("w", &[2, 3], &[0.0_f32; 5]).map(|_| ()),
        writer().iter("w", &[2, 3], [0_u8; 5]).map(|_| ()),
        writer().iter("w", &[2, 3], std::iter::repeat(0_u8)).map(|_| ()),
        writer().tensor("w", &[], &[0_u8]).unwrap().tensor("w", &[], &[1_u8]).map(|_| ()),
        writer().axes(&[Axis::In]).map(|_| ()),
        writer().tensor("w", &[1], &[0_u8]).unwrap().axes(&[Axis::In, Axis::Out]).map(|_| ()),
        Writer::to("no/such/directory/m.npz").tensor("w", &[1], &[0_u8]).unwrap().finish().map(|_| ()),
        Writer::to(MemoryStore::new().at("m.unknown"))
            .tensor("w", &[1], &[0_u8])
            .unwrap()
            .finish()
            .map(|_| ()),
    ] {
        assert!(matches!(error.as_ref().unwrap_err().kind(), Kind::Usage | Kind::Io), "{error:?}");
    }
}

struct Borrowed<'a>(&'a [u8]);

impl View for Borrowed<'_> {
    fn dtype(&self) -> DType {
        DType::U8
    }

    fn shape(&self) -> Vec<u64> {
        vec![self.0.len() as u64]
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.0)
    }
}

#[test]
fn graph_axes_metadata_and_views_are_written_where_the_format_holds_them() {
    let memory = MemoryStore::new();
    let view = Borrowed(&[1, 2, 3]);
    Writer::to(memory.at("m.safetensors"))
        .tensor("w", &[1, 2], &[1.0_f32, 2.0])
        .unwrap()
        .axes(&[Axis::Out, Axis::In])
        .unwrap()
        .view("bytes", &view)
        .unwrap()
        .graph(Graph::default())
        .metadata("mine", "key", "value")
        .finish()
        .unwrap();
    let source = ckpt::open(memory.at("m.safetensors")).unwrap();
    assert_eq!(source.tensor("w").unwrap().axes(), Some(&[Axis::Out, Axis::In][..]));
    assert_eq!(source.tensor("bytes").unwrap().bytes().unwrap(), [1, 2, 3]);
    assert_eq!(source.checkpoint().metadata.text("mine", "key"), Some("value"));
}

#[test]
fn a_conversion_within_memory_is_one_call() {
    let memory = MemoryStore::new();
    Writer::to(memory.at("a.npz")).iter("w", &[4], (0..4).map(|k| k as f32)).unwrap().finish().unwrap();
    ckpt::convert(memory.at("a.npz"), memory.at("b.safetensors")).unwrap();
    let half = Conversion::new().dtype(DType::F16);
    ckpt::convert_with(memory.at("b.safetensors"), memory.at("half.safetensors"), &half).unwrap();
    let source = ckpt::open(memory.at("half.safetensors")).unwrap();
    assert_eq!(source.tensor("w").unwrap().dtype(), DType::F16);
    assert_eq!(source.tensor("w").unwrap().read::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    assert!(ckpt::convert(memory.at("b.safetensors"), memory.at("b.safetensors")).is_err());
}

#[test]
fn rows_do_not_read_the_rest_of_the_file() {
    let memory = MemoryStore::new();
    Writer::to(memory.at("m.safetensors")).iter("w", &[100, 3], 0..300_i32).unwrap().finish().unwrap();
    let mut bytes = memory.get("m.safetensors").unwrap();
    // The last rows are cut off.
    bytes.truncate(bytes.len() - 200);
    memory.put("m.safetensors", bytes);
    if let Ok(source) = ckpt::open(memory.at("m.safetensors")) {
        let tensor = source.tensor("w").unwrap();
        assert_eq!(tensor.rows(10..12).unwrap().read::<i32>().unwrap(), (30..36).collect::<Vec<_>>());
        assert!(tensor.read::<i32>().is_err());
    }
}

#[test]
fn an_observer_is_told_of_all_bytes_of_values_that_are_read() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    let mut seen = 0;
    // Strings and numbers; compressed arrays; arrays in the other order.
    for name in [
        "examples/data/digits",
        "corpus/npz/accept/deflated.npz",
        "corpus/npz/accept/column_major.npy",
        "corpus/npz/accept/every_dtype.npz",
    ] {
        let source = ckpt::open(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
        let read = Arc::new(AtomicU64::new(0));
        let total = Arc::clone(&read);
        source.on_read(move |bytes| {
            total.fetch_add(bytes, Relaxed);
        });
        ckpt::digest::digest(&source, 0).unwrap();
        assert_eq!(read.load(Relaxed), source.value_bytes(), "{name}");
        ckpt::diff::diff(&source, &source.clone(), Default::default()).unwrap();
        // Bookkeeping is no difference: it is not read.
        let inspection = ckpt::inspect::inspect(&source, false).unwrap();
        let incidental = inspection.tensors.iter().filter(|tensor| tensor.role == Role::Bookkeeping);
        let compared = source.value_bytes() - incidental.map(|tensor| tensor.bytes).sum::<u64>();
        assert_eq!(read.load(Relaxed), source.value_bytes() + 2 * compared, "{name}");
        seen += source.value_bytes();
    }
    assert!(seen > 10_000, "{seen}");
}
