//! Pages of HTML that stand alone: no network, no fonts, one script that sorts and filters tables, opens
//! tensors, moves drawings and follows links into what is closed.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod rules;
#[cfg(test)]
mod tests;
mod text;

pub use text::{code, counted, escaped, number, shortened, visible, whole};

/// The style of every page.
pub const STYLE: &str = include_str!("style.css");
/// The script of every page.
pub const SCRIPT: &str = concat!(
    include_str!("tensor.js"),
    include_str!("table.js"),
    include_str!("graph.js"),
    include_str!("links.js")
);
/// SHA-256 of [`SCRIPT`] in base64: no other script may run.
pub const SCRIPT_HASH: &str = "vEzj32nlDeotJImdJInOQ2ps5KGbBWlZ0hR5vL/28UI=";

/// Returns a page. `title` and `body` are markup, in which text from files is [`escaped`]; `style` is added to the
/// common style.
pub fn document(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n{body}\
         <p class=\"muted\">ckpt {}</p>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns a table in a box that scrolls. `head` names the columns and marks those of numbers; `rows` is markup.
pub fn table(class: &str, head: &[(&str, bool)], rows: &str) -> String {
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"{class}\">{}<tbody>\n{rows}</tbody></table></div>\n",
        headings(head.iter().map(|(name, is_number)| (*name, if *is_number { "number" } else { "" })))
    )
}

/// Rows of a long table that are shown at first.
const FIRST: usize = 200;

/// Returns a table of any length, of which the first rows are shown. A search field filters rows by the columns that
/// are not numbers. Each heading has a class.
pub fn long_table(id: &str, head: &[(&str, &str)], rows: &[String]) -> String {
    let (first, later) = rows.split_at(rows.len().min(FIRST));
    let mut text = String::new();
    if !later.is_empty() {
        text = format!(
            "<p class=\"scriptless\">The first {FIRST} of {} rows; the others need scripts.</p>\n",
            whole(rows.len() as u64)
        );
    }
    text += &format!(
        "<div class=\"scroll long\" tabindex=\"0\"><table id=\"{id}\" class=\"sortable findable\">{}<tbody>\n",
        headings(head.iter().copied())
    );
    text.extend(first.iter().map(String::as_str));
    text += "</tbody></table>";
    if !later.is_empty() {
        text += "<template>";
        text.extend(later.iter().map(String::as_str));
        text += "</template>";
    }
    text + "</div>\n"
}

fn headings<'a>(head: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let cells = head.map(|(name, class)| {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        format!("<th scope=\"col\"{class}>{name}</th>")
    });
    format!("<thead><tr>{}</tr></thead>", cells.collect::<String>())
}
