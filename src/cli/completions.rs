//! `ckpt completions`.

use super::plan::float_dtypes;
use super::program::Program;
use super::report::Report;
use crate::RegisteredMapping;
use ckpt_api::{Error, FormatInfo, Limit, LossKind, Result};
use ckpt_engine::Registry;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};
use std::fmt::Write;

#[derive(Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
    /// The program that is completed
    #[arg(long, value_enum, default_value = "ckpt")]
    program: Commands,
}

/// What a program has.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Commands {
    /// All commands
    #[value(name = "ckpt")]
    All,
    /// `ckpt convert` alone
    Convert,
}

impl Commands {
    /// The name of the program that has these commands of `program`.
    pub(super) fn name(self, program: &Program) -> &str {
        match self {
            Commands::All => &program.name,
            Commands::Convert => "convert",
        }
    }

    /// What that program takes.
    pub(super) fn command(self, program: &Program) -> clap::Command {
        let mut all = program.command();
        // What every command takes reaches them here.
        all.build();
        match self {
            Commands::All => all,
            Commands::Convert => {
                let convert = all.find_subcommand("convert").cloned().unwrap_or_default();
                convert.bin_name(self.name(program)).display_name(self.name(program))
            }
        }
    }
}

pub(super) fn run(registry: &Registry, program: &Program, arguments: &Arguments) -> Result<Report> {
    let mut script = Vec::new();
    let commands = arguments.program;
    let values = Values::of(registry);
    let mut command = values.added_to(commands.command(program));
    generate(arguments.shell, &mut command, commands.name(program), &mut script);
    let text =
        String::from_utf8(script).map_err(|_| Error::unsupported("the completion script is not UTF-8"))?;
    let mut text = values.beside_files(text, arguments.shell);
    if arguments.shell == Shell::Fish {
        positionals_of_fish(&command, &mut text);
    }
    Ok(text.into())
}

/// Values of options that the program knows, and that its parser leaves to the commands: their errors are more
/// specific.
struct Values {
    formats: Vec<&'static str>,
    read: Vec<&'static str>,
    written: Vec<&'static str>,
    dtypes: Vec<&'static str>,
    losses: Vec<&'static str>,
    limits: Vec<&'static str>,
    mappings: Vec<&'static str>,
}

impl Values {
    fn of(registry: &Registry) -> Self {
        let formats = |is: fn(&FormatInfo) -> bool| {
            let infos = registry.codecs().map(|codec| codec.info());
            infos.filter(|info| is(info)).map(|info| info.id).collect::<Vec<_>>()
        };
        Values {
            formats: formats(|_| true),
            read: formats(|info| !info.reads.is_empty()),
            written: formats(|info| !info.writes.is_empty()),
            dtypes: float_dtypes().collect(),
            losses: LossKind::ALL.iter().map(|kind| kind.name()).chain(["all"]).collect(),
            limits: Limit::ALL.iter().map(|limit| limit.name()).collect(),
            mappings: registry.mappings().map(RegisteredMapping::name).collect(),
        }
    }

    /// The values of an argument, by its id.
    fn of_argument(&self, command: &str, id: &str) -> Option<&[&'static str]> {
        Some(match (command, id) {
            (_, "from" | "a_from" | "b_from") => &self.read,
            (_, "to") => &self.written,
            ("formats", "id") => &self.formats,
            (_, "dtype") => &self.dtypes,
            (_, "allow") => &self.losses,
            (_, "limit") => &self.limits,
            (_, "map") | ("show", "name") => &self.mappings,
            #[cfg(feature = "forward")]
            (_, "device") => &ckpt_verify::devices::NAMES,
            _ => return None,
        })
    }

    /// The command, and all below it, with these values.
    fn added_to(&self, mut command: clap::Command) -> clap::Command {
        for below in command.get_subcommands_mut() {
            *below = self.added_to(std::mem::take(below));
        }
        let name = command.get_name().to_owned();
        command.mut_args(|argument| match self.of_argument(&name, argument.get_id().as_str()) {
            Some(values) => argument.value_parser(PossibleValuesParser::new(values)),
            None => argument,
        })
    }

