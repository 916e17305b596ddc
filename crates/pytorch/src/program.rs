//! The parts of a PyTorch program: modules with their tensors, and statements over values.

use ckpt_engine::mapping::Relation;
use ckpt_engine::recipe::AxisStep;
use std::collections::HashSet;

/// A module, or tensors that belong together.
#[derive(Clone, Debug)]
pub(super) struct Module {
    /// The layer's name in the source.
    pub(super) layer: String,
    /// The expression that makes it, such as `nn.Conv2d(1, 8, kernel_size=3)`.
    pub(super) made: Made,
    pub(super) weights: Vec<Weight>,
    /// Parameters that the module would have, and this one has not.
    pub(super) missing: Vec<&'static str>,
}

/// How a module is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// By this call.
    Call(String),
    /// As a dictionary of parameters with these names and shapes.
    Parameters(Vec<(String, Vec<u64>)>),
}

/// Tensors of a module, and how they are made of those of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) sources: Vec<String>,
    /// Names within the module.
    pub(super) targets: Vec<String>,
    pub(super) relation: Relation,
    pub(super) steps: Vec<AxisStep>,
}

impl Weight {
    /// One tensor of one.
    pub(super) fn one(source: &str, target: &str, steps: Vec<AxisStep>) -> Self {
        Weight {
            sources: vec![source.to_owned()],
            targets: vec![target.to_owned()],
            relation: Relation::One,
            steps,
        }
    }
}

/// The number of a value of the program.
pub(super) type ValueId = usize;

/// A part of a statement's text.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    /// The variable that holds a value.
    Value(ValueId),
    /// A module, such as `self.conv1`.
    Module(usize),
}

/// One line of `forward`.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// What is assigned: text and the values that get a variable here.
    pub(super) target: Vec<Piece>,
    pub(super) pieces: Vec<Piece>,
    /// Shown behind the statement.
    pub(super) comment: Option<&'static str>,
    /// The module that does the same, for programs of modules alone: how it is made, and its only input.
    pub(super) module: Option<(String, ValueId)>,
}

impl Statement {
    /// The values that the statement reads.
    pub(super) fn reads(&self) -> impl Iterator<Item = ValueId> {
        values(&self.pieces)
    }
}

fn values(pieces: &[Piece]) -> impl Iterator<Item = ValueId> {
    pieces.iter().filter_map(|piece| if let Piece::Value(id) = piece { Some(*id) } else { None })
}

/// Modules and statements, from the inputs of a graph to its outputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) modules: Vec<Module>,
    pub(super) statements: Vec<Statement>,
    /// Names for the variables of values: only hints.
    pub(super) hints: Vec<String>,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<ValueId>,
    /// Tensors of numbers that the program states itself.
    pub(super) constants: Vec<Constant>,
    /// Whether a padding depends on the size of what is padded.
    pub(super) pads_same: bool,
}

/// An input of the program.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) value: ValueId,
    /// Name and shape, for people.
    pub(super) name: String,
    pub(super) shape: Vec<Option<u64>>,
}

/// Numbers that the program states itself, under a name of their own.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    pub(super) layer: String,
    pub(super) made: String,
    pub(super) value: ValueId,
}

impl Program {
    /// The values that a statement reads, or that are results.
    pub(super) fn read(&self) -> HashSet<ValueId> {
        self.statements.iter().flat_map(Statement::reads).chain(self.outputs.iter().copied()).collect()
    }

    /// A new value.
    pub(super) fn value(&mut self, hint: &str) -> ValueId {
        self.hints.push(hint.to_owned());
        self.hints.len() - 1
    }

    /// Adds a statement that makes one value.
    pub(super) fn assign(&mut self, hint: &str, pieces: Vec<Piece>) -> ValueId {
        let value = self.value(hint);
        let target = vec![Piece::Value(value)];
        self.statements.push(Statement { target, pieces, comment: None, module: None });
        value
    }

    /// Adds a statement that a module could do, too.
    pub(super) fn assign_as(
        &mut self,
        hint: &str,
        input: ValueId,
        pieces: Vec<Piece>,
        module: String,
    ) -> ValueId {
        let value = self.assign(hint, pieces);
        if let Some(statement) = self.statements.last_mut() {
            statement.module = Some((module, input));
        }
        value
    }

    /// Adds a module, or finds the same: a layer that is used again.
    pub(super) fn module(&mut self, module: Module) -> usize {
        let same = |own: &Module| {
            !module.weights.is_empty() && own.made == module.made && own.weights == module.weights
        };
        self.modules.iter().position(same).unwrap_or_else(|| {
            self.modules.push(module);
            self.modules.len() - 1
        })
    }

    /// Adds a statement that calls a module on a value.
    pub(super) fn call(&mut self, hint: &str, module: usize, input: ValueId) -> ValueId {
        let pieces = vec![Piece::Module(module), text("("), Piece::Value(input), text(")")];
        self.assign(hint, pieces)
    }
}

/// A piece of text.
pub(super) fn text(text: impl Into<String>) -> Piece {
    Piece::Text(text.into())
}

/// The pieces of a text, in which `{}` stands for the values in order.
pub(super) fn pieces(format: &str, values: &[ValueId]) -> Vec<Piece> {
    let mut values = values.iter();
    let mut made = Vec::new();
    for (number, part) in format.split("{}").enumerate() {
        if number > 0 {
            made.extend(values.next().map(|value| Piece::Value(*value)));
        }
        if !part.is_empty() {
            made.push(text(part));
        }
    }
    made
}
