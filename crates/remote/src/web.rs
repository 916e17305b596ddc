//! Requests for which the client of a store has no function.

use super::problem::{Failure, Problem};
use reqwest::header::HeaderMap;
use std::sync::OnceLock;
use std::time::Duration;

/// What a server answers.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The answer, if it is what was asked for.
    pub(super) fn granted(self, who: &str) -> Result<Self, Problem> {
        let failure = match self.status {
            200..=299 => return Ok(self),
            401 | 403 => Failure::Denied,
            404 => Failure::Missing,
            _ => Failure::Other,
        };
        Err(Problem::new(failure, format!("{who} answered {}", self.status)))
    }
}

/// The longest answer that is read.
const LARGEST: usize = 16 << 20;

/// The client for such requests. A machine without certificates has one, too, if no server needs them.
pub(super) fn client(without_encryption: bool) -> Result<reqwest::Client, Problem> {
    static CLIENTS: [OnceLock<Result<reqwest::Client, Problem>>; 2] = [OnceLock::new(), OnceLock::new()];
    let made = CLIENTS.get(usize::from(without_encryption)).map(|slot| {
        slot.get_or_init(|| {
            let builder = || {
                reqwest::Client::builder()
                    .user_agent(concat!("ckpt/", env!("CARGO_PKG_VERSION")))
                    .connect_timeout(Duration::from_secs(10))
                    .read_timeout(Duration::from_secs(20))
            };
            match builder().build() {
                Err(_) if without_encryption => builder().tls_certs_only([]).build(),
                built => built,
            }
            .map_err(Problem::from)
        })
    });
    made.cloned().unwrap_or_else(|| Err(Problem::new(Failure::Other, "there is no client")))
}

/// The answer of `who` to a request, which is asked again if the server is not ready.
pub(super) async fn answer(request: reqwest::RequestBuilder, who: &str) -> Result<Answer, Problem> {
    const ATTEMPTS: u32 = 5;
    let mut attempt = 0;
    loop {
        let again = request.try_clone();
        let again = again.ok_or_else(|| Problem::new(Failure::Other, "the request cannot be repeated"))?;
        match once(again, who).await {
            Err(problem) if problem.failure == Failure::Short && attempt < ATTEMPTS => attempt += 1,
            answer => return answer,
        }
        tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
    }
}

async fn once(request: reqwest::RequestBuilder, who: &str) -> Result<Answer, Problem> {
    let again = |error: reqwest::Error| Problem { failure: Failure::Short, ..Problem::from(error) };
    let mut answer = request.send().await.map_err(again)?;
    let status = answer.status().as_u16();
    if matches!(status, 408 | 429 | 500 | 502..=599) {
        return Err(Problem::new(Failure::Short, format!("{who} answered {status}")));
    }
    let headers = std::mem::take(answer.headers_mut());
    let mut body = Vec::new();
    while let Some(bytes) = answer.chunk().await.map_err(again)? {
        if body.len() + bytes.len() > LARGEST {
            return Err(Problem::new(Failure::Other, format!("the answer of {who} is too long")));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(Answer { status, headers, body })
}
