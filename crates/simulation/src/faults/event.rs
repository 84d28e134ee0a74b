//! The events of a watch, one by one: a server may send many at once, or a long one in several parts.

use bytes::{Bytes, BytesMut};

/// Whether a piece is an event, or a bookmark, as a line of JSON.
pub(super) fn is_one(piece: &[u8]) -> bool {
    piece.starts_with(b"{")
}

/// Takes what a server sends, and gives lines of JSON. Frames of protobuf are given as they come.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The beginning of a line whose end has not come.
    begun: BytesMut,
}

impl Events {
    /// What is whole with this.
    pub(super) fn take(&mut self, sent: Bytes) -> Vec<Bytes> {
        if self.begun.is_empty() && !is_one(&sent) {
            return vec![sent];
        }
        let mut rest = sent;
        let mut whole = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', &rest) {
            let line = rest.split_to(end + 1);
            if self.begun.is_empty() {
                whole.push(line);
            } else {
                self.begun.extend_from_slice(&line);
                whole.push(self.begun.split().freeze());
            }
        }
        self.begun.extend_from_slice(&rest);
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_however_they_were_sent() {
        let mut events = Events::default();
        let mut took = |sent: &'static str| events.take(Bytes::from(sent));
        assert_eq!(took("{1}\n{2}\n"), ["{1}\n", "{2}\n"]);
        assert_eq!(took("{3"), [""; 0]);
        assert_eq!(took("3}"), [""; 0]);
        assert_eq!(took("\n{4}\n{5"), ["{33}\n", "{4}\n"]);
        assert_eq!(took("}\n"), ["{5}\n"]);
        assert_eq!(took("\0k8s"), ["\0k8s"]);
    }
}
