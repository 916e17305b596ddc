//! Numbers that become words: any range of bytes is that of all of them.

use super::super::files::Handle;
use super::super::opened::Opened;
use super::Files;
use ckpt_api::{
    AffineIntegers, Along, BlockNumbers, BlockReduction, Computed, DType, Encoding, Extent, FieldOrder,
    FileId, Input, Kind, Operation, PackedIntegers, Reduction, RunNumbers, Scalar, Shape, Words,
};

/// A file with these numbers.
fn files(numbers: &[f32]) -> Files<'static> {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Files::named(&Input::memory("f", [("f".to_owned(), bytes)].into()), vec!["f".to_owned()])
}

fn numbers_of(count: usize, operations: Vec<Operation>) -> Computed {
    Computed::new(Extent::new(FileId(0), 0, 4 * count as u64), Encoding::new(DType::F32, vec![0]))
        .with_operations(operations)
}

fn read(handle: &Handle<'_>, start: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    handle.read_at(start as u64, &mut bytes).unwrap();
    bytes
}

#[test]
fn any_bytes_of_words_are_those_of_all_words() {
    let (rows, columns) = (37, 45);
    let numbers: Vec<f32> = (0..rows * columns).map(|at| (at * 7919 % 997) as f32).collect();
    let files = files(&numbers);
    for (bits, dtype, order) in [
        (4, DType::U32, FieldOrder::Dense),
        (3, DType::U32, FieldOrder::Dense),
        (5, DType::U8, FieldOrder::Dense),
        (8, DType::I8, FieldOrder::Dense),
        (4, DType::U8, FieldOrder::HighestFirst),
    ] {
        let packed = PackedIntegers::new(bits, [rows as u64, columns as u64], Along::Row, order);
        let bound = Scalar::new(((1 << bits) - 1) as f32).unwrap();
        let words =
            numbers_of(numbers.len(), vec![Operation::AtMost(bound)]).in_words(Words { dtype, packed });
        let extent = words.into_extent().unwrap();
        let opened = Opened::new(&files);
        let (handle, _) = opened.extent(&extent).unwrap();
        let all = read(&handle, 0, extent.len as usize);
        assert!(all.iter().any(|byte| *byte != 0));
        for start in (0..all.len()).step_by(11) {
            for len in [1, 2, 3, 5, 64, 500] {
                let end = (start + len).min(all.len());
                assert_eq!(read(&handle, start, end - start), all[start..end], "{bits} bits, {start}..{end}");
            }
        }
    }
}

#[test]
fn integers_that_stand_for_numbers_have_the_scale_of_their_run() {
    let numbers: Vec<f32> = (0..60_000).map(|at| ((at * 7919) % 60_007) as f32 / 7.0 - 4000.0).collect();
    let files = files(&numbers);
    for (dtype, bits, least, most) in [(DType::I8, 8, -127, 127), (DType::U16, 16, 0, 65535)] {
        let integers = AffineIntegers {
            scales: RunNumbers { numbers: [0.1, 30.0, 7.5].into(), run: 100 },
            offset: -12.5,
            least,
            most,
            ties_to_even: true,
        };
        let packed = PackedIntegers::new(bits, [1, numbers.len() as u64], Along::Row, FieldOrder::Dense);
        let made = numbers_of(numbers.len(), vec![Operation::ToIntegers(Box::new(integers.clone()))])
            .in_words(Words { dtype, packed });
        let extent = made.into_extent().unwrap();
        let size = bits as usize / 8;
        assert_eq!(extent.len as usize, size * numbers.len());
        let found = read(&Opened::new(&files).extent(&extent).unwrap().0, 0, extent.len as usize);
        let expected = numbers.iter().enumerate().flat_map(|(at, number)| {
            let scale = integers.scales.numbers[at / 100 % 3];
            let integer = ((f64::from(*number) + 12.5) / scale).round_ties_even();
            (integer.clamp(least.into(), most.into()) as i32).to_le_bytes().into_iter().take(size)
        });
        assert!(found.into_iter().eq(expected), "{dtype}");
    }
}

#[test]
fn a_number_without_an_integer_is_an_error_that_names_it() {
    let files = files(&[1.0, 2.0, f32::NAN, 4.0]);
    let packed = PackedIntegers::new(4, [1, 4], Along::Row, FieldOrder::Dense);
    let words = numbers_of(4, vec![Operation::RoundWhole]).in_words(Words { dtype: DType::U8, packed });
    let extent = words.into_extent().unwrap();
    let error = Opened::new(&files).extent(&extent).unwrap().0.read_at(0, &mut [0; 2]).unwrap_err();
    let text = error.to_string();
    assert!(error.kind() == Kind::Lossy && text.contains("element 2") && text.contains("NaN"), "{text}");
}

#[test]
fn blocks_of_blocks_become_one_number_each() {
    let numbers: Vec<f32> = (0..1000).map(|at| ((at * 37) % 1009) as f32 - 504.0).collect();
    let files = files(&numbers);
    let reduce = |columns, width| {
        Operation::Reduce(BlockReduction::new(Reduction::LargestMagnitude, [1, columns], [1, width]))
    };
    let minus = Scalar::new(-400.0).unwrap();
    let extent = numbers_of(1000, vec![reduce(1000, 8), Operation::Add(minus), reduce(125, 10)])
        .into_extent()
        .unwrap();
    let opened = Opened::new(&files);
    let (handle, _) = opened.extent(&extent).unwrap();
    let largest = |numbers: &[f32]| numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
    let first: Vec<f32> = numbers.chunks(8).map(|block| largest(block) - 400.0).collect();
    let second: Vec<u8> = first.chunks(10).flat_map(|block| largest(block).to_le_bytes()).collect();
    assert_eq!(read(&handle, 0, second.len()), second);
    assert_eq!(read(&handle, 18, 9), second[18..27]);
}

#[test]
fn elements_are_divided_by_the_largest_of_their_block_across_pieces() {
    // Blocks that do not divide pieces of 64 Ki elements.
    let numbers: Vec<f32> = (0..200_000).map(|at| ((at * 37) % 1009) as f32 + 1.0).collect();
    let files = files(&numbers);
    let count = numbers.len() as u64;
    for width in [1, 48, 60_000, 70_000, 200_000_u64] {
        let reduce = BlockReduction::new(Reduction::LargestMagnitude, [1, count], [1, width]);
        let scales = numbers_of(numbers.len(), vec![Operation::Reduce(reduce)]);
        let shape = Shape::new([1, count]).unwrap();
        let scales = BlockNumbers::new("s", scales, shape, vec![1, width]);
        let divided = numbers_of(numbers.len(), vec![Operation::DivideBlocks(Box::new(scales))]);
        let extent = divided.into_extent().unwrap();
        let found = read(&Opened::new(&files).extent(&extent).unwrap().0, 0, 4 * numbers.len());
        let blocks = numbers.chunks(width as usize);
        let expected = blocks.flat_map(|block| {
            let largest = block.iter().fold(0.0_f32, |most, number| most.max(*number));
            block.iter().flat_map(move |number| (number / largest).to_le_bytes())
        });
        assert!(found.into_iter().eq(expected), "blocks of {width}");
    }
}
