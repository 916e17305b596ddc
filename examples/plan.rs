//! Plans a conversion, runs its items in any order, and commits: `cargo run --example plan`. `ckpt run-plan` and `ckpt
//! commit` do the same in as many processes as you like.

use ckpt::api::Limits;
use ckpt::{Commit, Conversion, Execution, Planned, Registry, Resources, plan::Plan};
use std::sync::Mutex;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let (registry, source) = (Registry::builtin(), ckpt::open("examples/data/digits")?);
    let conversion = Conversion::new().resources(Resources::new().item_size(1024));
    let planned = conversion.plan(&registry, &source, scratch.path().join("digits.safetensors"))?;
    for loss in &planned.plan().losses {
        println!("dropped or changed: {} ({})", loss.subject, loss.kind.name());
    }

    // What another process would read.
    let document = planned.plan().to_json()?;
    let worker = Planned::resume(&registry, Plan::from_json(&document, &Limits::default())?)?;
    let (execution, receipts) = (Execution::new().sync(false), Mutex::new(Vec::new()));
    let count = worker.plan().items().len();
    for item in (0..count).rev() {
        worker.run_items(item..item + 1, &[], &execution, &|_bytes| (), &|receipt| {
            receipts.lock().expect("no other thread panics").push(receipt.clone());
            Ok(())
        })?;
    }
    let receipts = receipts.into_inner()?;
    let summary = worker.commit(&receipts, &Commit::new().verify(true), &execution)?;
    println!("{count} items, {} tensors: {:?}", summary.tensors, summary.files);
    Ok(())
}
