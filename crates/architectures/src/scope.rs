//! What expressions refer to: tensors, the configuration, and variables.

use super::expression::{Expression, Item, Piece, Text};
use super::lexer::Sign;
use super::tensors::Tensors;
use super::value::Value;
use ckpt_api::{Error, Result, nearest};
use ckpt_engine::source::Configuration;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Most bytes that a text may come to.
const MAX_TEXT: usize = 4096;

/// The tensors, the configuration, and the variables of all levels, the outermost first.
pub(super) struct Scope<'a> {
    pub(super) tensors: &'a Tensors<'a>,
    pub(super) configuration: Option<&'a Configuration>,
    pub(super) levels: Vec<BTreeMap<String, Value>>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(tensors: &'a Tensors<'a>) -> Self {
        Scope { tensors, configuration: None, levels: vec![BTreeMap::new()] }
    }

    /// Sets a variable of the outermost level.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        if let Some(level) = self.levels.first_mut() {
            level.insert(name.to_owned(), value);
        }
    }

    /// The value of the innermost variable of this name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if none is set.
    pub(super) fn variable(&self, name: &str) -> Result<Value> {
        let found = self.levels.iter().rev().find_map(|level| level.get(name));
        found.cloned().ok_or_else(|| {
            let known = self.levels.iter().flat_map(BTreeMap::keys).map(String::as_str);
            Error::usage("the architecture refers to a variable that is not set")
                .found(format!("'{name}'"))
                .help(nearest(name, known))
        })
    }

    /// Evaluates a text.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for expressions that do not fit.
    pub(super) fn text(&self, text: &Text) -> Result<String> {
        let mut made = String::new();
        for piece in text.pieces() {
            match piece {
                Piece::Literal(literal) => made.push_str(literal),
                Piece::Expression(expression) => made.push_str(&self.evaluate(expression)?.to_string()),
            }
            if made.len() > MAX_TEXT {
                return Err(Error::limit("a text of the architecture is too long")
                    .expected(format!("at most {MAX_TEXT} bytes")));
            }
        }
        Ok(made)
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for tensors, variables and types that do not fit.
    pub(super) fn evaluate(&self, expression: &Expression) -> Result<Value> {
        // An error counts only if its value is used: `has(x) and dim(x, 0) == 2`.
        let mut stack: Vec<Result<Value>> = Vec::new();
        let missing = || Error::defect("an expression lacks an operand");
        for item in expression.items() {
            let value = match item {
                Item::Value(value) => Ok(value.clone()),
                Item::Text(text) => self.text(text).map(Value::Text),
                Item::Variable(name) => self.variable(name),
                Item::Unary(sign) => unary(*sign, stack.pop().ok_or_else(missing)?),
                Item::Binary(sign) => {
                    let (b, a) = (stack.pop().ok_or_else(missing)?, stack.pop().ok_or_else(missing)?);
                    binary(*sign, a, b)
                }
                Item::Call(function) => {
                    let begin = stack.len().checked_sub(function.arity()).ok_or_else(missing)?;
                    function.call(stack.split_off(begin), self.tensors, self.configuration)
                }
            };
            stack.push(value);
        }
        let in_expression = |error: Error| match error.context().field {
            None => error.field(format!("expression '{}'", expression.source())),
            Some(_) => error,
        };
        stack.pop().ok_or_else(missing)?.map_err(in_expression)
    }
}

fn unary(sign: Sign, value: Result<Value>) -> Result<Value> {
    match (sign, value?) {
        (Sign::Not, value) => Ok(Value::Bool(!value.bool()?)),
        (_, Value::Int(number)) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
        (_, value) => Ok(Value::Real(-value.real()?)),
    }
}

fn binary(sign: Sign, a: Result<Value>, b: Result<Value>) -> Result<Value> {
    let a = a?;
    match sign {
        Sign::And => Ok(Value::Bool(a.bool()? && b?.bool()?)),
        Sign::Or => Ok(Value::Bool(a.bool()? || b?.bool()?)),
        Sign::Equal => is_equal(&a, &b?).map(Value::Bool),
        Sign::Unequal => is_equal(&a, &b?).map(|equal| Value::Bool(!equal)),
        Sign::Less => compare(&a, &b?, Ordering::is_lt),
        Sign::LessOrEqual => compare(&a, &b?, Ordering::is_le),
        Sign::Greater => compare(&a, &b?, Ordering::is_gt),
        Sign::GreaterOrEqual => compare(&a, &b?, Ordering::is_ge),
        _ => arithmetic(sign, a, b?),
    }
}

fn is_equal(a: &Value, b: &Value) -> Result<bool> {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => Ok(a == b),
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Int(a), Value::Int(b)) => Ok(a == b),
        // A number is no text: that makes a configuration with another type of value unequal, not wrong.
        (Value::Text(_), _) | (_, Value::Text(_)) => Ok(false),
        _ => Ok(a.real()?.partial_cmp(&b.real()?) == Some(Ordering::Equal)),
    }
}

fn compare(a: &Value, b: &Value, holds: fn(Ordering) -> bool) -> Result<Value> {
    Ok(Value::Bool(a.real()?.partial_cmp(&b.real()?).is_some_and(holds)))
}

fn arithmetic(sign: Sign, a: Value, b: Value) -> Result<Value> {
    match (sign, a, b) {
        (Sign::Divide, Value::Reals(values), b) => {
            let by = b.real()?;
            Ok(Value::Reals(values.into_iter().map(|value| value / by).collect()))
        }
        (Sign::Divide, a, b) => Ok(Value::Real(a.real()? / b.real()?)),
        (Sign::Quotient | Sign::Remainder, a, b) => quotient(sign, a.int()?, b.int()?),
        (Sign::Add, Value::Int(a), Value::Int(b)) => a.checked_add(b).map(Value::Int).ok_or_else(overflow),
        (Sign::Subtract, Value::Int(a), Value::Int(b)) => {
            a.checked_sub(b).map(Value::Int).ok_or_else(overflow)
        }
        (Sign::Multiply, Value::Int(a), Value::Int(b)) => {
            a.checked_mul(b).map(Value::Int).ok_or_else(overflow)
        }
        (Sign::Add, a, b) => Ok(Value::Real(a.real()? + b.real()?)),
        (Sign::Subtract, a, b) => Ok(Value::Real(a.real()? - b.real()?)),
        (_, a, b) => Ok(Value::Real(a.real()? * b.real()?)),
    }
}

/// A quotient must not leave a remainder: lengths are divided so.
fn quotient(sign: Sign, a: i64, b: i64) -> Result<Value> {
    let refuse = |expected: &str| {
        Error::usage("two numbers of the architecture do not fit together")
            .found(format!("{a} divided by {b}"))
            .expected(expected)
    };
    let (Some(quotient), Some(remainder)) = (a.checked_div(b), a.checked_rem(b)) else {
        return Err(refuse("another divisor than 0"));
    };
    match (sign, remainder) {
        (Sign::Remainder, remainder) => Ok(Value::Int(remainder)),
        (_, 0) => Ok(Value::Int(quotient)),
        _ => Err(refuse("no remainder")),
    }
}

fn overflow() -> Error {
    Error::limit("a number of the architecture is too large").expected("at most 63 bits")
}
