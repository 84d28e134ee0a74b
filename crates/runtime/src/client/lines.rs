//! A watch's answer as lines: one JSON document each, cut from the bytes as they come.
//!
//! A line that lies within one frame is handed on without being copied.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::Body;

use super::{error::BoxError, transport::ResponseBody};

/// The lines of a streaming answer, without their line ends. A last line that was cut off is not given.
pub struct Lines {
    body: Option<ResponseBody>,
    /// What of the newest frame has not been handed on.
    frame: Bytes,
    /// The beginning of a line whose end is still to come.
    partial: BytesMut,
}

impl Lines {
    pub(super) fn new(body: ResponseBody) -> Self {
        Self { body: Some(body), frame: Bytes::new(), partial: BytesMut::new() }
    }

    /// A whole line, where the frame at hand ends one.
    fn cut(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.frame) else {
            self.partial.extend_from_slice(&self.frame);
            self.frame.clear();
            return None;
        };
        let mut line = self.frame.split_to(end + 1);
        line.truncate(end);
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(&line);
            line = self.partial.split().freeze();
        }
        Some(line)
    }
}

impl Stream for Lines {
    type Item = Result<Bytes, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let lines = &mut *self;
        loop {
            if !lines.frame.is_empty() {
                match lines.cut() {
                    Some(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                    Some(line) => return Poll::Ready(Some(Ok(line))),
                    None => {}
                }
            }
            let Some(body) = &mut lines.body else { return Poll::Ready(None) };
            match Pin::new(body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        lines.frame = data;
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    lines.body = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    lines.body = None;
                    return Poll::Ready(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use http_body::Frame;
    use http_body_util::{BodyExt, StreamBody};
    use proptest::prelude::*;

    use super::*;

    fn lines(frames: Vec<Bytes>) -> Vec<String> {
        let frames = stream::iter(frames.into_iter().map(|bytes| Ok::<_, Infallible>(Frame::data(bytes))));
        let body = StreamBody::new(frames).map_err(|never| match never {}).boxed_unsync();
        let text = Lines::new(body).map(|line| String::from_utf8(line.unwrap().to_vec()).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(text.collect())
    }

    #[test]
    fn a_line_that_was_cut_off_is_not_given() {
        assert_eq!(lines(vec!["{\"a\":1}\n{\"b\"".into(), ":2}\n\n{\"c\":".into()]), ["{\"a\":1}", "{\"b\":2}"]);
    }

    proptest! {
        #[test]
        fn the_lines_do_not_depend_on_the_frames(
            text in prop::collection::vec("[a-z]{1,9}", 0..20), cuts in prop::collection::vec(0_usize..200, 0..20)
        ) {
            let whole: String = text.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let frames = cuts.windows(2).map(|cut| whole.as_bytes()[cut[0]..cut[1]].to_vec().into()).collect();
            prop_assert_eq!(lines(frames), text);
        }
    }
}
