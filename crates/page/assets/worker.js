// One stream for all pages of this browser: a browser opens six connections to a server at most, and a page may be open
// more often. Each page says which view it shows, and is sent all of that view first and then what changes.
"use strict";

const pages = new Map(); // what a page is sent through -> its view
let key = ""; // the session's: what is stored for this origin
const known = new Map(); // view -> {html, lists}
let source = null;
let stream = null;
let connected = "connecting";

const views = () => [...new Set(pages.values())];

function tell(message, view) {
  for (const [port, its] of pages) if (view === undefined || its === view) port.postMessage(message);
}

function state(is) {
  if (is === connected) return;
  connected = is;
  tell({ state: is });
}

let asking = Promise.resolve();

// One request after another: the last one counts.
function ask() {
  const wanted = views();
  for (const view of known.keys()) if (!wanted.includes(view)) known.delete(view);
  asking = asking.then(() => askFor(views()));
}

async function askFor(wanted) {
  if (stream === null) return;
  const mine = stream;
  try {
    const anew = wanted.filter((view) => !known.has(view));
    const answer = await fetch("/views", {
      method: "POST",
      headers: { "x-muster-key": key },
      body: JSON.stringify({ stream: mine, views: wanted, anew }),
    });
    if (answer.ok) return state("live");
    if (mine === stream) {
      state("lost");
      reconnect();
    }
  } catch {
    // The stream ends too, and comes back.
  }
}

function reconnect(after = 1000) {
  if (source) source.close();
  source = null;
  stream = null;
  setTimeout(connect, after);
}

function connect() {
  if (source) return;
  source = new EventSource(`/live?watch=true&key=${key}`);
  source.addEventListener("stream", (event) => {
    stream = Number(event.data);
    // A new stream sends everything again, and nothing of what was there may be left.
    known.clear();
    ask();
  });
  source.onmessage = (event) => {
    const frame = JSON.parse(event.data);
    let all = known.get(frame.view);
    if (!all) known.set(frame.view, (all = { html: {}, lists: {}, first: true }));
    Object.assign(all.html, frame.html);
    Object.assign(all.lists, frame.lists);
    if (Object.keys(frame.lists).length) {
      const there = new Set(Object.values(all.lists).flat());
      for (const id of Object.keys(all.html)) if (!there.has(id)) delete all.html[id];
    }
    tell({ frame, whole: all.first === true }, frame.view);
    all.first = false;
  };
  source.onerror = async () => {
    stream = null;
    if (source.readyState !== EventSource.CLOSED) return state("lost");
    // It was refused, and a browser does not try again by itself.
    const answer = await fetch("/views", { method: "POST", headers: { "x-muster-key": key }, body: "{}" }).catch(() => null);
    const refused = answer?.status === 401;
    state(refused ? "refused" : "lost");
    reconnect(refused ? 30_000 : 1000);
  };
}

function hear(port, message) {
  if (message.bye) {
    pages.delete(port);
  } else {
    if (message.key && message.key !== key) {
      key = message.key;
      // What is tried with the old one is refused, and is then not tried for a while.
      if (connected !== "live") reconnect(0);
    }
    if (!pages.has(port) && message.lock && navigator.locks) {
      // A page that dies says nothing, but it lets go of its lock.
      navigator.locks.request(message.lock, () => hear(port, { bye: true }));
    }
    pages.set(port, message.view);
    port.postMessage({ state: connected });
    const all = known.get(message.view);
    if (all) port.postMessage({ frame: { view: message.view, html: all.html, lists: all.lists }, whole: true });
  }
  ask();
  connect();
}

if ("SharedWorkerGlobalScope" in self) {
  self.onconnect = (event) => {
    const port = event.ports[0];
    port.onmessage = (message) => hear(port, message.data);
  };
} else {
  self.onmessage = (message) => hear(self, message.data);
}
