//! `ckpt man`.

use super::completions::Commands;
use super::paths::check_new;
use super::program::Program;
use super::render::plain;
use super::report::Report;
use ckpt_api::{Error, Result};
use ckpt_engine::words::count;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Arguments {
    /// Write the pages of all programs and commands to this directory
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Replace pages that are there
    #[arg(long, requires = "output")]
    force: bool,
}

/// The program's page for stdout, or all pages as files.
pub(super) fn run(program: &Program, arguments: &Arguments) -> Result<Report> {
    match &arguments.output {
        None => page(&Commands::All.command(program)).map(Report::from),
        Some(directory) => write(program, directory, arguments.force).map(Report::from),
    }
}

/// Writes a page for each program and each of its commands. Returns a report.
fn write(program: &Program, directory: &Path, force: bool) -> Result<String> {
    let failed =
        |error, path: &Path| Error::io("cannot write the page", error).file(path.display().to_string());
    fs::create_dir_all(directory).map_err(|error| failed(error, directory))?;
    let pages: Vec<(PathBuf, Command)> = pages(program)
        .into_iter()
        .map(|(name, command)| (directory.join(format!("{name}.1")), command))
        .collect();
    if !force {
        pages.iter().try_for_each(|(path, _)| check_new(path, true))?;
    }
    for (path, command) in &pages {
        fs::write(path, page(command)?).map_err(|error| failed(error, path))?;
    }
    let shown = directory.display().to_string();
    Ok(format!("wrote {}: {}\n", plain(&shown), count(pages.len(), "page")))
}

/// Every command that has a page, by the page's name.
fn pages(program: &Program) -> Vec<(String, Command)> {
    let mut pages: Vec<(String, Command)> = Vec::new();
    let programs = if program.is_own() { &[Commands::All, Commands::Convert][..] } else { &[Commands::All] };
    let page = |commands: &Commands| (commands.name(program).to_owned(), commands.command(program));
    let mut open: Vec<(String, Command)> = programs.iter().map(page).collect();
    while let Some((name, command)) = open.pop() {
        let below = command.get_subcommands().filter(|below| below.get_name() != HELP);
        open.extend(below.map(|below| (format!("{name}-{}", below.get_name()), below.clone())));
        pages.push((name, command));
    }
    pages
}

/// The command that prints help, which has no page.
const HELP: &str = "help";

fn page(command: &Command) -> Result<String> {
    let mut shown = command.clone().after_help(None);
    if shown.find_subcommand(HELP).is_some() {
        shown = shown.mut_subcommand(HELP, |help| help.hide(true));
    }
    let mut roff = Vec::new();
    Man::new(shown).render(&mut roff).map_err(|error| Error::io("cannot make the page", error))?;
    let mut page = String::from_utf8(roff).map_err(|_| Error::unsupported("the page is not UTF-8"))?;
    if let Some(after) = command.get_after_help() {
        let end = page.find("\n.SH VERSION").map_or(page.len(), |line| line + 1);
        page.insert_str(end, &sections(&after.to_string()));
    }
    Ok(page)
}

/// What follows the options in the help as sections: a heading and a colon begin one; examples are indented.
fn sections(text: &str) -> String {
    let mut roff = Roff::new();
    let verbatim = |roff: &mut Roff, line: &str| {
        roff.control("RS", ["4"]).control("nf", []).text([roman(line)]).control("fi", []).control("RE", []);
    };
    for line in text.lines() {
        if let Some(what) = line.strip_prefix("  # ") {
            roff.control("PP", []).text([roman(format!("{what}:"))]);
        } else if let Some(example) = line.strip_prefix("  ") {
            verbatim(&mut roff, example);
        } else if let Some((heading, items)) = line.split_once(':') {
            roff.control("SH", [heading.to_uppercase().as_str()]);
            items.split(", ").map(str::trim).filter(|item| !item.is_empty()).for_each(|item| {
                roff.text([roman(item)]).control("br", []);
            });
        } else {
            roff.text([roman(line)]);
        }
    }
    // The page's first lines define Aq, as an apostrophe that stays one.
    roff.to_roff().replace('\'', r"\*(Aq")
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeMap;

    /// The names of a command's pages, and of those below it.
    fn expected(name: String, command: &Command, names: &mut Vec<String>) {
        for below in command.get_subcommands() {
            expected(format!("{name}-{}", below.get_name()), below, names);
        }
        names.push(name);
    }

    #[test]
    fn every_program_and_every_command_has_a_page_that_says_its_options() {
        let mut names = vec!["convert".to_owned()];
        expected("ckpt".to_owned(), &Cli::command(), &mut names);
        let ckpt = Program::of(&["ckpt".into()], Cli::command());
        let mut found: Vec<String> = pages(&ckpt).into_iter().map(|(name, _)| name).collect();
        names.sort();
        found.sort();
        assert_eq!(found, names);
        assert!(found.len() > 15 && found.contains(&"ckpt-map-check".to_owned()), "{found:?}");
        for (name, command) in pages(&ckpt) {
            let page = page(&command).unwrap();
            assert!(page.contains(&format!(".TH {name} 1")), "{page}");
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                let option = option.replace('-', "\\-");
                assert!(page.contains(&format!("\\-\\-{option}")), "{name} does not say {option}");
            }
        }
    }

    #[test]
    fn examples_and_exit_codes_have_headings_of_their_own() {
        let ckpt = Program::of(&["ckpt".into()], Cli::command());
        let pages: BTreeMap<String, Command> = pages(&ckpt).into_iter().collect();
        let page = |name: &str| page(&pages[name]).unwrap();
        let (program, convert) = (page("ckpt"), page("ckpt-convert"));
        assert!(program.contains("\n.SH \"EXIT CODES\"\n0 ok\n.br\n1 failure\n"), "{program}");
        assert!(
            convert.contains("\n.SH EXAMPLES\n.PP\nA TensorFlow checkpoint to safetensors:\n"),
            "{convert}"
        );
        assert!(convert.contains("\nckpt convert model.index model.safetensors\n.fi\n"), "{convert}");
        for (name, command) in &pages {
            let text = super::page(command).unwrap();
            assert!(!text.contains(".SH EXTRA"), "{name}: {text}");
            assert!(text.contains(".SH EXAMPLES") || command.has_subcommands(), "{name}: {text}");
        }
    }

    #[test]
    fn pages_refer_to_pages_that_exist() {
        let ckpt = Program::of(&["ckpt".into()], Cli::command());
        let pages = pages(&ckpt);
        let mut references = 0;
        for (name, command) in &pages {
            let text = page(command).unwrap().replace("\\-", "-");
            let named = text.lines().filter_map(|line| line.strip_suffix("(1)"));
            for reference in named {
                references += 1;
                assert!(pages.iter().any(|(page, _)| page == reference), "{name} refers to {reference}(1)");
            }
        }
        assert!(references > 15, "{references}");
    }

    #[test]
    fn a_program_of_ones_own_has_pages_under_its_name_alone() {
        let pages = pages(&Program::of(&["vaults".into()], Cli::command()));
        assert!(pages.iter().all(|(name, _)| name.starts_with("vaults")), "{pages:?}");
        for (name, command) in pages {
            let page = page(&command).unwrap();
            assert!(page.contains(&format!(".TH {name} 1")), "{page}");
            // The package that it comes from.
            let version = format!("\"ckpt {}\"", env!("CARGO_PKG_VERSION"));
            assert!(!page.replace(&version, "").contains("ckpt"), "{page}");
        }
    }
}
