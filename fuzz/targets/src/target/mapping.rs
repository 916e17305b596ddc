//! Mapping files: parsing, applying to names, inverting, explaining, writing back. Of the text: a file until the first 0,
//! then names, one on each line; a few that are always the same if there are none.

use arbitrary::{Arbitrary, Unstructured};
use ckpt::mapping::Mapping;

const NAMES: [&str; 4] = ["model/h0/attn/c_attn/w", "model/h11/mlp/b", "dense/kernel", ""];
/// How many names of the text count.
const MOST: usize = 32;

pub(super) fn fuzz(data: &[u8]) {
    // As far as it is text.
    let Ok(text) = <&str>::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let (text, names) = text.split_once('\0').unwrap_or((text, ""));
    let names: Vec<&str> = match names {
        "" => NAMES.to_vec(),
        names => names.lines().take(MOST).collect(),
    };
    let Ok(mapping) = Mapping::from_toml(text, "mapping.toml") else { return };
    let limits = ckpt_api::Limits::default();
    if let Ok(applied) = mapping.apply(&names, &limits) {
        let targets: Vec<&str> = applied.targets.iter().map(|target| target.name.as_str()).collect();
        let tables = [applied.inverse_table(), applied.inverse].into_iter().flatten();
        for inverse in tables {
            let back = inverse.apply(&targets, &limits).expect("an inverse takes the targets");
            let sources = back.targets.len() + applied.dropped.len();
            assert_eq!(sources, names.len(), "an inverse makes the sources again");
        }
    }
    for name in &names {
        let _ = mapping.explain(name, &limits);
    }
    let _ = mapping.rules();
    if let Ok(inverse) = mapping.inverse() {
        let _ = inverse.apply(&names, &limits);
    }
    Mapping::from_toml(&mapping.to_toml(), "again.toml").expect("what was written can be read");
}
