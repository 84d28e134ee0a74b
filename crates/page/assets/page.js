// Shows a view: puts the fragments that come into their places, and tells the page what a person does.
"use strict";

const main = document.getElementById("view");
const connection = document.getElementById("connection");
const said = document.getElementById("said");
const template = document.createElement("template");
let view = location.pathname + location.search;
let elements = new Map();

const worker =
  typeof SharedWorker === "function" ? new SharedWorker("/worker.js").port : new Worker("/worker.js");
worker.onmessage = ({ data }) => {
  if (data.state) showState(data.state);
  if (data.frame && data.frame.view === view) show(data.frame, data.whole);
};
worker.start?.();
const key = localStorage.getItem("muster-key") ?? "";
const lock = `muster-page-${crypto.randomUUID()}`;
// It is held for as long as this page lives.
navigator.locks?.request(lock, () => new Promise(() => {}));
// Only then may the worker wait for it.
(navigator.locks ? navigator.locks.query() : Promise.resolve()).then(() => worker.postMessage({ view, key, lock }));
addEventListener("pagehide", () => worker.postMessage({ bye: true }));
addEventListener("pageshow", (event) => event.persisted && worker.postMessage({ view, key }));

function showState(state) {
  connection.className = state;
  connection.textContent = {
    connecting: "Connecting",
    live: "Live",
    lost: "Connection lost, trying again",
    refused: "Not let in: open the newest link of the terminal",
  }[state];
}

function look(at) {
  view = at;
  history.replaceState(null, "", at);
  worker.postMessage({ view, key });
}

// Fragments ---------------------------------------------------------------------------------------------------------

function show(frame, whole) {
  const focused = document.activeElement;
  const focus = focused && main.contains(focused) ? { id: focused.closest("[data-fragment]")?.id, at: order(focused) } : null;
  const fresh = whole ? new Map() : elements;
  for (const [id, html] of Object.entries(frame.html)) {
    const old = elements.get(id);
    if (old && old.source === html) {
      fresh.set(id, old);
      continue;
    }
    template.innerHTML = html;
    const element = template.content.firstElementChild;
    element.id = id;
    element.dataset.fragment = "";
    const entry = { element, source: html };
    if (old) {
      for (const list of old.element.querySelectorAll("[data-list]")) {
        const place = element.querySelector(`[data-list="${list.dataset.list}"]`);
        if (place) place.append(...list.childNodes);
      }
      keep(old.element, element);
      old.element.replaceWith(element);
    }
    fresh.set(id, entry);
  }
  elements = fresh;
  // What stands deeper comes after what it stands in.
  for (const [parent, ids] of Object.entries(frame.lists).sort(([a], [b]) => (b === "view") - (a === "view"))) {
    const place = parent === "view" ? main : main.querySelector(`[data-list="${CSS.escape(parent)}"]`);
    if (place) arrange(place, ids);
  }
  if (whole) {
    for (const place of main.querySelectorAll("[data-list]")) if (!(place.dataset.list in frame.lists)) arrange(place, []);
  }
  if (!whole && Object.keys(frame.lists).length) {
    for (const [id, { element }] of elements) if (!element.isConnected) elements.delete(id);
  }
  if (focus?.id && !main.contains(document.activeElement)) {
    const again = document.getElementById(focus.id);
    if (again) focusable(again)[focus.at]?.focus({ preventScroll: true });
  }
  rove();
  placeSlider();
  fillCommands();
  light();
}

function arrange(place, ids) {
  let at = place.firstElementChild;
  for (const id of ids) {
    const element = elements.get(id)?.element;
    if (!element) continue;
    if (element === at) at = at.nextElementSibling;
    else place.insertBefore(element, at);
  }
  while (at) {
    const next = at.nextElementSibling;
    at.remove();
    at = next;
  }
}

// What a person typed or opened stays.
function keep(old, fresh) {
  const forms = fresh.querySelectorAll("form");
  old.querySelectorAll("form").forEach((form, at) => {
    for (const field of form.querySelectorAll("[name]:not([type=hidden])")) {
      const same = forms[at]?.querySelector(`[name="${field.name}"]`);
      const first = field.options && [...field.options].findIndex((option) => option.defaultSelected);
      const touched = field.options ? field.selectedIndex !== Math.max(first, 0) : field.value !== field.defaultValue;
      if (same && touched && form.dataset.act === forms[at].dataset.act) same.value = field.value;
    }
  });
  if (old.querySelector("details")?.open) fresh.querySelector("details")?.setAttribute("open", "");
}

const focusable = (element) => [...element.querySelectorAll("a[href], button, input, select, summary")];
const order = (element) => {
  const fragment = element.closest("[data-fragment]");
  return fragment ? focusable(fragment).indexOf(element) : -1;
};

// Cells: one stop of the Tab key, arrows within --------------------------------------------------------------------------

function rove() {
  for (const list of main.querySelectorAll("[data-roving]")) {
    if (!list.querySelector('button[tabindex="0"]')) list.querySelector("button")?.setAttribute("tabindex", "0");
  }
}

main.addEventListener("keydown", (event) => {
  const list = event.target.closest?.("[data-roving]");
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!list || !step) return;
  const cells = [...list.querySelectorAll("button")];
  const next = cells[cells.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
});

let asking = 0;

