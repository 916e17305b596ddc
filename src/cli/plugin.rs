//! `ckpt plugin`, and the plugins that a command uses.

use super::render;
use super::report::{Report, to_json};
use crate::plugins::bytes_of;
use ckpt_api::{Codec, Error, Limits, Result, text};
use ckpt_conformance::Sample;
use ckpt_engine::Registry;
use ckpt_plugin_host::Plugin;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The ending of plugins.
const ENDING: &str = "wasm";
/// Bytes of a sample: each of them is changed.
const MOST_SAMPLE: u64 = 64 << 10;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Copy a plugin to your plugins, which every command uses
    Add(AddArguments),
    /// Remove one of your plugins
    Remove(RemoveArguments),
    /// List your plugins
    List,
    /// Check a plugin with samples of its format, as the program's own codecs are checked
    Check(CheckArguments),
}

#[derive(Args)]
pub(super) struct AddArguments {
    /// Plugin: a WebAssembly module, built as the guide's page on plugins says
    file: PathBuf,
}

#[derive(Args)]
pub(super) struct RemoveArguments {
    /// The format's id
    id: String,
}

#[derive(Args)]
pub(super) struct CheckArguments {
    /// Plugin to check
    file: PathBuf,
    /// Valid checkpoints of its format, of at most 64 KiB: files, or directories
    #[arg(required = true)]
    samples: Vec<PathBuf>,
    /// Option for reading the samples; `ckpt formats` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The format has no sign of its own: probing is never certain
    #[arg(long)]
    headerless: bool,
    /// Another writer made the samples: what the plugin writes may differ from them
    #[arg(long)]
    rewritten: bool,
}

/// The registry with the plugins that are named, and those of the user if these are `wanted`; `None` if there are none. They write
/// and decode within the limits.
pub(super) fn extended(
    registry: &Registry,
    named: &[PathBuf],
    wanted: bool,
    limits: impl FnOnce() -> Result<Limits>,
) -> Result<Option<Registry>> {
    let own = if wanted { added()? } else { Vec::new() };
    if own.is_empty() && named.is_empty() {
        return Ok(None);
    }
    let limits = limits()?;
    let mut extended = registry.clone();
    for file in named {
        load(&mut extended, file, &limits)?;
    }
    for file in own {
        let id = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let way = format!("remove this plugin of yours with `ckpt plugin remove {id}`");
        load(&mut extended, &file, &limits)
            .map_err(|error| error.with_help(|help| text![help, "; or ", &way]).help(&way))?;
    }
    Ok(Some(extended))
}

fn load(registry: &mut Registry, file: &Path, limits: &Limits) -> Result<()> {
    crate::plugins::add(registry, &bytes_of(file)?, &file.display().to_string(), limits)
}

