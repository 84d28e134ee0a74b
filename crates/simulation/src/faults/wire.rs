//! The network between a client and the server. A request that was sent goes on even if its sender is gone.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use muster_runtime::client::{BoxError, ResponseBody};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tower::{Service, ServiceExt as _};

use super::Faults;
use super::answer::{self, Broken};
use super::rule::{Fault, Refusal};
use super::target::{Target, Verb};

/// What will happen to one request.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// The delay until it arrives.
    pub(super) before: Duration,
    pub(super) end: Option<End>,
    /// The delay until its answer is sent.
    pub(super) after: Duration,
    pub(super) stale: bool,
}

/// A refusal in place of the server's answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Lost,
    Reset,
    AnswerLost,
    Refused(Refusal),
    ActedAndRefused(Refusal),
}

impl Fate {
    /// Adds a fault; of several that end the request the first counts.
    pub(super) fn add(&mut self, fault: &Fault, draw: impl FnOnce(&std::ops::Range<Duration>) -> Duration) {
        let end = match fault {
            Fault::Delay(range) => return self.before += draw(range),
            Fault::Slow(range) => return self.after += draw(range),
            Fault::Stale => return self.stale = true,
            Fault::Lost => End::Lost,
            Fault::Reset => End::Reset,
            Fault::AnswerLost => End::AnswerLost,
            Fault::Refuse(refusal) => End::Refused(*refusal),
            Fault::ActAndRefuse(refusal) => End::ActedAndRefused(*refusal),
            Fault::Cut | Fault::Stall | Fault::Lag(_) => return,
        };
        self.end.get_or_insert(end);
    }
}

/// What will happen to one piece of a watch.
#[derive(Debug, Default)]
pub(super) struct PieceFate {
    pub(super) lag: Duration,
    /// Only this many bytes of it arrive, and then the stream ends: with an error or, if true, without one.
    pub(super) cut: Option<(usize, bool)>,
    pub(super) stalls: bool,
}

/// Carries a request to the server and its answer back.
pub(super) async fn carry<S, B>(
    server: S,
    request: Request<Full<Bytes>>,
    who: &'static str,
    target: Target,
    fate: Fate,
    faults: Faults,
) -> Result<Response<ResponseBody>, BoxError>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    sleep(fate.before).await;
    let mut outages = faults.outages();
    if outages.borrow_and_update().away {
        return Err(Broken::Refused.into());
    }
    match fate.end {
        Some(End::Lost) => return std::future::pending().await,
        Some(End::Reset) => return Err(Broken::Reset.into()),
        Some(End::Refused(refusal)) => return Ok(answer::refusal(refusal, &target)),
        Some(End::AnswerLost | End::ActedAndRefused(_)) | None => {}
    }
    if fate.stale
        && target.verb == Verb::List
        && let Some(answer) = faults.recall(request.uri())
    {
        return Ok(answer);
    }
    let uri = request.uri().clone();
    let answer = server.oneshot(request).await.map_err(Into::into)?;
    sleep(fate.after).await;
    match fate.end {
        Some(End::AnswerLost) => return Err(Broken::Reset.into()),
        Some(End::ActedAndRefused(refusal)) => return Ok(answer::refusal(refusal, &target)),
        _ => {}
    }
    let (mut head, body) = answer.into_parts();
    faults.date(&mut head.headers);
    let body = body.map_err(Into::into).boxed_unsync();
    if target.verb == Verb::Watch && head.status.is_success() {
        let body = deliver(body, who, target, faults, outages);
        return Ok(Response::from_parts(head, body));
    }
    let body = body.collect().await?.to_bytes();
    // The server went away before its answer was sent.
    if outages.has_changed().unwrap_or(true) {
        return Err(Broken::Reset.into());
    }
    if target.verb == Verb::List && head.status.is_success() {
        faults.remember(&uri, &head.headers, &body);
    }
    Ok(Response::from_parts(head, answer::whole(body)))
}

type Piece = (Instant, Result<Bytes, BoxError>);

/// The body of a watch as the client gets it: read from the server at once, and passed on at its time.
fn deliver(
    body: ResponseBody,
    who: &'static str,
    target: Target,
    faults: Faults,
    outages: watch::Receiver<super::Outage>,
) -> ResponseBody {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(read(body, who, target, faults, outages, sender));
    let pieces = unfold(receiver, |mut receiver: mpsc::UnboundedReceiver<Piece>| async {
        let (due, piece) = receiver.recv().await?;
        sleep_until(due).await;
        Some((piece.map(Frame::data), receiver))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// Reads a watch until it is ended by the client or by a fault.
async fn read(
    mut body: ResponseBody,
    who: &'static str,
    target: Target,
    faults: Faults,
    mut outages: watch::Receiver<super::Outage>,
    out: mpsc::UnboundedSender<Piece>,
) {
    let mut due = Instant::now();
    loop {
        let frame = tokio::select! {
            biased;
            () = out.closed() => return,
            _ = outages.changed() => {
                let _ = out.send((Instant::now(), Err(Broken::Reset.into())));
                return;
            }
            frame = body.frame() => frame,
        };
        let Some(Ok(piece)) = frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default())) else {
            return;
        };
        let fate = faults.piece(who, &target, piece.len());
        due = due.max(Instant::now() + fate.lag);
        if fate.stalls {
            // The client gets no error.
            return out.closed().await;
        }
        // The reader may be gone; the next iteration notices.
        let Some((bytes, quietly)) = fate.cut else {
            let _ = out.send((due, Ok(piece)));
            continue;
        };
        let _ = out.send((due, Ok(piece.slice(..bytes))));
        if !quietly {
            let _ = out.send((due, Err(Broken::Reset.into())));
        }
        return;
    }
}
