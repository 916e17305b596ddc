//! Follows rounding errors through the graphs of branches and loops.

use super::bounded::{Bounded, Fetch};
use super::propagate;
use crate::Array;
use crate::lower::Info;
use crate::program::control::count_iteration;
use crate::program::parts::{Body, Control, Program, Repeated, Step, no_such};
use crate::program::run::indices;
use ckpt_api::{Error, Result};
use std::collections::HashMap;

/// Returns bounds on the errors of all outputs of a node with graphs of its own. `inputs` are those of its step.
///
/// The bounds are those of the branch that is taken, and of as many iterations as there are: errors of numbers that a
/// condition compares are not followed.
///
/// # Errors
/// Those of the kernels, and of `load`.
pub(super) fn errors(
    control: &Control,
    step: &Step,
    inputs: &[Option<Bounded>],
    load: Fetch,
    looped: &mut u64,
) -> Result<Vec<Bounded>> {
    match control {
        Control::If(branches) => {
            let [branch, other] = &**branches;
            let chosen = if integer(inputs.first())? == 0 { other } else { branch };
            of_body(chosen, Vec::new(), inputs, load, looped)
        }
        Control::Loop(repeated) => of_loop(repeated, &step.lowered.outputs, inputs, load, looped),
    }
}

fn of_body(
    body: &Body,
    mut given: Vec<Bounded>,
    inputs: &[Option<Bounded>],
    load: Fetch,
    looped: &mut u64,
) -> Result<Vec<Bounded>> {
    for at in &body.captured {
        let around = inputs.get(*at).and_then(Option::as_ref);
        given.push(around.ok_or_else(|| no_such("input", *at))?.clone());
    }
    of_program(&body.program, given, load, looped)
}

fn of_program(program: &Program, given: Vec<Bounded>, load: Fetch, looped: &mut u64) -> Result<Vec<Bounded>> {
    let mut held: HashMap<usize, Bounded> = given.into_iter().enumerate().collect();
    for step in &program.steps {
        let mut inputs: Vec<Option<Bounded>> =
            step.inputs.iter().map(|id| id.and_then(|id| held.get(&id).cloned())).collect();
        let made = match &step.control {
            Some(control) => errors(control, step, &inputs, load, looped)?,
            None => {
                for check in &step.lowered.checks {
                    let Some(Some(input)) = inputs.get_mut(check.input) else { continue };
                    if let Some(resolved) = indices(&input.value, check)? {
                        input.value = resolved;
                    }
                }
                propagate::follow(&step.lowered, inputs, load)?
            }
        };
        held.extend(step.outputs.iter().copied().zip(made));
    }
    let output = |id: &usize| held.get(id).cloned().ok_or_else(|| no_such("value", *id));
    program.outputs.iter().map(output).collect()
}

fn of_loop(
    repeated: &Repeated,
    outputs: &[Info],
    inputs: &[Option<Bounded>],
    load: Fetch,
    looped: &mut u64,
) -> Result<Vec<Bounded>> {
    let is_given = |at: usize| inputs.get(at).is_some_and(Option::is_some);
    let most = match repeated.trips {
        Some(trips) => trips as u64,
        None if is_given(0) => u64::try_from(integer(inputs.first())?).unwrap_or(0),
        None => u64::MAX,
    };
    let mut holds = if is_given(1) { integer(inputs.get(1))? != 0 } else { true };
    let one = |value: i32| Bounded::exact(Array::I32(vec![value]));
    let mut carried: Vec<Bounded> = inputs.iter().skip(2).take(repeated.carried).flatten().cloned().collect();
    let mut stacked: Vec<Option<Bounded>> = vec![None; outputs.len().saturating_sub(repeated.carried)];
    let mut number = 0u64;
    while holds && number < most {
        count_iteration(&repeated.body, looped)?;
        let own = i32::try_from(number).map_err(|_| Error::limit("a loop takes too many iterations"))?;
        let mut given = vec![one(own), one(1)];
        given.append(&mut carried);
        let mut made = of_body(&repeated.body, given, inputs, load, looped)?.into_iter();
        holds = integer(Some(&made.next()))? != 0;
        carried = made.by_ref().take(repeated.carried).collect();
        for (part, whole) in made.zip(&mut stacked) {
            match whole {
                Some(whole) => whole.append(part),
                None => *whole = Some(part),
            }
        }
        number += 1;
    }
    carried.extend(
        stacked.into_iter().map(|whole| whole.unwrap_or_else(|| Bounded::exact(Array::F64(Vec::new())))),
    );
    Ok(carried)
}

/// The only element of an integer.
fn integer(value: Option<&Option<Bounded>>) -> Result<i32> {
    match value.and_then(Option::as_ref).map(|bounded| &bounded.value) {
        Some(Array::I32(values)) if values.len() == 1 => Ok(values.first().copied().unwrap_or(0)),
        _ => Err(Error::corrupt("a branch or a loop needs one integer")),
    }
}
