//! Tensors of several ranks and of other devices.

use crate::build::{saved_pickle, text};
use ckpt_api::{Contents, DType, Input, Kind, Result};
use ckpt_conformance::case_folder;
use ckpt_conformance::read;
use ckpt_torch::Torch;
use std::collections::BTreeMap;

fn open(value: &[u8], storages: &[Vec<f32>]) -> Result<(Contents, Vec<Vec<u8>>)> {
    let pickle = [b"\x80\x02}", &text("w")[..], value, b"s."].concat();
    let input = Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), saved_pickle(&pickle, storages))]));
    read(&Torch, &input, &[])
}

/// The opcodes of small integers in a tuple.
fn tuple(numbers: &[u8]) -> Vec<u8> {
    let all: Vec<u8> = numbers.iter().flat_map(|number| [b'K', *number]).collect();
    [b"(", &all[..], b"t"].concat()
}

fn tensor(shape: &[u8; 2]) -> Vec<u8> {
    let count = shape[0] * shape[1];
    let id =
        [&text("storage")[..], b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), &[b'K', count]].concat();
    let strides = tuple(&[shape[1], 1]);
    [b"ctorch._utils\n_rebuild_tensor_v2\n((", &id[..], b"tQK\0", &tuple(shape), &strides, b"\x89NtR"]
        .concat()
}

/// A distributed tensor, whose local one has another shape, with one placement.
fn distributed(whole: &[u8; 2], local: &[u8; 2], placement: &[u8]) -> Vec<u8> {
    let class = b"ctorch.distributed.tensor\nDTensor\n";
    let spec = [
        b"ctorch.distributed.tensor._dtensor_spec\nDTensorSpec\n)\x81}",
        &text("placements")[..],
        b"(",
        placement,
        b"tsb",
    ]
    .concat();
    let state = [b"(}(", &text("_local_tensor")[..], &tensor(local), &text("_spec"), &spec, b"ut"].concat();
    let arguments =
        [b"(", &class[..], b"ctorch\nfloat32\n", &tuple(whole), &tuple(&[whole[1], 1]), b"K\0t"].concat();
    let function = b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_subclass\n";
    [&function[..], class, &arguments, &state, b"tR"].concat()
}

fn placed(name: &str) -> Vec<u8> {
    let state = if name == "Shard" { [b"}", &text("dim")[..], b"K\0sb"].concat() } else { Vec::new() };
    let class = format!("ctorch.distributed.tensor.placement_types\n{name}\n");
    [class.as_bytes(), b")\x81", &state].concat()
}

#[test]
fn a_distributed_tensor_is_read_if_the_rank_has_all_of_it() {
    let numbers = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let expected: Vec<u8> = numbers.iter().flat_map(|number: &f32| number.to_le_bytes()).collect();
    for name in ["Replicate", "Shard"] {
        let whole = distributed(&[2, 3], &[2, 3], &placed(name));
        let (contents, values) = open(&whole, std::slice::from_ref(&numbers)).unwrap();
        assert_eq!(contents.checkpoint.tensors[0].shape[..], [2, 3]);
        assert_eq!(values, std::slice::from_ref(&expected), "{name}");
    }
    let parameter = distributed(&[2, 3], &[2, 3], &placed("Replicate"));
    let parameter = [b"ctorch._utils\n_rebuild_parameter\n(", &parameter[..], b"\x88NtR"].concat();
    assert_eq!(open(&parameter, &[numbers]).unwrap().1, [expected]);
}

#[test]
fn a_part_of_a_distributed_tensor_is_a_loss_with_its_placement_and_terms_of_a_sum_are_refused() {
    let (contents, _) = open(&distributed(&[4, 3], &[2, 3], &placed("Shard")), &[vec![0.0; 6]]).unwrap();
    assert!(contents.losses[0].detail.starts_with("the part [2, 3] of a DTensor of shape [4, 3], Shard(0)"));
    let error = open(&distributed(&[2, 3], &[2, 3], &placed("Partial")), &[vec![0.0; 6]]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    for part in ["Partial()", "full_tensor()", "torch.distributed.checkpoint"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn the_files_of_all_ranks_make_whole_tensors_and_each_alone_is_a_part() {
    let Some(path) = case_folder("reports/dcp-safetensors-parts") else { return };
    for (rank, shape) in [(0, "[4, 5]"), (1, "[3, 5]")] {
        let input = Input::open(path.join(format!("model_world_size_2_rank_{rank}.pt"))).unwrap();
        let (contents, _) = read(&Torch, &input, &[]).unwrap();
        let detail = &contents.losses[0].detail;
        assert!(
            detail.starts_with(&format!("the part {shape} of a DTensor of shape [7, 5], Shard(0)")),
            "{detail:?}"
        );
    }
    let (whole, values) = read(&Torch, &Input::open(path).unwrap(), &[]).unwrap();
    let expected: Vec<u8> = (0u8..35).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    assert_eq!((&whole.checkpoint.tensors[0].shape[..], &values[0]), (&[7, 5][..], &expected));
    assert!(whole.losses.is_empty());
}

/// An array of 32-bit floats.
fn array(numbers: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let state = [b"(K\x03", &text("<")[..], b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0t"].concat();
    let dtype = [b"cnumpy\ndtype\n(", &text("f4")[..], b"\x89\x88tR", &state, b"b"].concat();
    let made = b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\0tC\x01btR";
    [
        &made[..],
        b"(K\x01",
        &tuple(&[numbers.len() as u8]),
        &dtype,
        b"\x89C",
        &[bytes.len() as u8],
        &bytes,
        b"tb",
    ]
    .concat()
}

#[test]
fn tensors_of_other_devices_have_the_values_that_lie_in_the_file() {
    let made = |function: &str, values: &[u8], dtype: &str| {
        let function = format!("ctorch._utils\n{function}\n(");
        let dtype = format!("ctorch\n{dtype}\n");
        [function.as_bytes(), values, dtype.as_bytes(), &text("xla:0"), b"\x89tR"].concat()
    };
    let numbers = [1f32, -2.0];
    let expected = numbers.map(f32::to_le_bytes).concat();
    for function in ["_rebuild_device_tensor_from_numpy", "_rebuild_xla_tensor"] {
        let (contents, values) = open(&made(function, &array(&numbers), "float32"), &[]).unwrap();
        assert_eq!((contents.checkpoint.tensors[0].dtype, &values[0]), (DType::F32, &expected));
        assert!(!contents.notes.iter().any(|note| note.contains("of a device")), "{:?}", contents.notes);
        // PyTorch saves these as 32-bit floats, which hold them.
        let (contents, values) = open(&made(function, &array(&numbers), "bfloat16"), &[]).unwrap();
        assert_eq!((contents.checkpoint.tensors[0].dtype, &values[0]), (DType::F32, &expected));
        assert!(contents.notes.iter().any(|note| note.ends_with("w (bf16 as f32)")), "{:?}", contents.notes);
    }
    let cpu = made("_rebuild_device_tensor_from_cpu_tensor", &tensor(&[1, 2]), "float32");
    assert_eq!(open(&cpu, &[numbers.to_vec()]).unwrap().1, [expected]);
}
