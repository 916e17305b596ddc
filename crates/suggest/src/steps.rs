//! Decides the steps of pairs whose shapes and values allow several.
//!
//! One pair alone often says little: a square kernel fits with a transpose and without. Pairs whose names end in the
//! same way usually need the same steps, so those steps are taken that fit all of them, in the narrowest class that
//! leaves one choice.

use super::reorder::{Reordering, variants};
use super::suggestion::{Basis, Pair, StepsBasis};
use ckpt_api::{Axis, Tensor, TensorId};
use ckpt_engine::recipe::AxisStep;
use ckpt_engine::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// A pair without its steps.
pub(super) struct Undecided {
    pub(super) pair: Pair,
    /// The first tensor of each checkpoint.
    pub(super) ids: (TensorId, TensorId),
    /// The reorderings that shapes and values allow.
    pub(super) allowed: Vec<Reordering>,
    /// Steps on an axis of images that make the values equal, each with the reordering after it.
    pub(super) images: Vec<(AxisStep, Reordering)>,
}

/// Pairs that are expected to need the same steps: names without their numbers, ranks, and what is known of the axes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    names: [Vec<String>; 2],
    ranks: [usize; 2],
    axes: [Option<Vec<&'static str>>; 2],
}

/// How many segments at the end of a name make a class, narrow classes first. All: names that differ in their numbers
/// alone.
const SEGMENTS: [usize; 3] = [usize::MAX, 2, 1];

/// A pair with all that decides its steps.
struct Question<'s> {
    pair: Pair,
    tensors: (&'s Tensor, &'s Tensor),
    choices: Vec<Reordering>,
    /// Whether the pair alone decides.
    is_clear: bool,
    /// Whether the values of this model show that all choices have the same effect.
    is_equal: bool,
    /// Whether the values show that no choice is right.
    is_doubtful: bool,
    images: Vec<(AxisStep, Reordering)>,
}

/// Returns the pairs with their steps.
pub(super) fn decide(
    undecided: Vec<Undecided>,
    (a, b): (&Source, &Source),
    constant: &BTreeSet<TensorId>,
) -> Vec<Pair> {
    let is_one_model = is_one_model(&undecided, constant);
    let questions = undecided.into_iter().filter_map(|mut one| {
        let tensors = (a.checkpoint().tensors.get(one.ids.0.0)?, b.checkpoint().tensors.get(one.ids.1.0)?);
        if let [(_, reordering)] = &one.images[..] {
            one.allowed = vec![reordering.clone()];
        }
        let choices = plausible(choices(&one, tensors), tensors);
        let is_clear = orders(&choices.iter().collect::<Vec<_>>()).len() == 1;
        let is_by_value = one.pair.basis.is_by_value();
        let is_equal = is_by_value && (is_one_model || !constant.contains(&one.ids.0));
        let is_doubtful = one.pair.basis == Basis::Elements || is_one_model && !is_by_value;
        Some(Question {
            pair: one.pair,
            tensors,
            choices,
            is_clear,
            is_equal,
            is_doubtful,
            images: one.images,
        })
    });
    let mut questions: Vec<Question> = questions.collect();
    agree_on_rows(&mut questions);
    let common = SEGMENTS.map(|segments| common(&questions, segments));
    questions.into_iter().map(|question| question.answer(&common)).collect()
}

/// Whether at least as many tensors have equal values as others. Tensors of one number, such as zeros, have them in all
/// models.
fn is_one_model(pairs: &[Undecided], constant: &BTreeSet<TensorId>) -> bool {
    let (equal, others): (Vec<&Undecided>, Vec<&Undecided>) =
        pairs.iter().partition(|one| one.pair.basis.is_by_value());
    let equal = equal.iter().filter(|one| !constant.contains(&one.ids.0)).count();
    equal > 0 && equal >= others.len()
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
        if self.images.len() > 1 {
            return self.ask_for_image();
        }
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
        let unchanged = || left.iter().find(|choice| choice.steps.is_empty());
        let decided = shared.iter().chain([&all]).find(|choices| orders(choices).len() == 1);
        let (chosen, basis) = match decided.and_then(|choices| choices.first().copied()) {
            Some(chosen) if self.is_doubtful => (Some(chosen), StepsBasis::Doubtful),
            Some(chosen) if self.is_clear => (Some(chosen), StepsBasis::Only),
            Some(chosen) => (Some(chosen), StepsBasis::Neighbors),
            None if is_same_name() && !self.is_doubtful && unchanged().is_some() => {
                (unchanged(), StepsBasis::Name)
            }
            None if self.is_equal => (unchanged(), StepsBasis::Equal),
            None if self.is_doubtful => (None, StepsBasis::Doubtful),
            None => (None, StepsBasis::Open),
        };
        let possible = shared.into_iter().find(|choices| !choices.is_empty()).unwrap_or(all);
        let chosen = chosen.or(possible.first().copied());
        let reordering = chosen.map(|choice| choice.steps.clone()).unwrap_or_default();
        let image = self.images.into_iter().map(|(step, _)| step);
        self.pair.steps = image.chain(reordering).collect();
        if basis == StepsBasis::Open {
            self.pair.possible_steps =
                orders(&possible).into_values().map(|choice| choice.steps.clone()).collect();
        }
        self.pair.steps_basis = basis;
        self.pair
    }

    /// Leaves open which of several images it is.
    fn ask_for_image(mut self) -> Pair {
        let steps = self.images.into_iter().map(|(step, reordering)| [vec![step], reordering.steps].concat());
        self.pair.possible_steps = steps.collect();
        self.pair.steps = self.pair.possible_steps.first().cloned().unwrap_or_default();
        self.pair.steps_basis = StepsBasis::Open;
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

/// Returns the axes of source and target that can be a kernel's rows under steps that make axis `order[k]` of the
/// source axis `k` of the target. Every framework stores columns directly after rows: `[y, x, in, out]`, `[out, in, y,
/// x]`, `[out, y, x, in]`.
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

/// Keeps the choices by which the rows of all kernels are the same axis: a convolution that allows one place for them
/// decides for depthwise ones, too.
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
