// Keeps the session's key for this origin, and goes on to the page.
"use strict";

const { key, to } = document.currentScript.dataset;
localStorage.setItem("muster-key", key);
location.replace(to);
