//! Weights of plain numbers that a conversion quantizes: what it writes, and when it refuses.

use crate::common::{open, workplace::Workplace};
use crate::quantized_groups::{Stored, directory};
use ckpt::{Conversion, Error, Kind, OpenOptions, Plan, Planned, Registry, Resources, Source};
use ckpt_api::{DType, Limits, LossKind};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Rows and columns: blocks at both ends are shorter.
const SHAPE: [usize; 2] = [130, 200];
/// The weight that is quantized.
const WEIGHT: &str = "model.layers.0.mlp.up_proj.weight";
/// Rows and columns of a weight whose rows divide into groups of 64 and of 128, and this weight.
const GROUPED_SHAPE: [usize; 2] = [6, 256];
const GROUPED: &str = "model.layers.0.mlp.down_proj.weight";

/// Numbers of different magnitudes; a row and a block are zeros.
fn numbers() -> Vec<f32> {
    let number = |at: usize| {
        let (row, column) = (at / SHAPE[1], at % SHAPE[1]);
        let is_zero = row == 3 || (row >= 128 && column >= 128);
        if is_zero { 0.0 } else { ((at * 37 % 1009) as f32 - 504.0) / (7.0 + row as f32) }
    };
    (0..SHAPE[0] * SHAPE[1]).map(number).collect()
}

/// Those of the weight with groups: one of zeros, one of equal numbers, and some of one sign.
fn grouped_numbers() -> Vec<f32> {
    let number = |at: usize| {
        let number = ((at * 37 % 1009) as f32 - 504.0) / (7.0 + (at / 64) as f32);
        match at / 64 {
            3 => 0.0,
            5 => -0.5,
            7 => number.abs(),
            9 => -number.abs(),
            _ => number,
        }
    };
    (0..GROUPED_SHAPE[0] * GROUPED_SHAPE[1]).map(number).collect()
}

pub(crate) fn model(place: &Workplace, kind: &str) -> PathBuf {
    model_of(place, kind, &grouped_numbers())
}

fn model_of(place: &Workplace, kind: &str, grouped: &[f32]) -> PathBuf {
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let shape = SHAPE.to_vec();
    let tensors: Vec<Stored> = vec![
        (GROUPED, "F32", GROUPED_SHAPE.to_vec(), bytes(grouped)),
        ("lm_head.weight", "F32", vec![2, 2], bytes(&[1.0, 2.0, 3.0, 4.0])),
        ("model.embed_tokens.weight", "F32", vec![2, 2], bytes(&[5.0, 6.0, 7.0, 8.0])),
        ("model.layers.0.input_layernorm.weight", "F32", vec![2], bytes(&[1.0, 1.0])),
        ("model.layers.0.mlp.gate.weight", "F32", vec![1, 2], bytes(&[1.0, -1.0])),
        (WEIGHT, "F32", shape, bytes(&numbers())),
    ];
    let config =
        json!({ "architectures": ["LlamaForCausalLM"], "model_type": kind, "torch_dtype": "float32" });
    directory(place, "model", &config, &tensors)
}

fn quantizing(scheme: &str) -> Conversion {
    Conversion::new().set("quantize", scheme)
}

fn write(source: &Path, out: &Path, conversion: &Conversion) -> Result<(), Error> {
    let source = Source::open(&Registry::builtin(), source, &OpenOptions::new())?;
    conversion.plan(&Registry::builtin(), &source, out)?.execute(&Default::default(), &|_| ()).map(drop)
}

/// The numbers of 8 bits, 4 of them for the exponent and 3 for the mantissa, that are not negative.
fn small_floats() -> Vec<f32> {
    let number = |code: i32| match (code >> 3, (code & 7) as f32) {
        (0, mantissa) => mantissa / 8.0 * 2f32.powi(-6),
        (exponent, mantissa) => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    };
    (0..127).map(number).collect()
}

/// The nearest of these, ties to the even code.
fn rounded(floats: &[f32], number: f32) -> f32 {
    let above = floats.partition_point(|float| *float < number.abs()).min(floats.len() - 1);
    let below = above.saturating_sub(1);
    let (up, down) = (floats[above] - number.abs(), number.abs() - floats[below]);
    let takes_upper = up < down || (up == down && above % 2 == 0);
    (if takes_upper { floats[above] } else { floats[below] }).copysign(number)
}

