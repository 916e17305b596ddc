//! Parameters of `inference.pdmodel`: the persistable variables of a ProgramDesc.
//!
//! ```text
//! ProgramDesc { blocks 1: BlockDesc { vars 3: VarDesc { name 1, type 2: VarType { type 1, lod_tensor 3: { tensor 1 } }, persistable 3 } } }
//! ```

use crate::parameter::{Parameter, Read};
use ckpt_api::fields::{Bytes, varint};
use ckpt_api::{Limit, Limits};
use ckpt_containers::protobuf::RawField;

/// The type of a variable that is a tensor.
const TENSOR: u64 = 7;

/// Reads the names and shapes of all parameters.
pub(crate) fn parameters(bytes: &[u8], limits: &Limits) -> Read<Vec<Parameter>> {
    let mut parameters = Vec::new();
    for block in messages(bytes, 1)? {
        for variable in messages(block, 3)? {
            limits.check(Limit::Tensors, parameters.len() as u64).map_err(|error| error.to_string())?;
            parameters.extend(parameter(variable)?);
        }
    }
    match parameters.is_empty() {
        true => Err("it has no parameters".to_owned()),
        false => Ok(parameters),
    }
}

fn parameter(variable: &[u8]) -> Read<Option<Parameter>> {
    let is_persistable = integers(variable, 3)?.last() == Some(&1);
    let Some(kind) = messages(variable, 2)?.pop().filter(|_| is_persistable) else { return Ok(None) };
    if integers(kind, 1)?.last() != Some(&TENSOR) {
        return Ok(None);
    }
    let name = messages(variable, 1)?.pop().and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or("a variable has no name")?.to_owned();
    let shape = match messages(kind, 3)?.pop() {
        Some(tensor) => match messages(tensor, 1)?.pop() {
            Some(description) => Some(integers(description, 2)?),
            None => None,
        },
        None => None,
    };
    let shape = shape.filter(|shape| shape.iter().all(|len| i64::try_from(*len).is_ok()));
    Ok(Some(Parameter { name, shape }))
}

/// The values of a field that are messages, texts or bytes.
fn messages(message: &[u8], number: u32) -> Read<Vec<&[u8]>> {
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let field = RawField::take(&mut rest).ok_or("it is no program")?;
        found.extend(field.delimited(number));
    }
    Ok(found)
}

/// The integers of a field, packed or one by one.
fn integers(message: &[u8], number: u32) -> Read<Vec<u64>> {
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let field = RawField::take(&mut rest).ok_or("it is no program")?;
        if field.number != u64::from(number) {
            continue;
        }
        let mut input = Bytes::new(field.payload.unwrap_or(field.bytes), 0);
        let mut next = || input.parse(varint).map_err(|_| "it has a number that is cut".to_owned());
        if field.payload.is_none() {
            // The key.
            next()?;
            found.push(next()?);
            continue;
        }
        while input.remaining() > 0 {
            found.push(input.parse(varint).map_err(|_| "it has a number that is cut".to_owned())?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_containers::protobuf::{put_int, put_varint};

    fn message(number: u64, bytes: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        put_varint(&mut all, number << 3 | 2);
        put_varint(&mut all, bytes.len() as u64);
        all.extend_from_slice(bytes);
        all
    }

    fn variable(name: &str, kind: i64, is_persistable: bool) -> Vec<u8> {
        let mut description = Vec::new();
        put_int(&mut description, 1, 5);
        put_int(&mut description, 2, 4);
        put_int(&mut description, 2, 3);
        let mut own = Vec::new();
        put_int(&mut own, 1, kind);
        own.extend(message(3, &message(1, &description)));
        let mut all = [message(1, name.as_bytes()), message(2, &own)].concat();
        put_int(&mut all, 3, is_persistable.into());
        message(3, &all)
    }

    #[test]
    fn persistable_tensors_are_parameters() {
        let all = [variable("w", 7, true), variable("feed", 9, true), variable("x", 7, false)].concat();
        let found = parameters(&message(1, &all), &Limits::default()).unwrap();
        assert_eq!(found, [Parameter { name: "w".to_owned(), shape: Some(vec![4, 3]) }]);
        assert!(parameters(&message(1, &variable("x", 7, false)), &Limits::default()).is_err());
        assert!(parameters(b"\xff\xff", &Limits::default()).is_err());
    }
}
