//! Modules by hand.

use ckpt_api::{Axis, Blocks};
use ckpt_forms::{
    DecoderForm, DecoderKindForm, Description, Document, ErrorForm, FormatForm, Function, OpInputForm,
    OpParameterForm, OperatorForm, VERSION, encode,
};
use std::fmt::Write;

/// Where an answer of each function is in memory, from here on.
const ANSWERS: usize = 4096;
/// Where the program writes its messages.
const REQUEST: usize = 1 << 17;

/// A module that gives stated answers. A test makes it wrong in one way.
pub struct Wat {
    pub version: String,
    pub imports: String,
    pub memory: String,
    pub reserve: String,
    /// What `ckpt_call` does before it answers.
    pub call: String,
    /// Other fields of the module.
    pub more: String,
    answers: Vec<(Function, Vec<u8>)>,
}

impl Wat {
    pub fn new() -> Self {
        let wat = Wat {
            version: format!("(i32.const {VERSION})"),
            imports: String::new(),
            memory: "(memory (export \"memory\") 4)".to_owned(),
            reserve: format!("(i32.const {REQUEST})"),
            call: String::new(),
            more: String::new(),
            answers: Vec::new(),
        };
        wat.answering(Function::Describe, &good(description()))
    }

    /// The same with the answer of a function.
    pub fn answering(mut self, function: Function, answer: &[u8]) -> Self {
        self.answers.retain(|(other, _)| *other != function);
        self.answers.push((function, answer.to_vec()));
        self
    }

    /// The same, which does this when a function is called. The parameters are the locals 0 and 1.
    pub fn doing(mut self, function: Function, instructions: &str) -> Self {
        let number = function.number();
        let _ = write!(self.call, "(if (i32.eq (local.get 0) (i32.const {number})) (then {instructions}))");
        self
    }

    pub fn text(&self) -> String {
        let (mut data, mut places) = (String::new(), String::new());
        let mut at = ANSWERS;
        for (function, bytes) in &self.answers {
            let escaped: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
            let _ = write!(data, "(data (i32.const {at}) \"{escaped}\")");
            let place = ((at as u64) << 32) | bytes.len() as u64;
            let number = function.number();
            let _ = write!(
                places,
                "(if (i32.eq (local.get 0) (i32.const {number})) (then (return (i64.const {place}))))"
            );
            at += bytes.len();
        }
        assert!(at < REQUEST, "the answers are too long");
        let Wat { version, imports, memory, reserve, call, more, .. } = self;
        format!(
            "(module {imports} {memory} {data} {more}
               (func (export \"ckpt_version\") (result i32) {version})
               (func (export \"ckpt_reserve\") (param i32) (result i32) {reserve})
               (func $call (export \"ckpt_call\") (param i32 i32) (result i64) {call} {places} (i64.const 0)))"
        )
    }

    pub fn bytes(&self) -> Vec<u8> {
        wat::parse_str(self.text()).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// The message of a result.
pub fn good(result: impl serde::Serialize) -> Vec<u8> {
    encode(&Ok::<_, ErrorForm>(result)).unwrap()
}

pub fn description() -> Description {
    let format = FormatForm {
        id: "toy".to_owned(),
        title: "Toy format".to_owned(),
        extensions: vec!["toy".to_owned()],
        reads: vec!["all".to_owned()],
        writes: vec!["all".to_owned()],
        ..FormatForm::default()
    };
    let decoder = |name: &str, kind| DecoderForm { name: name.to_owned(), kind, memory: 0 };
    Description {
        version: "0.1.0".to_owned(),
        format,
        blocks: vec![Document(Blocks::encoded("toy.q", 2, 3, |_, _| (), |_, _| Ok(())))],
        decoders: vec![
            decoder("toy-whole", DecoderKindForm::Whole),
            decoder("toy-stream", DecoderKindForm::Stream),
        ],
        operators: Vec::new(),
    }
}

/// An operator of one input and one tensor.
pub fn operator() -> OperatorForm {
    let slope = OpParameterForm {
        role: "slope".to_owned(),
        axes: vec![Document(Axis::Out)],
        ..OpParameterForm::default()
    };
    OperatorForm {
        name: "toy.Op".to_owned(),
        inputs: vec![OpInputForm::default()],
        parameters: vec![slope],
        attributes: vec!["power".to_owned()],
    }
}
