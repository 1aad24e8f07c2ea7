// Lines, bars and dots over the data: small, without anybody's library.

const charts = (() => {
  const PAD = { left: 46, right: 12, top: 10, bottom: 20 };

  // Draws a frame with time along the bottom and returns where a moment and a value lie.
  function plot(canvas, height, most, label, wide) {
    const { context: c, width } = sized(canvas, height);
    const x = (ms) => PAD.left + (ms / DATA.length) * (width - PAD.left - PAD.right);
    const y = (value) => height - PAD.bottom - (Math.min(value, most) / most) * (height - PAD.top - PAD.bottom);
    c.strokeStyle = css("--line");
    c.fillStyle = css("--dim");
    c.lineWidth = 1;
    c.textAlign = "right";
    const step = nice(most / 4);
    for (let value = 0; value <= most * 1.001; value += step) {
      const place = Math.round(y(value)) + 0.5;
      c.beginPath(); c.moveTo(PAD.left, place); c.lineTo(width - PAD.right, place); c.stroke();
      c.fillText(label(value), PAD.left - 5, place + 4);
    }
    c.textAlign = "center";
    for (const at of moments(0, DATA.length, Math.max(2, width / (wide || 90)))) c.fillText(tick(at), Math.min(Math.max(x(at), PAD.left + 14), width - 24), height - 5);
    return { c, x, y, width, height };
  }
  function nice(step) {
    const power = 10 ** Math.floor(Math.log10(Math.max(step, 1e-9)));
    return [1, 2, 2.5, 5, 10].map((digit) => digit * power).find((value) => value >= step);
  }
  function line(p, times, values, style) {
    const { c, x, y } = p;
    c.strokeStyle = style.colour;
    c.lineWidth = style.width;
    c.setLineDash(style.dash || []);
    c.beginPath();
    let isDown = false;
    times.forEach((at, place) => {
      const value = values[place];
      if (value === null) { isDown = false; return; }
      if (!isDown) c.moveTo(x(at), y(value));
      else { if (style.isStep) c.lineTo(x(at), y(values[place - 1])); c.lineTo(x(at), y(value)); }
      isDown = true;
    });
    c.stroke();
    c.setLineDash([]);
  }
  // A swatch for a legend, drawn as what it stands for.
  function swatch(list, name, paint) {
    const item = element("li"), canvas = element("canvas", null, { width: 22, height: 12, "aria-hidden": "true" });
    paint(canvas.getContext("2d"));
    item.append(canvas, name);
    list.append(item);
  }

  // Tells the values under the pointer in a line of text below the picture.
  function tell(canvas, times, words) {
    const line = element("p", "\u00a0", { class: "readout" });
    canvas.after(line);
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      const ms = ((event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right)) * DATA.length;
      const place = times.findIndex((at) => at >= ms);
      if (place >= 0) line.textContent = moment(times[place]) + ": " + words(place);
    });
  }
  const told = (value) => value === null ? "unknown" : value.toFixed(2);

  // Use over time: one small panel a budget.
  const PANELS = 24;
  const shown = budgets.map((_, place) => place).filter((place) => budgets[place].parent !== null && DATA.used[place].length > 0);
  const drawn = [...shown].sort((a, b) => budgets[b].share - budgets[a].share).slice(0, PANELS).sort((a, b) => a - b);
  const panels = new Map();
  for (const place of drawn) {
    const figure = element("div"), canvas = element("canvas", null, { role: "img" });
    figure.append(element("h3", nameOf(place) + ", share " + percent(budgets[place].share)), canvas);
    byId("use-figure").append(figure);
    panels.set(place, canvas);
    const [charged, demand, free] = DATA.used[place];
    tell(canvas, DATA.used_at, (row) => `charged ${told(charged[row])}, demand ${told(demand[row])}, free tier ${told(free[row])}`);
  }
  if (drawn.length < shown.length) byId("use-figure").append(element("p", `The ${PANELS} largest of ${shown.length} budgets; the table has all.`, { class: "note" }));
  function use() {
    for (const [place, canvas] of panels) {
      const [charged, demand, free] = DATA.used[place], numbers = [...charged, ...demand, ...free].filter((value) => value !== null);
      const highest = Math.max(1.2, ...numbers.length ? [numbers.reduce((a, b) => Math.max(a, b), 0)] : []);
      const most = Math.min(highest * 1.05, 4), p = plot(canvas, 150, most, (value) => value.toFixed(1), 110);
      const window = DATA.measures.run.window_ms;
      if (window < DATA.length) {
        p.c.fillStyle = css("--soft");
        p.c.fillRect(PAD.left + 1, PAD.top, p.x(window) - PAD.left - 1, 150 - PAD.top - PAD.bottom);
        p.c.fillStyle = css("--dim");
        p.c.textAlign = "right";
        p.c.fillText("window", p.x(window) - 3, PAD.top + 11);
      }
      line(p, [0, DATA.length], [1, 1], { colour: css("--fg"), width: 1, dash: [5, 4] });
      const team = teamOfBudget[place];
      line(p, DATA.used_at, free, { colour: teamColour(team, 2, 1), width: 1.4, dash: [1.5, 3] });
      line(p, DATA.used_at, demand, { colour: css("--fg"), width: 0.8 });
      line(p, DATA.used_at, charged, { colour: teamColour(team, 2, 1), width: 2.6 });
      if (highest * 1.05 > 4) { p.c.fillStyle = css("--dim"); p.c.textAlign = "right"; p.c.fillText("cut off at 4", p.width - PAD.right, PAD.top + 11); }
      const last = charged[charged.length - 1];
      canvas.setAttribute("aria-label", `Use of ${nameOf(place)} over time: ${last === null || last === undefined ? "unknown" : last.toFixed(2)} at the end. The table has all moments.`);
    }
  }

  // Owed and delivered: one bar a leaf.
  function delivery() {
    const leaves = DATA.measures.delivery.leaves, high = 30, canvas = byId("delivery-canvas");
    const height = leaves.length * high + PAD.top + PAD.bottom, { context: c, width } = sized(canvas, height);
    const left = Math.min(220, width * 0.25), right = 210;
    const most = leaves.reduce((most, leaf) => Math.max(most, leaf.delivered_gpu_ms, leaf.owed_gpu_ms, leaf.allocation_gpu_ms), 1);
    const x = (value) => left + (value / most) * (width - left - right);
    leaves.forEach((leaf, row) => {
      const y = PAD.top + row * high, place = budgets.findIndex((budget) => budget.path === leaf.budget);
      c.fillStyle = css("--fg");
      c.textAlign = "left";
      c.fillText(leaf.budget, 2, y + 16, left - 8);
      c.fillStyle = teamColour(teamOfBudget[place], 2, 1);
      c.fillRect(left, y + 6, x(leaf.delivered_gpu_ms) - left, 12);
      c.strokeStyle = css("--fg");
      c.lineWidth = 1.2;
      c.strokeRect(left + 0.5, y + 3.5, x(leaf.owed_gpu_ms) - left, 17);
      c.setLineDash([3, 3]);
      c.beginPath(); c.moveTo(x(leaf.allocation_gpu_ms), y); c.lineTo(x(leaf.allocation_gpu_ms), y + 24); c.stroke();
      c.setLineDash([]);
      c.fillStyle = css("--fg");
      c.fillText(`${percent(leaf.period_ratio)}, hour by hour ${percent(leaf.strict_ratio)}`, width - right + 8, y + 16);
    });
    c.fillStyle = css("--dim");
    c.textAlign = "center";
    for (let hours = 0, step = nice(most / HOUR / 5); hours * HOUR <= most; hours += step) c.fillText(grouped(hours), x(hours * HOUR), height - 4);
    c.textAlign = "right";
    c.fillText("GPU-h", width - right + 50, height - 4);
    const worst = DATA.measures.delivery.period;
    canvas.setAttribute("aria-label", `Owed and delivered of ${leaves.length} leaves: mean ${percent(worst.mean_ratio)}, worst ${percent(worst.worst_ratio)}. The table has each.`);
  }

  // Waits: a row a size and tier, dots on a logarithmic scale.
  const SIZES = ["1", "2-4", "5-8", "9-31", "32-63", "64-127", "128+"];
  function waits() {
    const found = (of, gpus) => DATA.measures.waits.find((row) => row.of === of && row.gpus === gpus);
    const rows = ["funded", "free tier"].flatMap((of) => SIZES.map((gpus) => found(of, gpus))).filter((row) => row && row.jobs > 0);
    const high = 22, canvas = byId("waits-canvas"), { context: c, width, height } = sized(canvas, rows.length * high + 40);
    const left = 200, right = 36, ticks = [1, 10, 60, 600, 3600, 4 * 3600, 86400, 4 * 86400, 30 * 86400].map((secs) => secs * 1000);
    const longest = rows.reduce((most, row) => Math.max(most, row.p90.ms), 4 * HOUR), most = ticks.find((at) => at >= longest) || longest;
    const x = (ms) => left + (Math.log(Math.max(ms, 1000) / 1000) / Math.log(most / 1000)) * (width - left - right);
    c.textAlign = "center";
    for (const at of ticks.filter((at) => at <= most)) {
      c.strokeStyle = css("--line");
      c.beginPath(); c.moveTo(Math.round(x(at)) + 0.5, 4); c.lineTo(Math.round(x(at)) + 0.5, height - 20); c.stroke();
      c.fillStyle = css("--dim");
      c.fillText(at === 1000 ? "≤1s" : span(at).replace(/ 00[hms]$/, ""), x(at), height - 6);
    }
    rows.forEach((row, place) => {
      const y = 14 + place * high;
      c.fillStyle = css("--fg");
      c.textAlign = "left";
      c.fillText(`${row.of}, ${row.gpus} GPU${row.gpus === "1" ? "" : "s"}: ${grouped(row.jobs)} job${row.jobs === 1 ? "" : "s"}`, 2, y + 4, left - 10);
      c.strokeStyle = c.fillStyle = row.of === "funded" ? css("--link") : css("--dim");
      c.lineWidth = 1.5;
      c.beginPath(); c.moveTo(x(row.p50.ms), y); c.lineTo(x(row.p90.ms), y); c.stroke();
      c.beginPath(); c.arc(x(row.p90.ms), y, 5, 0, 7); c.fillStyle = css("--bg"); c.fill(); c.stroke();
      c.fillStyle = c.strokeStyle;
      c.beginPath(); c.arc(x(row.p50.ms), y, 4.5, 0, 7); c.fill();
      for (const wait of [row.p50, row.p90]) {
        if (!wait.is_at_least) continue;
        c.beginPath(); c.moveTo(x(wait.ms) + 6, y - 4); c.lineTo(x(wait.ms) + 13, y); c.lineTo(x(wait.ms) + 6, y + 4); c.fill();
      }
    });
    canvas.setAttribute("aria-label", "Waits by size: " + rows.map((row) => `${row.of} ${row.gpus} GPUs p50 ${known(row.p50)}, p90 ${known(row.p90)}`).join("; "));
  }

  // The bill: a stack a day, by cause; hatched what the free tier lost.
  const causes = [...new Set(DATA.lost.map((row) => row.cause))];
  const CAUSES = new Map([["share", 212], ["turn", 185], ["free tier made way", 85], ["date", 275], ["short lane", 42], ["drain or operator", 310]]);
  const causeColour = (cause, alpha) => `hsl(${CAUSES.get(cause) ?? 210} 55% ${dark.matches ? 58 : 45}% / ${alpha})`;
  const byDay = new Map();
  for (const row of DATA.lost) byDay.set(row.day, [...(byDay.get(row.day) || []), row]);
  function bill() {
    const sums = [...byDay.values()].map((rows) => rows.reduce((sum, row) => sum + row.lost_gpu_ms, 0) / HOUR);
    const most = sums.reduce((a, b) => Math.max(a, b), 1) * 1.05, canvas = byId("bill-canvas"), p = plot(canvas, 200, most, (value) => grouped(value));
    for (const [day, rows] of byDay) {
      const left = p.x(day * DAY), wide = p.x(Math.min((day + 1) * DAY, DATA.length)) - left, gap = wide > 6 ? 2 : 0;
      let sum = 0;
      for (const row of rows) {
        const top = p.y(sum + row.lost_gpu_ms / HOUR), bottom = p.y(sum);
        p.c.fillStyle = row.tier === "funded" ? causeColour(row.cause, 1) : hatch(p.c, causeColour(row.cause, 0.25), causeColour(row.cause, 1), false);
        p.c.fillRect(left + gap / 2, top, Math.max(wide - gap, 0.7), bottom - top);
        sum += row.lost_gpu_ms / HOUR;
      }
    }
    const list = byId("bill-legend");
    list.replaceChildren();
    for (const cause of causes) swatch(list, cause, (c) => { c.fillStyle = causeColour(cause, 1); c.fillRect(0, 0, 22, 12); });
    const total = DATA.measures.bill.total;
    canvas.setAttribute("aria-label", `The bill: ${grouped(total.preemptions)} preemptions lost ${gpuHours(total.lost_gpu_ms)} GPU-hours. The table has each day and cause.`);
  }

  // Room: four steps over time.
  const ROOM = [["idle", [1.5, 2.5]], ["not protected", []], ["within 1 h", [6, 3]], ["within 8 h", [2, 4]]];
  const roomColour = (place) => place === 0 ? css("--dim") : `hsl(212 62% ${(dark.matches ? [0, 72, 60, 48] : [0, 28, 42, 56])[place]}%)`;
  function room() {
    const most = DATA.rooms.reduce((most, row) => Math.max(most, ...row), 8) * 1.05, canvas = byId("room-canvas"), p = plot(canvas, 220, most, (value) => grouped(value));
    for (const place of [3, 2, 1, 0]) line(p, DATA.rooms_at, DATA.rooms.map((row) => row[place]), { colour: roomColour(place), width: place === 1 ? 2 : 1.4, dash: ROOM[place][1], isStep: true });
    const list = byId("room-legend");
    list.replaceChildren();
    ROOM.forEach(([name, dash], place) => swatch(list, name, (c) => {
      c.strokeStyle = roomColour(place);
      c.lineWidth = 2;
      c.setLineDash(dash);
      c.beginPath(); c.moveTo(0, 6); c.lineTo(22, 6); c.stroke();
    }));
    const mostly = DATA.measures.rooms.mostly;
    canvas.setAttribute("aria-label", `Room: at nine moments of ten a job of at least ${grouped(mostly.now)} GPUs could have started on what was not protected, ${grouped(mostly.idle)} on idle GPUs.`);
  }
  tell(byId("room-canvas"), DATA.rooms_at, (row) => ROOM.map(([name], place) => `${name} ${grouped(DATA.rooms[row][place])}`).join(", ") + " GPUs");
  redraws.push(use, delivery, waits, bill, room);
})();
