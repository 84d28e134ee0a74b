// Finds text without enough contrast, and what stands out over the page's width. Returned as lines.
const found = [];
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
// A colour as a browser understands it, in red, green, blue and opacity.
const colour = (text) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = "#0000";
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const luminance = (c) => {
  const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
};
const ground = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.push(colour(getComputedStyle(at).backgroundColor));
  const canvasColour = colour(getComputedStyle(document.documentElement).backgroundColor);
  return layers.reverse().reduce((below, top) => over(top, below), canvasColour);
};
const opacity = (element) => {
  let all = 1;
  for (let at = element; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity);
  return all;
};
const judge = (element, text, ink) => {
  // What cannot be used right now needs no contrast.
  if (element.closest(":disabled")) return;
  const below = ground(element);
  const shown = colour(ink);
  shown[3] *= opacity(element);
  const ratio = contrast(over(shown, below), below);
  if (ratio < 4.5) {
    const place = `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""}`;
    found.push(`${place} "${text.trim().slice(0, 40)}": contrast ${ratio.toFixed(2)}, expected 4.5`);
  }
};
let texts = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
  if (element.closest("noscript, title, script, option")) continue;
  texts += 1;
  const style = getComputedStyle(element);
  judge(element, node.data, element instanceof SVGElement ? style.fill : style.color);
}
for (const field of document.querySelectorAll("input, select")) {
  if (field.type === "hidden" || !field.checkVisibility()) continue;
  judge(field, field.value, getComputedStyle(field).color);
  if (field.placeholder) judge(field, field.placeholder, getComputedStyle(field, "::placeholder").color);
}
const width = document.documentElement.clientWidth;
if (document.scrollingElement.scrollWidth > width) {
  for (const element of document.body.querySelectorAll("*")) {
    const { right } = element.getBoundingClientRect();
    if (right > width + 1 && !element.closest(".wide, .skip")) {
      found.push(`${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} ends at ${right.toFixed(0)} of ${width}`);
    }
  }
  found.push(`the page is ${document.scrollingElement.scrollWidth} wide in a window of ${width}`);
}
return { texts, found };
