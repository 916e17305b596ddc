//! What is proposed can be read back, whatever the names.

use super::*;
use ckpt_engine::recipe::AxisStep;
use proptest::prelude::*;

/// A name as a hostile file may have it: with characters that TOML or patterns give a meaning, or that nobody sees; or
/// one of a family.
fn any_name() -> impl Strategy<Value = String> {
    let special =
        ["a", "\"", "'''", "\\", "#", "*", "{", "}}", "/", "\n", "\0", "\u{1b}", "\u{202e}", "\u{feff}", "7"];
    let special = prop::collection::vec(prop::sample::select(special.to_vec()), 1..8);
    prop_oneof![
        special.prop_map(|pieces| pieces.concat()),
        any::<String>().prop_map(|text| text + "x"),
        (0..4usize, 0..4usize).prop_map(|(one, other)| format!("layer{one}/{{w}}.{other}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_proposed_is_read_back_as_the_same_mapping(
        sources in prop::collection::btree_set(any_name(), 1..12),
        targets in prop::collection::btree_set(any_name(), 12),
        steps in prop::collection::vec(0..3usize, 12),
        paired in 1..12usize,
    ) {
        let kinds = [vec![], vec![AxisStep::Transpose], vec![AxisStep::Permute(vec![2, 0, 1]), AxisStep::Squeeze(0)]];
        let names: Vec<String> = sources.into_iter().collect();
        let (matched, rest) = names.split_at(paired.min(names.len()));
        let pairs = matched.iter().zip(&targets).zip(&steps).map(|((source, target), steps)| Pair {
            possible_steps: kinds.to_vec(),
            ..Pair::new(
                vec![source.clone()],
                vec![target.clone()],
                kinds[*steps].clone(),
                Basis::Name,
                StepsBasis::Open,
            )
        });
        let pairs: Vec<Pair> = pairs.collect();
        let suggestion = Suggestion {
            mapping: mapping(&pairs, &names, vec![Role::Counter, Role::Duplicate]).unwrap(),
            ambiguous: vec![Ambiguous { name: names[0].clone(), candidates: names.clone() }],
            reshaped: vec![Reshaped { sources: names.clone(), targets: names.clone(), untried: None }],
            only_in_a: rest.to_vec(),
            only_in_b: targets.iter().cloned().collect(),
            weights_of_a: Coverage { paired: pairs.len(), left: rest.len() },
            weights_of_b: Coverage { paired: pairs.len(), left: targets.len() - pairs.len() },
            pairs,
        };
        let text = suggestion.to_toml();
        prop_assert!(!text.contains(|c| c != '\n' && ckpt_engine::words::is_control(c)), "{:?}", text);
        let read = Mapping::from_toml(&text, "proposed.toml").unwrap();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let applied = read.apply(&names, &Limits::default()).unwrap();
        prop_assert_eq!(applied.targets.len(), suggestion.pairs.len());
        for pair in &suggestion.pairs {
            let made = applied.targets.iter().find(|target| target.name == pair.targets[0]).unwrap();
            prop_assert_eq!((&made.sources, &made.recipe.steps), (&pair.sources, &pair.steps));
        }
        let inverse = applied.inverse_table().unwrap();
        prop_assert_eq!(Mapping::from_toml(&inverse.to_toml(), "inverse").unwrap().to_toml(), inverse.to_toml());
    }
}