function tellCell(event) {
  const cell = event.target.closest?.("button.cell");
  if (!cell) return;
  const told = cell.getAttribute("aria-label");
  said.textContent = told;
  clearTimeout(asking);
  if (!cell.dataset.more) return;
  asking = setTimeout(async () => {
    const answer = await fetch(cell.dataset.more, { headers: { "x-muster-key": key } }).catch(() => null);
    const { message } = answer?.ok ? await answer.json() : {};
    if (message && said.textContent === told) said.textContent = `${told}; ${message}`;
  }, 120);
}
main.addEventListener("focusin", tellCell);
main.addEventListener("focusin", (event) => {
  const list = event.target.closest?.("[data-roving]");
  if (!list) return;
  for (const cell of list.querySelectorAll('button[tabindex="0"]')) cell.setAttribute("tabindex", "-1");
  event.target.setAttribute("tabindex", "0");
});
main.addEventListener("pointerover", tellCell);

main.addEventListener("click", (event) => {
  const cell = event.target.closest?.("button.cell");
  const field = cell && main.querySelector("[data-chosen]");
  if (field) {
    field.value = cell.dataset.pod;
    fillCommands();
    said.textContent = `${cell.getAttribute("aria-label")}. Chosen.`;
  }
  if (event.target.closest?.("[data-play]")) play();
});

// Buttons and the commands that do the same --------------------------------------------------------------------------------

const quoted = (value) => (/^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`);

function fillCommands() {
  for (const code of main.querySelectorAll("[data-command]")) {
    const fields = new FormData(code.closest("form"));
    const text = code.dataset.command.replace(/\{(\w+)\}/g, (whole, name) => {
      const value = fields.get(name);
      return value ? quoted(value) : `<${name}>`;
    });
    if (code.textContent !== text) code.textContent = text;
  }
}

main.addEventListener("input", (event) => {
  if (event.target.closest("form.act")) fillCommands();
  if (event.target.matches("[data-slider]")) slide(event.target);
});

let finding = 0;
main.addEventListener("input", (event) => {
  if (!event.target.closest("form.search")) return;
  clearTimeout(finding);
  const text = event.target.value.trim();
  finding = setTimeout(() => look(text ? `/?q=${encodeURIComponent(text)}` : "/"), 150);
});

main.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  if (!form.matches("form.act")) return;
  const act = { act: form.dataset.act };
  for (const field of form.querySelectorAll("[name]")) {
    const number = field.value === "" ? null : Number(field.value);
    act[field.name] = "number" in field.dataset ? number : field.value;
  }
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const answer = await fetch("/act", { method: "POST", headers: { "x-muster-key": key }, body: JSON.stringify(act) });
    const { message } = await answer.json();
    said.textContent = message;
    said.className = answer.ok ? "done" : "wrong";
  } catch {
    said.textContent = "The request was lost with the connection";
    said.className = "wrong";
  }
  button.disabled = false;
  button.focus({ preventScroll: true });
});

// The slider back in time ----------------------------------------------------------------------------------------------

let sliding = 0;

function slide(slider) {
  const { from, to } = main.querySelector("figure").dataset;
  const part = Number(slider.value) / 1000;
  const at = Math.round(Number(from) + (Number(to) - Number(from)) * part);
  slider.dataset.at = part < 1 ? at : "";
  outputs(slider, Number(to));
  clearTimeout(sliding);
  sliding = setTimeout(() => {
    const address = new URL(view, location);
    if (part < 1) address.searchParams.set("at", at);
    else address.searchParams.delete("at");
    look(address.pathname + address.search);
  }, 80);
}

function placeSlider() {
  const slider = main.querySelector("[data-slider]");
  const figure = main.querySelector("figure");
  if (!slider || !figure || document.activeElement === slider) return;
  const { from, to } = figure.dataset;
  const at = new URL(view, location).searchParams.get("at");
  slider.dataset.at = at ?? "";
  slider.value = at ? Math.round(((Number(at) - Number(from)) / (Number(to) - Number(from))) * 1000) : 1000;
  outputs(slider, Number(to));
}

function outputs(slider, to) {
  const at = slider.dataset.at;
  const text = at ? `${((to - Number(at)) / 1000).toFixed(1)} s before` : "now";
  const output = slider.parentElement.querySelector("output");
  output.textContent = text;
  slider.setAttribute("aria-valuetext", text);
}

// A history in slow motion ---------------------------------------------------------------------------------------------

let playing = 0;
let lit = -1;

function play() {
  clearTimeout(playing);
  const pace = matchMedia("(prefers-reduced-motion: reduce)").matches ? 2000 : 1200;
  const go = (at) => {
    const steps = main.querySelectorAll("ol.steps li");
    lit = at < steps.length ? at : -1;
    light();
    if (lit < 0) return;
    steps[at].scrollIntoView({ block: "nearest" });
    said.textContent = steps[at].textContent;
    playing = setTimeout(go, pace, at + 1);
  };
  go(0);
}

function light() {
  for (const element of main.querySelectorAll(".lit")) element.classList.remove("lit");
  const step = lit < 0 ? null : main.querySelectorAll("ol.steps li")[lit];
  step?.classList.add("lit");
  if (step) main.querySelector(`li.stage[data-stage="${step.dataset.stage}"]`)?.classList.add("lit");
}
