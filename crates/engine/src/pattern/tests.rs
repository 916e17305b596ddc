use super::{Class, Part, Pattern, PatternSet, SEPARATOR, includes};
use ckpt_api::{Kind, Limit, Limits};
use proptest::prelude::*;

fn selecting(text: &str) -> Pattern {
    Pattern::selecting(text, &Limits::default()).unwrap()
}

fn matches(pattern: &str, name: &str) -> bool {
    selecting(pattern).matches(name, SEPARATOR).is_some()
}

/// The language, as it is defined: tries every division of the name, shortest first captures first. Exponential.
fn naive<'n>(parts: &[Part], name: &'n str, separator: char) -> Option<Vec<&'n str>> {
    let Some((first, rest)) = parts.split_first() else {
        return name.is_empty().then(Vec::new);
    };
    let ends = (0..=name.len()).filter(|end| name.is_char_boundary(*end));
    for (taken, left) in ends.map(|end| name.split_at(end)) {
        let (fits, value) = match first {
            Part::Literal(text) => (taken == text, None),
            Part::Capture { class, .. } => (belongs(taken, *class, separator), Some(taken)),
            Part::Wildcard(class) => (belongs(taken, *class, separator), None),
        };
        if fits && let Some(values) = naive(rest, left, separator) {
            return Some(value.into_iter().chain(values).collect());
        }
    }
    None
}

fn belongs(text: &str, class: Class, separator: char) -> bool {
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    match class {
        Class::Int => digits && (text == "0" || !text.starts_with('0')),
        Class::Padded(width) => digits && text.len() == usize::from(width),
        Class::Word => !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_'),
        Class::Segment => !text.is_empty() && !text.contains(separator),
        Class::Path => text.split(separator).all(|segment| !segment.is_empty()),
        Class::Star => !text.contains(separator),
        Class::DoubleStar => true,
        Class::QuestionMark => text.chars().count() == 1 && !text.contains(separator),
    }
}

/// Patterns over few characters, so that names match often.
fn pattern() -> impl Strategy<Value = Pattern> {
    let part = prop_oneof![
        3 => "[a01/é.]{1,2}",
        1 => Just("*".to_owned()),
        1 => Just("**".to_owned()),
        1 => Just("?".to_owned()),
        5 => prop_oneof![Just("int"), Just("int2"), Just("word"), Just("segment"), Just("path")].prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 1..5).prop_map(|parts| {
        let mut text = String::new();
        for (index, part) in parts.into_iter().enumerate() {
            match part.as_str() {
                "int" | "int2" | "word" | "segment" | "path" => text += &format!("{{c{index}:{part}}}"),
                star if star.starts_with('*') && text.ends_with('*') => {}
                other => text += other,
            }
        }
        selecting(&text)
    })
}

/// Patterns of which some are longer than most names.
fn long_pattern() -> impl Strategy<Value = Pattern> {
    (pattern(), 0usize..70, pattern()).prop_map(|(start, len, end)| {
        let mut parts = start.parts;
        parts.extend((0..len).map(|_| Part::Wildcard(Class::QuestionMark)));
        parts.extend(end.parts);
        Pattern { parts }
    })
}

