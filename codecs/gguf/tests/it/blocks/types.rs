//! What is known of each type.

use ckpt_gguf::blocks::{BlockType, swap_endian};

#[test]
fn a_type_has_the_number_that_files_give_it() {
    for block_type in BlockType::ALL {
        assert_eq!(BlockType::from_id(block_type.id()), Some(*block_type));
    }
    for id in [0, 1, 4, 5, 24, 30, 31, 36, 37, 38, 42, u32::MAX] {
        assert_eq!(BlockType::from_id(id), None, "{id}");
    }
}

#[test]
fn q8_1_alone_is_opaque() {
    let opaque = BlockType::ALL.iter().filter(|block_type| !block_type.is_decodable());
    assert_eq!(opaque.collect::<Vec<_>>(), [&BlockType::Q8_1]);
}

#[test]
fn byte_orders_differ_in_fields_of_more_than_one_byte() {
    let swapped = |block_type: BlockType| {
        let mut block: Vec<u8> = (0..block_type.bytes()).map(|byte| byte as u8).collect();
        swap_endian(block_type, &mut block);
        block
    };
    assert_eq!(swapped(BlockType::Q8_0)[..4], [1, 0, 2, 3]);
    assert_eq!(swapped(BlockType::Q5_1)[..10], [1, 0, 3, 2, 7, 6, 5, 4, 8, 9]);
    assert_eq!(swapped(BlockType::Q6_K)[206..], [206, 207, 209, 208]);
    assert_eq!(swapped(BlockType::IQ2_XXS)[..12], [1, 0, 2, 3, 4, 5, 9, 8, 7, 6, 10, 11]);
    assert_eq!(swapped(BlockType::IQ1_M)[46..], [46, 47, 49, 48, 51, 50, 53, 52, 55, 54]);
    assert!(swapped(BlockType::MXFP4).is_sorted());
}

#[test]
fn swapping_twice_changes_nothing() {
    for block_type in BlockType::ALL {
        let blocks: Vec<u8> = (0..3 * block_type.bytes()).map(|byte| byte as u8).collect();
        let mut swapped = blocks.clone();
        swap_endian(*block_type, &mut swapped);
        assert!(
            swapped != blocks || matches!(block_type, BlockType::MXFP4 | BlockType::NVFP4),
            "{block_type:?}"
        );
        swap_endian(*block_type, &mut swapped);
        assert!(swapped == blocks, "{block_type:?}");
    }
}
