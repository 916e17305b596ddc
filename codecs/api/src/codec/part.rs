//! Files that are parts of a set by their names: `model-00002-of-00003.safetensors`.

use crate::{Loss, LossKind, Role, Tensor};
use std::collections::BTreeMap;

/// Digits of a number in a name: no set has more files.
const DIGITS: std::ops::RangeInclusive<usize> = 5..=9;
/// Numbers that a text lists.
const SHOWN: usize = 8;

/// What a file's name states of a set that it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartName<'a> {
    /// What stands before the number, without the hyphen.
    pub stem: &'a str,
    /// The part's number, counted from 1.
    pub number: u64,
    /// The number of parts.
    pub count: u64,
    /// What follows the count, such as `.safetensors`.
    pub ending: &'a str,
}

impl<'a> PartName<'a> {
    /// Parses a name as tools write them: `STEM-NNNNN-of-NNNNN.ENDING`. A browser's ` (1)` before the ending is ignored.
    ///
    /// ```
    /// use ckpt_api::PartName;
    /// let part = PartName::parse("model-00002-of-00003.bin").unwrap();
    /// assert_eq!((part.stem, part.number, part.count, part.ending), ("model", 2, 3, ".bin"));
    /// assert_eq!(PartName::parse("model-00002-of-00003 (1).bin"), Some(part));
    /// assert!(PartName::parse("model-4-of-3.bin").is_none());
    /// ```
    pub fn parse(name: &'a str) -> Option<Self> {
        let (before, after) = name.rsplit_once("-of-")?;
        let (stem, number) = before.rsplit_once('-')?;
        let (count, ending) = after.split_at_checked(after.find('.')?)?;
        let count = without_copy_number(count).unwrap_or(count);
        let parsed = |digits: &str| {
            let is_number =
                DIGITS.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| is_number)
        };
        let (number, count) = (parsed(number)?, parsed(count)?);
        (1..=count).contains(&number).then_some(PartName { stem, number, count, ending })
    }

    /// The loss of reading this file alone; `None` if it is the only one of its set.
    pub fn loss(self, name: &str) -> Option<Loss> {
        let PartName { number, count, .. } = self;
        let detail =
            format!("part {number} of {count} of a model; name the directory or the index to read all parts");
        (count > 1).then(|| Loss::new(LossKind::Partial, name, detail))
    }
}

/// Whether a browser renamed a part.
fn is_renamed(name: &str) -> bool {
    name.rsplit_once("-of-").is_some_and(|(_, after)| {
        let (count, _) = after.split_once('.').unwrap_or((after, ""));
        without_copy_number(count).is_some()
    })
}

/// The text before ` (N)`, which browsers add to the name of a file that is there already.
fn without_copy_number(text: &str) -> Option<&str> {
    let (before, number) = text.strip_suffix(')')?.rsplit_once(" (")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(before)
}

/// The files of one set that are there, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartSet {
    /// The number of parts that the set has.
    pub count: u64,
    /// The names of the parts that are there.
    pub names: BTreeMap<u64, String>,
}

impl PartSet {
    /// The only set of several parts that files of these names are parts of; `None` if there is none, or more than one.
    /// Other files are left out, and so is a part that a browser renamed if the part is there under its own name.
    ///
    /// ```
    /// use ckpt_api::PartSet;
    /// let names = ["m-00001-of-00003.bin", "m-00003-of-00003.bin", "training_args.bin"];
    /// let set = PartSet::of(&names).unwrap();
    /// assert!(set.loss("m").unwrap().detail.starts_with("2 of 3 parts of a model: part 2 is not there"));
    /// ```
    pub fn of<S: AsRef<str>>(names: &[S]) -> Option<Self> {
        let parts =
            || names.iter().filter_map(|name| PartName::parse(name.as_ref()).map(|part| (name, part)));
        let parts = || parts().filter(|(_, part)| part.count > 1);
        let (_, first) = parts().next()?;
        let mut set = PartSet { count: first.count, names: BTreeMap::new() };
        for (name, part) in parts() {
            if (part.stem, part.count, part.ending) != (first.stem, first.count, first.ending) {
                return None;
            }
            let name = name.as_ref();
            match set.names.get(&part.number).map(|other| (is_renamed(other), is_renamed(name))) {
                None | Some((true, false)) => drop(set.names.insert(part.number, name.to_owned())),
                Some((false, true)) => {}
                Some(_) => return None,
            }
        }
        Some(set)
    }

    /// The loss of reading the parts that are there; `None` if all are.
    pub fn loss(&self, subject: &str) -> Option<Loss> {
        let found = self.names.len() as u64;
        let missing = (1..=self.count).filter(|number| !self.names.contains_key(number));
        let first: Vec<String> = missing.take(SHOWN).map(|number| number.to_string()).collect();
        let listed = first.join(", ");
        let which = match self.count.saturating_sub(found) {
            0 => return None,
            1 => format!("part {listed} is"),
            all if all <= SHOWN as u64 => format!("parts {listed} are"),
            all => format!("parts {listed} and {} more are", all - SHOWN as u64),
        };
        let detail = format!("{found} of {} parts of a model: {which} not there; copy all parts", self.count);
        Some(Loss::new(LossKind::Partial, subject, detail))
    }
}