/// The folder of the user's plugins.
fn folder() -> Result<PathBuf> {
    if let Some(folder) = set("CKPT_PLUGINS") {
        return Ok(folder);
    }
    let data = if cfg!(windows) {
        set("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        set("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join("ckpt/plugins")).ok_or_else(|| {
        Error::usage("there is no folder for plugins")
            .help("name one in the environment variable CKPT_PLUGINS")
    })
}

fn set(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The files of the user's plugins, sorted.
fn added() -> Result<Vec<PathBuf>> {
    let Ok(folder) = folder() else { return Ok(Vec::new()) };
    let cannot = |error| Error::io("cannot list your plugins", error).file(folder.display().to_string());
    let entries = match fs::read_dir(&folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(cannot)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn run(registry: &Registry, command: &Command, json: bool) -> Result<Report> {
    match command {
        Command::Add(arguments) => add(registry, arguments, json),
        Command::Remove(arguments) => remove(arguments, json),
        Command::List => list(json),
        Command::Check(arguments) => check(arguments, json),
    }
}

fn add(registry: &Registry, AddArguments { file }: &AddArguments, json: bool) -> Result<Report> {
    let bytes = bytes_of(file)?;
    // Refused here, and not in the next command.
    let mut extended = registry.clone();
    crate::plugins::add(&mut extended, &bytes, &file.display().to_string(), &Limits::default())?;
    let plugin = Listed::of(&bytes, file)?;
    let folder = folder()?;
    let to = folder.join(format!("{}.{ENDING}", plugin.id));
    let cannot = |error| Error::io("cannot add the plugin", error).file(to.display().to_string());
    fs::create_dir_all(&folder).map_err(cannot)?;
    // Under another name first: a command beside this one sees all of it or nothing.
    let begun = folder.join(format!(".{}.{}", plugin.id, std::process::id()));
    fs::write(&begun, &bytes).and_then(|()| fs::rename(&begun, &to)).map_err(cannot)?;
    if json {
        return Ok(to_json(&plugin)?.into());
    }
    Ok(format!("added the {}\n", render::plain(&plugin.line())).into())
}

fn remove(RemoveArguments { id }: &RemoveArguments, json: bool) -> Result<Report> {
    let files = added()?;
    let is_own = |file: &&PathBuf| file.file_stem().is_some_and(|stem| stem == id.as_str());
    let file = files.iter().find(is_own).ok_or_else(|| {
        let ids = files.iter().filter_map(|file| file.file_stem()?.to_str());
        Error::usage("you have no such plugin").found(format!("'{id}'")).help(ckpt_api::nearest(id, ids))
    })?;
    fs::remove_file(file)
        .map_err(|error| Error::io("cannot remove the plugin", error).file(file.display().to_string()))?;
    match json {
        true => Ok(to_json(&serde_json::json!({ "removed": id }))?.into()),
        false => Ok(format!("removed the plugin {id}\n").into()),
    }
}

/// What a list shows of a plugin.
#[derive(Serialize)]
struct Listed {
    id: String,
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Listed {
    fn of(bytes: &[u8], file: &Path) -> Result<Self> {
        let shown = file.display().to_string();
        let plugin = Plugin::load(bytes, &shown)?;
        Ok(Listed {
            id: plugin.info().id.to_owned(),
            file: shown,
            title: Some(plugin.info().title),
            version: plugin.provenance().map(|provenance| provenance.version.clone()),
            sha256: Some(plugin.sha256().to_owned()),
            error: None,
        })
    }

    fn broken(file: &Path, error: &Error) -> Self {
        let id = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Listed {
            id: id.unwrap_or_default(),
            file: file.display().to_string(),
            title: None,
            version: None,
            sha256: None,
            error: Some(error.to_string()),
        }
    }

    fn line(&self) -> String {
        match (&self.version, &self.sha256, &self.error) {
            (_, _, Some(error)) => format!("plugin {}: it cannot be used: {error}", self.id),
            (version, sha256, None) => format!(
                "plugin {}: {}, version {}, SHA-256 {}",
                self.id,
                self.title.unwrap_or_default(),
                version.as_deref().unwrap_or_default(),
                sha256.as_deref().unwrap_or_default()
            ),
        }
    }
}

fn list(json: bool) -> Result<Report> {
    let listed = |file: &PathBuf| {
        let read = bytes_of(file).and_then(|bytes| Listed::of(&bytes, file));
        read.unwrap_or_else(|error| Listed::broken(file, &error))
    };
    let plugins: Vec<Listed> = added()?.iter().map(listed).collect();
    if json {
        return Ok(to_json(&plugins)?.into());
    }
    let mut text = String::new();
    for plugin in &plugins {
        let _ = writeln!(text, "{}", render::plain(&plugin.line()));
    }
    if text.is_empty() {
        let _ = writeln!(text, "you have no plugins: `ckpt plugin add FILE` adds one");
    }
    Ok(text.into())
}

fn check(arguments: &CheckArguments, json: bool) -> Result<Report> {
    let shown = arguments.file.display().to_string();
    let plugin = Plugin::load(&bytes_of(&arguments.file)?, &shown)?;
    let samples = arguments.samples.iter().map(|path| sample(path, arguments));
    let samples = samples.collect::<Result<Vec<Sample>>>()?;
    // The kit says what is wrong by a panic, as tests do.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let checked = std::panic::catch_unwind(AssertUnwindSafe(|| ckpt_conformance::check(&plugin, &samples)));
    std::panic::set_hook(hook);
    if let Err(panic) = checked {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        return Err(Error::unsupported("the plugin does not keep the rules of codecs")
            .file(shown)
            .found(text.unwrap_or_default())
            .help("the guide's page \"Plugins\" has the rules; run the kit in a test of the codec to find the place"));
    }
    match json {
        true => Ok(to_json(&serde_json::json!({ "checked": samples.len() }))?.into()),
        false => {
            let id = plugin.info().id;
            Ok(format!("plugin {id}: keeps the rules on {}\n", ckpt_api::count(samples.len(), "sample"))
                .into())
        }
    }
}

fn sample(path: &Path, arguments: &CheckArguments) -> Result<Sample> {
    let shown = path.display().to_string();
    let cannot = |error| Error::io("cannot read the sample", error).file(&shown);
    let mut files = BTreeMap::new();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_directory = path.is_dir();
    if is_directory {
        for entry in fs::read_dir(path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?.path();
            if let (true, Some(name)) = (entry.is_file(), entry.file_name().and_then(|name| name.to_str())) {
                files.insert(name.to_owned(), fs::read(&entry).map_err(cannot)?);
            }
        }
    } else {
        files.insert(name.to_owned(), fs::read(path).map_err(cannot)?);
    }
    let bytes = files.values().fold(0, |sum: u64, file| sum.saturating_add(file.len() as u64));
    if bytes > MOST_SAMPLE {
        return Err(Error::usage("the sample is too large: each of its bytes is changed")
            .file(shown)
            .found(ckpt_api::count(bytes, "byte"))
            .expected(format!("at most {MOST_SAMPLE}")));
    }
    let entry = if is_directory { "" } else { name };
    // As long as the process: there are few.
    let mut sample = Sample::new(shown.leak(), entry, files);
    sample.output = name.to_owned();
    sample.headerless = arguments.headerless;
    sample.rewritten = arguments.rewritten.then_some("another writer made it");
    sample.read = super::common::pairs(&arguments.set)?;
    Ok(sample.unknown_values("the command line states none"))
}
