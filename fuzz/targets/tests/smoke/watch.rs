//! What ends the program if one input takes so long that it hangs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A debug build needs milliseconds for an input; beside others, on a busy machine, a thousand times as long is no failure.
const LONGEST: Duration = Duration::from_secs(60);

/// Waits for the inputs of one target.
pub struct Watch(Sender<Option<String>>);

impl Watch {
    /// Begins to wait.
    pub fn over(target: &'static str) -> Self {
        let (sender, receiver) = channel::<Option<String>>();
        std::thread::spawn(move || {
            let mut input = None;
            loop {
                let wait = if input.is_some() {
                    receiver.recv_timeout(LONGEST)
                } else {
                    receiver.recv().map_err(Into::into)
                };
                match (wait, input) {
                    (Ok(next), _) => input = next,
                    (Err(RecvTimeoutError::Timeout), Some(input)) => {
                        eprintln!("timeout: target {target} has run for {LONGEST:?} over {input}");
                        std::process::abort();
                    }
                    (Err(_), _) => return,
                }
            }
        });
        Self(sender)
    }

    /// The next input begins.
    pub fn begins(&self, input: String) {
        // The thread lives as long as this sender.
        let _ = self.0.send(Some(input));
    }

    /// An input has ended.
    pub fn ends(&self) {
        let _ = self.0.send(None);
    }
}