    /// The script, in which mappings are files, too: a script that knows values for an argument completes nothing else.
    fn beside_files(&self, script: String, shell: Shell) -> String {
        let names = self.mappings.join(" ");
        match shell {
            Shell::Bash => files_of_bash(&script)
                .replace(&format!("compgen -W \"{names}\""), &format!("compgen -f -W \"{names}\"")),
            Shell::Zsh => {
                let alone = format!(":({names})");
                let either =
                    format!(":{{_alternative \"mappings\\:mapping\\:({names})\" \"files\\:file\\:_files\"}}");
                // `map show` takes names alone.
                let lines = script.lines().map(|line| match line.contains(":name -- ") {
                    true => line.to_owned() + "\n",
                    false => line.replace(&alone, &either) + "\n",
                });
                lines.collect()
            }
            Shell::Fish => {
                let lines = script.lines().map(|line| match self.is_mapping_of_fish(line) {
                    true => line.replacen(" -r -f -a ", " -r -F -a ", 1) + "\n",
                    false => line.to_owned() + "\n",
                });
                lines.collect()
            }
            _ => script,
        }
    }

    fn is_mapping_of_fish(&self, line: &str) -> bool {
        line.contains(" -l map ") && self.mappings.first().is_some_and(|first| line.contains(first))
    }
}

