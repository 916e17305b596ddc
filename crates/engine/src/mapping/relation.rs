//! How many tensors a rule takes and makes.

use crate::recipe::{AxisStep, Dequantize, Division, Join, PartOf, Parts, Piece, Place, Recipe, Target};

/// One tensor to one; or a split, a merge, a stack or a tie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// One source, one target.
    One,
    /// One source, several targets: its parts along an axis, equal without `sizes`.
    Split {
        /// The axis.
        axis: usize,
        /// The lengths of the parts on it.
        sizes: Option<Vec<u64>>,
    },
    /// Several sources, one target: their concatenation along an axis.
    Merge {
        /// The axis.
        axis: usize,
        /// The lengths of the sources on it, if a mapping states them.
        sizes: Option<Vec<u64>>,
    },
    /// As many sources as a stack has elements, one target: side by side along a new axis.
    Stack(Stack),
    /// One source, as many targets as its axis is long.
    Unstack(Stack),
    /// Several names of one tensor, on either side.
    Tie,
    /// Quantized elements and their scales to numbers.
    Dequantize(Dequantize),
    /// One source, several targets whose sum it is: the first is the source, the others are zeros.
    Terms,
    /// Several sources, one target: their sum.
    Sum,
    /// Several sources, several targets that are assembled of them. Only mappings that are made in code have this.
    Assemble(Assembly),
    /// The inverse: the parts of each source, added up.
    Disassemble(Assembly),
}

/// Tensors that are assembled of pieces of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// The axis along which pieces are side by side.
    pub axis: usize,
    /// If the sources are stacks along their first axis, the number of elements. Each has the targets of its own, one element
    /// after the other.
    pub elements: Option<u64>,
    /// The pieces of each target of an element, at least one.
    pub targets: Vec<Vec<Piece>>,
}

impl Assembly {
    /// Returns the places of a source in the targets of an element, those that hold zeros last.
    fn places(&self, source: usize) -> Vec<Place> {
        let all = self.targets.iter().enumerate().flat_map(|(tensor, pieces)| {
            let place = move |part| Place { tensor, part, parts: pieces.len() };
            pieces.iter().enumerate().map(move |(part, piece)| (piece, place(part)))
        });
        let own = |zero: bool| {
            let own = move |(piece, _): &(&Piece, Place)| piece.source == source && piece.is_zero == zero;
            all.clone().filter(own).map(|(_, place)| place)
        };
        own(false).chain(own(true)).collect()
    }

    fn join(&self, target: usize) -> Join {
        let each = self.targets.len().max(1);
        let element = self.elements.map(|_| u64::try_from(target / each).unwrap_or(u64::MAX));
        let pieces = self.targets.get(target % each).cloned().unwrap_or_default();
        Join::Assembled { axis: self.axis, element, pieces }
    }

    fn join_back(&self, source: usize) -> Join {
        let each = self.targets.len().max(1);
        let places = self.places(source);
        Join::Disassembled { axis: self.axis, elements: self.elements, each, places }
    }
}

/// Tensors as elements of a larger one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The axis of the larger tensor.
    pub(crate) axis: usize,
    /// The capture that is the index on it.
    pub(crate) index: String,
    /// How an element is concatenated of several tensors, or split into them; `None` if it is one.
    pub(crate) parts: Option<Parts>,
}

impl Stack {
    /// Returns the number of names that an element has.
    pub(crate) fn names_of_element(&self) -> usize {
        self.parts.as_ref().map_or(1, |parts| parts.parts.max(1))
    }
}

impl Relation {
    pub(crate) fn inverse(&self) -> Self {
        match self.clone() {
            Relation::Split { axis, sizes } => Relation::Merge { axis, sizes },
            Relation::Merge { axis, sizes } => Relation::Split { axis, sizes },
            Relation::Stack(stack) => Relation::Unstack(stack),
            Relation::Unstack(stack) => Relation::Stack(stack),
            Relation::Terms => Relation::Sum,
            Relation::Sum => Relation::Terms,
            Relation::Assemble(assembly) => Relation::Disassemble(assembly),
            Relation::Disassemble(assembly) => Relation::Assemble(assembly),
            same => same,
        }
    }
}

