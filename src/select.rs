//! Choosing tensors by name, and changing their dtype, before anything is placed.

use ckpt_api::{Contents, DType, Error, Loss, LossKind, Result, Role, Setting, TensorId};
use std::collections::HashSet;

/// What was taken out of a checkpoint because the user said so.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// The tensors.
    pub(crate) names: Vec<String>,
    /// What went with them although nobody asked for that.
    pub(crate) losses: Vec<Loss>,
}

/// Keeps the tensors that match an `include` pattern (all, if there is none) and no `exclude` pattern.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a pattern that matches nothing, or when nothing is left.
pub(crate) fn select(contents: &mut Contents, include: &[String], exclude: &[String]) -> Result<Removed> {
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
        return Err(Error::usage("no tensor is left").help(format!(
            "loosen {} and {}",
            Setting::Include,
            Setting::Exclude
        )));
    }
    Ok(remove(contents, dropped))
}

/// Takes tensors out, and the graph where it needs one of them; a slot whose tensor goes belongs to none.
pub(crate) fn remove(contents: &mut Contents, names: Vec<String>) -> Removed {
    let gone: HashSet<&str> = names.iter().map(String::as_str).collect();
    if gone.is_empty() {
        return Removed::default();
    }
    let tensors = std::mem::take(&mut contents.checkpoint.tensors);
    let placements = std::mem::take(&mut contents.placements);
    for (mut tensor, mut placement) in tensors.into_iter().zip(placements) {
        if !gone.contains(tensor.name.as_str()) {
            tensor.slot = tensor.slot.filter(|slot| !gone.contains(slot.variable.as_str()));
            placement.tensor = TensorId(contents.checkpoint.tensors.len());
            contents.checkpoint.tensors.push(tensor);
            contents.placements.push(placement);
        }
    }
    let losses = drop_graph_without(contents, &gone, "is left out").into_iter().collect();
    Removed { losses, names }
}

/// Takes the graph out where it needs a tensor that is gone; `why` says how it went.
pub(crate) fn drop_graph_without(contents: &mut Contents, gone: &HashSet<&str>, why: &str) -> Option<Loss> {
    let nodes = contents.checkpoint.graph.iter().flat_map(|graph| &graph.nodes);
    let needed = nodes
        .filter_map(|node| {
            Some((&node.name, node.parameters.values().find(|name| gone.contains(name.as_str()))?))
        })
        .map(|(layer, tensor)| format!("layer '{layer}' needs '{tensor}', which {why}"))
        .next()?;
    contents.checkpoint.graph = None;
    Some(Loss::new(LossKind::GraphDropped, "graph", needed))
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
                format!("{} becomes {dtype}, as asked with {}", tensor.dtype, Setting::Dtype("")),
            ));
            tensor.dtype = dtype;
        }
    }
    Ok(losses)
}

/// `*` stands for any characters, `?` for one.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
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
    use ckpt_api::{Checkpoint, Encoding, Graph, Node, Op, Placement, Shape, Tensor};

    fn contents() -> Contents {
        let tensors: Vec<Tensor> =
            ["a/w", "b/w", "c"].map(|name| Tensor::new(name, DType::F32, Shape::scalar())).into();
        let placement = |(id, tensor): (usize, &Tensor)| {
            Placement::new(TensorId(id), tensor.name.clone(), Vec::new(), Encoding::row_major(tensor))
        };
        let placements = tensors.iter().enumerate().map(placement).collect();
        let node = Node::new("dense", Op::Gemm).parameter("weight", "b/w");
        let graph = Some(Graph::sequential("m", vec![], vec![], vec![node]));
        let checkpoint = Checkpoint { graph, tensors, ..Checkpoint::default() };
        Contents { checkpoint, placements, ..Contents::default() }
    }

    #[test]
    fn what_is_left_keeps_its_place_and_its_graph_if_that_needs_nothing_else() {
        let mut contents = contents();
        let removed = select(&mut contents, &["*w".into()], &["a*".into()]).unwrap();
        assert_eq!((removed.names, removed.losses), (vec!["a/w".to_owned(), "c".to_owned()], vec![]));
        assert_eq!(
            (contents.placements[0].tensor, contents.placements[0].name.as_str()),
            (TensorId(0), "b/w")
        );
        assert!(contents.checkpoint.graph.is_some());
    }

    #[test]
    fn a_graph_that_goes_with_a_tensor_is_a_loss() {
        let mut contents = contents();
        let removed = select(&mut contents, &[], &["b/w".into()]).unwrap();
        assert!(contents.checkpoint.graph.is_none());
        assert_eq!(removed.losses[0].kind, LossKind::GraphDropped);
        assert!(removed.losses[0].detail.contains("'dense' needs 'b/w'"), "{}", removed.losses[0].detail);
    }

    #[test]
    fn a_slot_outlives_its_tensor_as_a_tensor_of_its_own() {
        let mut contents = contents();
        let slot =
            |variable: &str| Some(Box::new(ckpt_api::Slot { variable: variable.into(), name: "m".into() }));
        contents.checkpoint.tensors[0].slot = slot("b/w");
        contents.checkpoint.tensors[2].slot = slot("a/w");
        select(&mut contents, &[], &["b/w".into()]).unwrap();
        let slots: Vec<_> = contents.checkpoint.tensors.iter().map(|tensor| tensor.slot.clone()).collect();
        assert_eq!(slots, [None, slot("a/w")]);
    }

    #[test]
    fn a_pattern_that_matches_nothing_and_a_choice_that_leaves_nothing_are_errors() {
        for (include, exclude) in [(vec!["x*".to_owned()], vec![]), (vec![], vec!["*".to_owned()])] {
            let error = select(&mut contents(), &include, &exclude).unwrap_err();
            assert_eq!(error.kind(), ckpt_api::Kind::Usage);
        }
    }

    #[test]
    fn only_floating_point_weights_get_another_dtype() {
        let mut contents = contents();
        contents.checkpoint.tensors[0].dtype = DType::I32;
        contents.checkpoint.tensors[1].role = Role::Optimizer;
        let losses = retype(&mut contents, DType::F16).unwrap();
        assert_eq!(losses.len(), 1);
        assert_eq!((losses[0].subject.as_str(), losses[0].kind), ("c", LossKind::Narrowed));
        assert_eq!(retype(&mut contents, DType::I8).unwrap_err().kind(), ckpt_api::Kind::Usage);
    }

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
