//! How long the header work of a checkpoint of many tensors takes, in the program and in a plugin:
//! `cargo run --release -p ckpt-plugin-host --example header_work -- FOLDER [TENSORS]`, where `tests/plugins/build.sh FOLDER` built
//! the plugins.

use ckpt_api::{Codec, Input, Limits, Options, Result};
use ckpt_plugin_host::Plugin;
use std::fmt::Write;
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_default();
    let tensors = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(20_000);
    let path = format!("{folder}/safetensors.wasm");
    let bytes = std::fs::read(&path)
        .map_err(|error| ckpt_api::Error::io("cannot read the plugin", error).file(&path))?;
    let started = Instant::now();
    let plugin = Plugin::load(&bytes, &path)?;
    println!("loading: {:.1} ms", milliseconds(started.elapsed()));
    // A file on disk: of one in memory, nothing that was parsed is kept.
    let written = std::env::temp_dir().join(format!("header_work-{}.safetensors", std::process::id()));
    let cannot = |error| ckpt_api::Error::io("cannot write the checkpoint", error);
    std::fs::write(&written, file(tensors)).map_err(cannot)?;
    let measured = measure(&plugin, &Input::open(&written)?, tensors);
    std::fs::remove_file(&written).map_err(cannot)?;
    measured
}

fn measure(plugin: &Plugin, input: &Input, tensors: u64) -> Result<()> {
    println!("{tensors} tensors, processor time, the mean of {ROUNDS} rounds, ms:");
    println!("function   program   plugin   times");
    for (name, step) in STEPS {
        let (mut own, mut other) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            own += milliseconds(step(&ckpt_safetensors::Safetensors, input)?) / f64::from(ROUNDS);
            other += milliseconds(step(plugin, input)?) / f64::from(ROUNDS);
        }
        println!("{name:<8} {own:>9.1} {other:>8.1} {:>7.1}", other / own);
    }
    Ok(())
}

const ROUNDS: u32 = 25;

type Step = fn(&dyn Codec, &Input) -> Result<Duration>;

const STEPS: [(&str, Step); 4] = [
    ("probe", |codec, input| timed(|| codec.probe(input).map(drop))),
    ("read", |codec, input| timed(|| codec.read(input, &Options::default(), input.limits()).map(drop))),
    ("place", |codec, input| {
        let contents = codec.read(input, &Options::default(), &Limits::default())?;
        timed(|| codec.place(&contents.checkpoint, "m.safetensors", &Options::default()).map(drop))
    }),
    ("all", |codec, input| {
        timed(|| {
            codec.probe(input)?;
            let contents = codec.read(input, &Options::default(), &Limits::default())?;
            codec.place(&contents.checkpoint, "m.safetensors", &Options::default()).map(drop)
        })
    }),
];

fn timed(act: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let (started, before) = (Instant::now(), processor_time());
    act()?;
    let taken = processor_time().zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(taken.unwrap_or_else(|| started.elapsed()))
}

/// For how long this thread ran, whatever else the machine does; to a few milliseconds. `None` where there is no such file.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A file with so many matrices of 4 by 8.
fn file(tensors: u64) -> Vec<u8> {
    let mut header = String::from("{");
    for number in 0..tensors {
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(
            header,
            "{comma}\"model.layers.{number}.self_attn.q_proj.weight\":{{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[{},{}]}}",
            number * 128,
            (number + 1) * 128
        );
    }
    header.push('}');
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + tensors as usize * 128, 0);
    file
}
