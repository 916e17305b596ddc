//! Names that occur once.

use std::collections::{HashMap, HashSet};

/// Names of which each is given once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    taken: HashSet<String>,
    /// For each name that was wanted again, the last number that it got: many nodes may want the same one.
    last: HashMap<String, u64>,
}

impl Names {
    /// Takes a name, which others may have taken.
    pub fn take(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// Whether a name is taken.
    pub fn has(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// Takes a name that no other has: `wanted`, or it with a number, such as `wanted#2`.
    pub fn unused(&mut self, wanted: &str) -> String {
        self.numbered(wanted, '#')
    }

    /// Takes a name that no other has: `wanted`, or it with a number after `mark`.
    pub fn numbered(&mut self, wanted: &str, mark: char) -> String {
        if self.taken.insert(wanted.to_owned()) {
            return wanted.to_owned();
        }
        let last = self.last.entry(wanted.to_owned()).or_insert(1);
        loop {
            *last += 1;
            let name = format!("{wanted}{mark}{last}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_the_next_number() {
        let mut names = Names::default();
        names.take("a#2");
        assert_eq!(names.unused("a"), "a");
        assert_eq!(names.unused("a"), "a#3");
        assert_eq!(names.unused("a#2"), "a#2#2");
        assert!(names.has("a#3") && !names.has("a#4"));
        assert_eq!((names.numbered("b", '_'), names.numbered("b", '_')), ("b".to_owned(), "b_2".to_owned()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "a hundred thousand names")]
    fn many_equal_names_take_linear_time() {
        let mut names = Names::default();
        let last = (0..100_000).map(|_| names.unused("a")).last();
        assert_eq!(last.as_deref(), Some("a#100000"));
    }
}