#[test]
fn a_star_stays_within_a_segment_and_two_stars_cross() {
    for (pattern, name) in [
        ("*", ""),
        ("*", "a.b"),
        ("a/*", "a/"),
        ("*/kernel", "x/kernel"),
        ("a*b*c", "aXbbYc"),
        ("h.*", "h.0.w"),
    ] {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [("*", "a/b"), ("*/kernel", "x/y/kernel"), ("a/*", "a/b/c"), ("a*c", "ab/c")] {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in
        [("**", ""), ("**", "a/b"), ("**/kernel", "x/kernel"), ("**/kernel", "x/y/kernel"), ("a/**", "a/")]
    {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [("**/kernel", "kernel"), ("a/**", "a"), ("", "a")] {
        assert!(Pattern::selecting(pattern, &Limits::default()).is_err() || !matches(pattern, name));
    }
}

#[test]
fn a_question_mark_is_one_character_but_no_separator() {
    for (pattern, name) in [("h?", "h1"), ("h?", "hé"), ("?", "."), ("h??", "h12")] {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [("h?", "h"), ("h?", "h12"), ("h?", "h/"), ("?", "")] {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
}

#[test]
fn a_wildcard_in_braces_is_a_character_of_the_name() {
    assert!(matches("{*}{?}{{x}}", "*?{x}") && !matches("{*}{?}", "ab"));
    assert_eq!(selecting("{*}{?}{{x}}").as_literal(), Some("*?{x}"));
    assert_eq!(Pattern::literal("*?{x}").as_source(), "{*}{?}{{x}}");
}

#[test]
fn a_rule_takes_a_question_mark_as_it_is() {
    let from = Pattern::source("a?/{x}", &Limits::default()).unwrap();
    assert_eq!(from.matches("a?/b", SEPARATOR), Some(vec!["b"]));
    assert_eq!(from.matches("ab/b", SEPARATOR), None);
    assert_eq!(Pattern::source(&from.as_source(), &Limits::default()).unwrap(), from);
    let to = Pattern::target("{x}?", &from, &Limits::default()).unwrap();
    assert_eq!(Pattern::target(&to.as_target(), &from, &Limits::default()).unwrap(), to);
}

#[test]
fn alternatives_in_braces_are_refused_with_advice() {
    let error = Pattern::selecting("{a,b}/w", &Limits::default()).unwrap_err().to_string();
    assert!(error.contains("write a pattern for each"), "{error}");
}

#[test]
fn the_length_of_a_pattern_and_its_wildcards_are_bounded() {
    let limits = Limits::default().with(Limit::Captures, 2).with(Limit::PatternBytes, 8);
    assert!(Pattern::selecting("?a*a", &limits).is_ok());
    for text in ["?a*a**", "aaaaaaaa*"] {
        assert_eq!(Pattern::selecting(text, &limits).unwrap_err().kind(), Kind::Limit, "{text}");
    }
}

#[test]
fn a_set_names_every_pattern_that_matches() {
    let patterns = ["a/*", "**", "a/b", "b", "a/{x:int}", "a/b", "{x}/b"].map(selecting);
    let mut set = PatternSet::new(&patterns, SEPARATOR);
    assert_eq!(set.matches("a/b"), [0, 1, 2, 5, 6]);
    assert_eq!(set.matches("a/7"), [0, 1, 4]);
    assert_eq!(set.matches("b"), [1, 3]);
    assert_eq!(set.matches(""), [1]);
    assert_eq!(PatternSet::new([], SEPARATOR).matches("a"), [0usize; 0]);
}

/// Hundreds of patterns, each of which goes on by another character, fill the cache with every name.
#[test]
fn a_set_matches_the_same_if_its_cache_saves_nothing() {
    let letters = |seed: usize| (0..12).map(move |k| char::from(b'a' + ((seed >> k) * 7 % 26) as u8));
    let patterns: Vec<Pattern> = (0..128)
        .map(|seed| selecting(&letters(seed * 37).map(|c| format!("**{c}")).collect::<String>()))
        .collect();
    let mut set = PatternSet::new(&patterns, SEPARATOR);
    for seed in 0..300 {
        let name: String = letters(seed * 61 + 5).chain(letters(seed * 13)).chain(['é', '/', 'x']).collect();
        let name = name.repeat(2);
        let expected = patterns.iter().enumerate().filter(|(_, one)| one.matches(&name, SEPARATOR).is_some());
        let expected: Vec<usize> = expected.map(|(number, _)| number).collect();
        assert_eq!(set.matches(&name), expected, "{name}");
    }
}

#[test]
fn a_set_matches_the_same_if_its_automaton_is_too_large() {
    let long = "layers/".repeat(500);
    let patterns: Vec<Pattern> = (0..100).map(|n| selecting(&format!("{long}**{n}"))).collect();
    let mut set = PatternSet::new(&patterns, SEPARATOR);
    assert_eq!(set.matches(&format!("{long}/12")), [2, 12]);
    assert_eq!(set.matches(&format!("{long}/x")), [0usize; 0]);
}

#[test]
fn a_set_has_separators_of_several_bytes() {
    let patterns = ["a·*", "*", "{x:path}", "a·{y:segment}·c"].map(selecting);
    let mut set = PatternSet::new(&patterns, '·');
    assert_eq!(set.matches("a·é"), [0, 2]);
    assert_eq!(set.matches("a·é·c"), [2, 3]);
    assert_eq!(set.matches("é"), [1, 2]);
    assert_eq!(set.matches("a··c"), [0usize; 0]);
}

#[test]
fn matching_takes_linear_time() {
    let pattern = selecting(&format!("{}b", "**a".repeat(32)));
    assert!(pattern.matches(&"a".repeat(20_000), '/').is_none());
    assert!(pattern.matches(&format!("{}b", "a".repeat(20_000)), '/').is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn matching_agrees_with_trying_everything(pattern in pattern(), name in "[a01/é._]{0,8}", dot: bool) {
        let separator = if dot { '.' } else { '/' };
        prop_assert_eq!(pattern.matches(&name, separator), naive(&pattern.parts, &name, separator));
    }

    #[test]
    fn a_set_agrees_with_its_patterns(
        patterns in prop::collection::vec(prop_oneof![3 => pattern(), 1 => long_pattern()], 1..12),
        names in prop::collection::vec(prop_oneof!["[a01/é._]{0,8}", "[a01/é._]{30,90}"], 1..6),
        dot: bool,
    ) {
        let separator = if dot { '.' } else { '/' };
        let mut set = PatternSet::new(&patterns, separator);
        for name in &names {
            let expected = patterns.iter().enumerate().filter(|(_, one)| one.matches(name, separator).is_some());
            let expected: Vec<usize> = expected.map(|(number, _)| number).collect();
            prop_assert_eq!(set.matches(name), expected, "{}", name);
        }
    }

    #[test]
    fn a_pattern_that_includes_another_matches_all_its_names(
        larger in pattern(), smaller in pattern(), names in prop::collection::vec("[a01/é._]{0,6}", 16),
    ) {
        prop_assert!(includes(&smaller, &smaller, '/', &mut 1_000_000));
        let included = includes(&larger, &smaller, '/', &mut 1_000_000);
        let is_counter_example = |name: &&String| {
            smaller.matches(name, '/').is_some() && larger.matches(name, '/').is_none()
        };
        let counter_example = names.iter().find(is_counter_example);
        prop_assert!(!included || counter_example.is_none(), "{counter_example:?}");
        prop_assert!(!includes(&larger, &smaller, '/', &mut 0));
    }

    #[test]
    fn a_printed_pattern_is_read_as_the_same(pattern in pattern()) {
        prop_assert_eq!(selecting(&pattern.as_source()), pattern);
    }

    #[test]
    fn two_stars_match_what_one_star_matches(pattern in pattern(), name in "[a01/é._]{0,8}") {
        if let Some(wider) = pattern.across_segments() {
            prop_assert!(pattern.matches(&name, '/').is_none() || wider.matches(&name, '/').is_some());
        }
    }

    #[test]
    fn a_name_that_matches_is_reached_to_its_end(pattern in pattern(), name in "[a01/é._]{0,8}") {
        let (reach, length) = (pattern.reach(&name, '/'), name.chars().count());
        prop_assert!(reach <= length);
        if pattern.matches(&name, '/').is_some() {
            prop_assert_eq!(reach, length);
        }
    }
}
