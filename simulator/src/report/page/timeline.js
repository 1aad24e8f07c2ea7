// The GPU timeline: who was on which GPU, when, and under which right.

const timeline = (() => {
  const canvas = byId("timeline-canvas"), detail = byId("detail");
  const LEFT = 92, RIGHT = 40, TOP = 22;
  const gpusInAll = DATA.nodes.reduce((sum, node) => sum + node[1], 0);
  const isFolded = gpusInAll > 256;
  const hidden = () => new Set(listOf("hide").map(Number));
  const view = () => {
    const from = Number(state.get("from") || 0), until = Number(state.get("to") || DATA.length);
    return from < until ? [Math.max(0, from), Math.min(DATA.length, until)] : [0, DATA.length];
  };
  const preempted = DATA.nodes.map(() => 0);
  for (const attempt of attempts) {
    if (!attempt.preemption) continue;
    for (const node of new Set(attempt.ranges.filter((_, at) => at % 3 === 0))) preempted[node] += 1;
  }
  let rows = [], focus = null, drag = null, onGpu = null;

  // Returns the place of each node's row: where it begins and how high each of its GPUs is.
  function layout() {
    const unfolded = new Set(listOf("unfold")), all = unfolded.has("all");
    const lane = gpusInAll <= 64 ? 12 : gpusInAll <= 128 ? 8 : gpusInAll <= 256 ? 5 : 8;
    const nodes = DATA.nodes.length, folded = nodes <= 64 ? 16 : nodes <= 160 ? 10 : nodes <= 400 ? 7 : 4;
    let y = TOP;
    rows = DATA.nodes.map(([, gpus], node) => {
      const isOpen = !isFolded || all || unfolded.has(String(node));
      const high = isOpen ? lane : folded / Math.max(1, gpus);
      const row = { y, high, gpus, isOpen };
      y += high * gpus + (isOpen || folded > 6 ? 2 : 1);
      return row;
    });
    return y + 4;
  }

  function draw() {
    const height = layout();
    const { context: c, width } = sized(canvas, height);
    const [from, until] = view(), plot = width - LEFT - RIGHT, gone = hidden();
    const x = (ms) => LEFT + ((ms - from) / (until - from)) * plot;
    c.fillStyle = css("--bg");
    c.fillRect(0, 0, width, height);
    axis(c, x, from, until, height, width);
    c.save();
    c.beginPath();
    c.rect(LEFT, TOP - 1, plot, height);
    c.clip();
    away(c, x);
    const seen = attempts.filter((a) => a.placed < until && (a.freed ?? DATA.length) > from && !gone.has(teamOfBudget[a.job.budget]));
    for (const attempt of seen) beside(c, x, attempt);
    const patterns = new Map();
    for (const attempt of seen) occupied(c, x, attempt, patterns);
    for (const attempt of seen) if (attempt.end === "preempted") edge(c, x, attempt);
    if (focus) frame(c, x, focus);
    c.restore();
    labels(c, width);
    byId("range").textContent = moment(from) + " to " + moment(until) + ": " + grouped(seen.length) + " attempts";
    const box = canvas.getBoundingClientRect();
    canvas.dataset.geometry = JSON.stringify({ x: box.left + scrollX, y: box.top + scrollY, left: LEFT, plot, from, until,
      rows: rows.map((row) => [row.y, row.high]) });
    canvas.setAttribute("aria-label", `GPU timeline: ${grouped(gpusInAll)} GPUs on ${grouped(DATA.nodes.length)} nodes, ` +
      `${grouped(seen.length)} attempts from ${moment(from)} to ${moment(until)}, ${grouped(seen.filter((a) => a.preemption).length)} of them preempted. The table has the same rows.`);
  }

  function axis(c, x, from, until, height, width) {
    c.strokeStyle = css("--line");
    c.fillStyle = css("--dim");
    c.lineWidth = 1;
    c.textAlign = "center";
    for (const at of moments(from, until, Math.max(2, (width - LEFT - RIGHT) / 90))) {
      const place = Math.round(x(at)) + 0.5;
      c.beginPath(); c.moveTo(place, TOP - 5); c.lineTo(place, height - 2); c.stroke();
      c.fillText(tick(at), place, TOP - 8);
    }
  }

  // Calls `paint` with each rectangle of an attempt between two moments: one a GPU where there is room for it.
  function each(x, attempt, from, until, paint) {
    const left = x(from), wide = Math.max(x(until) - left, 0.7);
    if (until <= from) return;
    for (let at = 0; at < attempt.ranges.length; at += 3) {
      const [node, first, slots] = attempt.ranges.slice(at, at + 3), row = rows[node];
      if (row.high >= 4) {
        for (let slot = first; slot < first + slots; slot += 1) paint(left, row.y + slot * row.high, wide, row.high - 1);
      } else paint(left, row.y + first * row.high, wide, Math.max(slots * row.high, 0.7));
    }
  }

  function away(c, x) {
    c.fillStyle = hatch(c, null, css("--away"), true);
    DATA.nodes.forEach(([, gpus, times], node) => {
      for (const [from, until] of times) c.fillRect(x(from), rows[node].y, Math.max(x(until) - x(from), 1), rows[node].high * gpus);
    });
  }

  // What is not occupied: kept for an attempt without a go, and not proven free after one.
  function beside(c, x, a) {
    const go = a.go ?? a.ended ?? DATA.length;
    c.strokeStyle = jobColour(a, 0.8);
    c.lineWidth = 1;
    each(x, a, a.placed, go, (left, top, wide, high) => { if (wide > 2) c.strokeRect(left + 0.5, top + 0.5, wide - 1, Math.max(high - 1, 0.5)); });
    if (a.ended === null) return;
    c.fillStyle = css("--gone");
    each(x, a, worked(a), a.freed ?? DATA.length, (left, top, wide, high) => c.fillRect(left, top, wide, high));
  }

  // When an attempt's work ended: a launch that failed did none.
  const worked = (a) => a.end === "not launched" ? (a.go ?? a.ended) : (a.ended ?? DATA.length);

  function occupied(c, x, a, patterns) {
    if (a.go === null) return;
    const end = worked(a);
    if (a.job.isFree) return free(c, x, a, end);
    const safe = Math.min(Math.max(a.safe ?? a.go, a.go), end);
    c.fillStyle = jobColour(a, 1);
    each(x, a, a.go, safe, (left, top, wide, high) => c.fillRect(left, top, wide, high));
    const key = jobColour(a, 0.3);
    if (!patterns.has(key)) patterns.set(key, hatch(c, key, jobColour(a, 1), false));
    c.fillStyle = patterns.get(key);
    each(x, a, safe, end, (left, top, wide, high) => c.fillRect(left, top, wide, high));
  }

  function free(c, x, a, end) {
    c.fillStyle = jobColour(a, 0.16);
    c.strokeStyle = jobColour(a, 1);
    c.lineWidth = 1;
    c.setLineDash([1.5, 2]);
    each(x, a, a.go, end, (left, top, wide, high) => {
      c.fillRect(left, top, wide, high);
      if (wide > 3 && high >= 3) c.strokeRect(left + 0.5, top + 0.5, wide - 1, high - 1);
    });
    c.setLineDash([]);
  }

  // The red right edge, with a light halo, and with a notch where the row is high enough for one. In lower rows it would
  // drown: there the count at the right says it.
  function edge(c, x, a) {
    const right = x(a.ended);
    each(x, a, a.ended - 1, a.ended, (_, top, __, high) => {
      if (high < 3) return;
      c.fillStyle = css("--halo");
      c.fillRect(right - 3, top, 4, high);
      c.fillStyle = css("--red");
      c.fillRect(right - 2, top, 2, high);
      if (high < 5) return;
      c.beginPath(); c.moveTo(right - 6, top); c.lineTo(right, top); c.lineTo(right, top + Math.min(5, high)); c.fill();
    });
  }

  function frame(c, x, a) {
    c.strokeStyle = css("--fg");
    c.lineWidth = 2;
    each(x, a, a.placed, a.freed ?? DATA.length, (left, top, wide, high) => c.strokeRect(left, top, Math.max(wide, 3), high));
  }

  function labels(c, width) {
    let last = -99;
    rows.forEach((row, node) => {
      const middle = row.y + (row.high * row.gpus) / 2 + 4;
      if (middle - last < 12) return;
      last = middle;
      c.fillStyle = css("--fg");
      c.textAlign = "left";
      c.fillText((isFolded ? (row.isOpen ? "▾ " : "▸ ") : "") + DATA.nodes[node][0], 2, middle, LEFT - 6);
      c.textAlign = "right";
      c.fillStyle = preempted[node] ? css("--red") : css("--dim");
      c.fillText(String(preempted[node]), width - 4, middle);
    });
  }

  // Pointing, and stepping.
  const nodeAt = (y) => rows.findIndex((row) => y >= row.y && y < row.y + row.high * row.gpus);
  function at(event) {
    const box = canvas.getBoundingClientRect(), [from, until] = view();
    const x = event.clientX - box.left, y = event.clientY - box.top, node = nodeAt(y);
    const ms = from + ((x - LEFT) / (box.width - LEFT - RIGHT)) * (until - from);
    const slot = node < 0 ? -1 : Math.floor((y - rows[node].y) / rows[node].high);
    return { x, node, slot, ms, isInPlot: x >= LEFT && x <= box.width - RIGHT };
  }
  const isOn = (a, node, slot) => {
    for (let i = 0; i < a.ranges.length; i += 3) {
      if (a.ranges[i] === node && slot >= a.ranges[i + 1] && slot < a.ranges[i + 1] + a.ranges[i + 2]) return true;
    }
    return false;
  };
  // Of several that claim a GPU at a moment, the one that occupies it.
  function find(node, slot, ms) {
    const gone = hidden();
    const there = attempts.filter((a) => a.placed <= ms && (a.freed ?? DATA.length) > ms && isOn(a, node, slot) && !gone.has(teamOfBudget[a.job.budget]));
    return there.find((a) => a.go !== null && a.go <= ms && worked(a) > ms) || there[0] || null;
  }
  function describe(a) {
    const job = a.job, parts = [
      `${job.name}, attempt ${a.number}: ${nameOf(job.budget)}, ${job.user}, ${job.tier}.`,
      `${grouped(job.gpus)} GPU${job.gpus === 1 ? "" : "s"} on ${[...new Set(a.ranges.filter((_, i) => i % 3 === 0))].map((node) => DATA.nodes[node][0]).join(", ")}.`,
      `Submitted ${moment(job.submitted)}, placed ${moment(a.placed)}, go ${moment(a.go)}, started ${moment(a.started)}.`];
    if (!job.isFree) parts.push(`Minimum runtime ${span(job.min)}, protected until ${moment(a.safe)}.`);
    parts.push(a.ended === null ? "Runs when the run ends." : `Ended ${moment(a.ended)}: ${a.end ?? "unknown"}.`);
    if (a.preemption) {
      parts.push(`Taken for ${a.preemption.takenFor ?? "nobody"} (${a.preemption.cause}), lost ${gpuHours(a.preemption.lost)} GPU-h${a.preemption.isWasted ? ", wasted" : ""}.`);
    }
    return parts.join(" ");
  }
  function show(a, isPinned) {
    focus = a;
    if (isPinned) keep("at", a ? a.place : null);
    detail.textContent = a ? describe(a) : "Point at a span, or step through them with the arrow keys.";
    draw();
  }
  function zoom(from, until) {
    const length = Math.max(until - from, 5 * MINUTE);
    const begin = Math.min(Math.max(0, from), Math.max(0, DATA.length - length));
    const isAll = length >= DATA.length;
    keep("from", isAll ? null : Math.round(begin));
    keep("to", isAll ? null : Math.round(Math.min(begin + length, DATA.length)));
    draw();
    tables.refresh("timeline");
  }
  function zoomBy(factor) {
    const [from, until] = view(), middle = focus ? (Math.max(focus.placed, from) + Math.min(focus.freed ?? until, until)) / 2 : (from + until) / 2;
    const half = ((until - from) * factor) / 2;
    zoom(middle - half, middle + half);
  }
  function unfold(node) {
    toggled("unfold", String(node));
    draw();
  }

  canvas.addEventListener("mousemove", (event) => {
    const { node, slot, ms, isInPlot } = at(event);
    if (drag !== null || state.has("at")) return;
    const found = node >= 0 && isInPlot ? find(node, slot, ms) : null;
    if (found !== focus) show(found, false);
  });
  canvas.addEventListener("mousedown", (event) => { drag = at(event); });
  addEventListener("mouseup", (event) => {
    if (drag === null) return;
    const from = drag, to = at(event);
    drag = null;
    if (Math.abs(to.x - from.x) > 8 && from.isInPlot) return zoom(Math.min(from.ms, to.ms), Math.max(from.ms, to.ms));
    if (from.x < LEFT && from.node >= 0 && isFolded) return unfold(from.node);
    const found = from.node >= 0 ? find(from.node, from.slot, from.ms) : null;
    show(found, true);
  });

  // All attempts of each GPU, for stepping through them.
  function index() {
    if (onGpu) return onGpu;
    onGpu = new Map();
    for (const a of attempts) {
      for (let i = 0; i < a.ranges.length; i += 3) {
        for (let slot = a.ranges[i + 1]; slot < a.ranges[i + 1] + a.ranges[i + 2]; slot += 1) {
          const key = a.ranges[i] + ":" + slot;
          if (!onGpu.has(key)) onGpu.set(key, []);
          onGpu.get(key).push(a);
        }
      }
    }
    return onGpu;
  }
  const lane = { node: 0, slot: 0 };
  function step(by) {
    const [from, until] = view(), list = (index().get(lane.node + ":" + lane.slot) || []);
    const seen = list.filter((a) => a.placed < until && (a.freed ?? DATA.length) > from);
    const here = seen.indexOf(focus);
    const next = here < 0 ? seen[by > 0 ? 0 : seen.length - 1] : seen[here + by];
    if (next) show(next, true);
  }
  function across(by) {
    const order = [];
    rows.forEach((row, node) => { for (let slot = 0; slot < row.gpus; slot += 1) order.push([node, slot]); });
    const here = order.findIndex(([node, slot]) => node === lane.node && slot === lane.slot);
    const [from, until] = view(), ms = ((focus ? Math.max(focus.placed, from) : from) + (focus ? Math.min(focus.freed ?? until, until) : until)) / 2;
    // Rows on which the same attempt is are one step.
    for (let place = here + by; place >= 0 && place < order.length; place += by) {
      [lane.node, lane.slot] = order[place];
      const found = find(lane.node, lane.slot, ms);
      if (found && found !== focus) return show(found, true);
    }
  }
  canvas.addEventListener("keydown", (event) => {
    const keys = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => across(1), ArrowUp: () => across(-1),
      "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2), "0": () => zoom(0, DATA.length),
      Enter: () => show(focus, true), Escape: () => show(null, true), t: () => tables.toggle("timeline"),
      u: () => unfold(lane.node) };
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.querySelectorAll("[data-zoom]").forEach((button) => {
    const by = { in: () => zoomBy(0.5), out: () => zoomBy(2), all: () => zoom(0, DATA.length) };
    button.setAttribute("aria-label", { in: "zoom in", out: "zoom out", all: "the whole run" }[button.dataset.zoom]);
    button.addEventListener("click", by[button.dataset.zoom]);
  });
  const fold = document.querySelector("[data-fold]");
  fold.hidden = !isFolded;
  fold.addEventListener("click", () => { unfold("all"); fold.textContent = listOf("unfold").includes("all") ? "fold" : "unfold all"; });

  function legend() {
    const list = byId("legend");
    list.replaceChildren();
    for (const team of teams) {
      const item = element("li"), button = element("button", null, { "aria-pressed": String(!hidden().has(team)) });
      const swatch = element("i", null, { "data-team": String(team) });
      swatch.style.background = teamColour(team, 2, 1);
      button.append(swatch, nameOf(team));
      button.addEventListener("click", () => { toggled("hide", String(team)); legend(); draw(); tables.refresh("timeline"); });
      item.append(button);
      list.append(item);
    }
    const colour = (alpha) => `hsl(210 10% ${dark.matches ? 60 : 45}% / ${alpha})`;
    const marks = [
      ["protected", (c) => { c.fillStyle = colour(1); c.fillRect(0, 0, 22, 12); }],
      ["interruptible", (c) => { c.fillStyle = hatch(c, colour(0.3), colour(1), false); c.fillRect(0, 0, 22, 12); }],
      ["free tier", (c) => { c.fillStyle = colour(0.16); c.fillRect(0, 0, 22, 12); c.strokeStyle = colour(1); c.setLineDash([1.5, 2]); c.strokeRect(0.5, 0.5, 21, 11); }],
      ["preempted", (c) => { c.fillStyle = colour(0.3); c.fillRect(0, 0, 19, 12); c.fillStyle = css("--red"); c.fillRect(20, 0, 2, 12); c.beginPath(); c.moveTo(15, 0); c.lineTo(22, 0); c.lineTo(22, 5); c.fill(); }],
      ["cordoned or down", (c) => { c.fillStyle = hatch(c, null, css("--away"), true); c.fillRect(0, 0, 22, 12); }],
      ["not proven free yet", (c) => { c.fillStyle = css("--gone"); c.fillRect(0, 0, 22, 12); }]];
    for (const [name, paint] of marks) {
      const item = element("li"), swatch = element("canvas", null, { width: 22, height: 12, "aria-hidden": "true" });
      paint(swatch.getContext("2d"));
      item.append(swatch, name);
      list.append(item);
    }
  }
  const left = DATA.left_out;
  if (left.attempts > 0) {
    const note = byId("timeline-left");
    note.hidden = false;
    note.textContent = `Left out of the picture and its table: the ${grouped(left.attempts)} shortest attempts, at most ${span(left.upto_ms)} long each, ` +
      `${gpuHours(left.gpu_ms)} GPU-h in all; one pixel of the whole run is ${span(left.pixel_ms)}. All figures count them.`;
  }
  const pinned = attempts[Number(state.get("at"))];
  if (state.has("at") && pinned) { focus = pinned; detail.textContent = describe(pinned); }
  const rows_ = () => {
    const [from, until] = view(), gone = hidden();
    return attempts.filter((a) => a.placed < until && (a.freed ?? DATA.length) > from && !gone.has(teamOfBudget[a.job.budget]));
  };
  redraws.push(() => { legend(); draw(); });
  return { rows: rows_ };
})();
