//! Pages of HTML that need nothing else: no network, no fonts, and one script that sorts and finds rows of tables.

#[cfg(test)]
pub(crate) mod tests;
mod text;

pub(crate) use text::{code, escaped, number};

pub(crate) const STYLE: &str = include_str!("html/style.css");
pub(crate) const SCRIPT: &str = include_str!("html/table.js");
/// The only script that may run: SHA-256 of [`SCRIPT`] in base64.
pub(crate) const SCRIPT_HASH: &str = "dzaMXO3JcNEEJ4LiP7svfWrPt4fQ2HquqFAr2kJtD4s=";

/// A page. `title` and `body` are markup: what they say of a file is [`escaped`]. `style` is what the page needs beside
/// the style that all have.
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

/// A table in a box that scrolls; `head` are cells and whether they are over numbers, `rows` are rows.
pub(crate) fn table(class: &str, head: &[(&str, bool)], rows: &str) -> String {
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"{class}\">{}<tbody>\n{rows}</tbody></table></div>\n",
        heading(head)
    )
}

/// Rows of a table that a browser lays out before somebody asks for more.
const FIRST: usize = 200;

/// A table of any number of rows, of which the first ones are shown: a field finds rows by the columns that are not
/// numbers.
pub(crate) fn long_table(id: &str, head: &[(&str, bool)], rows: &[String]) -> String {
    let (first, later) = rows.split_at(rows.len().min(FIRST));
    let mut text = String::new();
    if !later.is_empty() {
        text = format!(
            "<p class=\"scriptless\">The first {FIRST} of {} rows; scripts show the others.</p>\n",
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
