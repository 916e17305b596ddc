//! What must hold for all mappings, names and texts.

use super::Mapping;
use super::inclusion::includes;
use super::pattern::{Class, Part, Pattern};
use super::relation::Relation;
use super::rule::Rule;
use crate::recipe::AxisStep;
use ckpt_api::Limits;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Tries every division, shortest first captures first: exponential, and plainly what the language says.
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
        Class::Within => !text.contains(separator),
        Class::Across => true,
    }
}

/// A pattern's text over few characters, so that names match often; captures are named by their place.
fn pattern() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        3 => "[a01/é.]{1,2}",
        1 => Just("*".to_owned()),
        1 => Just("**".to_owned()),
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
        text
    })
}

/// A rule that must have an inverse: its captures are separated by text that none of them can contain.
fn clear_rule(number: usize) -> impl Strategy<Value = (String, String, Vec<String>)> {
    let capture = prop_oneof![
        (Just("int"), "0|[1-9][0-9]{0,3}"),
        (Just("word"), "[A-Za-z0-9_]{1,4}"),
        (Just("segment"), "[a-zé_0-9]{1,4}"),
        (Just("path"), "[a-z]{1,2}(/[a-z]{1,2}){0,2}"),
    ];
    let captures = prop::collection::vec(capture, 1..4);
    (captures, any::<prop::sample::Index>()).prop_map(move |(captures, turn)| {
        let (mut from, mut source) = (format!("r{number}"), format!("r{number}"));
        let mut pieces = Vec::new();
        for (index, (class, value)) in captures.iter().enumerate() {
            from += &format!("/-/{{c{index}:{class}}}");
            source += &format!("/-/{value}");
            pieces.push(format!("-.{{c{index}}}"));
        }
        let middle = turn.index(pieces.len());
        pieces.rotate_left(middle);
        (from, format!("t{number}.{}", pieces.join(".")), vec![source])
    })
}

/// A rule over several tensors, or with steps, over numbers that are padded and shifted, and names for it.
fn rich_rule(number: usize) -> impl Strategy<Value = (String, Vec<String>)> {
    let steps =
        prop::sample::subsequence(vec!["transpose", "permute 2 0 1", "squeeze 0", "unsqueeze 3"], 0..4);
    // No width is a plain number; the widest number that is written here has three digits.
    let widths = || (prop::option::of(2usize..5), prop::option::of(3usize..6));
    let typed = |width: Option<usize>| width.map(|width| format!(":int{width}"));
    let numbers = prop::collection::btree_set(1usize..100, 1..4);
    ("split|merge|tie|gather|one", 2usize..4, widths(), -1i64..3, steps, numbers).prop_map(
        move |(kind, parts, (from_width, to_width), shift, steps, numbers)| {
            let (sources, targets) = match kind.as_str() {
                "merge" | "gather" => (parts, 1),
                "split" | "tie" => (1, parts),
                _ => (1, 1),
            };
            let relation = match kind.as_str() {
                "split" | "merge" => format!("{kind} = 0"),
                "tie" | "gather" => "tie = true".to_owned(),
                _ => String::new(),
            };
            let list = |count: usize, form: &dyn Fn(usize) -> String| {
                let forms: Vec<String> = (0..count).map(|k| format!("'{}'", form(k))).collect();
                if count == 1 { forms.concat() } else { format!("[{}]", forms.join(", ")) }
            };
            let from = list(sources, &|k| {
                format!("r{number}/{{n{}}}/s{k}", typed(from_width).unwrap_or(":int".into()))
            });
            let padding = typed(to_width).unwrap_or_default();
            let by = if shift == 0 { String::new() } else { format!("{shift:+}") };
            let to = list(targets, &|k| format!("t{number}.{{n{by}{padding}}}.d{k}"));
            let rule = format!("[[rule]]\nfrom = {from}\nto = {to}\nsteps = {steps:?}\n{relation}\n");
            let width = from_width.unwrap_or(1);
            let names = numbers
                .into_iter()
                .flat_map(|n| (0..sources).map(move |k| format!("r{number}/{n:0>width$}/s{k}")));
            (rule, names.collect())
        },
    )
}

fn toml_text(head: &str, rules: &[(String, String)]) -> String {
    let rules = rules.iter().map(|(from, to)| format!("[[rule]]\nfrom = '{from}'\nto = '{to}'\n"));
    format!("{head}\n{}", rules.collect::<String>())
}

