//! Pages of HTML that stand alone: no network, no fonts, one script that sorts and filters tables.

#[cfg(test)]
pub(crate) mod tests;
mod text;

pub(crate) use text::{code, escaped, number, shortened};

pub(crate) const STYLE: &str = include_str!("style.css");
pub(crate) const SCRIPT: &str = include_str!("table.js");
/// SHA-256 of [`SCRIPT`] in base64: no other script may run.
pub(crate) const SCRIPT_HASH: &str = "EtL8xvQTDkiE8atGSubAxLkGj1iKiCX8PlNsgx7/1MY=";

/// Returns a page. `title` and `body` are markup, in which text from files is [`escaped`]; `style` is added to the
/// common style.
pub(crate) fn document(title: &str, style: &str, body: &str) -> String {
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
pub(crate) fn table(class: &str, head: &[(&str, bool)], rows: &str) -> String {
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"{class}\">{}<tbody>\n{rows}</tbody></table></div>\n",
        heading(head)
    )
}

/// Rows of a long table that are shown at first.
const FIRST: usize = 200;

/// Returns a table of any length, of which the first rows are shown. A search field filters rows by the columns that
/// are not numbers.
pub(crate) fn long_table(id: &str, head: &[(&str, bool)], rows: &[String]) -> String {
    let (first, later) = rows.split_at(rows.len().min(FIRST));
    let mut text = String::new();
    if !later.is_empty() {
        text = format!(
            "<p class=\"scriptless\">The first {FIRST} of {} rows; the others need scripts.</p>\n",
            rows.len()
        );
    }
    text += &format!(
        "<div class=\"scroll\" tabindex=\"0\"><table id=\"{id}\" class=\"sortable findable\">{}<tbody>\n",
        heading(head)
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

fn heading(head: &[(&str, bool)]) -> String {
    let cells = head.iter().map(|(name, is_number)| {
        let class = if *is_number { " class=\"number\"" } else { "" };
        format!("<th scope=\"col\"{class}>{name}</th>")
    });
    format!("<thead><tr>{}</tr></thead>", cells.collect::<String>())
}
