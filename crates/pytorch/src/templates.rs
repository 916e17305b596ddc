//! The names of modules in PyTorch: those of the layers, the numbers of `nn.Sequential`, or those of torchvision.

use super::layer_names::without_model;
use super::names::Names;
use super::program::{Piece, Program, Statement};
use ckpt_api::{Error, Result, nearest};

/// How modules are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TorchNames {
    /// After the layers: `conv2d_1.weight`.
    #[default]
    Layers,
    /// By their place in `nn.Sequential`: `3.weight`.
    Sequential,
    /// As torchvision names them, for families that it has.
    Torchvision,
}

impl TorchNames {
    const ALL: [(&'static str, TorchNames); 3] = [
        ("layers", TorchNames::Layers),
        ("sequential", TorchNames::Sequential),
        ("torchvision", TorchNames::Torchvision),
    ];

    /// Parses the value of an option.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for another name.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, names)| *names);
        found.ok_or_else(|| {
            let names = || Self::ALL.iter().map(|(name, _)| *name);
            Error::usage("no such names for PyTorch's modules")
                .found(ckpt_engine::words::quote(text))
                .expected(names().collect::<Vec<_>>().join(", "))
                .help(nearest(text, names()))
        })
    }

    /// The name of the value.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, names)| *names == self).map_or("", |(name, _)| name)
    }
}

/// An entry of `nn.Sequential`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A module with weights, by its number.
    Module(usize),
    /// What a statement does, as a module.
    Function(String),
}

/// The names of a program's modules.
pub(super) struct Paths {
    /// The name of each module before those of its tensors.
    paths: Vec<String>,
    constants: Vec<String>,
    sequence: Option<Vec<Entry>>,
    /// The entry of each statement that is a module's.
    of_statement: Vec<Option<usize>>,
}

impl Paths {
    pub(super) fn new(program: &Program, names: TorchNames, model: Option<&str>) -> Result<Self> {
        let mut taken = Names::default();
        let layers: Vec<&str> =
            program.modules.iter().map(|module| without_model(&module.layer, model)).collect();
        let mut paths =
            Paths { paths: Vec::new(), constants: Vec::new(), sequence: None, of_statement: Vec::new() };
        match names {
            TorchNames::Layers => paths.paths = layers.into_iter().map(|layer| taken.unique(layer)).collect(),
            TorchNames::Torchvision => paths.paths = super::torchvision::names(&layers)?,
            TorchNames::Sequential => paths.number(program),
        }
        paths.constants = program.constants.iter().map(|constant| taken.unique(&constant.layer)).collect();
        Ok(paths)
    }

    /// Numbers the modules in the order in which they are called.
    fn number(&mut self, program: &Program) {
        let mut sequence: Vec<Entry> = Vec::new();
        let mut places: Vec<Option<usize>> = vec![None; program.modules.len()];
        for statement in &program.statements {
            let module = statement.pieces.iter().find_map(|piece| match piece {
                Piece::Module(number) => Some(*number),
                _ => None,
            });
            let mut entry = None;
            if let Some(place) = module.and_then(|module| places.get_mut(module)) {
                if place.is_none() {
                    *place = Some(sequence.len());
                    sequence.extend(module.map(Entry::Module));
                }
            } else if let Some((made, _)) = &statement.module {
                entry = Some(sequence.len());
                sequence.push(Entry::Function(made.clone()));
            }
            self.of_statement.push(entry);
        }
        self.paths = places.into_iter().map(|place| place.unwrap_or_default().to_string()).collect();
        self.sequence = Some(sequence);
    }

    /// The name of a module before those of its tensors.
    pub(super) fn path(&self, module: usize) -> &str {
        self.paths.get(module).map_or("", String::as_str)
    }

    /// The expression of a module: `self.conv1` or `self[3]`.
    pub(super) fn expression(&self, module: usize) -> String {
        match &self.sequence {
            Some(_) => format!("self[{}]", self.path(module)),
            None => format!("self.{}", self.path(module)),
        }
    }

    /// The names of the program's constants.
    pub(super) fn constants(&self) -> &[String] {
        &self.constants
    }

    pub(super) fn is_sequential(&self) -> bool {
        self.sequence.is_some()
    }

    pub(super) fn sequence(&self) -> Option<&[Entry]> {
        self.sequence.as_deref()
    }

    /// The statement as a call of its module, if it has one.
    pub(super) fn as_module(&self, number: usize, statement: &Statement) -> Statement {
        let entry = self.of_statement.get(number).copied().flatten();
        match (entry, &statement.module) {
            (Some(entry), Some((_, input))) => Statement {
                pieces: super::program::pieces(&format!("self[{entry}]({{}})"), &[*input]),
                ..statement.clone()
            },
            _ => statement.clone(),
        }
    }

    /// Whether the program is nothing but its modules, one after the other.
    pub(super) fn is_plain_sequence(&self, program: &Program) -> bool {
        let ([input], [output], true) = (&program.inputs[..], &program.outputs[..], self.is_sequential())
        else {
            return false;
        };
        let mut value = input.value;
        for (number, statement) in program.statements.iter().enumerate() {
            let is_function = self.of_statement.get(number).copied().flatten().is_some();
            let called = match &statement.pieces[..] {
                [Piece::Module(_), Piece::Text(open), Piece::Value(read), Piece::Text(close)]
                    if open == "(" && close == ")" =>
                {
                    Some(*read)
                }
                _ => statement.module.as_ref().filter(|_| is_function).map(|(_, input)| *input),
            };
            let [Piece::Value(made)] = statement.target[..] else { return false };
            if called != Some(value) {
                return false;
            }
            value = made;
        }
        let modules =
            program.statements.iter().filter(|statement| statement.pieces.first().is_some_and(is_module));
        value == *output && modules.count() == program.modules.len()
    }
}

fn is_module(piece: &Piece) -> bool {
    matches!(piece, Piece::Module(_))
}
