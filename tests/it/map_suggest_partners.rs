//! `ckpt map suggest`: tensors without a partner, by their roles or by name.

use crate::common::tensors::{Tensors, tensor, values};
use crate::common::workplace::{DIGITS, Workplace};

/// The model of [`DIGITS`] as Keras 3 exports it: with each variable a second time.
const SAVED_MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits_saved_model");

#[test]
fn suggest_ignores_second_copies_and_what_is_no_weight_by_roles() {
    let place = Workplace::new();
    let convert = ["convert", DIGITS, "weights.npz", "--include", "digits/**", "-q", "--no-sync"];
    place.says(&[&convert[..], &["--allow", "all"]].concat());
    let roles = "ignore_roles = [\"optimizer\", \"counter\", \"bookkeeping\", \"duplicate\"]\n";
    for from in [SAVED_MODEL, DIGITS] {
        let text = place.says(&["map", "suggest", from, "weights.npz"]);
        assert!(text.contains(roles) && !text.contains("\nignore = "), "{text}");
        assert!(!text.contains("_all_variables") && !text.contains("Only in the first"), "{text}");
        place.write("map.toml", &text);
        for input in [SAVED_MODEL, DIGITS] {
            let checked = place.says(&["map", "check", "map.toml", input]);
            assert!(checked.contains("4 target names, one to one"), "{checked}");
        }
        std::fs::remove_file(place.path("map.toml")).unwrap();
    }
    // In the other direction, no tensor becomes a second copy.
    let text = place.says(&["map", "suggest", "weights.npz", SAVED_MODEL]);
    assert!(!text.contains("_all_variables") && !text.contains("Only in"), "{text}");
}

#[test]
fn suggest_lists_a_tensor_by_name_if_another_of_its_role_has_a_partner() {
    let place = Workplace::new();
    let convert = ["convert", DIGITS, "some.npz", "--include", "digits/**", "--include", "save_counter"];
    place.says(&[&convert[..], &["-q", "--no-sync", "--allow", "all"]].concat());
    let text = place.says(&["map", "suggest", DIGITS, "some.npz"]);
    for words in [
        "ignore = [\"adam/iteration\"]\nignore_roles = [\"optimizer\", \"bookkeeping\", \"duplicate\"]\n",
        "\"save_counter\" = \"save_counter\"\n",
        "# Only in the first checkpoint, so ignored:\n#   'adam/iteration'\n",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
}

/// Two models of so many layers; the first layers of both, so many, are the same.
fn models(of_a: usize, of_b: usize, same: usize) -> Workplace {
    let place = Workplace::new();
    let of = |prefix: &str, other: usize, layers: usize| {
        let seeds = (0..layers).map(|k| if k < same { k } else { other + k });
        let layer = |(k, seed)| tensor(&format!("{prefix}{k}"), values(seed, &[seed + 2, 3]));
        seeds.enumerate().map(layer).collect::<Tensors>()
    };
    place.checkpoint("a.safetensors", &of("first", 50, of_a));
    place.checkpoint("b.safetensors", &of("second", 100, of_b));
    place
}

const SUGGEST: [&str; 4] = ["map", "suggest", "a.safetensors", "b.safetensors"];

#[test]
fn suggest_warns_of_tensors_without_a_partner() {
    let warned = |place: &Workplace, more: &[&str]| {
        let output = place.ckpt(&[&SUGGEST, more].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        told
    };
    let place = models(7, 5, 4);
    for more in [&[][..], &["-o", "map.toml"]] {
        let expected = "warning: 3 tensors of the first checkpoint have no partner: 'first4', 'first5', 'first6'\n\
                        warning: 1 tensor of the second checkpoint has no source: 'second4'\n";
        assert_eq!(warned(&place, more), expected);
    }
    let told = warned(&models(14, 4, 4), &[]);
    assert!(
        told.starts_with("warning: 10 tensors of the first") && told.ends_with(" and 2 more\n"),
        "{told}"
    );
}

#[test]
fn suggest_refuses_models_that_share_few_weights_unless_one_is_a_part_of_the_other() {
    let place = models(5, 5, 2);
    let output = place.ckpt(&[&SUGGEST[..], &["-o", "map.toml"]].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(3) && output.stdout.is_empty(), "{told}");
    for words in [
        "warning: 3 tensors of the first checkpoint",
        "error: most weights have no partner in the other checkpoint",
        "a partner for 2 of 5 weights of the first and 2 of 5 of the second",
        "--accept-ambiguous",
    ] {
        assert!(told.contains(words), "{words} is not in:\n{told}");
    }
    assert!(!place.path("map.toml").exists());
    let text = place.says(&[&SUGGEST[..], &["--accept-ambiguous"]].concat());
    assert!(text.contains("# 2 pairs: matched by value"), "{text}");
    for (of_a, of_b) in [(5, 2), (2, 5), (4, 4)] {
        models(of_a, of_b, 2).says(&SUGGEST);
    }
}

/// What an optimizer keeps for a weight has the shape of the weight.
#[test]
fn suggest_pairs_no_tensors_of_different_roles_if_values_differ() {
    let place = Workplace::new();
    let b =
        [tensor("digits/digit/bias", values(1, &[10])), tensor("digits/digit/momentum", values(2, &[10]))];
    place.checkpoint("b.safetensors", &b);
    let text = place.says(&["map", "suggest", DIGITS, "b.safetensors", "--accept-ambiguous"]);
    assert!(
        text.contains("\"digits/digit/bias\" = \"digits/digit/bias\"") && !text.contains("adam/"),
        "{text}"
    );
    // An object graph describes its own checkpoint, so that of another is no pair, and no question.
    place.says(&["map", "suggest", DIGITS, SAVED_MODEL]);
}
