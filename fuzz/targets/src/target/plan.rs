//! Plans of conversions from tensors stored in any way: they keep their budget, and doing what they say gives what plain loops
//! give.

use crate::generate::{self, Given};
use crate::loose::Loose;
use arbitrary::{Result, Unstructured};
use ckpt::mapping::Mapping;
use ckpt::store::MemoryStore;
use ckpt::{Conversion, Destination, OpenOptions, Plan, Registry, Resources, Source};
use ckpt_api::{Codec, DType, Input, Limits, LossKind};
use std::path::PathBuf;
use std::sync::Arc;

const NAMES: [&str; 6] = ["a", "w", "/", ".", "kernel", "_0"];
const MAPS: [&str; 5] = [
    "identity = true\nignore = [\"a\"]\n",
    "identity = true\n[[rule]]\nfrom = \"{x:word}/{y:word}\"\nto = \"{y}/{x}\"\n",
    "identity = true\n[[rule]]\nfrom = \"kernel\"\nto = \"k\"\nsteps = [\"transpose\"]\n",
    "identity = true\n[[rule]]\nfrom = \"w\"\nto = [\"p\", \"q\"]\nsplit = 0\n",
    "identity = true\n[[rule]]\nfrom = [\"a\", \"w\"]\nto = \"m\"\nmerge = 0\n",
];

pub(super) fn fuzz(data: &[u8]) {
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured) -> Result<()> {
    let dtypes = if u.arbitrary()? { ckpt_npz::Npz.info().dtypes } else { DType::ALL };
    let given = generate::tensors(u, dtypes, &NAMES)?;
    let loose = Loose::arbitrary(u, &given)?;
    // What is no number cannot be stored as an integer.
    let Ok(files) = ckpt_conformance::write(&loose, &given.checkpoint, &given.values, "x.loose", &[]) else {
        return Ok(());
    };
    let input = Input::memory("x.loose", files);
    let (contents, values) =
        ckpt_conformance::read(&loose, &input, &[]).expect("what was written can be read");
    let mut registry = Registry::builtin();
    registry.add(loose).expect("a new id");
    let open =
        || Source::open(&registry, input.clone(), &OpenOptions::default()).expect("a format that is certain");
    let source = open();
    for (tensor, value) in contents.checkpoint.tensors.iter().zip(&values) {
        assert!(
            source.tensor(&tensor.name).and_then(|tensor| tensor.bytes()).expect("a value") == *value,
            "{tensor:?}"
        );
    }
    let conversion = conversion(u)?;
    let output = PathBuf::from("no-such-file").with_extension(u.choose(&["npz", "safetensors", "index"])?);
    let Ok(planned) = conversion.plan_unjudged(&registry, &source, &output) else { return Ok(()) };
    let plan = planned.plan();
    assert!(plan.peak_memory <= conversion.resources.max_memory, "the budget is kept");
    // One map makes two tensors of one.
    assert!(plan.tensors().len() <= given.values.len() + 1);
    let text = plan.to_json().expect("plans are plain data");
    let again = conversion.plan_unjudged(&registry, &open(), &output).expect("as before");
    assert_eq!(again.plan().to_json().expect("plain data"), text, "the same plan");
    let read = Plan::from_json(&text, &Limits::default()).expect("what was written can be read");
    assert_eq!(read.sha256().expect("plain data"), plan.sha256().expect("plain data"), "the same plan");
    if u.ratio(1, 8)? {
        let item_size = u.int_in_range(0..=200)?;
        execute(&registry, &open(), Given { checkpoint: contents.checkpoint, values }, item_size);
    }
    Ok(())
}

fn conversion(u: &mut Unstructured) -> Result<Conversion> {
    let mut conversion = Conversion::default();
    if u.arbitrary()? {
        conversion.include.push(pattern(u)?);
    }
    if u.arbitrary()? {
        conversion.exclude.push(pattern(u)?);
    }
    if u.arbitrary()? {
        conversion.dtype = Some(*u.choose(DType::ALL)?);
    }
    if u.arbitrary()? {
        let text = u.choose(&MAPS)?;
        conversion.mapping = Some(Mapping::from_toml(text, "map.toml").expect("a mapping"));
    }
    if u.arbitrary()? {
        conversion.resources.max_memory = u.int_in_range(0..=1 << 20)?;
    }
    conversion.resources.threads = u.int_in_range(0..=4)?;
    Ok(conversion)
}

fn pattern(u: &mut Unstructured) -> Result<String> {
    Ok((*u.choose(&["**", "a*", "*/w", "kernel", "**w**a"])?).to_owned())
}

/// Converts to an archive, which is the one that plain loops write.
fn execute(registry: &Registry, source: &Source, given: Given, item_size: u64) {
    let npz = ckpt_npz::Npz;
    let native = given.checkpoint.tensors.iter().all(|tensor| npz.info().dtypes.contains(&tensor.dtype));
    let Ok(expected) = ckpt_conformance::write(&npz, &given.checkpoint, &given.values, "x.npz", &[]) else {
        return;
    };
    if !native {
        return;
    }
    let store = MemoryStore::new();
    let output = Destination::within(Arc::new(store.clone()), "x.npz");
    let resources = Resources::new().item_size(item_size);
    // A weight without elements is taken for one that was left elsewhere.
    let conversion = Conversion::new().resources(resources).allow(LossKind::Partial);
    let planned = conversion.plan(registry, source, output).expect("no loss");
    planned.execute(&Default::default(), &|_| ()).expect("nothing fails");
    assert!(store.get("x.npz").expect("the output") == expected["x.npz"]);
}
