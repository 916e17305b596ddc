//! The statements of `forward`, and the variables that they use.

use crate::names::{Names, identifier};
use crate::program::{Input, Piece, Program, Statement, ValueId};
use crate::templates::Paths;
use std::collections::HashMap;

/// Names of the arguments and variables that the program does not choose.
const RESERVED: [&str; 6] = ["torch", "nn", "F", "self", "pad_same", "super"];

/// Which variable holds each value. A variable is used again as soon as nothing needs its value.
pub(super) struct Variables<'p> {
    paths: &'p Paths,
    hints: &'p [String],
    names: Names,
    arguments: Vec<String>,
    of: HashMap<ValueId, String>,
    /// The last statement that reads each value; results of the program are read after all.
    last_read: HashMap<ValueId, usize>,
}

impl<'p> Variables<'p> {
    pub(super) fn new(program: &'p Program, paths: &'p Paths) -> Self {
        let mut names = Names::default();
        RESERVED.iter().for_each(|name| names.take(name));
        let mut last_read = HashMap::new();
        for (number, statement) in joined(program, paths).iter().enumerate() {
            last_read.extend(statement.reads().map(|value| (value, number)));
        }
        last_read.extend(program.outputs.iter().map(|output| (*output, usize::MAX)));
        let constants = program.constants.iter().zip(paths.constants());
        let of: HashMap<ValueId, String> =
            constants.map(|(constant, name)| (constant.value, format!("self.{name}"))).collect();
        Variables { paths, hints: &program.hints, names, arguments: Vec::new(), of, last_read }
    }

    /// The argument of an input.
    pub(super) fn argument(&mut self, program: &Program, input: &Input) -> String {
        let hint = if program.inputs.len() == 1 { "x" } else { &input.name };
        let name = self.names.unique(&variable(hint));
        self.of.insert(input.value, name.clone());
        self.arguments.push(name.clone());
        name
    }

    /// The text of an expression.
    pub(super) fn written(&self, pieces: &[Piece]) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(value) => self.of.get(value).cloned().unwrap_or_else(|| "_".to_owned()),
            Piece::Module(number) => self.paths.expression(*number),
        };
        pieces.iter().map(piece).collect()
    }

    /// The text of what a statement assigns to: the variable of a value that it reads last, or a new one.
    pub(super) fn target(&mut self, statement: &Statement, number: usize) -> String {
        let mut free: Vec<String> = Vec::new();
        for value in statement.reads() {
            if self.last_read.get(&value) == Some(&number)
                && let Some(name) = self.of.get(&value).filter(|name| !name.starts_with("self."))
                && !free.contains(name)
            {
                free.push(name.clone());
            }
        }
        free.iter().for_each(|name| self.names.free(name));
        // The name of an argument is the one that a person would go on with.
        free.sort_by_key(|name| !self.arguments.contains(name));
        let mut free = free.into_iter();
        let mut text = String::new();
        for piece in &statement.target {
            match piece {
                Piece::Text(own) => text += own,
                Piece::Module(_) => {}
                Piece::Value(value) if !self.last_read.contains_key(value) => text.push('_'),
                Piece::Value(value) => {
                    let reused = free.find(|name| self.names.is_free(name));
                    let name = match reused {
                        Some(name) => {
                            self.names.take(&name);
                            name
                        }
                        None => {
                            let hint = self.hints.get(*value).map_or("x", String::as_str);
                            self.names.unique(&variable(hint))
                        }
                    };
                    text += &name;
                    self.of.insert(*value, name);
                }
            }
        }
        // What is not needed need not be taken apart.
        text.replace("(_, _)", "_")
    }
}

/// The statements, where a method of what the statement before returns is called on it directly, and where a module
/// does what an expression would.
pub(super) fn joined(program: &Program, paths: &Paths) -> Vec<Statement> {
    let mut reads: HashMap<ValueId, usize> = HashMap::new();
    let results = program.outputs.iter().copied();
    for value in program.statements.iter().flat_map(Statement::reads).chain(results) {
        *reads.entry(value).or_default() += 1;
    }
    let mut joined: Vec<Statement> = Vec::with_capacity(program.statements.len());
    for (number, statement) in program.statements.iter().enumerate() {
        let statement = paths.as_module(number, statement);
        match joined.last_mut().filter(|before| follows(before, &statement, &reads)) {
            Some(before) => {
                before.pieces.extend(statement.pieces.into_iter().skip(1));
                before.target = statement.target;
            }
            None => joined.push(statement),
        }
    }
    joined
}

/// Whether a statement calls a method of what the one before makes, which nothing else reads.
fn follows(before: &Statement, statement: &Statement, reads: &HashMap<ValueId, usize>) -> bool {
    let [Piece::Value(made)] = before.target[..] else { return false };
    let [Piece::Value(read), Piece::Text(call), ..] = &statement.pieces[..] else { return false };
    let is_method = call.starts_with('.') || call.starts_with('[');
    let is_call = matches!(before.pieces.first(), Some(Piece::Module(_)))
        || matches!(&before.pieces[..], [Piece::Value(_), Piece::Text(call)] if call.starts_with('.') && call.ends_with(')'));
    let ends = matches!(before.pieces.last(), Some(Piece::Text(end)) if end.ends_with(')'));
    *read == made
        && is_method
        && is_call
        && ends
        && reads.get(&made) == Some(&1)
        && before.comment.is_none()
        && statement.comment.is_none()
        && before.pieces.len() < 10
}

/// A name for an argument or variable.
fn variable(hint: &str) -> String {
    identifier(hint).to_ascii_lowercase()
}
