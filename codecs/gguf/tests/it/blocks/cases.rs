//! Blocks that llama.cpp's library wrote, outside the repository (CKPT_CASES).

use ckpt_gguf::blocks::{BlockType, encode};
use std::{env, fs, path::Path};

#[test]
fn the_blocks_of_the_cases_are_written_byte_for_byte() {
    let Some(cases) = env::var_os("CKPT_CASES") else {
        eprintln!("skipped: CKPT_CASES names no directory of cases");
        return;
    };
    let folder = Path::new(&cases).join("hf/blocks");
    let input = fs::read(folder.join("input.f32")).unwrap();
    let numbers: Vec<f32> = input.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let mut checked = 0;
    for block_type in BlockType::ALL.iter().filter(|block_type| block_type.is_encodable()) {
        let name = |file: &fs::DirEntry| file.file_name().to_string_lossy().into_owned();
        let expected = format!("{}.bin", block_type.name());
        let file = fs::read_dir(&folder)
            .unwrap()
            .map(Result::unwrap)
            .find(|file| name(file).eq_ignore_ascii_case(&expected));
        let mut blocks = Vec::new();
        encode(*block_type, &numbers, &mut blocks).unwrap();
        assert!(blocks == fs::read(file.unwrap().path()).unwrap(), "{block_type:?}");
        checked += 1;
    }
    assert_eq!(checked, 16);
}