/// What one rule, or an entry of the lookup, makes of actual names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) sources: Vec<String>,
    pub(crate) targets: Vec<String>,
    pub(crate) relation: Relation,
    pub(crate) steps: Vec<AxisStep>,
    pub(crate) division: Division,
}

impl Link {
    /// Returns the link of a tensor that is only renamed, or keeps its name.
    pub(crate) fn rename(source: &str, target: &str) -> Self {
        Link {
            sources: vec![source.to_owned()],
            targets: vec![target.to_owned()],
            relation: Relation::One,
            steps: Vec::new(),
            division: Division::default(),
        }
    }

    pub(crate) fn inverse(&self) -> Self {
        Link {
            sources: self.targets.clone(),
            targets: self.sources.clone(),
            relation: self.relation.inverse(),
            steps: inverse_steps(&self.steps),
            division: self.division.inverse(),
        }
    }

    /// Returns the name of a stack that is made, and the number of its elements.
    pub(crate) fn elements(&self) -> Option<(&str, u64)> {
        let Relation::Stack(stack) = &self.relation else { return None };
        let elements = self.sources.len() / stack.names_of_element();
        Some((self.targets.first()?, u64::try_from(elements).ok()?))
    }

    /// Returns whether one tensor is only renamed.
    pub(crate) fn is_rename(&self) -> bool {
        self.relation == Relation::One && self.steps.is_empty()
    }

    /// Returns each target with its recipe.
    pub(crate) fn recipes(&self) -> impl Iterator<Item = Target> {
        let join = |part| match &self.relation {
            Relation::One => Join::One,
            Relation::Split { axis, sizes } => {
                Join::Part { axis: *axis, part, parts: self.targets.len(), sizes: sizes.clone() }
            }
            Relation::Merge { axis, sizes } => Join::Merged { axis: *axis, sizes: sizes.clone() },
            Relation::Stack(Stack { axis, parts, .. }) => {
                Join::Stacked { axis: *axis, merged: parts.clone() }
            }
            Relation::Unstack(stack) => {
                let names = stack.names_of_element();
                let of = |of: &Parts| PartOf { part: part % names, of: of.clone() };
                let index = u64::try_from(part / names).unwrap_or(u64::MAX);
                Join::Element { axis: stack.axis, index, part: stack.parts.as_ref().map(of) }
            }
            Relation::Dequantize(how) => Join::Dequantized(how.clone()),
            Relation::Tie if self.sources.len() > 1 => Join::Tied,
            Relation::Terms if part > 0 => Join::Zeros,
            Relation::Tie | Relation::Terms => Join::One,
            Relation::Sum => Join::Sum,
            Relation::Assemble(assembly) => assembly.join(part),
            Relation::Disassemble(assembly) => assembly.join_back(part),
        };
        self.targets.iter().enumerate().map(move |(part, name)| Target {
            name: name.clone(),
            sources: self.sources.clone(),
            recipe: self.recipe(join(part), part),
        })
    }
}

impl Link {
    fn recipe(&self, join: Join, part: usize) -> Recipe {
        let mut division = self.division.clone();
        let mut steps = self.steps.clone();
        if let (Join::Part { .. }, Some(own)) = (&join, division.each.get(part)) {
            steps.clone_from(own);
            division.each.clear();
        }
        if let Join::Dequantized(Dequantize { split: Some(axis), .. }) = &join {
            let of = Parts { axis: *axis, parts: self.targets.len(), sizes: None };
            division.part = Some(PartOf { part, of });
        }
        Recipe { join, steps, division }
    }
}

/// Returns the steps that undo `steps`, last first.
pub(crate) fn inverse_steps(steps: &[AxisStep]) -> Vec<AxisStep> {
    steps.iter().rev().map(AxisStep::inverse).collect()
}