/// The losses of weights that PyTorch's programs save without elements, shape `[0]`, while their parameters are on other devices
/// (ZeRO stage 3). None in a model that has layers without features: their matrices have an axis of length 0, and another one.
pub fn weights_left_elsewhere(tensors: &[Tensor]) -> Vec<Loss> {
    const NAMES: [&str; 2] = ["weight", "bias"];
    let is_empty = |tensor: &&Tensor| {
        let name = tensor.name.rsplit('.').next().unwrap_or_default();
        tensor.shape[..] == [0]
            && tensor.role == Role::Weight
            && tensor.dtype.is_float()
            && NAMES.contains(&name)
    };
    if tensors.iter().any(|tensor| tensor.shape.rank() > 1 && tensor.shape.contains(&0)) {
        return Vec::new();
    }
    let detail =
        "a weight without elements: the model was saved without gathering its parameters (ZeRO stage 3)";
    tensors.iter().filter(is_empty).map(|tensor| Loss::new(LossKind::Partial, &tensor.name, detail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_part_is_taken_for_one() {
        assert!(
            PartName::parse("a-of-b-00001-of-00003.model.bin")
                .is_some_and(|part| part.ending == ".model.bin")
        );
        let others = [
            "model.bin",
            "a-1-of-2.bin",
            "-of-.bin",
            "m-00004-of-00003.bin",
            "m-00000-of-00003.bin",
            "m-00001-of-00003",
            "m-0000x-of-00003.bin",
            "00001-of-00003.bin",
            "m-0000000001-of-0000000003.bin",
        ];
        for name in others {
            assert_eq!(PartName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn layers_without_features_are_no_weights_left_elsewhere() {
        let tensor = |name: &str, shape: &[u64]| {
            Tensor::new(name, crate::DType::F32, crate::Shape::new(shape.to_vec()).unwrap())
        };
        let left = [
            tensor("l.weight", &[0]),
            tensor("l.bias", &[0]),
            tensor("norm.weight", &[4]),
            tensor("x", &[0]),
        ];
        let subjects: Vec<String> =
            weights_left_elsewhere(&left).into_iter().map(|loss| loss.subject).collect();
        assert_eq!(subjects, ["l.weight", "l.bias"]);
        let without_features =
            [tensor("0.weight", &[0, 3]), tensor("0.bias", &[0]), tensor("1.weight", &[0])];
        assert_eq!(weights_left_elsewhere(&without_features), []);
    }

    #[test]
    fn a_part_that_a_browser_renamed_is_a_part_and_comes_second_to_its_own_name() {
        for name in ["m-00001-of-00002 (1).bin", "m-00001-of-00002 (12).bin"] {
            assert!(PartName::parse(name).unwrap().loss(name).unwrap().detail.starts_with("part 1 of 2"));
        }
        for name in ["m-00001-of-00002 ().bin", "m-00001-of-00002 (x).bin", "m-00001-of-00002(1).bin"] {
            assert_eq!(PartName::parse(name), None, "{name}");
        }
        let (own, renamed) = ("m-00001-of-00002.bin", "m-00001-of-00002 (1).bin");
        let second = "m-00002-of-00002 (1).bin";
        for names in [[own, renamed, second], [renamed, own, second]] {
            let set = PartSet::of(&names).unwrap();
            assert_eq!(set.names.values().collect::<Vec<_>>(), [own, second]);
        }
        assert_eq!(PartSet::of(&[renamed, "m-00001-of-00002 (2).bin", second]), None);
    }

    #[test]
    fn files_of_two_sets_are_not_one() {
        for other in ["b-00002-of-00002.bin", "a-00002-of-00003.bin", "a-00002-of-00002.pt"] {
            assert_eq!(PartSet::of(&["a-00001-of-00002.bin", other]), None, "{other}");
        }
        assert_eq!(PartSet::of(&["a.bin", "a-00001-of-00001.bin"]), None);
        let whole = PartSet::of(&["a-00002-of-00002.bin", "a-00001-of-00002.bin"]).unwrap();
        assert_eq!((whole.loss("a"), whole.names.len()), (None, 2));
    }

    #[test]
    fn a_set_of_endless_parts_names_the_first_that_are_missing() {
        let set = PartSet::of(&["a-000000001-of-999999999.bin"]).unwrap();
        let loss = set.loss("a").unwrap();
        assert!(
            loss.detail.contains("parts 2, 3, 4, 5, 6, 7, 8, 9 and 999999990 more are not there"),
            "{}",
            loss.detail.as_str()
        );
    }
}
