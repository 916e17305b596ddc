//! Decides the steps of pairs whose shapes and values allow several.
//!
//! One pair alone often says little: a square kernel fits with a transpose and without. Pairs whose names end in the same way
//! usually need the same steps, so those steps are taken that fit all of them, in the narrowest class that leaves one choice.

use super::reorder::{Reordering, variants};
use super::suggestion::{Pair, StepsBasis};
use crate::recipe::AxisStep;
use crate::source::Source;
use ckpt_api::{Axis, Tensor, TensorId};
use std::collections::{BTreeMap, BTreeSet};

/// A pair without its steps.
pub(super) struct Undecided {
    pub(super) pair: Pair,
    /// The first tensor of each checkpoint.
    pub(super) ids: (TensorId, TensorId),
    /// The reorderings that shapes and values allow.
    pub(super) allowed: Vec<Reordering>,
}

/// Pairs that are expected to need the same steps: names without their numbers, ranks, and what is known of the axes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    names: [Vec<String>; 2],
    ranks: [usize; 2],
    axes: [Option<Vec<&'static str>>; 2],
}

/// How many segments at the end of a name make a class, narrow classes first. All: names that differ in their numbers alone.
const SEGMENTS: [usize; 3] = [usize::MAX, 2, 1];

/// A pair with all that decides its steps.
struct Question<'s> {
    pair: Pair,
    tensors: (&'s Tensor, &'s Tensor),
    choices: Vec<Reordering>,
    /// Whether the pair alone decides.
    is_clear: bool,
}

/// Returns the pairs with their steps.
pub(super) fn decide(undecided: Vec<Undecided>, a: &Source, b: &Source) -> Vec<Pair> {
    let questions = undecided.into_iter().filter_map(|one| {
        let tensors = (a.checkpoint().tensors.get(one.ids.0.0)?, b.checkpoint().tensors.get(one.ids.1.0)?);
        let choices = plausible(choices(&one, tensors), tensors);
        let is_clear = orders(&choices.iter().collect::<Vec<_>>()).len() == 1;
        Some(Question { pair: one.pair, tensors, choices, is_clear })
    });
    let mut questions: Vec<Question> = questions.collect();
    agree_on_rows(&mut questions);
    let common = SEGMENTS.map(|segments| common(&questions, segments));
    questions.into_iter().map(|question| question.answer(&common)).collect()
}

/// Returns the reorderings of a pair, with all steps that have the same effect.
fn choices(one: &Undecided, (a, b): (&Tensor, &Tensor)) -> Vec<Reordering> {
    // Steps of a tie must fit all its tensors, whose axes of length 1 may differ.
    if one.pair.sources.len() > 1 || one.pair.targets.len() > 1 {
        return one.allowed.clone();
    }
    let mut choices = one.allowed.clone();
    let more = variants(&a.shape, &b.shape).into_iter();
    let more = more.filter(|variant| one.allowed.iter().any(|allowed| allowed.order == variant.order));
    for variant in more {
        if !choices.contains(&variant) {
            choices.push(variant);
        }
    }
    choices
}

/// Returns for each class the steps that fit all its pairs.
fn common(questions: &[Question], segments: usize) -> BTreeMap<Class, Vec<Vec<AxisStep>>> {
    let mut common: BTreeMap<Class, Vec<Vec<AxisStep>>> = BTreeMap::new();
    for question in questions {
        let steps = || question.choices.iter().map(|choice| choice.steps.clone()).collect();
        let fits = |steps: &Vec<AxisStep>| question.choices.iter().any(|choice| choice.steps == *steps);
        common.entry(question.class(segments)).and_modify(|known| known.retain(fits)).or_insert_with(steps);
    }
    common
}

impl Question<'_> {
    fn class(&self, segments: usize) -> Class {
        let (a, b) = self.tensors;
        let axes = |tensor: &Tensor| Some(tensor.axes.as_ref()?.iter().map(|axis| axis.name()).collect());
        Class {
            names: [a, b].map(|tensor| ending(&tensor.name, segments)),
            ranks: [a, b].map(|tensor| tensor.shape.rank()),
            axes: [a, b].map(axes),
        }
    }

    fn answer(mut self, common: &[BTreeMap<Class, Vec<Vec<AxisStep>>>; SEGMENTS.len()]) -> Pair {
        let left = &self.choices;
        // In the order of the class, so that all its pairs take the same ones of several with the same effect.
        let shared = SEGMENTS.iter().zip(common).map(|(segments, common)| {
            let steps = common.get(&self.class(*segments)).into_iter().flatten();
            steps.filter_map(|steps| left.iter().find(|choice| choice.steps == *steps)).collect::<Vec<_>>()
        });
        let shared: Vec<Vec<&Reordering>> = shared.collect();
        let all: Vec<&Reordering> = left.iter().collect();
        let is_same_name =
            || ending(&self.tensors.0.name, usize::MAX) == ending(&self.tensors.1.name, usize::MAX);
        let unchanged = || left.iter().find(|choice| choice.steps.is_empty()).filter(|_| is_same_name());
        let decided = shared.iter().chain([&all]).find(|choices| orders(choices).len() == 1);
        let (chosen, basis) = match (decided.and_then(|choices| choices.first().copied()), unchanged()) {
            (Some(chosen), _) if self.is_clear => (Some(chosen), StepsBasis::Only),
            (Some(chosen), _) => (Some(chosen), StepsBasis::Neighbors),
            (None, Some(chosen)) => (Some(chosen), StepsBasis::Name),
            (None, None) => (None, StepsBasis::Open),
        };
        let possible = shared.into_iter().find(|choices| !choices.is_empty()).unwrap_or(all);
        let chosen = chosen.or(possible.first().copied());
        self.pair.steps = chosen.map(|choice| choice.steps.clone()).unwrap_or_default();
        self.pair.steps_basis = basis;
        if basis == StepsBasis::Open {
            self.pair.possible_steps =
                orders(&possible).into_values().map(|choice| choice.steps.clone()).collect();
        }
        self.pair
    }
}

