//! Panics of a history, in whichever task: a world is on one thread, so that they are those of the thread.
//!
//! A task that panics ends, and nothing else of it is told to anybody: the controllers try the sync again, and the history may still
//! come to a good end.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::play::{PlayError, Played};
use crate::laws::{Broken, Law};

thread_local! {
    /// What has panicked on this thread; none where it plays no history.
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Plays a history on this thread, and adds what has panicked to the laws that were broken, as the first. The process's panic hook is
/// called for other threads only, and for this one afterwards.
pub(super) fn judged(play: impl FnOnce() -> Result<Played, PlayError>) -> Result<Played, PlayError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let hear = |heard: &RefCell<Option<Vec<String>>>| {
                heard.try_borrow_mut().ok()?.as_mut()?.push(words(info));
                Some(())
            };
            if HEARD.try_with(hear).ok().flatten().is_none() {
                before(info);
            }
        }));
    });
    HEARD.set(Some(Vec::new()));
    // What a panic leaves behind is the history's own, and goes with it.
    let played = catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|_| Ok(Played::default()));
    let heard = HEARD.take().unwrap_or_default();
    played.map(|mut played| {
        played.broken.splice(..0, heard.iter().map(|how| Broken::at_the_end(Law::Panic, how)));
        played
    })
}

/// Where it was, and what it said.
fn words(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
    let payload = info.payload();
    let said = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("{place}: {}", said.unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was broken in a history that is this.
    fn broken(play: impl FnOnce() -> Played) -> Vec<String> {
        let played = judged(|| Ok(play())).expect("a history");
        played.broken.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_panic_of_a_task_is_heard_though_nobody_waits_for_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let told = broken(|| {
            runtime.block_on(async {
                drop(tokio::spawn(async { panic!("a sync of {}", "web") }));
                tokio::task::yield_now().await;
            });
            Played { broken: vec![Broken::at_the_end(Law::Ends, "no end")], ..Played::default() }
        });
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("panic: ") && told[0].ends_with(": a sync of web"), "{told:?}");
        assert_eq!(told[1], "ends: no end");
    }

    #[test]
    fn a_panic_that_ends_a_history_is_what_was_broken_and_the_next_has_none() {
        let told = broken(|| panic!("a law"));
        assert!(told.len() == 1 && told[0].ends_with(": a law"), "{told:?}");
        assert_eq!(broken(Played::default), Vec::<String>::new());
        // Outside of histories a panic is what it is everywhere.
        assert!(catch_unwind(|| panic!("printed, and no more than that")).is_err());
        assert_eq!(broken(Played::default), Vec::<String>::new());
    }
}