/// The stored tensors of a weight: 8-bit floats, and scales with their shape.
fn parts(path: &Path, ending: &str) -> (Vec<f32>, Vec<f32>, Vec<u64>) {
    let parts = Source::open(&Registry::builtin(), path, &OpenOptions::new().parts(true)).unwrap();
    let scales = parts.tensor(&format!("{WEIGHT}{ending}")).unwrap();
    let shape = scales.shape().to_vec();
    (parts.tensor(WEIGHT).unwrap().read::<f32>().unwrap(), scales.read::<f32>().unwrap(), shape)
}

/// The largest magnitude of each block.
fn maxima(numbers: &[f32], [height, width]: [usize; 2]) -> Vec<f32> {
    let across = SHAPE[1].div_ceil(width);
    let mut largest = vec![0_f32; SHAPE[0].div_ceil(height) * across];
    for (at, number) in numbers.iter().enumerate() {
        let block = at / SHAPE[1] / height * across + at % SHAPE[1] / width;
        largest[block] = largest[block].max(number.abs());
    }
    largest
}

#[test]
fn each_block_of_128_rows_and_columns_gets_the_scale_of_its_largest_number() {
    let place = Workplace::new();
    let out = place.path("out");
    write(&model(&place, "llama"), &out, &quantizing("fp8-blocks")).unwrap();
    let factor = |largest: f32| if largest == 0.0 { 1.0 } else { 1.0 / largest * 448.0 };
    let factors: Vec<f32> = maxima(&numbers(), [128, 128]).into_iter().map(factor).collect();
    let floats = small_floats();
    let own = |at: usize| factors[at / SHAPE[1] / 128 * 2 + at % SHAPE[1] / 128];
    let expected: Vec<f32> =
        numbers().iter().enumerate().map(|(at, number)| rounded(&floats, number * own(at))).collect();
    let (weight, scales, shape) = parts(&out, "_scale_inv");
    assert_eq!(shape, [2, 2]);
    assert_eq!(scales, factors.iter().map(|factor| 1.0 / factor).collect::<Vec<f32>>());
    assert_eq!(weight, expected);
}

#[test]
fn each_row_gets_the_scale_of_its_largest_number() {
    let place = Workplace::new();
    let out = place.path("out");
    write(&model(&place, "llama"), &out, &quantizing("fp8-channels")).unwrap();
    let scale = |largest: f32| if largest == 0.0 { f32::EPSILON } else { largest / 448.0 };
    let expected_scales: Vec<f32> = maxima(&numbers(), [1, SHAPE[1]]).into_iter().map(scale).collect();
    let floats = small_floats();
    let expected: Vec<f32> = numbers()
        .iter()
        .enumerate()
        .map(|(at, number)| rounded(&floats, number / expected_scales[at / SHAPE[1]]))
        .collect();
    let (weight, scales, shape) = parts(&out, "_scale");
    assert_eq!((shape, scales), (vec![130, 1], expected_scales));
    assert_eq!(weight, expected);
}

/// The stored tensors of a scheme, and the numbers that it is read as.
fn written(place: &Workplace, scheme: &str) -> (Source, Source) {
    let out = place.path(scheme);
    write(&model(place, "llama"), &out, &quantizing(scheme)).unwrap();
    let parts = Source::open(&Registry::builtin(), &out, &OpenOptions::new().parts(true)).unwrap();
    (parts, open(&out, &[]))
}

fn floats(source: &Source, name: &str) -> Vec<f32> {
    source.tensor(name).unwrap().read::<f32>().unwrap()
}

fn bytes(source: &Source, name: &str) -> Vec<u8> {
    let chunks = source.tensor(name).unwrap().byte_chunks().unwrap();
    chunks.flat_map(|chunk| chunk.unwrap().to_vec()).collect()
}

/// The integers of 4 bits in bytes, of which the first is in the low bits.
fn nibbles(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect()
}

