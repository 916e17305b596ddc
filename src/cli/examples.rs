//! Examples in the help of each command.

use clap::Command;
use std::fmt::Write;

/// Commands, by the words that name them, and examples: what each does, and its arguments.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "convert",
        &[
            ("A TensorFlow checkpoint to safetensors", "convert model.index model.safetensors"),
            (
                "With the names and layouts of another framework",
                "convert bert.index bert.safetensors --map bert-tf-to-hf",
            ),
            (
                "In half precision, and compared with its source",
                "convert model.npz model.safetensors --dtype f16 --verify",
            ),
        ],
    ),
    (
        "plan",
        &[
            ("What a conversion would do", "plan model.index model.safetensors"),
            ("A plan for several processes", "plan model.index model.safetensors -o plan.json"),
        ],
    ),
    ("run-plan", &[("The first half of a plan", "run-plan plan.json --items 0..64 --receipts receipts")]),
    ("commit", &[("The output of a plan whose items were run", "commit plan.json receipts --verify")]),
    ("plugin add", &[("A codec that every command uses from now on", "plugin add toy.wasm")]),
    ("plugin list", &[("The plugins that you added", "plugin list")]),
    ("plugin remove", &[("A plugin that is no longer used", "plugin remove toy")]),
    (
        "plugin check",
        &[("Whether a codec keeps the rules, on a file of its format", "plugin check toy.wasm model.toy")],
    ),
    (
        "merge",
        &[
            ("A LoRA and its base as one model", "merge llama --lora adapter llama-tuned/"),
            ("Two adapters, one of them weaker", "merge llama --lora style --lora facts=0.5 llama-tuned/"),
            ("The mean of two models", "merge --method linear a=0.5 b=0.5 mean/"),
        ],
    ),
    (
        "inspect",
        &[
            ("Tensors, layers, files and metadata", "inspect model.safetensors"),
            ("A page to send to others", "inspect model.safetensors --html model.html"),
            ("What a program reads", "inspect model.safetensors --format json"),
        ],
    ),
    (
        "show",
        &[
            ("Some rows of a matrix", "show model.safetensors dense/kernel --rows 0..4"),
            ("All of it for NumPy", "show model.safetensors dense/kernel -o kernel.npy"),
        ],
    ),
    (
        "diff",
        &[
            ("Bit for bit", "diff model.index model.safetensors"),
            ("Within a tolerance", "diff before.npz after.npz --rtol 1e-3"),
        ],
    ),
    (
        "verify",
        &[
            ("Run both on the same random inputs", "verify model.index model.safetensors"),
            (
                "A source that does not store its activations",
                "verify model.index model.nn --a-set activations=relu,softmax",
            ),
            ("The files of a conversion", "verify --receipt receipt.json"),
        ],
    ),
    (
        "run",
        &[
            ("The class of each image", "run saved_model --input images.npy --divide 255 --argmax"),
            ("Outputs as arrays", "run saved_model --input images.npy -o outputs.npz"),
            ("A chess network", "run network.bin --arch network.toml --fen startpos"),
        ],
    ),
    (
        "hash",
        &[
            ("Equal for equal models in any format", "hash model.index"),
            ("Of each tensor", "hash model.npz --tensors"),
        ],
    ),
    #[cfg(feature = "remote")]
    ("clean", &[("What processes left that were killed a day ago or longer", "clean s3://bucket/run7/")]),
    ("formats", &[("All formats and their options", "formats"), ("One of them", "formats tf2")]),
    ("map list", &[("The built-in mappings", "map list")]),
    ("map show", &[("A start for one's own mapping", "map show bert-tf-to-hf -o mapping.toml")]),
    ("map check", &[("Which name becomes which", "map check mapping.toml model.index")]),
    ("map invert", &[("The way back", "map invert mapping.toml -o back.toml")]),
    ("map explain", &[("Why a name becomes another", "map explain mapping.toml encoder/layer_0/kernel")]),
    (
        "map suggest",
        &[("From two checkpoints of one model", "map suggest model.index model.safetensors -o mapping.toml")],
    ),
    (
        "completions",
        &[(
            "For the shell that runs",
            "completions bash > ~/.local/share/bash-completion/completions/PROGRAM",
        )],
    ),
    ("man", &[("All pages", "man --output man1")]),
];

/// Adds the examples of each command to its help, as commands of `program`.
pub(super) fn add(command: Command, program: &str) -> Command {
    EXAMPLES.iter().fold(command, |command, (path, examples)| {
        let words: Vec<&str> = path.split(' ').collect();
        let text = text(examples, program);
        at(command, &words, &|found| found.after_help(text.clone()))
    })
}

fn text(examples: &[(&str, &str)], program: &str) -> String {
    let mut text = "Examples:".to_owned();
    for (what, arguments) in examples {
        let _ = write!(text, "\n  # {what}\n  {program} {}", arguments.replace("PROGRAM", program));
    }
    text
}

/// The same command, with `change` made to the one below it that `words` name; unchanged without it.
fn at(command: Command, words: &[&str], change: &dyn Fn(Command) -> Command) -> Command {
    match words.split_first() {
        None => change(command),
        Some((first, _)) if command.find_subcommand(first).is_none() => command,
        Some((first, rest)) => command.mut_subcommand(first, |below| at(below, rest, change)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::{CommandFactory, Parser};

    /// The names of the commands that have none below them.
    fn leaves(command: &Command, name: &str, names: &mut Vec<String>) {
        if !command.has_subcommands() && !name.is_empty() {
            names.push(name.to_owned());
        }
        for below in command.get_subcommands() {
            leaves(below, format!("{name} {}", below.get_name()).trim(), names);
        }
    }

    #[test]
    fn every_command_has_examples_that_it_accepts() {
        let mut names = Vec::new();
        leaves(&Cli::command(), "", &mut names);
        // The program without this feature lacks these commands.
        let is_built = |path: &str| cfg!(feature = "forward") || !["run", "verify"].contains(&path);
        let built: Vec<_> = EXAMPLES.iter().filter(|(path, _)| is_built(path)).collect();
        let mut with_examples: Vec<String> = built.iter().map(|(path, _)| (*path).to_owned()).collect();
        names.sort();
        with_examples.sort();
        assert_eq!(with_examples, names);
        for (path, examples) in built {
            for (_, arguments) in *examples {
                assert!(arguments.starts_with(path), "{path}: {arguments}");
                let words = arguments.split(" > ").next().unwrap_or_default().split(' ');
                let parsed = Cli::try_parse_from(std::iter::once("ckpt").chain(words));
                assert!(parsed.is_ok(), "{arguments}: {}", parsed.err().unwrap());
            }
        }
    }

    #[test]
    fn examples_name_the_program_that_runs() {
        let text = text(&[("Complete", "completions bash > PROGRAM")], "vaults");
        assert_eq!(text, "Examples:\n  # Complete\n  vaults completions bash > vaults");
    }
}
