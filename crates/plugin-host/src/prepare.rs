//! Values for a plugin that prepares tensors: it asks for them in pieces, and waits for each one.

use super::imports::{Wanted, misuse};
use super::instance::{Ended, Instance};
use ckpt_api::{Result, TensorId, Values};
use ckpt_forms::{ErrorForm, Function};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasmi::{TypedResumableCall, TypedResumableCallHostTrap, Val};

/// A call of a module, as far as it went.
enum Call {
    Finished(u64),
    /// The module wants the next values of a tensor.
    Waiting(TypedResumableCallHostTrap<u64>, Wanted),
}

impl Instance {
    /// Calls the function that prepares tensors. Values of the first so many tensors are at its disposal.
    pub(crate) fn prepare<A: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
        (values, tensors): (&dyn Values, usize),
    ) -> Result<A> {
        let answer = self.prepared(request, (values, tensors));
        self.finished(Function::Prepare, answer)
    }

    fn prepared<A: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
        (values, tensors): (&dyn Values, usize),
    ) -> Result<Result<A, ErrorForm>, Ended> {
        let function = self.prepare.ok_or_else(|| misuse("no function that prepares tensors"))?;
        let len = self.send(request)?;
        let called = function.call_resumable(&mut self.store, len);
        let mut call = self.went(called)?;
        loop {
            match call {
                Call::Finished(place) => return self.receive(place),
                Call::Waiting(waiting, wanted) if wanted.tensor < tensors as u64 => {
                    call = self.hand_out(waiting, wanted, values)?;
                }
                Call::Waiting(..) => return Err(misuse("values of a tensor that does not exist").into()),
            }
        }
    }

    /// Hands out all values of a tensor, and says that they end, or why they cannot be read.
    fn hand_out(
        &mut self,
        waiting: TypedResumableCallHostTrap<u64>,
        wanted: Wanted,
        values: &dyn Values,
    ) -> Result<Call, Ended> {
        let tensor = TensorId(usize::try_from(wanted.tensor).unwrap_or(usize::MAX));
        // `None` once the module stopped, for a reason that `stopped` has.
        let (mut waiting, mut stopped) = (Some((waiting, wanted)), None);
        let read = values.numbers(tensor, &mut |numbers| {
            let mut rest = numbers;
            while !rest.is_empty()
                && let Some((call, wanted)) = waiting.take()
            {
                let most = usize::try_from(wanted.len).unwrap_or(usize::MAX);
                let (piece, later) = rest.split_at(rest.len().min(most));
                match self.give(call, &wanted, piece) {
                    Ok(next) => waiting = Some(next),
                    Err(why) => stopped = Some(why),
                }
                rest = later;
            }
        });
        match (waiting, read) {
            (Some((call, _)), Ok(())) => self.resume(call, 0),
            (Some((call, _)), Err(error)) => {
                let len = self.store.data_mut().keep::<()>(Err(error))?;
                self.resume(call, i64::try_from(len).unwrap_or(i64::MAX).saturating_neg())
            }
            (None, _) => Err(stopped.unwrap_or_else(|| misuse("values that it did not ask for").into())),
        }
    }

    /// Gives a module the next values of the tensor that it waits for, and lets it go on until it wants more of them.
    fn give(
        &mut self,
        call: TypedResumableCallHostTrap<u64>,
        wanted: &Wanted,
        numbers: &[f32],
    ) -> Result<(TypedResumableCallHostTrap<u64>, Wanted), Ended> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let at = usize::try_from(wanted.to).unwrap_or(usize::MAX);
        let outside = |_| misuse("an address outside its memory");
        self.memory.write(&mut self.store, at, &bytes).map_err(outside)?;
        match self.resume(call, i64::try_from(numbers.len()).unwrap_or(i64::MAX))? {
            Call::Waiting(call, next) if next.tensor == wanted.tensor => Ok((call, next)),
            _ => Err(misuse("values of a tensor that it does not take to their end").into()),
        }
    }

    fn resume(&mut self, call: TypedResumableCallHostTrap<u64>, answer: i64) -> Result<Call, Ended> {
        let went = call.resume(&mut self.store, &[Val::I64(answer)]);
        self.went(went)
    }

    /// How far a call went; an error if it stopped.
    fn went(&mut self, call: Result<TypedResumableCall<u64>, wasmi::Error>) -> Result<Call, Ended> {
        match call {
            Ok(TypedResumableCall::Finished(place)) => Ok(Call::Finished(place)),
            Ok(TypedResumableCall::HostTrap(waiting)) => {
                match waiting.host_error().downcast_ref::<Wanted>().copied() {
                    Some(Wanted { len: 0, .. }) => Err(misuse("no values at a time").into()),
                    Some(wanted) => Ok(Call::Waiting(waiting, wanted)),
                    None => Err(self.stopped(waiting.host_error())),
                }
            }
            Ok(TypedResumableCall::OutOfFuel(_)) => Err(self.out_of_steps().into()),
            Err(error) => Err(self.stopped(&error)),
        }
    }
}
