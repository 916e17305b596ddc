//! Messages from a codec outside the program, such as a plugin: the first byte says which function answers.

use crate::check::small_limits;
use ckpt_api::Checkpoint;
use ckpt_forms::{
    CheckpointForm, ContentsForm, Description, ErrorForm, LiteralForm, MatchForm, OutputLayoutForm, decode,
    encode,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) fn fuzz(data: &[u8]) {
    let Some((function, message)) = data.split_first() else { return };
    match function % 5 {
        0 => {
            let described = answer(message, |form: &Description| form.check().is_ok());
            described.into_iter().for_each(|form| assert!(form.check().is_ok()));
        }
        1 => drop(answer(message, |_: &MatchForm| true)),
        2 => contents(message),
        3 => layout(message),
        _ => drop(answer(message, |_: &Vec<LiteralForm>| true)),
    }
}

/// What a message says, if it is a result that is `good`: then it is so again after it was sent back.
fn answer<T: DeserializeOwned + Serialize>(message: &[u8], good: impl Fn(&T) -> bool) -> Option<T> {
    let answer: Result<T, ErrorForm> = decode(message).ok()?;
    let form = answer.map_err(ckpt_api::Error::from).ok().filter(&good)?;
    let sent = encode(&form).expect("what was decoded can be encoded");
    let again: T = decode(&sent).expect("what was encoded can be decoded");
    assert!(good(&again), "a message has another meaning when it is sent back");
    assert!(encode(&again).is_ok_and(|twice| twice == sent));
    Some(form)
}

fn contents(message: &[u8]) {
    let Some(form) = answer(message, |_: &ContentsForm| true) else { return };
    let limits = small_limits();
    let Ok(contents) = form.into_contents(&limits) else { return };
    if contents.check(&limits).is_err() {
        return;
    }
    let sent = encode(&ContentsForm::from(contents.clone())).expect("contents can be encoded");
    let form: ContentsForm = decode(&sent).expect("and decoded");
    let again = form.into_contents(&limits).expect("and converted");
    // Numbers that are no numbers differ from themselves.
    assert_eq!(format!("{contents:?}"), format!("{again:?}"));
    // What is written of them crosses, too.
    let checkpoint = encode(&CheckpointForm::from(contents.checkpoint)).expect("a checkpoint can be encoded");
    let checkpoint: CheckpointForm = decode(&checkpoint).expect("and decoded");
    checkpoint.into_checkpoint(&limits).expect("and converted");
}

fn layout(message: &[u8]) {
    let Some(form) = answer(message, |_: &OutputLayoutForm| true) else { return };
    let Ok(layout) = form.into_layout(&small_limits()) else { return };
    // There is no tensor: the check finds what it places.
    let _ = layout.check(&Checkpoint::default());
    let sent = encode(&OutputLayoutForm::from(layout)).expect("a layout can be encoded");
    decode::<OutputLayoutForm>(&sent).expect("and decoded");
}
