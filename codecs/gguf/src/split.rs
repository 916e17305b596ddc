//! Names and keys of split files: `model-00001-of-00003.gguf`.

use crate::format::ENDING;
use ckpt_api::{Error, MetadataMap, Result};

/// Keys of a split file: its number from 0, the number of files, and the number of tensors of all files.
pub(crate) const NUMBER: &str = "split.no";
pub(crate) const COUNT: &str = "split.count";
pub(crate) const TENSORS: &str = "split.tensors.count";
/// The most files of a set: `split.no` and `split.count` are u16.
pub(crate) const MOST: usize = u16::MAX as usize;

/// Whether a key describes how the tensors are split over files.
pub(crate) fn is_key(key: &str) -> bool {
    [NUMBER, COUNT, TENSORS].contains(&key)
}

/// Whether the metadata describes a set of one file, which has so many tensors.
pub(crate) fn is_alone(pairs: &MetadataMap, tensors: usize) -> bool {
    let is = |key: &str, number: u64| pairs.get(key).is_none_or(|value| value.as_u64() == Some(number));
    pairs.get(COUNT).is_some() && is(COUNT, 1) && is(NUMBER, 0) && is(TENSORS, tensors as u64)
}

/// Returns the name of a file, counted from 1.
pub(crate) fn name(stem: &str, number: u64, count: u64) -> String {
    format!("{stem}-{number:05}-of-{count:05}{ENDING}")
}

/// Splits the name of a file of a set: `model`, 1, 3.
pub(crate) fn parse(name: &str) -> Option<(&str, u64, u64)> {
    let (rest, count) = name.strip_suffix(ENDING)?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let parse = |digits: &str| {
        let valid = digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|_| valid)
    };
    Some((stem, parse(number)?, parse(count)?))
}

/// Returns the number of files that the metadata states; 1 if it states none.
pub(crate) fn count(pairs: &MetadataMap) -> Result<u64> {
    let Some(value) = pairs.get(COUNT) else { return Ok(1) };
    value.as_u64().filter(|count| (1..=MOST as u64).contains(count)).ok_or_else(|| {
        Error::corrupt("the number of files is none")
            .field(COUNT)
            .found(value.to_string().chars().take(80).collect::<String>())
            .expected(format!("a number from 1 to {MOST}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_of_a_set_has_two_numbers_of_five_digits() {
        assert_eq!(parse(&name("a-of-b", 2, 17)), Some(("a-of-b", 2, 17)));
        for other in
            ["model.gguf", "m-1-of-3.gguf", "m-00001-of-00003.bin", "m-0000x-of-00003.gguf", "-of-.gguf"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
