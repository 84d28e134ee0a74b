//! What is stored anew in every server: an object as it was written once, with another uid and another time.

use super::Draft;

/// An object of which each copy has a uid and times of its own.
#[derive(Debug)]
pub struct Stencil {
    draft: Draft,
    /// Where the uid is in its JSON.
    uids: Vec<usize>,
    /// Where the times are.
    times: Vec<usize>,
}

impl Stencil {
    /// Of an object with this uid, in which nothing else reads so, and whose times are all this one.
    #[must_use]
    pub fn of(mut draft: Draft, time: &str) -> Self {
        let find = |text: &str| -> Vec<usize> {
            let text = text.as_bytes();
            (0..draft.json.len()).filter(|at| draft.json[*at..].starts_with(text)).collect()
        };
        let (uids, times) = (find(&draft.uid), find(time));
        // It would keep the uid and the times of before.
        draft.tree = None;
        Self { uids, times, draft }
    }

    /// The object with this uid and this time, which are as long as those before.
    #[must_use]
    pub fn copy(&self, uid: &str, time: &str) -> Draft {
        let mut draft = self.draft.clone();
        for (places, text) in [(&self.uids, uid), (&self.times, time)] {
            for at in places {
                let end = (at + text.len()).min(draft.json.len());
                draft.json[*at..end].copy_from_slice(&text.as_bytes()[..end - at]);
            }
        }
        draft.uid = uid.into();
        draft
    }
}
