//! A watch's answer as frames, one event each, cut from the bytes as they arrive.
//!
//! In JSON a frame is a line. In protobuf four bytes, big endian, say how many bytes the frame has that
//! follows. A frame that lies within one chunk of the body is handed on without being copied.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes, BytesMut};
use futures::Stream;
use http_body::Body;

use super::{encoding::Encoding, error::BoxError, transport::ResponseBody};

/// The longest frame accepted, in bytes: upstream's limit, ten times what a server stores.
const LONGEST: usize = 16 * 1024 * 1024;
/// The bytes that a frame's length takes.
const PREFIX: usize = 4;

/// The frames of a streaming answer, without what delimits them. A last one that was cut off is not given.
pub struct Frames {
    encoding: Encoding,
    body: Option<ResponseBody>,
    /// What of the newest chunk has not been handed on.
    chunk: Bytes,
    /// The beginning of an incomplete frame, with its length prefix if it has one.
    partial: BytesMut,
}

/// A length that no frame has.
#[derive(Debug, thiserror::Error)]
#[error("a frame of {length} bytes was announced, at most {LONGEST} are taken")]
struct TooLong {
    length: usize,
}

impl Frames {
    pub(super) fn new(body: ResponseBody, encoding: Encoding) -> Self {
        Self { encoding, body: Some(body), chunk: Bytes::new(), partial: BytesMut::new() }
    }

    /// How the events in the frames are written.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// A whole frame, where the chunk at hand ends one.
    fn cut(&mut self) -> Result<Option<Bytes>, TooLong> {
        match self.encoding {
            Encoding::Json => Ok(self.cut_line()),
            Encoding::Protobuf => self.cut_delimited(),
        }
    }

    /// A line that is not blank.
    fn cut_line(&mut self) -> Option<Bytes> {
        while let Some(end) = memchr::memchr(b'\n', &self.chunk) {
            let mut line = self.chunk.split_to(end + 1);
            line.truncate(end);
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(&line);
                line = self.partial.split().freeze();
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line);
            }
        }
        self.keep(self.chunk.len());
        None
    }

    fn cut_delimited(&mut self) -> Result<Option<Bytes>, TooLong> {
        if self.partial.is_empty()
            && let Some(length) = announced(&self.chunk)?
            && self.chunk.len() >= PREFIX + length
        {
            self.chunk.advance(PREFIX);
            return Ok(Some(self.chunk.split_to(length)));
        }
        // Only what belongs to this frame is copied.
        self.keep(PREFIX.saturating_sub(self.partial.len()));
        let Some(length) = announced(&self.partial)? else { return Ok(None) };
        self.keep(PREFIX + length - self.partial.len());
        if self.partial.len() < PREFIX + length {
            return Ok(None);
        }
        let mut frame = self.partial.split().freeze();
        frame.advance(PREFIX);
        Ok(Some(frame))
    }

    /// Moves up to this many bytes of the chunk to the incomplete frame.
    fn keep(&mut self, bytes: usize) {
        let bytes = bytes.min(self.chunk.len());
        self.partial.extend_from_slice(&self.chunk.split_to(bytes));
    }
}

/// The length prefix of a frame, once it is complete.
fn announced(bytes: &[u8]) -> Result<Option<usize>, TooLong> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
    if length > LONGEST { Err(TooLong { length }) } else { Ok(Some(length)) }
}

impl Stream for Frames {
    type Item = Result<Bytes, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frames = &mut *self;
        loop {
            if !frames.chunk.is_empty() {
                match frames.cut() {
                    Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                    Ok(None) => {}
                    Err(error) => {
                        // The start of the next frame is not known.
                        frames.body = None;
                        frames.chunk.clear();
                        return Poll::Ready(Some(Err(error.into())));
                    }
                }
            }
            let Some(body) = &mut frames.body else { return Poll::Ready(None) };
            match Pin::new(body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        frames.chunk = data;
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    frames.body = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    frames.body = None;
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

    fn frames(encoding: Encoding, chunks: Vec<Bytes>) -> Vec<Result<Bytes, String>> {
        let chunks = stream::iter(chunks.into_iter().map(|bytes| Ok::<_, Infallible>(Frame::data(bytes))));
        let body = StreamBody::new(chunks).map_err(|never| match never {}).boxed_unsync();
        let frames = Frames::new(body, encoding).map(|frame| frame.map_err(|error| error.to_string()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(frames.collect())
    }

    fn delimited(frame: &[u8]) -> Vec<u8> {
        [&u32::try_from(frame.len()).unwrap().to_be_bytes(), frame].concat()
    }

    /// `whole` in pieces, some of them empty.
    fn cut(whole: &[u8], mut cuts: Vec<usize>) -> Vec<Bytes> {
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(whole.len()));
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|cut| whole[cut[0]..cut[1]].to_vec().into()).collect()
    }

    #[test]
    fn a_frame_that_was_cut_off_is_not_given() {
        let lines = frames(Encoding::Json, vec!["{\"a\":1}\n{\"b\"".into(), ":2}\n\n{\"c\":".into()]);
        assert_eq!(lines, [Ok("{\"a\":1}".into()), Ok("{\"b\":2}".into())]);
        let chunks = vec![[delimited(b"one"), vec![0, 0]].concat().into(), Bytes::from_static(&[0, 9, b't', b'w'])];
        assert_eq!(frames(Encoding::Protobuf, chunks), [Ok("one".into())]);
    }

    #[test]
    fn a_length_out_of_reason_ends_the_stream() {
        let longest = u32::try_from(LONGEST).unwrap();
        let chunk = [&delimited(b"one")[..], &(longest + 1).to_be_bytes(), b"two"].concat();
        let error = "a frame of 16777217 bytes was announced, at most 16777216 are taken".to_owned();
        for chunks in [cut(&chunk, vec![]), cut(&chunk, vec![9])] {
            assert_eq!(frames(Encoding::Protobuf, chunks), [Ok("one".into()), Err(error.clone())]);
        }
        let whole = cut(&delimited(&vec![7; LONGEST]), vec![2, 1_000_000]);
        assert_eq!(frames(Encoding::Protobuf, whole)[0].as_ref().unwrap().len(), LONGEST);
    }

    proptest! {
        #[test]
        fn the_lines_do_not_depend_on_the_chunks(
            text in prop::collection::vec("[a-z]{1,9}", 0..20), cuts in prop::collection::vec(0_usize..200, 0..20)
        ) {
            let whole: String = text.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            let text: Vec<_> = text.into_iter().map(|line| Ok(line.into())).collect();
            prop_assert_eq!(frames(Encoding::Json, cut(whole.as_bytes(), cuts)), text);
        }

        #[test]
        fn the_frames_do_not_depend_on_the_chunks(
            sent in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..20),
            cuts in prop::collection::vec(0_usize..200, 0..40),
        ) {
            let whole: Vec<u8> = sent.iter().flat_map(|frame| delimited(frame)).collect();
            let sent: Vec<_> = sent.into_iter().map(|frame| Ok(frame.into())).collect();
            prop_assert_eq!(frames(Encoding::Protobuf, cut(&whole, cuts)), sent);
        }
    }
}
