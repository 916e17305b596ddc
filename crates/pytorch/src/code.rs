//! Writes a program as a Python module.

mod statements;

use super::names::{Names, class, string};
use super::program::{Made, Module, Piece, Program};
use super::templates::Paths;
use statements::Variables;
use std::fmt::Write;

/// The text of `model.py`, for a model of this name, whose modules have this dtype instead of f32.
pub(super) fn text(program: &Program, name: &str, paths: &Paths, dtype: Option<&str>) -> String {
    let class = class(name);
    let body = body(program, paths);
    let mut text = String::new();
    let _ = writeln!(text, "{}", docstring(program, &class));
    let _ = writeln!(text, "\nimport torch");
    if body.contains("F.") || program.pads_same {
        let _ = writeln!(text, "import torch.nn.functional as F");
    }
    let _ = writeln!(text, "from torch import nn");
    if program.pads_same {
        text += PAD_SAME;
    }
    let base = if paths.is_sequential() { "nn.Sequential" } else { "nn.Module" };
    let _ = write!(text, "\n\nclass {class}({base}):\n{}{body}", constructor(program, paths, dtype));
    text
}

const PAD_SAME: &str = r#"

def pad_same(x, reach, stride, lower=False, value=0.0):
    """Pads the sides of x as Keras does with padding="same"; which depends on their sizes."""
    pads = []
    for size, reach, stride in reversed(list(zip(x.shape[2:], reach, stride))):
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        small, large = total // 2, total - total // 2
        pads += [large, small] if lower else [small, large]
    return F.pad(x, pads, value=value)
"#;

fn docstring(program: &Program, class: &str) -> String {
    let shape = |shape: &[Option<u64>]| {
        let lens = shape.iter().enumerate().map(|(axis, len)| match (axis, len) {
            (_, Some(len)) => len.to_string(),
            (0, None) => "N".to_owned(),
            (_, None) => "?".to_owned(),
        });
        format!("[{}]", lens.collect::<Vec<_>>().join(", "))
    };
    let mut names = Names::default();
    let mut text = format!(
        "\"\"\"{class}, converted from Keras by ckpt.\n\nTakes the values that the Keras model takes, "
    );
    text += "with their axes in the same order:\n\n";
    for input in &program.inputs {
        let name = if program.inputs.len() == 1 { "x".to_owned() } else { names.unique(&input.name) };
        let _ = writeln!(text, "    {name}: {}", shape(&input.shape));
    }
    let _ = write!(
        text,
        "\nLoad the weights with {class}().load_state_dict(…), and call .eval() before predicting.\n\"\"\""
    );
    text.replace('…', "...")
}

/// `__init__`, up to the blank line before `forward`.
fn constructor(program: &Program, paths: &Paths, dtype: Option<&str>) -> String {
    let mut text = String::from("    def __init__(self):\n");
    match paths.sequence() {
        Some(sequence) => {
            text += "        super().__init__(\n";
            for entry in sequence {
                let made = match entry {
                    super::templates::Entry::Module(number) => program.modules.get(*number).map(made),
                    super::templates::Entry::Function(made) => Some(made.clone()),
                };
                let _ = writeln!(text, "            {},", made.unwrap_or_default());
            }
            text += "        )\n";
        }
        None => {
            text += "        super().__init__()\n";
            for (number, module) in program.modules.iter().enumerate() {
                let _ = writeln!(text, "        {} = {}", paths.expression(number), made(module));
            }
        }
    }
    for (number, module) in program.modules.iter().enumerate() {
        for missing in &module.missing {
            let _ = writeln!(text, "        {}.{missing} = None", paths.expression(number));
        }
    }
    let read = program.read();
    for (constant, name) in
        program.constants.iter().zip(paths.constants()).filter(|(own, _)| read.contains(&own.value))
    {
        let _ = writeln!(
            text,
            "        self.register_buffer({}, {}, persistent=False)",
            string(name),
            constant.made
        );
    }
    if let Some(dtype) = dtype {
        let _ = writeln!(text, "        self.to({dtype})");
    }
    text
}

fn made(module: &Module) -> String {
    match &module.made {
        Made::Call(call) => call.clone(),
        Made::Parameters(entries) => {
            let entry = |(name, shape): &(String, Vec<u64>)| {
                let lens: Vec<String> = shape.iter().map(u64::to_string).collect();
                format!("{}: torch.zeros([{}])", string(name), lens.join(", "))
            };
            format!("nn.ParameterDict({{{}}})", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// `forward`, with the blank line before it; empty if `nn.Sequential` has it.
fn body(program: &Program, paths: &Paths) -> String {
    if paths.is_plain_sequence(program) {
        return String::new();
    }
    let mut variables = Variables::new(program, paths);
    let arguments: Vec<String> =
        program.inputs.iter().map(|input| variables.argument(program, input)).collect();
    let mut text = format!("\n    def forward(self, {}):\n", arguments.join(", "));
    let statements = statements::joined(program, paths);
    for (number, statement) in statements.iter().enumerate() {
        let value = variables.written(&statement.pieces);
        let target = variables.target(statement, number);
        let comment = statement.comment.map(|comment| format!("  # {comment}")).unwrap_or_default();
        let _ = writeln!(text, "        {target} = {value}{comment}");
    }
    let results: Vec<String> =
        program.outputs.iter().map(|output| variables.written(&[Piece::Value(*output)])).collect();
    let _ = writeln!(text, "        return {}", results.join(", "));
    text
}
