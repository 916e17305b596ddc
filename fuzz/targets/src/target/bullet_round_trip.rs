//! Any 32-bit floats come back from bullet's records, and any net's weights from every file that can be made of them; of the
//! quantized ones, the integers.

use crate::generate::{self, Given};
use crate::round_trip::{assert_same, by_name, permuted, round_trip};
use crate::{check, inputs};
use arbitrary::{Result, Unstructured};
use ckpt_api::{DType, Input, Kind};
use ckpt_bullet::Bullet;

const NAMES: [&str; 7] = ["a", "l0w", "/", " ", "~", "momentum/", "weight"];

pub(super) fn fuzz(data: &[u8]) {
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured) -> Result<()> {
    match u.arbitrary()? {
        true => records(u),
        false => net(u),
    }
}

/// Without an architecture, a tensor is a list of its numbers, columns one behind the other.
fn records(u: &mut Unstructured) -> Result<()> {
    let mut given = generate::tensors(u, &[DType::F32], &NAMES)?;
    let keep: Vec<bool> =
        given.checkpoint.tensors.iter().map(|t| !t.name.is_empty() && t.shape.elements() > 0).collect();
    let mut kept = keep.iter();
    given.checkpoint.tensors.retain(|_| *kept.next().unwrap_or(&false));
    let mut kept = keep.iter();
    given.values.retain(|_| *kept.next().unwrap_or(&false));
    if given.values.is_empty() {
        return Ok(());
    }
    let form = *u.choose(&["current", "rows"])?;
    let options = [("records", form), ("parts", "state")];
    // One file, and a directory with what the optimizer keeps.
    let directory = !kept_for_another(&given);
    for (name, write) in [("weights.bin", &options[..1]), ("", &options)] {
        if name.is_empty() && !directory {
            let refused = ckpt_conformance::write(&Bullet, &given.checkpoint, &given.values, "", &[]);
            assert_eq!(refused.expect_err("one name for two").kind(), Kind::Mapping);
            continue;
        }
        let back = round_trip(&Bullet, &given, [name, name], [write, &[]]);
        let found = by_name(&back.given);
        for (tensor, values) in given.checkpoint.tensors.iter().zip(&given.values) {
            let order: Vec<usize> = (0..tensor.shape.rank()).rev().collect();
            let (_, list) = found.get(tensor.name.as_str()).expect("a record");
            assert_eq!(*list, permuted(tensor, values, &order));
        }
    }
    Ok(())
}

/// Whether a tensor has the name of another's momentum.
fn kept_for_another(given: &Given) -> bool {
    let named = by_name(given);
    named.keys().filter_map(|name| name.strip_prefix("momentum/")).any(|name| named.contains_key(name))
}

/// A preset and weights of its sizes that are small enough for 16 bits at any scale.
fn net(u: &mut Unstructured) -> Result<()> {
    let mut size = |most: u64| u.int_in_range(1..=most);
    let (features, hidden, out, buckets, inputs) = (size(5)?, size(5)?, size(3)?, size(3)?, size(3)?);
    let (qa, qb) = (u.int_in_range(1..=300u32)?, u.int_in_range(1..=100u32)?);
    let [round, transpose, factoriser]: [bool; 3] = u.arbitrary()?;
    let preset = format!(
        "simple:{features}x{hidden}x{out},buckets={buckets},inputs={inputs},factoriser={factoriser},qa={qa},qb={qb},round={round},transpose={transpose}"
    );
    let shared = if factoriser { hidden * features } else { 0 };
    let sizes = [
        ("l0w", hidden * features * inputs),
        ("l0f", shared),
        ("l0b", hidden),
        ("l1w", out * buckets * 2 * hidden),
        ("l1b", out * buckets),
    ];
    let mut file = Vec::new();
    for (id, count) in sizes.into_iter().filter(|(_, count)| *count > 0) {
        let seed: u32 = u.arbitrary()?;
        file.extend(format!("{id}\n").bytes());
        file.extend(count.to_le_bytes());
        let number = |k: u32| ((seed ^ k).wrapping_mul(0x9e37_79b9) >> 20) as f32 / 4096.0 - 0.5;
        file.extend((0..count as u32).flat_map(|k| number(k).to_le_bytes()));
    }
    let arch = [("arch", preset.as_str())];
    let input = inputs::single("weights.bin", &file);
    let read = |input: &Input| {
        let (contents, values) =
            ckpt_conformance::read_given(&Bullet, input, &check::options(&Bullet, &arch))
                .expect("a net's weights");
        Given { checkpoint: contents.checkpoint, values }
    };
    let given = read(&input);
    let back = round_trip(&Bullet, &given, ["weights.bin", "weights.bin"], [&[], &arch]);
    assert_eq!(back.files["weights.bin"], file);
    assert_same(&given, &back.given);
    if !factoriser {
        let back = round_trip(&Bullet, &given, ["raw.bin", "raw.bin"], [&[], &arch]);
        assert_same(&given, &back.given);
    }
    quantized(&given, &arch);
    Ok(())
}

/// Reads quantised.bin, and writes the same from what was read.
fn quantized(given: &Given, arch: &[(&str, &str)]) {
    let write = |given: &Given| {
        ckpt_conformance::write(&Bullet, &given.checkpoint, &given.values, "quantised.bin", &[])
            .expect("small numbers")
    };
    let files = write(given);
    for integers in ["false", "true"] {
        let options = [arch, &[("integers", integers)]].concat();
        let input = Input::memory("quantised.bin", files.clone());
        let read = ckpt_conformance::read_given(&Bullet, &input, &check::options(&Bullet, &options));
        let (contents, values) = read.expect("what was written can be read");
        assert_eq!(write(&Given { checkpoint: contents.checkpoint, values }), files);
    }
}
