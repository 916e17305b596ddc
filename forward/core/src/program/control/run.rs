//! Runs branches and loops.

use super::lower::{count_iteration, too_many};
use crate::lower::Info;
use crate::program::device::{Device, Held};
use crate::program::parts::{Body, Control, Program, Repeated, Step, no_such};
use crate::{Array, BufferId};
use ckpt_api::{Error, Result};

/// Runs a graph within a node on the buffers of its inputs, and then those from around it.
pub(in crate::program) type RunWithin<'r> =
    &'r dyn Fn(&mut Device, &Program, &[BufferId]) -> Result<Vec<BufferId>>;

impl Control<'_> {
    /// Runs a node's graphs on the buffers of `held`, and adds its outputs to them.
    pub(in crate::program) fn run(
        &self,
        step: &Step,
        device: &mut Device,
        held: &mut Held,
        within: RunWithin,
    ) -> Result<()> {
        let operand = |id: &Option<usize>| id.map(|id| held.get(id)).transpose();
        let operands = step.inputs.iter().map(operand).collect::<Result<Vec<_>>>()?;
        let made = match self {
            Control::If(branches) => {
                let condition = operands.first().copied().flatten().ok_or_else(|| no_such("input", 0))?;
                let [branch, other] = &**branches;
                let chosen = if device.integer(condition)? == 0 { other } else { branch };
                chosen.run(device, &[], &operands, within)?
            }
            Control::Loop(repeated) => repeated.run(device, &operands, &step.lowered.outputs, within)?,
        };
        step.outputs.iter().zip(made).for_each(|(id, buffer)| held.insert(*id, buffer));
        Ok(())
    }
}

impl Repeated<'_> {
    fn run(
        &self,
        device: &mut Device,
        operands: &[Option<BufferId>],
        outputs: &[Info],
        within: RunWithin,
    ) -> Result<Vec<BufferId>> {
        let operand = |at: usize| operands.get(at).copied().flatten();
        let most = match (self.trips, operand(0)) {
            (Some(trips), _) => trips as u64,
            (None, Some(most)) => u64::try_from(device.integer(most)?).unwrap_or(0),
            (None, None) => u64::MAX,
        };
        let mut holds = match operand(1) {
            Some(condition) => device.integer(condition)? != 0,
            None => true,
        };
        let (of_carried, of_stacked) =
            outputs.split_at_checked(self.carried).ok_or_else(|| no_such("output", self.carried))?;
        let mut carried = Vec::with_capacity(self.carried);
        for (at, info) in (2..).zip(of_carried) {
            carried.push(device.copied(operand(at).ok_or_else(|| no_such("input", at))?, info)?);
        }
        let stacked = device.zeros_like(of_stacked)?;
        let mut number = 0u64;
        while holds && number < most {
            count_iteration(&self.body, &mut device.looped)?;
            let own = i32::try_from(number).map_err(|_| too_many())?;
            let mut taken = vec![device.upload(Array::I32(vec![own]))?, device.upload(Array::I32(vec![1]))?];
            taken.append(&mut carried);
            let mut made = self.body.run(device, &taken, operands, within)?.into_iter();
            taken.into_iter().for_each(|buffer| device.free(buffer));
            let condition = made.next().ok_or_else(|| no_such("output", 0))?;
            holds = device.integer(condition)? != 0;
            device.free(condition);
            carried = made.by_ref().take(self.carried).collect();
            for ((part, whole), info) in made.zip(&stacked).zip(of_stacked) {
                device.place(part, *whole, info, number)?;
                device.free(part);
            }
            number += 1;
        }
        if !stacked.is_empty() && number != most {
            return Err(Error::unsupported("a loop that stacks values ends before its number of iterations")
                .found(ckpt_api::count(number, "iteration"))
                .expected(most.to_string()));
        }
        carried.extend(stacked);
        Ok(carried)
    }
}

impl Body<'_> {
    /// Runs the graph on the buffers of its inputs and of its node's inputs; the results are buffers of their own.
    fn run(
        &self,
        device: &mut Device,
        formals: &[BufferId],
        operands: &[Option<BufferId>],
        within: RunWithin,
    ) -> Result<Vec<BufferId>> {
        let around = |at: &usize| operands.get(*at).copied().flatten().ok_or_else(|| no_such("input", *at));
        let captured = self.captured.iter().map(around).collect::<Result<Vec<_>>>()?;
        within(device, &self.program, &[formals, &captured].concat())
    }
}
