//! `ckpt formats`.

use super::report::{Report, to_json};
use super::width::{Width, fold};
use ckpt_api::{FormatInfo, OptionKind, Provenance, Result, Side};
use ckpt_engine::Registry;
use clap::Args;
use serde::Serialize;

#[derive(Args)]
pub(super) struct Arguments {
    /// Show this format only
    id: Option<String>,
    /// Show which format converts to which, as a table in Markdown
    #[arg(long, conflicts_with = "id")]
    matrix: bool,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    if arguments.matrix {
        let matrix = registry.matrix();
        return Ok(if json { to_json(&matrix)?.into() } else { matrix.to_string().into() });
    }
    let codecs = match &arguments.id {
        Some(id) => vec![registry.codec(id)?],
        None => registry.codecs().cloned().collect(),
    };
    let formats: Vec<Format<'_>> =
        codecs.iter().map(|codec| Format { info: codec.info(), codec: codec.provenance() }).collect();
    if json {
        return Ok(to_json(&formats)?.into());
    }
    Ok(formats.iter().map(text).collect::<Vec<_>>().join("\n").into())
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(flatten)]
    info: &'a FormatInfo,
    /// Where its codec comes from, if that is not part of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    codec: Option<&'a Provenance>,
}

fn text(&Format { info, codec }: &Format<'_>) -> String {
    let directions = match (!info.reads.is_empty(), !info.writes.is_empty()) {
        (true, true) => "read and written",
        (true, false) => "read",
        (false, true) => "written",
        (false, false) => "known",
    };
    let columns = Width::of_terminal().columns();
    let mut text = String::new();
    fold(&format!("{}: {} ({directions})\n", info.id, info.title), columns, 4, &mut text);
    let mut line = |label: &str, names: &mut dyn Iterator<Item = &str>, rest: &str| {
        let names: Vec<&str> = names.collect();
        if !names.is_empty() {
            fold(&format!("  {label:<10}  {}{rest}\n", names.join(", ")), columns, 14, &mut text);
        }
    };
    if let Some(Provenance { kind, origin, version, sha256, .. }) = codec {
        line(kind, &mut [origin.as_str()].into_iter(), &format!(", version {version}"));
        line("SHA-256", &mut [sha256.as_str()].into_iter(), "");
    }
    let extensions: Vec<String> = info.extensions.iter().map(|extension| format!(".{extension}")).collect();
    line("extensions", &mut extensions.iter().map(String::as_str), "");
    line("dtypes", &mut info.dtypes.iter().map(|dtype| dtype.name()), "");
    line("reads", &mut info.reads.iter().map(|network| network.name()), " networks");
    line("writes", &mut info.writes.iter().map(|network| network.name()), " networks");
    line("layers", &mut info.ops.iter().map(|op| op.name()), " (when written)");
    if !info.options.is_empty() {
        text += "  options\n";
    }
    for option in info.options {
        let values = match option.kind {
            OptionKind::Flag => "true|false".to_owned(),
            OptionKind::Choice(words) => words.join("|"),
            OptionKind::Size => "SIZE".to_owned(),
            OptionKind::Count => "COUNT".to_owned(),
            OptionKind::List => "A,B,...".to_owned(),
            _ => "TEXT".to_owned(),
        };
        let side = match option.side {
            Side::Read => "for reading",
            Side::Write => "for writing",
            Side::Both => "for reading and writing",
        };
        fold(&format!("    {}={values}  {side}\n", option.name), columns, 8, &mut text);
        fold(&format!("        {}\n", option.help), columns, 8, &mut text);
    }
    text
}
