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

/// The name of a constant: its result's, or the one that the operation is called by if the result's is the identifier of it.
pub(crate) fn constant_name<'n>(result: &'n str, shown: Option<&'n str>) -> &'n str {
    shown.filter(|shown| result.starts_with(&identifier(shown)) && *shown != result).unwrap_or(result)
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
        assert_eq!(constant_name("w", None), "w");
    }
}
