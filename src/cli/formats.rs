//! `ckpt formats`.

use super::table::{Column, Width, table};
use super::{Report, to_json};
use crate::registry::Registry;
use ckpt_api::{FormatInfo, OptionKind, Result, Side};
use clap::Args;
use std::fmt::Write;

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
    let infos: Vec<&FormatInfo> = codecs.iter().map(|codec| codec.info()).collect();
    if json {
        return Ok(to_json(&infos)?.into());
    }
    Ok(infos.iter().map(|info| text(info)).collect::<Vec<_>>().join("\n").into())
}

fn text(info: &FormatInfo) -> String {
    let directions = match (!info.reads.is_empty(), !info.writes.is_empty()) {
        (true, true) => "read and written",
        (true, false) => "read",
        (false, true) => "written",
        (false, false) => "known",
    };
    let mut text = format!("{}: {} ({directions})\n", info.id, info.title);
    if !info.extensions.is_empty() {
        let _ = writeln!(text, "  extensions  .{}", info.extensions.join(", ."));
    }
    if !info.dtypes.is_empty() {
        let _ = writeln!(
            text,
            "  dtypes      {}",
            info.dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ")
        );
    }
    for (what, networks) in [("reads", info.reads), ("writes", info.writes)] {
        let names: Vec<&str> = networks.iter().map(|network| network.name()).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "  {what:<10}  {} networks", names.join(", "));
        }
    }
    if !info.ops.is_empty() {
        let _ = writeln!(
            text,
            "  layers      {}",
            info.ops.iter().map(|op| op.name()).collect::<Vec<_>>().join(", ")
        );
    }
    if info.options.is_empty() {
        return text;
    }
    text += "  options\n";
    let rows = info.options.iter().map(|option| {
        let values = match option.kind {
            OptionKind::Flag => "true|false".to_owned(),
            OptionKind::Choice(words) => words.join("|"),
            OptionKind::Size => "SIZE".to_owned(),
            OptionKind::List => "A,B,...".to_owned(),
            _ => "TEXT".to_owned(),
        };
        let side = match option.side {
            Side::Read => "reading",
            Side::Write => "writing",
            Side::Both => "both",
        };
        vec![String::new(), format!("{}={values}", option.name), side.to_owned(), option.help.to_owned()]
    });
    // No text of a file is among them: nothing needs to be cut.
    let table = table(&[Column::word(""); 4], Width::Unlimited, rows);
    text + table.trim_start_matches('\n')
}
