//! The network between a client and the server. A request that was sent goes on even if its sender is gone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use muster_runtime::client::{BoxError, ResponseBody};
use muster_tree::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio::time::Instant;
use tower::{Service, ServiceExt as _};

use super::answer::{self, Broken};
use super::bookmark;
use super::event::Events;
use super::memory::Asked;
use super::rule::{Fault, Refusal};
use super::target::{Target, Verb};
use super::{Faults, Release};
use crate::history::Sent;

/// What will happen to one request.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// The delay until it arrives.
    pub(super) before: Duration,
    pub(super) end: Option<End>,
    /// The delay until its answer is sent.
    pub(super) after: Duration,
    pub(super) stale: bool,
    pub(super) mutated: bool,
    /// By how much a watch is behind, all the time.
    pub(super) behind: Duration,
    /// How many times others have their turn first.
    pub(super) turns: u64,
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

/// What will happen, to which faults are added.
pub(super) trait Outcome {
    /// Adds what strikes, as it was drawn; false if another has come to the same place before.
    fn add(&mut self, fault: &Fault) -> bool;
    /// Whether what was added comes to something beside all the others.
    fn comes_to(&self, fault: &Fault) -> bool;
}

impl Outcome for Fate {
    /// Of several ends the first counts.
    fn add(&mut self, fault: &Fault) -> bool {
        let end = match fault {
            Fault::Lost => End::Lost,
            Fault::Reset => End::Reset,
            Fault::AnswerLost => End::AnswerLost,
            Fault::Refuse(refusal) => End::Refused(*refusal),
            Fault::ActAndRefuse(refusal) => End::ActedAndRefused(*refusal),
            other => return self.add_on_the_way(other),
        };
        let is_first = self.end.is_none();
        self.end.get_or_insert(end);
        is_first
    }

    fn comes_to(&self, fault: &Fault) -> bool {
        // What does not arrive has no answer.
        let arrives = !matches!(self.end, Some(End::Lost | End::Reset | End::Refused(_)));
        arrives || !matches!(fault, Fault::Slow(_) | Fault::Behind(_) | Fault::Mutate)
    }
}

impl Fate {
    /// Adds what ends nothing; false for what is about pieces of a watch.
    fn add_on_the_way(&mut self, fault: &Fault) -> bool {
        match fault {
            Fault::Delay(range) => self.before += range.start,
            Fault::Slow(range) => self.after += range.start,
            Fault::Stale => self.stale = true,
            Fault::Mutate => self.mutated = true,
            Fault::Behind(range) => self.behind = range.start,
            Fault::Yield(turns) => self.turns = *turns,
            _ => return false,
        }
        true
    }
}

/// What will happen to one piece of a watch.
#[derive(Debug, Default)]
pub(super) struct PieceFate {
    pub(super) lag: Duration,
    /// Only this many bytes of it arrive, and then the stream ends: with an error or, if true, without one.
    pub(super) cut: Option<(u64, bool)>,
    pub(super) stalls: bool,
    /// It is left out.
    pub(super) lost: bool,
    /// It comes once more.
    pub(super) twice: bool,
    /// Its version is an earlier one.
    pub(super) old: bool,
}

impl Outcome for PieceFate {
    fn add(&mut self, fault: &Fault) -> bool {
        match fault {
            Fault::Lag(range) => self.lag += range.start,
            Fault::CutAt { bytes, quietly } => self.cut = Some((*bytes, *quietly)),
            Fault::BookmarkLost | Fault::EventLost => self.lost = true,
            Fault::EventTwice => self.twice = true,
            Fault::BookmarkOld => self.old = true,
            Fault::Stall => self.stalls = true,
            _ => return false,
        }
        true
    }

    fn comes_to(&self, fault: &Fault) -> bool {
        match fault {
            Fault::Stall | Fault::BookmarkOld => !self.lost,
            Fault::Cut | Fault::CutAt { .. } | Fault::EventTwice => !self.lost && !self.stalls,
            _ => true,
        }
    }
}

