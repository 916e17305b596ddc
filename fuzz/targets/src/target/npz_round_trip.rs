//! Any tensors of NumPy's dtypes come back from an archive as they were, and one from a file of its own.

use crate::generate;
use crate::round_trip::{assert_same, round_trip};
use arbitrary::{Result, Unstructured};
use ckpt_api::Codec;
use ckpt_npz::Npz;

const NAMES: [&str; 9] = ["", "a", "w", "/", ".", "'", "ä", ".npy", "_0"];

pub(super) fn fuzz(data: &[u8]) {
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured) -> Result<()> {
    let mut given = generate::tensors(u, Npz.info().dtypes, &NAMES)?;
    if let ([tensor], true) = (&mut given.checkpoint.tensors[..], u.arbitrary()?) {
        tensor.name = "m".into();
        let back = round_trip(&Npz, &given, ["m.npy", "m.npy"], [&[], &[]]);
        assert_same(&given, &back.given);
    }
    let leaves = |name: &str| name.starts_with('/') || name.split('/').any(|part| part == "..");
    if given.checkpoint.tensors.iter().any(|tensor| leaves(&tensor.name)) {
        return Ok(());
    }
    let back = round_trip(&Npz, &given, ["m.npz", "m.npz"], [&[], &[]]);
    assert_eq!(back.losses, []);
    assert_eq!(back.given.checkpoint, given.checkpoint);
    assert_eq!(back.given.values, given.values);
    Ok(())
}
