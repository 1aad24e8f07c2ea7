// What all pictures share: the data, the state in the address, colours, and words for numbers.

const DATA = JSON.parse(document.getElementById("data").textContent);
const MINUTE = 60000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const byId = (id) => document.getElementById(id);

// The state in the address: what is shown can be sent to somebody, and the back button works.
const state = new Map(new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""));
const listOf = (key) => (state.get(key) || "").split(",").filter((item) => item !== "");
function keep(key, value) {
  if (value === null || value === "") state.delete(key); else state.set(key, String(value));
  const text = new URLSearchParams([...state]).toString();
  history.replaceState(null, "", text === "" ? location.pathname + location.search : "#" + text);
}
function toggled(key, item) {
  const list = listOf(key), at = list.indexOf(item);
  if (at < 0) list.push(item); else list.splice(at, 1);
  keep(key, list.join(","));
}

function element(tag, text, attributes) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  return made;
}

// Words for numbers; the same as in the terminal.
const two = (number) => String(number).padStart(2, "0");
function span(ms) {
  const secs = Math.floor((ms + 500) / 1000), mins = Math.floor(secs / 60), hours = Math.floor(secs / 3600);
  if (secs < 60) return secs + "s";
  if (mins < 60) return mins + "m " + two(secs % 60) + "s";
  if (hours < 48) return hours + "h " + two(mins % 60) + "m";
  return Math.floor(secs / 86400) + "d " + two(hours % 24) + "h";
}
const known = (wait) => wait === null ? "-" : (wait.is_at_least ? ">" : "") + span(wait.ms);
const grouped = (number) => Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");
const percent = (ratio) => ratio === null ? "-" : (ratio * 100).toFixed(1) + "%";
function gpuHours(ms) {
  const hours = ms / HOUR;
  return hours < 100 ? hours.toFixed(1) : grouped(hours);
}
// A moment of the run: its day, from 1, and the time on it.
function moment(ms) {
  if (ms === null) return "-";
  const rest = ms % DAY, secs = Math.floor(rest / 1000);
  const clock = two(Math.floor(secs / 3600)) + ":" + two(Math.floor(secs / 60) % 60);
  return "day " + (Math.floor(ms / DAY) + 1) + " " + clock + (secs % 60 ? ":" + two(secs % 60) : "");
}

// Rows by name.
const jobs = DATA.jobs.map(([name, budget, user, submitted, gpus, nodes, tier, min, work, end, ended]) =>
  ({ name, budget, user, submitted, gpus, nodes, tier, min, work, end, ended, isFree: tier !== "funded" }));
const attempts = DATA.attempts.map(([job, number, placed, [go, started, safe, noticed, ended, freed], end, ranges], place) =>
  ({ place, job: jobs[job], jobPlace: job, number, placed, go, started, safe, noticed, ended, freed, end, ranges, preemption: null }));
for (const [attempt, at, takenFor, cause, lost, isWasted] of DATA.preemptions) {
  attempts[attempt].preemption = { at, takenFor, cause, lost, isWasted };
}
const budgets = DATA.budgets.map(([path, parent, share, isLeaf]) => ({ path, parent, share, isLeaf }));
const nameOf = (budget) => budgets[budget].path === "" ? "whole pool" : budgets[budget].path;

// Teams: leaves, where eight hues are enough for them; else what stands directly below the root; the rest is "other".
// Hues keep clear of red, which means preemption alone. A path keeps its hue on every page, as far as it is free.
const HUES = [212, 150, 42, 275, 185, 85, 310, 240];
function hash(text) {
  let sum = 2166136261;
  for (const c of text) sum = Math.imul(sum ^ c.codePointAt(0), 16777619) >>> 0;
  return sum;
}
const top1 = (budget) => {
  let at = budget;
  while (budgets[at].parent !== null && budgets[budgets[at].parent].parent !== null) at = budgets[at].parent;
  return at;
};
const leaves = budgets.map((_, place) => place).filter((place) => budgets[place].isLeaf);
const isByLeaf = leaves.length <= HUES.length;
const teamOfBudget = budgets.map((_, place) => isByLeaf ? place : top1(place));
const teams = [...new Set(leaves.map((leaf) => teamOfBudget[leaf]))];
const hueOf = new Map();
{
  const bySize = [...teams].sort((a, b) => budgets[b].share - budgets[a].share).slice(0, HUES.length);
  const free = new Set(HUES.keys());
  for (const team of bySize.sort((a, b) => a - b)) {
    let at = hash(budgets[team].path) % HUES.length;
    while (!free.has(at)) at = (at + 1) % HUES.length;
    free.delete(at);
    hueOf.set(team, HUES[at]);
  }
}
const dark = matchMedia("(prefers-color-scheme: dark)");
// The same lightness is not equally bright in all hues: yellow and green are taken darker, blue and violet lighter.
const LIGHTER = new Map([[42, -6], [85, -8], [150, -6], [185, -4], [212, 2], [240, 6], [275, 4], [310, 0]]);
function teamColour(team, step, alpha) {
  const hue = hueOf.get(team), base = (dark.matches ? 50 : 46) + (LIGHTER.get(hue) || 0);
  const lightness = base + (step - 2) * 4;
  return hue === undefined ? `hsl(210 4% ${lightness}% / ${alpha})` : `hsl(${hue} 62% ${lightness}% / ${alpha})`;
}
const jobColour = (attempt, alpha) => teamColour(teamOfBudget[attempt.job.budget], hash(attempt.job.name) % 5, alpha);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Returns a pattern of lines: hatching, or cross-hatching.
function hatch(context, back, line, isCross) {
  const size = 6, tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const t = tile.getContext("2d");
  if (back) { t.fillStyle = back; t.fillRect(0, 0, size, size); }
  t.strokeStyle = line;
  t.lineWidth = 1.6;
  t.beginPath();
  for (const shift of [-size, 0, size]) {
    t.moveTo(shift - 1, size + 1); t.lineTo(shift + size + 1, -1);
    if (isCross) { t.moveTo(shift - 1, -1); t.lineTo(shift + size + 1, size + 1); }
  }
  t.stroke();
  return context.createPattern(tile, "repeat");
}

// Sizes a canvas to its place on the page and returns its context, in CSS pixels.
function sized(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = Math.max(200, Math.floor(canvas.parentElement.clientWidth));
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return { context, width, height };
}

// Returns round moments for an axis between two others.
function moments(from, until, most) {
  const steps = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY];
  const step = steps.find((step) => (until - from) / step <= most) || 365 * DAY;
  const list = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) list.push(at);
  return list;
}
// A moment on an axis: the day alone where it begins.
const tick = (ms) => ms % DAY === 0 ? "day " + (ms / DAY + 1) : moment(ms).replace(/^day \d+ /, "");

const notes = byId("notes");
for (const note of DATA.notes) notes.append(element("li", note));
const redraws = [];
function redraw() { for (const draw of redraws) draw(); }
