//! Reading any bytes, and what must hold of what was read.

use ckpt_api::{Codec, Contents, Input, Limits, Match, Options, Side};
use std::collections::BTreeMap;

/// Values beyond this are not read: the time goes into headers.
const VALUE_BYTES: u64 = 1 << 20;

/// Options of a codec for reading.
pub fn options(codec: &dyn Codec, options: &[(&str, &str)]) -> Options {
    let options: Vec<_> = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let info = codec.info();
    Options::parse(info.id, info.options, Side::Read, &options).expect("known options")
}

/// Limits that keep a run short.
pub fn small_limits() -> Limits {
    let mut limits = Limits::default();
    for (name, value) in
        [("header_bytes", "1m"), ("block_bytes", "1m"), ("tensors", "10k"), ("graph_nodes", "10k")]
    {
        limits.set_by_name(name, value).expect("a known limit");
    }
    limits
}

/// Probes and reads with small limits, then the values; what was read and can be written must come back the same. Gives
/// what was read, unless that is too much.
pub fn read(codec: &dyn Codec, input: &Input, options: &Options) -> Option<(Contents, Vec<Vec<u8>>)> {
    let probed = codec.probe(input).expect("memory can always be read");
    let limits = small_limits();
    let contents = codec.read(input, options, &limits).ok()?;
    // The options `content` and `arch` describe files whose bytes show nothing: these are not recognized. `cfg` and `layers` can
    // be needed to read a file, which is not recognized then, either.
    let has = |names: [&str; 2]| names.iter().any(|name| options.text(name).is_some());
    let is_read_so = !has(["cfg", "layers"]) || codec.read(input, &Options::default(), &limits).is_ok();
    if !has(["content", "arch"]) && is_read_so {
        assert_ne!(probed, Match::No, "what can be read must be recognized");
    }
    contents.check(&limits).ok()?;
    let all = contents.placements.iter().map(|placement| placement.tensor);
    let sizes = contents.checkpoint.tensors.iter().map(ckpt_api::Tensor::value_bytes);
    if contents.check_data(input, all).is_err() || sizes.fold(0u64, u64::saturating_add) > VALUE_BYTES {
        return None;
    }
    let (contents, values) = ckpt_conformance::read_given(codec, input, options).ok()?;
    if !codec.info().writes.is_empty() && contents.repairs.is_empty() {
        round_trip(codec, input, options, &contents.checkpoint, &values);
    }
    Some((contents, values))
}

/// The files of a directory that was written under this name.
fn directory(name: &str, files: &BTreeMap<String, Vec<u8>>) -> Input {
    let prefix = format!("{name}/");
    let inside = |file: &str| file.strip_prefix(&prefix).unwrap_or(file).to_owned();
    Input::memory("", files.iter().map(|(file, data)| (inside(file), data.clone())).collect())
}

fn round_trip(
    codec: &dyn Codec,
    input: &Input,
    options: &Options,
    checkpoint: &ckpt_api::Checkpoint,
    values: &[Vec<u8>],
) {
    let Ok(files) = ckpt_conformance::write(codec, checkpoint, values, input.entry(), &[]) else { return };
    let written = match files.contains_key(input.entry()) {
        true => Input::memory(input.entry(), files.clone()),
        false => directory(input.entry(), &files),
    };
    let (again, same) = match ckpt_conformance::read_given(codec, &written, options) {
        // An option for one file has no effect on the directory that is written for it.
        Err(error) if error.kind() == ckpt_api::Kind::Usage => return,
        read => read.expect("what was written can be read"),
    };
    let describe = |checkpoint: &ckpt_api::Checkpoint, values: &[Vec<u8>]| {
        let pairs = checkpoint.tensors.iter().zip(values);
        pairs
            .map(|(tensor, value)| (tensor.name.clone(), (tensor.shape.clone(), value.clone())))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(describe(checkpoint, values), describe(&again.checkpoint, &same));
    let twice = ckpt_conformance::write(codec, &again.checkpoint, &same, input.entry(), &[])
        .expect("and written again");
    assert_eq!(files, twice);
}
