//! Text for people.

use std::fmt::Display;

/// A number of things, in words: the noun gets an `s` unless the number is one.
///
/// ```
/// assert_eq!(ckpt_api::count(1, "tensor"), "1 tensor");
/// assert_eq!(ckpt_api::count(2, "tensor"), "2 tensors");
/// ```
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    format!("{number} {noun}{}", if number == N::from(1) { "" } else { "s" })
}

/// Joins the first `max` items by commas, and counts the others.
///
/// ```
/// assert_eq!(ckpt_api::first_few(["a", "b", "c"], 2), "a, b and 1 more");
/// ```
pub fn first_few<I>(items: I, max: usize) -> String
where
    I: IntoIterator<Item: Display, IntoIter: ExactSizeIterator>,
{
    let items = items.into_iter();
    let more = items.len().saturating_sub(max);
    let mut text = String::new();
    for (index, item) in items.take(max).enumerate() {
        text += if index == 0 { "" } else { ", " };
        text += &item.to_string();
    }
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_first_items_and_the_number_of_the_others() {
        let names = ["a", "b", "c"];
        let lists = [3, 2, 1].map(|max| first_few(names, max));
        assert_eq!(lists, ["a, b, c", "a, b and 1 more", "a and 2 more"]);
        assert_eq!(first_few([0; 0], 3), "");
    }
}
