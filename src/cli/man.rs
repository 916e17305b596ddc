//! `ckpt man`.

use super::completions::Commands;
use super::{Program, Report};
use ckpt_api::{Error, Result};
use clap::{Args, Command};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Arguments {
    /// Write the pages of all programs and commands to this directory
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// The program's page for stdout, or all pages as files.
pub(super) fn run(program: &Program, arguments: &Arguments) -> Result<Report> {
    match &arguments.output {
        None => page(&Commands::All.command(program)).map(Report::from),
        Some(directory) => write(program, directory).map(|()| String::new().into()),
    }
}

/// A page for each program and each of its commands.
fn write(program: &Program, directory: &Path) -> Result<()> {
    let failed =
        |error, path: &Path| Error::io("cannot write the page", error).file(path.display().to_string());
    fs::create_dir_all(directory).map_err(|error| failed(error, directory))?;
    for (name, command) in pages(program) {
        let path = directory.join(format!("{name}.1"));
        fs::write(&path, page(&command)?).map_err(|error| failed(error, &path))?;
    }
    Ok(())
}

/// Every command that has a page, by the page's name.
fn pages(program: &Program) -> Vec<(String, Command)> {
    let mut pages: Vec<(String, Command)> = Vec::new();
    let programs = if program.is_own() { &[Commands::All, Commands::Convert][..] } else { &[Commands::All] };
    let page = |commands: &Commands| (commands.name(program).to_owned(), commands.command(program));
    let mut open: Vec<(String, Command)> = programs.iter().map(page).collect();
    while let Some((name, command)) = open.pop() {
        let below = command.get_subcommands().filter(|below| below.get_name() != "help");
        open.extend(below.map(|below| (format!("{name}-{}", below.get_name()), below.clone())));
        pages.push((name, command));
    }
    pages
}

fn page(command: &Command) -> Result<String> {
    let mut roff = Vec::new();
    clap_mangen::Man::new(command.clone())
        .render(&mut roff)
        .map_err(|error| Error::io("cannot make the page", error))?;
    String::from_utf8(roff).map_err(|_| Error::unsupported("the page is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::CommandFactory;

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
        let ckpt = Program::of(&["ckpt".into()]);
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
    fn a_program_of_ones_own_has_pages_under_its_name_alone() {
        let pages = pages(&Program::of(&["vaults".into()]));
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