/// Carries a request to the server and its answer back.
pub(super) async fn carry<S, B>(
    server: S,
    mut request: Request<Full<Bytes>>,
    who: Arc<str>,
    target: Target,
    fate: Fate,
    mut release: Release,
    faults: Faults,
) -> Result<Response<ResponseBody>, BoxError>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    if fate.before > Duration::ZERO {
        release.or_until(Instant::now() + fate.before).await;
    }
    for _ in 0..fate.turns {
        yield_now().await;
    }
    let mut outages = faults.outages();
    if outages.borrow_and_update().away {
        faults.strike();
        return Err(Broken::Refused.into());
    }
    match fate.end {
        Some(End::Lost | End::Reset) => return Err(Broken::Reset.into()),
        Some(End::Refused(refusal)) => return Ok(answer::refusal(refusal, &target)),
        Some(End::AnswerLost | End::ActedAndRefused(_)) | None => {}
    }
    if fate.mutated {
        request = mutated(request).await;
    }
    let asked = Asked::of(&request);
    let answer = server.oneshot(request).await.map_err(Into::into)?;
    let (head, body) = answer.into_parts();
    let body = body.map_err(Into::into).boxed_unsync();
    if let Some(End::AnswerLost | End::ActedAndRefused(_)) = fate.end {
        // A watch has no end to wait for.
        if target.verb != Verb::Watch {
            faults.lose(&who, &target, head.status, &body.collect().await?.to_bytes());
        }
        release.or_until(Instant::now() + fate.after).await;
        return match fate.end {
            Some(End::ActedAndRefused(refusal)) => Ok(answer::refusal(refusal, &target)),
            _ => Err(Broken::Reset.into()),
        };
    }
    if fate.after > Duration::ZERO {
        release.or_until(Instant::now() + fate.after).await;
    }
    for _ in 0..fate.turns {
        yield_now().await;
    }
    // Who may not have the newest is not given an older one.
    if fate.stale
        && head.status == StatusCode::OK
        && let Some(answer) = faults.recall(&who, &target, &asked)
    {
        return Ok(answer);
    }
    if target.verb == Verb::Watch && head.status.is_success() {
        let body = deliver(body, who, target, (fate.behind, release), faults, outages);
        return Ok(Response::from_parts(head, body));
    }
    let body = body.collect().await?.to_bytes();
    // The server went away before its answer was sent.
    if outages.has_changed().unwrap_or(true) {
        faults.lose(&who, &target, head.status, &body);
        return Err(Broken::Reset.into());
    }
    if target.verb == Verb::List && head.status.is_success() {
        faults.remember(&asked, &head.headers, &body);
    }
    Ok(Response::from_parts(head, answer::whole(body)))
}

/// When a piece is passed on, or what lets it go before that.
type Piece = (Instant, Release, Result<Bytes, BoxError>);

/// The body of a watch as the client gets it: read from the server at once, and passed on at its time.
fn deliver(
    body: ResponseBody,
    who: Arc<str>,
    target: Target,
    behind: (Duration, Release),
    faults: Faults,
    outages: watch::Receiver<super::Outage>,
) -> ResponseBody {
    let (sender, receiver) = mpsc::unbounded_channel();
    let broken = outages.clone();
    tokio::spawn(read(body, who, target, behind, faults, outages, sender));
    let pieces = unfold(Some((receiver, broken)), |reader| async {
        let (mut receiver, mut broken) = reader?;
        let (due, mut release, piece): Piece = receiver.recv().await?;
        // What was due is here, and what is late goes with the connection.
        if due > Instant::now() {
            tokio::select! {
                biased;
                _ = broken.changed() => return Some((Err(Broken::Reset.into()), None)),
                () = release.or_until(due) => {}
            }
        }
        Some((piece.map(Frame::data), Some((receiver, broken))))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// Reads a watch until it is ended by the client or by a fault.
async fn read(
    mut body: ResponseBody,
    who: Arc<str>,
    target: Target,
    (mut behind, mut release): (Duration, Release),
    faults: Faults,
    mut outages: watch::Receiver<super::Outage>,
    out: mpsc::UnboundedSender<Piece>,
) {
    let (mut due, mut events) = (Instant::now(), Events::default());
    loop {
        let frame = tokio::select! {
            biased;
            () = out.closed() => return,
            _ = outages.changed() => {
                let _ = out.send((Instant::now(), release, Err(Broken::Reset.into())));
                return;
            }
            frame = body.frame() => frame,
        };
        let Some(Ok(piece)) = frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default())) else {
            return;
        };
        if release.is_over() {
            (due, behind, release) = (Instant::now(), Duration::ZERO, faults.release_to_come());
        }
        for piece in events.take(piece) {
            let fate = faults.piece(&who, &target, &piece);
            due = due.max(Instant::now() + behind + fate.lag);
            if fate.lost {
                continue;
            }
            let piece = if fate.old { bookmark::older(&piece) } else { piece };
            if fate.stalls {
                // The client gets no error, unless the connection breaks.
                tokio::select! {
                    biased;
                    () = out.closed() => return,
                    () = release.come() => {}
                    _ = outages.changed() => {}
                }
                let _ = out.send((due, release, Err(Broken::Reset.into())));
                return;
            }
            // The reader may be gone; the next iteration notices.
            let Some((bytes, quietly)) = fate.cut else {
                for _ in 0..1 + u8::from(fate.twice) {
                    let _ = out.send((due, release.clone(), Ok(piece.clone())));
                }
                continue;
            };
            let bytes = usize::try_from(bytes).map_or(piece.len(), |bytes| bytes.min(piece.len()));
            let _ = out.send((due, release.clone(), Ok(piece.slice(..bytes))));
            if !quietly {
                let _ = out.send((due, release, Err(Broken::Reset.into())));
            }
            return;
        }
    }
}

/// The request as an admission webhook makes it: one more annotation, one more container.
async fn mutated(request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    let (mut head, body) = request.into_parts();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes);
    head.extensions.insert(Sent(body.clone()));
    let changed = serde_json::from_slice::<Value>(&body).ok().and_then(|mut object| {
        let annotations =
            object.get_mut("metadata")?.as_object_mut()?.entry("annotations").or_insert_with(|| json!({}));
        annotations.as_object_mut()?.insert("injected", json!("true"));
        if let Some(containers) = object.pointer_mut("/spec/containers").and_then(Value::as_array_mut) {
            containers.push(json!({"name": "injected", "image": "sidecar:1"}));
        }
        Some(Bytes::from(object.to_string()))
    });
    Request::from_parts(head, Full::new(changed.unwrap_or(body)))
}
