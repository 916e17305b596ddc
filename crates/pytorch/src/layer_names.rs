//! Names of layers, as the names of their tensors show them.

/// The name of the layer and the name within it of a tensor: `dense` and `kernel` of `model/dense/kernel`.
pub(super) fn split(tensor: &str) -> (&str, &str) {
    let (scope, own) = tensor.rsplit_once(['/', '.']).unwrap_or(("", tensor));
    (scope, own)
}

/// The part of a name behind what the names of all tensors begin with: the name of the model.
pub(super) fn without_model<'n>(name: &'n str, model: Option<&str>) -> &'n str {
    let rest = model.and_then(|model| name.strip_prefix(model)?.strip_prefix(['/', '.']));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// The name that all tensors begin with, if they do: that of the model.
pub(super) fn model<'n>(mut tensors: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let first = tensors.next()?.split_once(['/', '.'])?.0;
    let is_own = |name: &str| {
        name.strip_prefix(first)
            .and_then(|rest| rest.strip_prefix(['/', '.']))
            .is_some_and(|rest| rest.contains(['/', '.']))
    };
    tensors.all(is_own).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_model_is_what_all_tensors_begin_with() {
        let names = ["m/a/kernel", "m/b/kernel"];
        assert_eq!(model(names.into_iter()), Some("m"));
        assert_eq!(model(["dense/kernel", "dense/bias"].into_iter()), None);
        assert_eq!(without_model("m/a", Some("m")), "a");
        assert_eq!(without_model("m", Some("m")), "m");
        assert_eq!(split("m/a/kernel"), ("m/a", "kernel"));
    }
}
