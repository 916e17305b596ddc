//! Parses a program. Blocks within operations are parsed in their turn, and not by recursion.

use super::{Argument, Block, Data, Function, Immediate, Named, Operation, Program, Type, Value};
use crate::read::parser::Parser;
use ckpt_api::{Error, Limit, Result};
use ckpt_containers::protobuf::{Field, Value as Wired};
use std::collections::VecDeque;
use std::ops::Range;

/// Levels of blocks within operations that a program may have.
const MOST_LEVELS: usize = 64;

/// Parses the program in this range.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a message that is none of the format; [`ckpt_api::Kind::Limit`].
pub(in crate::read) fn parse(parser: &mut Parser<'_>, range: &Range<u64>) -> Result<Program> {
    let mut program = ProgramParser { parser, blocks: Vec::new(), open: VecDeque::new() };
    let mut functions = Vec::new();
    program.parser.enter(range)?;
    while let Some(field) = program.parser.next(range.end)? {
        if field.number == 2 {
            functions.push(program.function(&field)?);
        }
        program.parser.skip(&field)?;
    }
    while let Some((number, range, level)) = program.open.pop_front() {
        let block = program.block(&range, level)?;
        if let Some(place) = program.blocks.get_mut(number) {
            *place = block;
        }
    }
    Ok(Program { functions, blocks: program.blocks })
}

struct ProgramParser<'p, 'a> {
    parser: &'p mut Parser<'a>,
    blocks: Vec<Block>,
    /// Blocks that are not parsed yet: their number, where they are, and within how many others.
    open: VecDeque<(usize, Range<u64>, usize)>,
}