#[test]
fn each_row_of_integers_gets_the_scale_of_its_largest_number() {
    let place = Workplace::new();
    let (parts, _) = written(&place, "int8-channels");
    let scale = |largest: f32| if largest == 0.0 { f32::EPSILON } else { largest / 127.5 };
    let expected: Vec<f32> = maxima(&numbers(), [1, SHAPE[1]]).into_iter().map(scale).collect();
    let scales = format!("{WEIGHT}_scale");
    assert_eq!(
        (floats(&parts, &scales), parts.tensor(&scales).unwrap().shape().to_vec()),
        (expected.clone(), vec![130, 1])
    );
    let integer = |(at, number): (usize, &f32)| {
        let divided = (number / expected[at / SHAPE[1]]).clamp(-128.0, 127.0);
        (divided.round_ties_even() as i8).cast_unsigned()
    };
    assert_eq!(bytes(&parts, WEIGHT), numbers().iter().enumerate().map(integer).collect::<Vec<u8>>());
    assert_eq!(parts.tensor(WEIGHT).unwrap().dtype(), DType::I8);
}

#[test]
fn integers_of_4_bits_are_packed_with_the_scale_of_each_128() {
    let place = Workplace::new();
    let (parts, _) = written(&place, "int4-groups");
    let largest = |group: &[f32]| group.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
    let scales: Vec<f32> = grouped_numbers().chunks(128).map(|group| largest(group) / 7.5).collect();
    assert_eq!(floats(&parts, &format!("{GROUPED}_scale")), scales);
    let integer = |(at, number): (usize, &f32)| {
        let whole = (number / scales[at / 128]).round_ties_even().clamp(-8.0, 7.0);
        (whole + 8.0) as u8
    };
    let expected: Vec<u8> = grouped_numbers().iter().enumerate().map(integer).collect();
    let packed = parts.tensor(&format!("{GROUPED}_packed")).unwrap();
    assert_eq!((packed.dtype(), packed.shape().to_vec()), (DType::I32, vec![6, 32]));
    assert_eq!(nibbles(&bytes(&parts, &format!("{GROUPED}_packed"))), expected);
    let lens: Vec<u8> = [6_u64, 256].iter().flat_map(|len| len.to_le_bytes()).collect();
    assert_eq!(bytes(&parts, &format!("{GROUPED}_shape")), lens);
}

#[test]
fn each_64_of_a_row_get_the_scale_and_the_bias_of_mlx() {
    for (scheme, most) in [("mlx-4bit", 15.0), ("mlx-8bit", 255.0)] {
        let place = Workplace::new();
        let (parts, _) = written(&place, scheme);
        let (mut scales, mut biases, mut integers) = (Vec::new(), Vec::new(), Vec::new());
        for group in grouped_numbers().chunks(64) {
            let (low, high) = (
                group.iter().copied().fold(f32::INFINITY, f32::min),
                group.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            );
            let step = ((high - low) / most).max(1e-7);
            let (edge, step) = if low.abs() > high.abs() { (low, step) } else { (high, -step) };
            let steps = (edge / step).round_ties_even();
            let (scale, bias) = if steps == 0.0 { (step, 0.0) } else { (edge / steps, edge) };
            scales.push(scale);
            biases.push(bias);
            integers.extend(
                group.iter().map(|number| ((number - bias) / scale).round_ties_even().clamp(0.0, most) as u8),
            );
        }
        let module = GROUPED.strip_suffix(".weight").unwrap();
        assert_eq!(floats(&parts, &format!("{module}.scales")), scales);
        assert_eq!(floats(&parts, &format!("{module}.biases")), biases);
        let packed = bytes(&parts, GROUPED);
        assert_eq!(if most == 15.0 { nibbles(&packed) } else { packed }, integers);
        assert_eq!(parts.tensor(GROUPED).unwrap().dtype(), DType::U32);
    }
}

