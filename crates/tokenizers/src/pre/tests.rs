use super::*;

#[test]
fn no_name_and_no_list_of_rules_is_there_twice() {
    let mut known: Vec<&str> = names().collect();
    let count = known.len();
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), count);
    let rules: Vec<Vec<Rule>> = CLASSES.iter().map(Class::rules).collect();
    for (index, own) in rules.iter().enumerate() {
        assert_eq!(rules.iter().position(|other| other == own), Some(index));
    }
    assert!(count > 80, "{count}");
}
