//! Choosing tensors by name, and changing their dtype, before anything is placed.

use ckpt_api::{Contents, DType, Error, Loss, LossKind, Result, Role, TensorId};
use std::collections::HashSet;

/// Keeps the tensors that match an `include` pattern (all, if there is none) and no `exclude` pattern. Returns the
/// names of the others.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a pattern that matches nothing, or when nothing is left.
pub(crate) fn select(contents: &mut Contents, include: &[String], exclude: &[String]) -> Result<Vec<String>> {
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    for pattern in include.iter().chain(exclude) {
        if !names.iter().any(|name| matches(pattern, name)) {
            return Err(Error::usage("the pattern matches no tensor")
                .field(pattern.as_str())
                .help(ckpt_api::nearest(pattern, names.iter().copied())));
        }
    }
    let kept = |name: &str| {
        (include.is_empty() || include.iter().any(|pattern| matches(pattern, name)))
            && !exclude.iter().any(|pattern| matches(pattern, name))
    };
    let dropped: Vec<String> =
        names.iter().filter(|name| !kept(name)).map(|name| (*name).to_owned()).collect();
    if dropped.len() == names.len() && !names.is_empty() {
        return Err(Error::usage("no tensor is left").help("loosen --include and --exclude"));
    }
    remove(contents, &dropped);
    Ok(dropped)
}

/// Takes tensors out. A graph that needs one of them goes too, and a note says so.
pub(crate) fn remove(contents: &mut Contents, dropped: &[String]) {
    if dropped.is_empty() {
        return;
    }
    let dropped: HashSet<&str> = dropped.iter().map(String::as_str).collect();
    let tensors = std::mem::take(&mut contents.checkpoint.tensors);
    let placements = std::mem::take(&mut contents.placements);
    for (tensor, mut placement) in tensors.into_iter().zip(placements) {
        if !dropped.contains(tensor.name.as_str()) {
            placement.tensor = TensorId(contents.checkpoint.tensors.len());
            contents.checkpoint.tensors.push(tensor);
            contents.placements.push(placement);
        }
    }
    let uses = |graph: &ckpt_api::Graph| {
        graph
            .nodes
            .iter()
            .flat_map(|node| node.parameters.values())
            .any(|name| dropped.contains(name.as_str()))
    };
    if contents.checkpoint.graph.as_ref().is_some_and(uses) {
        contents.checkpoint.graph = None;
        contents.notes.push("the graph needs a tensor that is left out: it is left out too".to_owned());
    }
}

/// Makes every floating-point weight a `dtype`; says what that does to its values.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a dtype that floating-point numbers cannot be converted to.
pub(crate) fn retype(contents: &mut Contents, dtype: DType) -> Result<Vec<Loss>> {
    if !dtype.is_float() || !crate::transform::castable(DType::F32, dtype) {
        let known =
            DType::ALL.iter().filter(|to| to.is_float() && crate::transform::castable(DType::F32, **to));
        return Err(Error::usage("weights cannot be converted to this dtype")
            .found(dtype.name())
            .expected(known.map(|dtype| dtype.name()).collect::<Vec<_>>().join(" or ")));
    }
    let mut losses = Vec::new();
    for tensor in &mut contents.checkpoint.tensors {
        if tensor.role == Role::Weight && tensor.dtype.is_float() && tensor.dtype != dtype {
            let kind = if crate::transform::exact(tensor.dtype, dtype) {
                LossKind::Retyped
            } else {
                LossKind::Narrowed
            };
            losses.push(Loss::new(
                kind,
                &tensor.name,
                format!("{} becomes {dtype}, as asked with --dtype", tensor.dtype),
            ));
            tensor.dtype = dtype;
        }
    }
    Ok(losses)
}

/// `*` stands for any characters, `?` for one.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_and_a_question_mark_for_one() {
        for (pattern, name) in
            [("*", ""), ("a*", "a/b/c"), ("*/kernel", "x/y/kernel"), ("h?", "h1"), ("a*b*c", "aXbbYc")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("", "a"), ("a", "ab"), ("h?", "h12"), ("*x", "xy")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
