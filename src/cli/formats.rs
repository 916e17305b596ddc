//! `ckpt formats`.

use super::{Report, render, to_json};
use crate::registry::Registry;
use ckpt_api::{FormatInfo, OptionKind, Result, Side};
use clap::Args;
use std::fmt::Write;

#[derive(Args)]
pub(super) struct Arguments {
    /// Show this format only
    id: Option<String>,
}

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<Report> {
    let registry = Registry::builtin();
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
    let directions = match (info.reads, info.writes) {
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
    let rows: Vec<Vec<String>> = info
        .options
        .iter()
        .map(|option| {
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
        })
        .collect();
    let table = render::table(&["", "", "", ""], &[], &rows);
    text + table.trim_start_matches('\n')
}
