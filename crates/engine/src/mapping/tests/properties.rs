//! Properties of all mappings, names and texts.

use crate::mapping::lookup::Entry;
use crate::mapping::{Ignore, Mapping, Relation, Rule};
use crate::pattern::Pattern;
use crate::recipe::{AxisStep, Division};
use crate::words::is_control;
use ckpt_api::Limits;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Any text but the empty one; often with characters that TOML or patterns give a meaning, or that nobody sees.
fn any_text() -> impl Strategy<Value = String> {
    let special = vec![
        'a',
        '"',
        '\'',
        '\\',
        '#',
        '*',
        '?',
        '{',
        '}',
        '/',
        ' ',
        '\n',
        '\r',
        '\t',
        '\0',
        '\u{1b}',
        '\u{7f}',
        '\u{85}',
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200d}',
        '\u{202e}',
        '\u{2028}',
        '\u{2066}',
        '\u{feff}',
        '\u{e0041}',
    ];
    let special = prop::collection::vec(prop::sample::select(special), 1..8);
    prop_oneof![special.prop_map(String::from_iter), any::<String>().prop_map(|text| text + "x")]
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

/// Fails if the mapping has an inverse that does not make the sources again.
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
    fn text_close_to_the_language_never_panics(
        words in prop::collection::vec(prop::sample::select(vec![
            "[lookup]", "[[rule]]", "from", "to", "=", "'", "\"", "{", "}", "{x}", ":int", "*", "?", "\n", "separator",
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
    fn what_is_printed_is_read_as_the_same_and_shows_every_character(
        title in any_text(), role in any_text(), names in prop::collection::btree_set(any_text(), 4),
    ) {
        let names: Vec<&String> = names.iter().collect();
        let literal = |name: &str| vec![Pattern::literal(name)];
        let rule = Rule {
            line: None,
            from: literal(names[0]),
            to: literal(names[1]),
            relation: Relation::One,
            role: Some(role.clone()),
            steps: vec![AxisStep::Transpose],
            division: Division::default(),
            sizes: Vec::new(),
            counted_by: None,
            invertible: true,
        };
        let entry = Entry { target: names[3].clone(), line: None };
        let mapping = Mapping {
            title: Some(title.clone()),
            ignore: vec![Ignore { pattern: Pattern::literal(names[1]), line: None }],
            roles: BTreeMap::from([(role, rule.steps.clone())]),
            lookup: BTreeMap::from([(names[2].clone(), entry)]),
            rules: vec![rule],
            ..Mapping::empty()
        };
        let text = mapping.to_toml();
        prop_assert!(!text.contains(|c| c != '\n' && is_control(c)), "{:?}", text);
        let reread = Mapping::from_toml(&text, "reread").unwrap();
        prop_assert_eq!(reread.title(), Some(title.as_str()));
        prop_assert_eq!(&reread.ignore[0].pattern, &mapping.ignore[0].pattern);
        prop_assert_eq!(&reread.roles, &mapping.roles);
        prop_assert_eq!(&reread.lookup[names[2]].target, names[3]);
        let (read, rule) = (&reread.rules[0], &mapping.rules[0]);
        prop_assert_eq!((&read.from, &read.to, &read.role), (&rule.from, &rule.to, &rule.role));
    }

    #[test]
    fn a_table_with_any_names_is_printed_and_read_as_the_same(
        pairs in prop::collection::btree_map(any_text(), any_text(), 0..6),
    ) {
        let Ok(mapping) = Mapping::lookup(pairs) else { return Ok(()) };
        let reread = Mapping::from_toml(&mapping.to_toml(), "reread").unwrap();
        let targets = |mapping: &Mapping| {
            let entries = mapping.lookup.iter();
            entries.map(|(source, entry)| (source.clone(), entry.target.clone())).collect::<Vec<_>>()
        };
        prop_assert_eq!(targets(&reread), targets(&mapping));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn clear_rules_have_an_inverse_that_makes_the_sources_again(
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
    fn rules_over_several_tensors_have_an_inverse(rules in (rich_rule(0), rich_rule(1), rich_rule(2))) {
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
