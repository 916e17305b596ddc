//! Texts of stores for people: without secrets, queries of addresses and markup.

/// The values of environment variables that nothing may print.
pub(super) fn secrets() -> Vec<String> {
    const NAMES: [&str; 12] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_CLIENT_SECRET",
        "GOOGLE_BEARER_TOKEN",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
    ];
    /// Shorter ones are no secrets, and words of messages.
    const SHORTEST: usize = 8;
    let values = NAMES.iter().filter_map(|name| std::env::var(name).ok());
    values.map(|value| value.trim().to_owned()).filter(|value| value.len() >= SHORTEST).collect()
}

/// A text for people: without secrets, queries of addresses and markup, and not too long.
pub(super) fn cleaned(text: &str, secrets: &[String]) -> String {
    const LONGEST: usize = 500;
    let mut text = without_markup(&without_queries(text));
    for secret in secrets {
        text = text.replace(secret.as_str(), "…");
    }
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

/// What a store's answer in XML says, for people.
pub(super) fn cleaned_answer(text: &str) -> String {
    cleaned(text, &secrets())
}

/// Of each address in a text, what precedes its question mark.
fn without_queries(text: &str) -> String {
    let ends = |c: char| c.is_whitespace() || "\"'<>)]}".contains(c);
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at);
        let end = address.find(ends).unwrap_or(address.len());
        let (address, after) = address.split_at(end);
        kept += before;
        kept += address.split(['?', '#']).next().unwrap_or_default();
        rest = after;
    }
    kept + rest
}

/// A text in which the code and the message of a store's answer in XML stand for all of it: the rest repeats the request,
/// with keys and signatures.
fn without_markup(text: &str) -> String {
    let Some((start, end)) = text.find('<').zip(text.rfind('>')) else { return text.to_owned() };
    let Some(markup) = text.get(start..=end) else { return text.to_owned() };
    let of = |tag: &str| {
        let inner = markup.split_once(&format!("<{tag}>"))?.1;
        Some(inner.split_once('<')?.0.trim().to_owned())
    };
    let said: Vec<String> = [of("Code"), of("Message"), of("title")].into_iter().flatten().collect();
    let before = text.get(..start).unwrap_or_default();
    let after = text.get(end + 1..).unwrap_or_default();
    format!("{before}{}{after}", said.join(": "))
}

/// An address, of which only what no signature can be in is shown.
pub(super) fn shown(address: &str) -> String {
    without_queries(address)
}