#[test]
fn each_64_elements_choose_from_16_numbers_times_their_largest() {
    let place = Workplace::new();
    let (parts, read) = written(&place, "nf4");
    let largest: Vec<f32> = grouped_numbers()
        .chunks(64)
        .map(|group| group.iter().fold(0.0_f32, |most, own| most.max(own.abs())))
        .collect();
    assert_eq!(floats(&parts, &format!("{GROUPED}.absmax")), largest);
    let table = floats(&parts, &format!("{GROUPED}.quant_map"));
    let nearest = |(at, number): (usize, &f32)| {
        let scaled = if largest[at / 64] == 0.0 { 0.0 } else { number * (1.0 / largest[at / 64]) };
        let distance = |entry: &f32| (entry - scaled).abs();
        let entry = table.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
        entry.unwrap() * largest[at / 64]
    };
    let expected: Vec<f32> = grouped_numbers().iter().enumerate().map(nearest).collect();
    assert_eq!(floats(&read, GROUPED), expected);
    let state = bytes(&parts, &format!("{GROUPED}.quant_state.bitsandbytes__nf4"));
    let expected = r#"{"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [6, 256]}"#;
    assert_eq!(String::from_utf8(state).unwrap(), expected);
    assert_eq!(parts.tensor(GROUPED).unwrap().shape()[..], [6 * 128, 1]);
}

#[test]
fn a_matrix_that_does_not_divide_into_groups_stays_and_the_configuration_names_it() {
    for (scheme, field) in [("int4-groups", "ignore"), ("nf4", "llm_int8_skip_modules")] {
        let place = Workplace::new();
        let (parts, _) = written(&place, scheme);
        assert_eq!(floats(&parts, WEIGHT), numbers());
        let config = std::fs::read_to_string(place.path(scheme).join("config.json")).unwrap();
        let config: Value = serde_json::from_str(&config).unwrap();
        let kept = ["lm_head", "model.embed_tokens", "model.layers.0.mlp.gate", "model.layers.0.mlp.up_proj"];
        assert_eq!(config["quantization_config"][field], json!(kept), "{scheme}");
    }
}

#[test]
fn groups_are_read_as_numbers_again_by_what_config_json_states() {
    for (scheme, title, error) in [
        ("int8-channels", "compressed-tensors int8", 1.0 / 250.0),
        ("int4-groups", "compressed-tensors int4 g128", 1.0 / 7.5),
        ("mlx-4bit", "mlx int4 g64", 2.0 / 15.0),
        ("mlx-8bit", "mlx int8 g64", 2.0 / 255.0),
        ("nf4", "bitsandbytes nf4 g64", 0.16),
    ] {
        let place = Workplace::new();
        let (_, read) = written(&place, scheme);
        assert_eq!(read.grouped().unwrap().scheme(GROUPED), Some(title));
        let largest = 504.0 / 7.0;
        for (found, number) in floats(&read, GROUPED).iter().zip(grouped_numbers()) {
            assert!((found - number).abs() <= largest * error, "{scheme}: {found} for {number}");
        }
    }
}

#[test]
fn a_weight_with_what_is_no_number_is_refused() {
    for number in [f32::NAN, f32::INFINITY] {
        for scheme in ["int8-channels", "int4-groups", "mlx-4bit", "nf4"] {
            let place = Workplace::new();
            let mut grouped = grouped_numbers();
            grouped[700] = number;
            let error = write(&model_of(&place, "llama", &grouped), &place.path("out"), &quantizing(scheme))
                .unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == Kind::Lossy && text.contains(GROUPED), "{scheme}: {text}");
            assert!(!place.path("out").exists(), "{scheme}: {text}");
        }
    }
}

#[test]
fn a_plan_that_was_written_to_a_file_quantizes_as_the_conversion_does() {
    let place = Workplace::new();
    let source = model(&place, "llama");
    for scheme in ["fp8-blocks", "int8-channels", "int4-groups", "mlx-4bit", "nf4"] {
        let (registry, out) = (Registry::builtin(), place.path(scheme));
        let opened = open(&source, &[]);
        let planned = quantizing(scheme).plan(&registry, &opened, &out).unwrap();
        let plan = Plan::from_json(&planned.plan().to_json().unwrap(), &Limits::default()).unwrap();
        planned.execute(&Default::default(), &|_| ()).unwrap();
        let expected = std::fs::read(out.join("model.safetensors")).unwrap();
        std::fs::remove_dir_all(&out).unwrap();
        Planned::resume(&registry, plan).unwrap().execute(&Default::default(), &|_| ()).unwrap();
        assert!(std::fs::read(out.join("model.safetensors")).unwrap() == expected, "{scheme}");
    }
}

