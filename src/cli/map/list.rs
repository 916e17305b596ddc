//! The commands `ckpt map list` and `ckpt map show`.

use super::super::flags::Flags;
use super::super::report::{Report, print_after, to_json};
use super::super::table::{Column, table};
use super::super::width::Layout;
use super::arguments::Output;
use crate::RegisteredMapping;
use ckpt_api::{Error, Result};
use ckpt_engine::Registry;
use ckpt_engine::mapping::Mapping;
use clap::Args;

#[derive(Args)]
pub(in crate::cli) struct ListArguments {
    #[command(flatten)]
    layout: Layout,
}

#[derive(Args)]
pub(in crate::cli) struct ShowArguments {
    /// Name of the built-in mapping
    name: String,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(registry: &Registry, arguments: &ListArguments, json: bool) -> Result<Report> {
    let names = registry.mappings().map(RegisteredMapping::name);
    let tables = names.filter_map(|name| Some((name, registry.mapping(name)?)));
    let tables: Vec<(&str, Mapping)> = tables.collect();
    if json {
        let tables = tables.iter().map(|(name, mapping)| {
            let why = mapping.inverse().err().map(|error| error.text_in(&Flags::One));
            serde_json::json!({
                "name": name, "title": mapping.title(), "rules": mapping.rules().len(),
                "invertible": why.is_none(), "why_not": why,
            })
        });
        return Ok(to_json(&tables.collect::<Vec<_>>())?.into());
    }
    let rows = tables.iter().map(|(name, mapping)| {
        let inverse = if mapping.inverse().is_ok() { "yes" } else { "no" };
        let title = mapping.title().unwrap_or_default().to_owned();
        vec![(*name).to_owned(), inverse.to_owned(), title]
    });
    const COLUMNS: [Column; 3] =
        [Column::word("name"), Column::word("inverse").optional(2), Column::text("title").optional(1)];
    Ok(table(&COLUMNS, arguments.layout.width(), rows).into())
}

pub(super) fn show(registry: &Registry, arguments: &ShowArguments, json: bool) -> Result<Report> {
    let mapping = registry.mappings().find(|mapping| mapping.name() == arguments.name);
    let mapping = mapping.ok_or_else(|| registry.unknown_mapping(&arguments.name))?;
    let RegisteredMapping::File { toml: text, .. } = mapping else {
        return Err(Error::usage("the mapping has no file: it is made for the graph of each checkpoint")
            .field(&arguments.name)
            .help(format!("show it for one checkpoint: ckpt map check {} PATH", arguments.name)));
    };
    if json {
        let value = to_json(&serde_json::json!({ "name": arguments.name, "toml": text }))?;
        arguments.output.write((*text).to_owned())?;
        return print_after(&arguments.output.written(), &value, json);
    }
    Ok(arguments.output.write((*text).to_owned())?.into())
}
