//! Files made byte by byte.

use ckpt_api::Input;
use std::collections::BTreeMap;

/// The header of version 0.2.0, after 640 images.
pub fn header() -> Vec<u8> {
    [&[0, 2, 0].map(i32::to_le_bytes).concat()[..], &640u64.to_le_bytes()].concat()
}

/// So many numbers: 0.5, 1.5, 2.5, …
pub fn numbers(count: u16) -> Vec<f32> {
    (0..count).map(|number| f32::from(number) + 0.5).collect()
}

pub fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Weights with this header and so many numbers, and their `.cfg`.
pub fn files(cfg: &str, header: &[u8], count: u16) -> BTreeMap<String, Vec<u8>> {
    let weights = [header, &bytes(&numbers(count))].concat();
    [("m.cfg".to_owned(), cfg.into()), ("m.weights".to_owned(), weights)].into()
}

pub fn input(cfg: &str, count: u16) -> Input {
    Input::memory("m.weights", files(cfg, &header(), count))
}
