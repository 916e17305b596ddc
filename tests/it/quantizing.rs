//! Weights of plain numbers that a conversion quantizes: what it writes, and when it refuses.

use crate::common::{open, workplace::Workplace};
use crate::quantized_groups::{Stored, directory};
use ckpt::{Conversion, Error, Kind, OpenOptions, Registry, Resources, Source};
use ckpt_api::LossKind;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Rows and columns: blocks at both ends are shorter.
const SHAPE: [usize; 2] = [130, 200];
/// The weight that is quantized.
const WEIGHT: &str = "model.layers.0.mlp.up_proj.weight";

/// Numbers of different magnitudes; a row and a block are zeros.
fn numbers() -> Vec<f32> {
    let number = |at: usize| {
        let (row, column) = (at / SHAPE[1], at % SHAPE[1]);
        let is_zero = row == 3 || (row >= 128 && column >= 128);
        if is_zero { 0.0 } else { ((at * 37 % 1009) as f32 - 504.0) / (7.0 + row as f32) }
    };
    (0..SHAPE[0] * SHAPE[1]).map(number).collect()
}

fn model(place: &Workplace, kind: &str) -> PathBuf {
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let shape = SHAPE.to_vec();
    let tensors: Vec<Stored> = vec![
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
    assert_eq!(losses, [(LossKind::Narrowed, WEIGHT.to_owned())]);
}

#[test]
fn neither_memory_nor_threads_change_a_byte() {
    let place = Workplace::new();
    let source = model(&place, "llama");
    let written = |name: &str, threads: usize, memory: u64| {
        let resources = Resources::new().threads(threads).max_memory(memory);
        let conversion = quantizing("fp8-blocks").resources(resources);
        write(&source, &place.path(name), &conversion).unwrap();
        std::fs::read(place.path(name).join("model.safetensors")).unwrap()
    };
    assert!(written("one", 1, 16 << 20) == written("four", 4, 256 << 20));
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
    let (kind, text) =
        refused(&source, place.path("o"), &quantizing("fp8-blocks").dtype(ckpt_api::DType::Bf16));
    assert!(kind == Kind::Usage && text.contains("two steps"), "{text}");
    write(&source, &place.path("once"), &quantizing("fp8-blocks")).unwrap();
    let (kind, text) = refused(&place.path("once"), place.path("twice"), &quantizing("fp8-blocks"));
    assert!(kind == Kind::Usage && text.contains("quantized already"), "{text}");
    let place = Workplace::new();
    let (kind, text) = refused(&model(&place, "gpt2"), place.path("o"), &quantizing("fp8-blocks"));
    assert!(kind == Kind::Unsupported && text.contains("model_type"), "{text}");
}
