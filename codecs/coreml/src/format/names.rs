//! Names of results in programs.

/// The name as an identifier, which names of results are: other characters become underscores.
pub(crate) fn identifier(name: &str) -> String {
    let own = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let name: String = name.chars().map(own).collect();
    match name.starts_with(|first: char| first.is_ascii_digit()) || name.is_empty() {
        true => format!("_{name}"),
        false => name,
    }
}

/// The name of a constant: its result's, or the one that the operation is called by if the result's is the identifier of it,
/// or this with a number.
pub(crate) fn constant_name<'n>(result: &'n str, shown: Option<&'n str>) -> &'n str {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_own = |rest: &str| rest.is_empty() || rest.strip_prefix('_').is_some_and(is_number);
    shown.filter(|shown| result.strip_prefix(&identifier(shown)).is_some_and(is_own)).unwrap_or(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_no_identifier_has_become_underscores() {
        assert_eq!(identifier("model.layers.0/w:é"), "model_layers_0_w__");
        assert_eq!([identifier("0"), identifier("")], ["_0", "_"]);
    }

    #[test]
    fn a_constant_is_called_by_the_name_that_its_identifier_stands_for() {
        assert_eq!(constant_name("a_w", Some("a.w")), "a.w");
        assert_eq!(constant_name("a_w_1", Some("a.w")), "a.w");
        assert_eq!(constant_name("x_to_fp16", Some("cast_1")), "x_to_fp16");
        assert_eq!(constant_name("w_to_fp16", Some("w")), "w_to_fp16");
        assert_eq!(constant_name("w", None), "w");
    }
}