impl ProgramParser<'_, '_> {
    /// An entry of the map of functions.
    fn function(&mut self, entry: &Field) -> Result<Function> {
        let end = self.parser.range(entry)?.end;
        let (mut function, mut specializations) = (Function::default(), Vec::new());
        while let Some(field) = self.parser.next(end)? {
            match field.number {
                1 => function.name = self.parser.text(&field)?,
                2 => {
                    let end = self.parser.range(&field)?.end;
                    while let Some(field) = self.parser.next(end)? {
                        match field.number {
                            1 => function.inputs.push(self.named(&field)?),
                            2 => function.opset = self.parser.text(&field)?,
                            3 => specializations.push(self.specialization(&field)?),
                            _ => {}
                        }
                        self.parser.skip(&field)?;
                    }
                }
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        let own = specializations.iter().position(|(opset, _)| *opset == function.opset).unwrap_or(0);
        if own < specializations.len() {
            function.block = self.later(specializations.swap_remove(own).1, 0)?;
        }
        Ok(function)
    }

    /// A set of operators, and where its block is.
    fn specialization(&mut self, entry: &Field) -> Result<(String, Range<u64>)> {
        let end = self.parser.range(entry)?.end;
        let (mut opset, mut block) = (String::new(), end..end);
        while let Some(field) = self.parser.next(end)? {
            match field.number {
                1 => opset = self.parser.text(&field)?,
                2 => block = self.parser.range(&field)?,
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        Ok((opset, block))
    }

    /// Gives a block that is parsed later a number.
    fn later(&mut self, range: Range<u64>, level: usize) -> Result<Option<usize>> {
        if level >= MOST_LEVELS {
            return Err(Error::corrupt("blocks nest too deep in the operations of blocks")
                .offset(range.start)
                .field("blocks")
                .found(format!("more than {MOST_LEVELS} levels"))
                .expected(format!("at most {MOST_LEVELS} levels")));
        }
        let number = self.blocks.len();
        self.blocks.push(Block::default());
        self.open.push_back((number, range, level));
        Ok(Some(number))
    }

    fn block(&mut self, range: &Range<u64>, level: usize) -> Result<Block> {
        let mut block = Block::default();
        self.parser.enter(range)?;
        while let Some(field) = self.parser.next(range.end)? {
            match field.number {
                1 => block.inputs.push(self.named(&field)?),
                2 => block.outputs.push(self.parser.text(&field)?),
                3 => {
                    self.parser.count_node()?;
                    block.operations.push(self.operation(&field, level)?);
                }
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        Ok(block)
    }

    fn operation(&mut self, field: &Field, level: usize) -> Result<Operation> {
        let end = self.parser.range(field)?.end;
        let mut operation = Operation { at: field.span.start, ..Operation::default() };
        while let Some(field) = self.parser.next(end)? {
            match field.number {
                1 => operation.op = self.parser.text(&field)?,
                2 => operation.inputs.extend([self.input(&field)?]),
                3 => operation.outputs.push(self.named(&field)?),
                4 => {
                    let range = self.parser.range(&field)?;
                    operation.blocks.extend(self.later(range, level.saturating_add(1))?);
                }
                5 => operation.attributes.extend([self.attribute(&field)?]),
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        Ok(operation)
    }

    fn input(&mut self, entry: &Field) -> Result<(String, Vec<Argument>)> {
        let end = self.parser.range(entry)?.end;
        let (mut name, mut arguments) = (String::new(), Vec::new());
        while let Some(field) = self.parser.next(end)? {
            match field.number {
                1 => name = self.parser.text(&field)?,
                2 => {
                    let end = self.parser.range(&field)?.end;
                    while let Some(field) = self.parser.next(end)? {
                        if field.number == 1 {
                            self.parser.count_node()?;
                            arguments.extend(self.binding(&field)?);
                        }
                        self.parser.skip(&field)?;
                    }
                }
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        Ok((name, arguments))
    }

    fn binding(&mut self, field: &Field) -> Result<Option<Argument>> {
        let end = self.parser.range(field)?.end;
        let mut argument = None;
        while let Some(field) = self.parser.next(end)? {
            match field.number {
                1 => argument = Some(Argument::Name(self.parser.text(&field)?)),
                2 => argument = Some(Argument::Value(self.value(&field)?)),
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        Ok(argument)
    }

    fn attribute(&mut self, entry: &Field) -> Result<(String, Value)> {
        let end = self.parser.range(entry)?.end;
        let (mut name, mut value) = (String::new(), Value::default());
        while let Some(field) = self.parser.next(end)? {
            match field.number {
                1 => name = self.parser.text(&field)?,
                2 => value = self.value(&field)?,
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        Ok((name, value))
    }

    fn named(&mut self, field: &Field) -> Result<Named> {
        let end = self.parser.range(field)?.end;
        let mut named = Named::default();
        while let Some(field) = self.parser.next(end)? {
            match field.number {
                1 => named.name = self.parser.text(&field)?,
                2 => named.ty = self.ty(&field)?,
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        Ok(named)
    }

    fn ty(&mut self, field: &Field) -> Result<Type> {
        let end = self.parser.range(field)?.end;
        let mut ty = Type::default();
        while let Some(field) = self.parser.next(end)? {
            if field.number == 1 {
                let end = self.parser.range(&field)?.end;
                while let Some(field) = self.parser.next(end)? {
                    match field.number {
                        1 => ty.number = self.parser.unsigned(&field)?,
                        3 => {
                            let len = self.dimension(&field)?;
                            ty.lens.push(len);
                            self.parser.limits.check(Limit::Rank, ty.lens.len() as u64)?;
                        }
                        _ => {}
                    }
                    self.parser.skip(&field)?;
                }
            }
            self.parser.skip(&field)?;
        }
        Ok(ty)
    }

    fn dimension(&mut self, field: &Field) -> Result<Option<u64>> {
        let end = self.parser.range(field)?.end;
        let mut len = None;
        while let Some(field) = self.parser.next(end)? {
            if field.number == 1 {
                // A size of 0 is left out.
                len = Some(0);
                let end = self.parser.range(&field)?.end;
                while let Some(field) = self.parser.next(end)? {
                    if field.number == 1 {
                        len = Some(self.parser.unsigned(&field)?);
                    }
                    self.parser.skip(&field)?;
                }
            }
            self.parser.skip(&field)?;
        }
        Ok(len)
    }

    fn value(&mut self, field: &Field) -> Result<Value> {
        let end = self.parser.range(field)?.end;
        let mut value = Value { at: field.span.start, ..Value::default() };
        while let Some(field) = self.parser.next(end)? {
            match field.number {
                2 => value.ty = self.ty(&field)?,
                3 => value.data = self.immediate(&field)?,
                5 => value.data = self.blob(&field)?,
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        Ok(value)
    }

    fn blob(&mut self, field: &Field) -> Result<Data> {
        let end = self.parser.range(field)?.end;
        let (mut file, mut offset) = (String::new(), 0);
        while let Some(field) = self.parser.next(end)? {
            match field.number {
                1 => file = self.parser.text(&field)?,
                2 => offset = self.parser.unsigned(&field)?,
                _ => {}
            }
            self.parser.skip(&field)?;
        }
        Ok(Data::Blob { file, offset })
    }

    fn immediate(&mut self, field: &Field) -> Result<Data> {
        let end = self.parser.range(field)?.end;
        let mut data = Data::None;
        while let Some(field) = self.parser.next(end)? {
            data = match field.number {
                1 => self.tensor(&field)?,
                _ => Data::Other,
            };
            self.parser.skip(&field)?;
        }
        Ok(data)
    }

    fn tensor(&mut self, field: &Field) -> Result<Data> {
        let end = self.parser.range(field)?.end;
        let mut data = Data::None;
        while let Some(kind) = self.parser.next(end)? {
            let range = self.parser.range(&kind)?;
            data = match kind.number {
                4 => Data::Texts(self.texts(&range)?),
                1..=7 => Data::Immediate(self.numbers(&kind, &range)?),
                _ => Data::Other,
            };
            self.parser.skip(&kind)?;
        }
        Ok(data)
    }

    fn texts(&mut self, range: &Range<u64>) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        while let Some(field) = self.parser.next(range.end)? {
            if field.number == 1 {
                self.parser.count_node()?;
                texts.push(self.parser.text(&field)?);
            }
            self.parser.skip(&field)?;
        }
        Ok(texts)
    }

    /// The numbers of a message with one repeated field: a packed one, or side by side.
    fn numbers(&mut self, kind: &Field, range: &Range<u64>) -> Result<Immediate> {
        let mut numbers = Immediate { field: kind.number, tag_bytes: 0, range: range.start..range.start };
        let mut is_first = true;
        while let Some(field) = self.parser.next(range.end)? {
            if field.number == 1 {
                let (tag_bytes, own) = match &field.value {
                    Wired::Bytes(own) => (0, own.clone()),
                    _ => (1, field.span.clone()),
                };
                let follows = tag_bytes == 1 && numbers.tag_bytes == 1 && numbers.range.end == own.start;
                if is_first {
                    (numbers.tag_bytes, numbers.range) = (tag_bytes, own.clone());
                } else if follows {
                    numbers.range.end = own.end;
                } else if !own.is_empty() {
                    return Err(Error::unsupported("the numbers of a value are in several places")
                        .offset(field.span.start)
                        .field("immediateValue")
                        .found("a second list of numbers")
                        .expected("one"));
                }
                is_first = false;
            }
            self.parser.skip(&field)?;
        }
        Ok(numbers)
    }
}