/// The script, in which a command whose arguments are files offers its options only after a `-`: the shell offers files
/// where the script offers nothing.
fn files_of_bash(script: &str) -> String {
    const OPTIONS_AT_LAST: &str = "            COMPREPLY=( $(compgen -W \"${opts}\" -- \"${cur}\") )";
    let mut takes_files = false;
    let lines = script.lines().map(|line| {
        if let Some(words) = line.trim_start().strip_prefix("opts=\"") {
            // Of a command with commands or known values, those are among the words.
            takes_files = words.trim_end_matches('"').split_whitespace().all(|word| word.starts_with('-'));
        }
        let first_word = line.find(" || ${COMP_CWORD} -eq ").zip(line.find(" ]] ; then"));
        match first_word {
            _ if !takes_files => format!("{line}\n"),
            Some((start, end)) => {
                let [before, after] = [line.get(..start), line.get(end..)].map(Option::unwrap_or_default);
                format!("{before}{after}\n")
            }
            None if line == OPTIONS_AT_LAST => "            COMPREPLY=()\n".to_owned(),
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// Adds the values of arguments without a name, which the generator for fish leaves out. They are those of commands,
/// and of commands below one: `formats`, `map show`.
fn positionals_of_fish(root: &clap::Command, script: &mut String) {
    let program = root.get_bin_name().unwrap_or_default();
    let using = format!("__fish_{}_using_subcommand", program.replace('-', "_"));
    for command in root.get_subcommands() {
        let condition = format!("{using} {}", command.get_name());
        positional_of_fish(program, &condition, 2, command, script);
        for below in command.get_subcommands() {
            let condition = format!("{condition}; and __fish_seen_subcommand_from {}", below.get_name());
            positional_of_fish(program, &condition, 3, below, script);
        }
    }
}

/// Adds the values of a command's first argument, which `words` precede.
fn positional_of_fish(
    program: &str,
    condition: &str,
    words: usize,
    command: &clap::Command,
    script: &mut String,
) {
    let Some(argument) = command.get_positionals().next() else { return };
    let values = argument.get_possible_values();
    if values.is_empty() {
        return;
    }
    let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
    // A mapping is a file as well as a name.
    let alone = if argument.get_id() == "map" { "" } else { " -f" };
    let first = format!("test (count (commandline -opc)) -le {words}");
    let _ = writeln!(
        script,
        "complete -c {program} -n \"{condition}; and {first}\"{alone} -a \"{}\"",
        names.join(" ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn script(program: &str, shell: Shell) -> String {
        let program = Program::of(&[program.into()], Cli::command());
        run(&crate::Registry::builtin(), &program, &Arguments { shell, program: Commands::All }).unwrap().text
    }

    #[test]
    fn scripts_complete_the_program_that_makes_them() {
        for (shell, text) in
            [(Shell::Bash, "_vaults()"), (Shell::Zsh, "#compdef vaults"), (Shell::Fish, "complete -c vaults")]
        {
            let script = script("vaults", shell);
            assert!(script.contains(text) && !script.contains("-c ckpt"), "{shell}: {script}");
        }
    }

    #[test]
    fn scripts_know_formats_dtypes_losses_and_mappings() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let (script, values) = (script("ckpt", shell), Values::of(&crate::Registry::builtin()));
            // The other shells' generators know no values.
            if matches!(shell, Shell::Elvish | Shell::PowerShell) {
                continue;
            }
            for names in [&values.written, &values.dtypes, &values.losses, &values.limits, &values.mappings] {
                assert!(names.len() > 3, "{names:?}");
                for name in names {
                    assert!(script.contains(name), "{shell} does not complete {name}");
                }
            }
        }
    }

    #[test]
    fn a_mapping_is_completed_as_a_file_too() {
        assert!(script("ckpt", Shell::Bash).contains("compgen -f -W \"albert-tf-to-hf "));
        assert!(script("ckpt", Shell::Zsh).contains("(albert-tf-to-hf "));
        assert!(script("ckpt", Shell::Zsh).contains("\"files\\:file\\:_files\"}"));
        assert!(script("ckpt", Shell::Fish).contains(" -r -F -a \"albert-tf-to-hf"));
    }

    #[test]
    #[cfg(unix)]
    fn bash_offers_files_where_a_command_takes_files() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("complete"), script("ckpt", Shell::Bash)).unwrap();
        let offered = |words: &str| {
            let commands = format!(
                ". ./complete; COMP_WORDS=(ckpt {words}); COMP_CWORD=2; _ckpt ckpt \"${{COMP_WORDS[2]}}\" x; \
                 echo \"${{COMPREPLY[@]}}\""
            );
            let mut bash = std::process::Command::new("bash");
            let output = bash.args(["--norc", "-c", &commands]).current_dir(&directory).output();
            output.ok().map(|output| String::from_utf8(output.stdout).unwrap().trim().to_owned())
        };
        let Some(files) = offered("inspect ''") else {
            return eprintln!("skipped: there is no 'bash' here");
        };
        // Where nothing is offered, bash offers files.
        assert_eq!(files, "");
        assert!(offered("inspect --").unwrap().contains("--stats"));
        assert!(offered("map ''").unwrap().contains("suggest"));
    }

    #[test]
    fn fish_completes_the_arguments_of_commands_too() {
        let script = script("ckpt", Shell::Fish);
        for (condition, options) in [
            ("using_subcommand formats;", "-f -a \"bullet caffe"),
            ("using_subcommand completions;", "-f -a \"bash elvish"),
            ("using_subcommand map; and __fish_seen_subcommand_from show;", "-f -a \"albert-tf-to-hf bert"),
            ("using_subcommand map; and __fish_seen_subcommand_from check;", "\" -a \"albert-tf-to-hf bert"),
        ] {
            let mut lines = script.lines().filter(|line| line.contains(condition));
            assert!(lines.any(|line| line.contains(options)), "{condition}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_shell_that_is_there_completes_what_the_script_knows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ckpt.fish");
        std::fs::write(&path, script("ckpt", Shell::Fish)).unwrap();
        for (line, expected) in [
            ("ckpt formats ", "safetensors"),
            ("ckpt map show ", "bert-tf-to-hf"),
            ("ckpt map check ", "bert-tf-to-hf"),
            ("ckpt convert a b --dtype ", "bf16"),
            ("ckpt convert a b --allow ", "narrowed"),
            ("ckpt -v convert a b --to ", "npz"),
        ] {
            // fish completes programs that it finds.
            let commands = format!("function ckpt; end; source {}; complete -C '{line}'", path.display());
            let mut fish = std::process::Command::new("fish");
            fish.args(["--no-config", "-c", &commands]).env("HOME", directory.path()).current_dir(&directory);
            let Ok(output) = fish.output() else {
                return eprintln!("skipped: there is no 'fish' here");
            };
            let words = String::from_utf8(output.stdout).unwrap();
            assert!(words.lines().any(|word| word.trim() == expected), "{line}: {words}");
        }
    }
}