#[test]
fn what_is_written_is_read_as_numbers_again_by_what_config_json_states() {
    let place = Workplace::new();
    for (scheme, method, title) in
        [("fp8-blocks", "fp8", "fp8 e4m3 128x128"), ("fp8-channels", "compressed-tensors", "fp8")]
    {
        let out = place.path(scheme);
        write(&model(&place, "llama"), &out, &quantizing(scheme)).unwrap();
        let config = std::fs::read_to_string(out.join("config.json")).unwrap();
        let config: Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["quantization_config"]["quant_method"], method);
        let kept = match scheme {
            "fp8-blocks" => &config["quantization_config"]["modules_to_not_convert"],
            _ => &config["quantization_config"]["ignore"],
        };
        assert_eq!(*kept, json!(["lm_head", "model.embed_tokens", "model.layers.0.mlp.gate"]));
        let source = open(&out, &[]);
        let own = source.grouped().unwrap().scheme(WEIGHT).unwrap().to_owned();
        assert!(own.contains(title), "{own}");
        let read = source.tensor(WEIGHT).unwrap().read::<f32>().unwrap();
        for (read, number) in read.iter().zip(numbers()) {
            assert!((read - number).abs() <= number.abs() / 16.0 + 0.02, "{read} for {number}");
        }
    }
}

#[test]
fn rounding_is_a_loss_that_the_option_accepts() {
    let place = Workplace::new();
    let source = open(&model(&place, "llama"), &[]);
    let plan = quantizing("fp8-blocks").plan(&Registry::builtin(), &source, place.path("out")).unwrap();
    let losses: Vec<_> = plan.plan().losses.iter().map(|loss| (loss.kind, loss.subject.clone())).collect();
    assert_eq!(losses, [GROUPED, WEIGHT].map(|name| (LossKind::Narrowed, name.to_owned())));
}

#[test]
fn neither_memory_nor_threads_change_a_byte() {
    let place = Workplace::new();
    let source = model(&place, "llama");
    for scheme in ["fp8-blocks", "int8-channels", "int4-groups", "mlx-8bit", "nf4"] {
        let written = |name: &str, threads: usize, memory: u64| {
            let resources = Resources::new().threads(threads).max_memory(memory);
            let conversion = quantizing(scheme).resources(resources);
            let out = place.path(&format!("{scheme}-{name}"));
            write(&source, &out, &conversion).unwrap();
            std::fs::read(out.join("model.safetensors")).unwrap()
        };
        assert!(written("one", 1, 32 << 20) == written("four", 4, 256 << 20), "{scheme}");
    }
}

#[test]
fn what_cannot_be_quantized_is_refused_before_there_is_output() {
    let refused = |source: &Path, out: PathBuf, conversion: &Conversion| {
        let error = write(source, &out, conversion).unwrap_err();
        assert!(!out.exists());
        (error.kind(), error.to_string())
    };
    let place = Workplace::new();
    let source = model(&place, "llama");
    let (kind, text) = refused(&source, place.path("o"), &quantizing("int3"));
    assert!(kind == Kind::Usage && text.contains("fp8-channels"), "{text}");
    let (kind, text) = refused(&source, place.path("o.safetensors"), &quantizing("fp8-blocks"));
    assert!(kind == Kind::Usage && text.contains("an output that is a file"), "{text}");
    let (kind, text) = refused(&source, place.path("o"), &quantizing("fp8-blocks").dtype(DType::Bf16));
    assert!(kind == Kind::Usage && text.contains("two steps"), "{text}");
    write(&source, &place.path("once"), &quantizing("fp8-blocks")).unwrap();
    let (kind, text) = refused(&place.path("once"), place.path("twice"), &quantizing("fp8-blocks"));
    assert!(kind == Kind::Usage && text.contains("quantized already"), "{text}");
    let place = Workplace::new();
    let (kind, text) = refused(&model(&place, "gpt2"), place.path("o"), &quantizing("fp8-blocks"));
    assert!(kind == Kind::Unsupported && text.contains("model_type"), "{text}");
}
