//! Names that occur twice.

use std::collections::HashSet;

/// The first name that occurs for the second time, if one does.
///
/// Takes time in proportion to the names, whatever they are. It is fast for names in order, and for most others: a million of
/// them take no hashes that withstand an attacker, unless they look like an attack.
///
/// ```
/// use ckpt_api::first_repeated;
/// assert_eq!(first_repeated(["b", "a", "c", "a"].into_iter()), Some("a"));
/// assert_eq!(first_repeated(["b", "a", "c"].into_iter()), None);
/// ```
pub fn first_repeated<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    if names.clone().is_sorted_by(|name, next| name < next) || are_surely_unique(names.clone()) {
        return None;
    }
    let mut known = HashSet::new();
    let mut names = names;
    names.find(|name| !known.insert(*name))
}

/// Places that are looked at for one name. With half of the places free, hardly any name needs more than 20.
const MOST_LOOKS: usize = 64;

/// Whether no two names have the same hash. `false` says nothing.
fn are_surely_unique<'a>(names: impl Iterator<Item = &'a str> + Clone) -> bool {
    let places = names.clone().count().max(1).saturating_mul(2).next_power_of_two();
    // Free places have 0.
    let mut known = vec![0_u64; places];
    let bits = places.trailing_zeros();
    for name in names {
        let hash = hash(name).max(1);
        // The upper bits depend on all bytes.
        let first = usize::try_from(hash >> (64 - bits)).unwrap_or_default();
        let mut looks = (0..MOST_LOOKS).map(|look| first.wrapping_add(look) & (places - 1));
        let place = looks.find(|place| known.get(*place).is_none_or(|known| *known == 0 || *known == hash));
        match place.and_then(|place| known.get_mut(place)) {
            Some(free) if *free == 0 => *free = hash,
            _ => return false,
        }
    }
    true
}

/// A hash that anybody can foresee, of eight bytes at a time.
fn hash(name: &str) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(FACTOR);
        mixed ^ (mixed >> 32)
    };
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let hash = words.iter().fold(name.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0, |last, byte| (last << 8) | u64::from(*byte));
    mix(hash, last).wrapping_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("model.layers.{number}.weight")).collect()
    }

    #[test]
    fn many_different_names_need_no_set_of_them() {
        let names = numbered(20_000);
        assert!(!names.is_sorted());
        assert!(are_surely_unique(names.iter().map(String::as_str)));
    }

    #[test]
    fn a_name_that_comes_again_is_found_wherever_it_is() {
        for (first, again) in [(0, 1), (3, 900), (998, 999)] {
            let mut names = numbered(1000);
            names[again] = names[first].clone();
            let found = first_repeated(names.iter().map(String::as_str));
            assert_eq!(found, Some(&*names[first]), "{first} {again}");
        }
    }

    #[test]
    fn names_that_differ_in_their_last_bytes_only_are_different() {
        let names = ["", "a", "\0", "a\0", "\0a", "aaaaaaaa", "aaaaaaaa\0", "aaaaaaab"];
        assert!(are_surely_unique(names.into_iter()));
    }
}