/// Returns the choices that agree with what is known of the axes; all, if none does.
fn plausible(mut choices: Vec<Reordering>, (a, b): (&Tensor, &Tensor)) -> Vec<Reordering> {
    let ranks = (a.shape.rank(), b.shape.rank());
    let keep = |choices: Vec<Reordering>, fits: &dyn Fn(&[usize]) -> bool| {
        let is_fit = |choice: &&Reordering| order(&choice.steps, ranks.0).is_some_and(|order| fits(&order));
        let kept: Vec<Reordering> = choices.iter().filter(is_fit).cloned().collect();
        if kept.is_empty() { choices } else { kept }
    };
    if let (Some(of_a), Some(of_b)) = (&a.axes, &b.axes) {
        choices = keep(choices, &|order| order.iter().map(|axis| of_a.get(*axis)).eq(of_b.iter().map(Some)));
    }
    if ranks == (IMAGE_RANK, IMAGE_RANK) {
        choices = keep(choices, &|order| !rows(order, (a, b)).is_empty());
    }
    choices
}

/// The number of axes of a kernel for images.
const IMAGE_RANK: usize = 4;

/// Returns the axes of source and target that can be a kernel's rows under steps that make axis `order[k]` of the source axis
/// `k` of the target. Every framework stores columns directly after rows: `[y, x, in, out]`, `[out, in, y, x]`,
/// `[out, y, x, in]`.
fn rows(order: &[usize], (a, b): (&Tensor, &Tensor)) -> BTreeSet<(usize, usize)> {
    let can_be = |tensor: &Tensor, row: usize| match (tensor.axis(Axis::KernelY), tensor.axis(Axis::KernelX))
    {
        (Some(y), Some(x)) => y == row && x == row + 1,
        _ => true,
    };
    let neighbors = order.windows(2).enumerate().filter_map(|(to, window)| match window {
        [from, next] if *next == from + 1 => Some((*from, to)),
        _ => None,
    });
    neighbors.filter(|(from, to)| can_be(a, *from) && can_be(b, *to)).collect()
}

/// Keeps the choices by which the rows of all kernels are the same axis: a convolution that allows one place for them decides
/// for depthwise ones, too.
fn agree_on_rows(questions: &mut [Question]) {
    let places = |question: &Question, choice: &Reordering| {
        let order = order(&choice.steps, IMAGE_RANK).filter(|order| order.len() == IMAGE_RANK);
        order.map(|order| rows(&order, question.tensors)).unwrap_or_default()
    };
    let is_image = |question: &&Question| {
        [question.tensors.0, question.tensors.1].iter().all(|tensor| tensor.shape.rank() == IMAGE_RANK)
    };
    let all = questions.iter().filter(is_image).map(|question| {
        question.choices.iter().flat_map(|choice| places(question, choice)).collect::<BTreeSet<_>>()
    });
    let Some(common) = all.reduce(|one, other| &one & &other).filter(|common| !common.is_empty()) else {
        return;
    };
    for question in questions {
        if is_image(&&*question) {
            let fits = |choice: &&Reordering| !places(question, choice).is_disjoint(&common);
            question.choices = question.choices.iter().filter(fits).cloned().collect();
        }
    }
}

/// Returns the order of the axes that steps give, if all axes stay.
fn order(steps: &[AxisStep], rank: usize) -> Option<Vec<usize>> {
    match steps {
        [] => Some((0..rank).collect()),
        [AxisStep::Transpose] => Some(vec![1, 0]),
        [AxisStep::Permute(order)] => Some(order.clone()),
        _ => None,
    }
}

/// Returns the first choice for each order of elements.
fn orders<'c>(choices: &[&'c Reordering]) -> BTreeMap<&'c [usize], &'c Reordering> {
    let mut orders: BTreeMap<&[usize], &Reordering> = BTreeMap::new();
    for choice in choices {
        orders.entry(&choice.order).or_insert(choice);
    }
    orders
}

/// Returns up to so many segments from the end of a name, without numbers.
fn ending(name: &str, segments: usize) -> Vec<String> {
    let segment = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let all = name.rsplit(['/', '.', ':']).map(segment);
    all.filter(|segment| !segment.is_empty()).take(segments).collect()
}
