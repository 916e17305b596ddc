//! Natural order of names: `layer2` before `layer10`.

use std::cmp::Ordering;

/// Sorts every stretch of alphabetical names as people do: formats that sort names put `layer10` before `layer2`.
pub fn make_readable<'a, T>(items: &mut [T], name: impl Fn(&T) -> &'a str) {
    for stretch in items.chunk_by_mut(|a, b| name(a) <= name(b)) {
        stretch.sort_by(|a, b| natural(name(a), name(b)));
    }
}

/// Compares names as people sort them: `layer2` before `layer10`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    while let (Some(x), Some(y)) = (left.first(), right.first()) {
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (first, second);
            ((first, left), (second, right)) = (digits(left), digits(right));
            // Without leading zeros, the longer number is the larger one.
            match first.len().cmp(&second.len()).then_with(|| first.cmp(second)) {
                Ordering::Equal => continue,
                other => return other,
            }
        }
        if x != y {
            return x.cmp(y);
        }
        (left, right) = (left.get(1..).unwrap_or_default(), right.get(1..).unwrap_or_default());
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Splits leading digits off; without their leading zeros.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let zeros = digits.iter().position(|byte| *byte != b'0').unwrap_or(digits.len());
    (digits.get(zeros..).unwrap_or_default(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabetical_stretches_are_sorted_naturally_and_an_order_of_layers_is_kept() {
        let mut sorted = ["l1.w", "l10.b", "l10.w", "l2.w", "l1.n", "l10.n", "l2.n"];
        make_readable(&mut sorted, |name| name);
        assert_eq!(sorted, ["l1.w", "l2.w", "l10.b", "l10.w", "l1.n", "l2.n", "l10.n"]);
        let mut layers = ["l8.w", "l8.b", "l9.w", "l9.b", "l10.w", "l10.b"];
        make_readable(&mut layers, |name| name);
        assert_eq!(layers, ["l8.w", "l8.b", "l9.w", "l9.b", "l10.w", "l10.b"]);
    }

    #[test]
    fn layer2_sorts_before_layer10() {
        let sorted = ["a", "a0", "a1", "a01", "a1b", "a2", "a10", "a10.x", "b", "b/2/c", "b/10/a"];
        for (k, a) in sorted.iter().enumerate() {
            for (l, b) in sorted.iter().enumerate() {
                // Of names that differ only in leading zeros, the one with fewer bytes need not be first.
                if [*a, *b] != ["a1", "a01"] && [*a, *b] != ["a01", "a1"] {
                    assert_eq!(natural(a, b), k.cmp(&l), "{a} {b}");
                }
            }
        }
        assert_ne!(natural("a1", "a01"), Ordering::Equal);
    }
}
