//! ML programs: functions of operations, whose constants are in the model's file or in blob files.

mod parse;

pub(super) use parse::parse;

use crate::format::Element;
use std::collections::BTreeMap;
use std::ops::Range;

/// A program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) functions: Vec<Function>,
    /// The blocks of all functions, and those within operations.
    pub(crate) blocks: Vec<Block>,
}

/// A function: the block for its set of operators.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) inputs: Vec<Named>,
    pub(crate) opset: String,
    /// Its number among the blocks of the program; `None` if it has none.
    pub(crate) block: Option<usize>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) inputs: Vec<Named>,
    pub(crate) outputs: Vec<String>,
    pub(crate) operations: Vec<Operation>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Operation {
    /// What it computes, such as `conv`.
    pub(crate) op: String,
    pub(crate) inputs: BTreeMap<String, Vec<Argument>>,
    pub(crate) outputs: Vec<Named>,
    pub(crate) attributes: BTreeMap<String, Value>,
    /// The numbers of its blocks.
    pub(crate) blocks: Vec<usize>,
    /// Offset in the model's file.
    pub(crate) at: u64,
}

/// A value with its type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) ty: Type,
}

/// The type of a tensor. Lists, tuples and states have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Type {
    /// The number of the elements' type.
    pub(crate) number: u64,
    /// The lengths of its axes, `None` for a free one.
    pub(crate) lens: Vec<Option<u64>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Argument {
    /// The result of another operation, or an input.
    Name(String),
    Value(Value),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Value {
    pub(crate) ty: Type,
    pub(crate) data: Data,
    /// Offset in the model's file.
    pub(crate) at: u64,
}

/// Where the elements of a value are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Data {
    #[default]
    None,
    /// In the model's file.
    Immediate(Immediate),
    Texts(Vec<String>),
    /// In a blob file, whose metadata begins at the offset.
    Blob {
        file: String,
        offset: u64,
    },
    /// A list, a tuple or a dictionary.
    Other,
}

/// Numbers of a field of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Immediate {
    /// The number of the field in `TensorValue`.
    pub(crate) field: u64,
    /// Bytes of the tag before each number: 0 if they are packed.
    pub(crate) tag_bytes: u8,
    pub(crate) range: Range<u64>,
}

impl Type {
    /// The elements' type; `None` for one that the format does not have.
    pub(crate) fn element(&self) -> Option<Element> {
        crate::format::element(self.number)
    }

    /// The lengths, if all are known.
    pub(crate) fn known(&self) -> Option<Vec<u64>> {
        self.lens.iter().copied().collect()
    }
}

impl Operation {
    /// The value of an attribute, or of an input that is one value.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.attributes.get(name).or_else(|| match self.argument(name)? {
            Argument::Value(value) => Some(value),
            Argument::Name(_) => None,
        })
    }

    /// An input that is one argument.
    pub(crate) fn argument(&self, name: &str) -> Option<&Argument> {
        match &self.inputs.get(name)?[..] {
            [argument] => Some(argument),
            _ => None,
        }
    }

    /// The name that it is called by beside that of its result.
    pub(crate) fn shown(&self) -> Option<&str> {
        match &self.value("name")?.data {
            Data::Texts(texts) => texts.first().map(String::as_str),
            _ => None,
        }
    }

    /// The name of its first result.
    pub(crate) fn name(&self) -> &str {
        self.outputs.first().map_or("", |output| &output.name)
    }
}

impl Program {
    /// The operations of a block and of those within, in their order.
    pub(crate) fn operations(&self, block: usize) -> Vec<&Operation> {
        let (mut found, mut open) = (Vec::new(), vec![(block, 0usize)]);
        while let Some((block, next)) = open.pop() {
            let Some(operation) = self.blocks.get(block).and_then(|own| own.operations.get(next)) else {
                continue;
            };
            found.push(operation);
            open.push((block, next.saturating_add(1)));
            open.extend(operation.blocks.iter().rev().map(|inner| (*inner, 0)));
        }
        found
    }
}