/// Fails if the mapping is applied, claims an inverse, and the inverse is none.
fn assert_inverse_is_one(mapping: &Mapping, names: &[&str]) -> Result<(), TestCaseError> {
    let Ok(applied) = mapping.apply(names, &Limits::default()) else { return Ok(()) };
    prop_assert_eq!(applied.targets.len() + applied.dropped.len(), names.len());
    let targets: Vec<&str> = applied.targets.iter().map(|target| target.name.as_str()).collect();
    for inverse in applied.inverse.as_ref().ok().into_iter().chain([&applied.inverse_table().unwrap()]) {
        let reread = Mapping::from_toml(&inverse.to_toml(), "inverse").unwrap();
        let back = reread.apply(&targets, &Limits::default()).unwrap();
        prop_assert_eq!(back.targets.len(), targets.len());
        let back: BTreeMap<&str, &str> = back.plain().collect();
        for (source, target) in applied.plain() {
            prop_assert_eq!(back[target], source);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn matching_agrees_with_trying_everything(text in pattern(), name in "[a01/é._]{0,8}", dot: bool) {
        let separator = if dot { '.' } else { '/' };
        let pattern = Pattern::ignored(&text, &Limits::default()).unwrap();
        prop_assert_eq!(pattern.matches(&name, separator), naive(&pattern.parts, &name, separator));
    }

    #[test]
    fn a_form_that_includes_another_matches_all_its_names(
        larger in pattern(), smaller in pattern(), names in prop::collection::vec("[a01/é._]{0,6}", 16),
    ) {
        let (larger, smaller) = (Pattern::ignored(&larger, &Limits::default()).unwrap(), Pattern::ignored(&smaller, &Limits::default()).unwrap());
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
    fn a_printed_pattern_is_read_as_the_same(text in pattern()) {
        let pattern = Pattern::ignored(&text, &Limits::default()).unwrap();
        prop_assert_eq!(Pattern::ignored(&pattern.as_source(), &Limits::default()).unwrap(), pattern);
    }

    #[test]
    fn a_claimed_inverse_is_one(
        rules in prop::collection::vec(("[ab/]{0,2}\\{x(:int|:path|)\\}[ab./]{0,2}", "[ab.]{0,2}\\{x\\}[ab.]{0,2}"), 1..4),
        names in prop::collection::btree_set("[ab1./]{1,5}", 1..4),
        head in "(identity = true\n)?(ordered = true\n)?(target_separator = '\\.'\n)?(ignore = \\['b\\*'\\])?",
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Ok(mapping) = Mapping::from_toml(&toml_text(&head, &rules), "random") {
            assert_inverse_is_one(&mapping, &names)?;
        }
    }

    #[test]
    fn text_of_any_kind_never_panics(text in "\\PC{0,80}") {
        let _ = Mapping::from_toml(&text, "random");
    }

    #[test]
    fn text_almost_of_the_language_never_panics(
        words in prop::collection::vec(prop::sample::select(vec![
            "[lookup]", "[[rule]]", "from", "to", "=", "'", "\"", "{", "}", "{x}", ":int", "*", "\n", "separator",
            "identity", "true", "[", "]", ",", "a/b", "é", "ignore", "ordered", "\u{0}", "#", ".", "1", "[roles]",
            "role", "steps", "'transpose'", "split", "merge", "sizes", "tie", "inverse", "{n:int3}", "{n+1}", "title",
        ]), 0..24),
        name in "\\PC{0,6}",
    ) {
        if let Ok(mapping) = Mapping::from_toml(&words.concat(), "random") {
            let _ = mapping.apply(&[&name], &Limits::default());
            let _ = mapping.explain(&name, &Limits::default());
            let _ = mapping.rules();
        }
    }

    #[test]
    fn how_far_a_name_fits_is_all_of_it_where_it_matches(text in pattern(), name in "[a01/é._]{0,8}") {
        let pattern = Pattern::ignored(&text, &Limits::default()).unwrap();
        let (reach, length) = (pattern.reach(&name, '/'), name.chars().count());
        prop_assert!(reach <= length);
        if pattern.matches(&name, '/').is_some() {
            prop_assert_eq!(reach, length);
        }
    }

    #[test]
    fn rules_for_any_names_are_printed_and_read_as_the_same(
        names in prop::collection::btree_set("\\PC{1,6}|[*{} /\u{1}\n\"'\\\\#:]{1,5}", 1..5),
    ) {
        let literal = |name: &str| vec![Pattern::literal(name)];
        let rule = |name: &String| Rule {
            line: None,
            from: literal(name),
            to: literal(&format!("{name}t")),
            relation: Relation::One,
            role: None,
            steps: vec![AxisStep::Transpose],
            invertible: true,
        };
        let ignore = vec![Pattern::literal("**"), Pattern::literal("{*}")];
        prop_assume!(!names.contains("**") && !names.contains("{*}"));
        let mapping = Mapping { identity: false, ignore, rules: names.iter().map(rule).collect(), ..Mapping::identity() };
        let reread = Mapping::from_toml(&mapping.to_toml(), "reread").unwrap();
        prop_assert_eq!(&reread.ignore, &mapping.ignore);
        prop_assert_eq!(reread.rules.len(), mapping.rules.len());
        for (read, rule) in reread.rules.iter().zip(&mapping.rules) {
            prop_assert_eq!((&read.from, &read.to, &read.steps), (&rule.from, &rule.to, &rule.steps));
        }
    }

    #[test]
    fn a_table_with_any_names_is_printed_and_read_as_the_same(
        pairs in prop::collection::btree_map(any::<String>(), any::<String>(), 0..6),
    ) {
        let Ok(mapping) = Mapping::lookup(pairs) else { return Ok(()) };
        let reread = Mapping::from_toml(&mapping.to_toml(), "reread").unwrap();
        prop_assert_eq!(reread.lookup, mapping.lookup);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn clear_rules_have_an_inverse_that_leads_back(
        rules in (clear_rule(0), clear_rule(1), clear_rule(2)).prop_map(|(a, b, c)| vec![a, b, c]),
    ) {
        let names: Vec<&str> = rules.iter().flat_map(|rule| &rule.2).map(String::as_str).collect();
        let sides: Vec<(String, String)> = rules.iter().map(|rule| (rule.0.clone(), rule.1.clone())).collect();
        let mapping = Mapping::from_toml(&toml_text("target_separator = '.'", &sides), "random").unwrap();
        let applied = mapping.apply(&names, &Limits::default()).unwrap();
        prop_assert_eq!(applied.targets.len(), 3);
        prop_assert!(applied.inverse.is_ok(), "{:?}", applied.inverse);
        assert_inverse_is_one(&mapping, &names)?;
        prop_assert_eq!(Mapping::from_toml(&mapping.to_toml(), "again").unwrap().to_toml(), mapping.to_toml());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn rules_over_several_tensors_lead_back(rules in (rich_rule(0), rich_rule(1), rich_rule(2))) {
        let text = format!("target_separator = '.'\n{}{}{}", rules.0.0, rules.1.0, rules.2.0);
        let names = [rules.0.1, rules.1.1, rules.2.1].concat();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        let mapping = Mapping::from_toml(&text, "random").unwrap();
        prop_assert_eq!(Mapping::from_toml(&mapping.to_toml(), "again").unwrap().to_toml(), mapping.to_toml());
        prop_assert_eq!(mapping.inverse().unwrap().inverse().unwrap().to_toml(), mapping.to_toml());
        let applied = mapping.apply(&names, &Limits::default()).unwrap();
        prop_assert!(applied.inverse.is_ok(), "{:?}", applied.inverse);
        let targets: Vec<&str> = applied.targets.iter().map(|target| target.name.as_str()).collect();
        for inverse in [applied.inverse.as_ref().unwrap(), &applied.inverse_table().unwrap()] {
            let back = Mapping::from_toml(&inverse.to_toml(), "inverse").unwrap();
            let back = back.apply(&targets, &Limits::default()).unwrap();
            let sources: Vec<&str> = back.targets.iter().map(|target| target.name.as_str()).collect();
            prop_assert_eq!(&sources, &names);
            let again = back.inverse.unwrap().apply(&names, &Limits::default()).unwrap();
            prop_assert_eq!(&again.targets, &applied.targets);
        }
    }
}

#[test]
fn matching_takes_linear_time() {
    let pattern = Pattern::ignored(&format!("{}b", "**a".repeat(32)), &Limits::default()).unwrap();
    assert!(pattern.matches(&"a".repeat(20_000), '/').is_none());
    assert!(pattern.matches(&format!("{}b", "a".repeat(20_000)), '/').is_some());
}
