// The tables behind the pictures, row for row.

const tables = (() => {
  // So many rows are put into the page; the CSV has all.
  const ROWS = 2000;
  const nodesOf = (a) => [...new Set(a.ranges.filter((_, at) => at % 3 === 0))].map((node) => DATA.nodes[node][0]).join(" ");
  const number = (value) => value === null ? "-" : value.toFixed(2);
  const VIEWS = {
    timeline: { headers: ["job", "attempt", "budget", "user", "tier", "GPUs", "nodes", "placed", "go", "started", "protected until", "ended", "freed", "end", "taken for", "cause", "lost [GPU-h]"],
      numbers: [1, 5, 16], wide: 6,
      rows: () => timeline.rows().map((a) => [a.job.name, a.number, nameOf(a.job.budget), a.job.user, a.job.tier, a.job.gpus, nodesOf(a), moment(a.placed), moment(a.go),
        moment(a.started), moment(a.safe), moment(a.ended), moment(a.freed), a.end ?? "runs", a.preemption ? a.preemption.takenFor ?? "nobody" : "-",
        a.preemption ? a.preemption.cause : "-", a.preemption ? gpuHours(a.preemption.lost) : "-"]) },
    use: { headers: ["budget", "until", "charged / allocation", "demand / allocation", "free tier / allocation"], numbers: [2, 3, 4],
      rows: () => budgets.flatMap((_, place) => DATA.used_at.map((at, row) =>
        [nameOf(place), moment(at), number(DATA.used[place][0][row]), number(DATA.used[place][1][row]), number(DATA.used[place][2][row])])) },
    delivery: { headers: ["budget", "allocation [GPU-h]", "demand [GPU-h]", "owed [GPU-h]", "delivered [GPU-h]", "of owed", "hour by hour", "free tier [GPU-h]"], numbers: [1, 2, 3, 4, 5, 6, 7],
      rows: () => DATA.measures.delivery.leaves.map((leaf) => [leaf.budget, gpuHours(leaf.allocation_gpu_ms), gpuHours(leaf.demand_gpu_ms), gpuHours(leaf.owed_gpu_ms),
        gpuHours(leaf.delivered_gpu_ms), percent(leaf.period_ratio), percent(leaf.strict_ratio), gpuHours(leaf.free_gpu_ms)]) },
    waits: { headers: ["of", "GPUs", "jobs", "not over", "p50", "p90", "p99", "longest"], numbers: [2, 3, 4, 5, 6, 7],
      rows: () => DATA.measures.waits.filter((row) => row.jobs > 0).map((row) =>
        [row.of, row.gpus, grouped(row.jobs), grouped(row.not_over), known(row.p50), known(row.p90), known(row.p99), known(row.longest)]) },
    bill: { headers: ["day", "cause", "tier", "preemptions", "lost [GPU-h]"], numbers: [0, 3, 4],
      rows: () => DATA.lost.map((row) => [row.day + 1, row.cause, row.tier, grouped(row.preemptions), gpuHours(row.lost_gpu_ms)]) },
    room: { headers: ["at", "idle", "not protected", "within 1 h", "within 8 h"], numbers: [1, 2, 3, 4],
      rows: () => DATA.rooms.map((row, place) => [moment(DATA.rooms_at[place]), ...row.map(grouped)]) },
  };

  function build(name) {
    const { headers, numbers, wide, rows } = VIEWS[name], all = rows(), body = element("tbody"), head = element("tr");
    headers.forEach((header, column) => head.append(element("th", header, { scope: "col", class: numbers.includes(column) ? "n" : "" })));
    for (const row of all.slice(0, ROWS)) {
      const line = element("tr");
      row.forEach((cell, column) => line.append(element(column === 0 ? "th" : "td", cell, column === 0 ? { scope: "row" } : { class: numbers.includes(column) ? "n" : column === wide ? "w" : "" })));
      body.append(line);
    }
    const table = element("table"), top = element("thead"), cut = all.length > ROWS ? `The first ${grouped(ROWS)} of ${grouped(all.length)} rows: zoom in, or take the CSV.` : `${grouped(all.length)} rows.`;
    top.append(head);
    table.append(element("caption", cut), top, body);
    byId(name + "-table").replaceChildren(table);
  }
  function show(name) {
    const isTable = listOf("table").includes(name);
    byId(name + "-table").hidden = !isTable;
    byId(name + "-figure").hidden = isTable;
    document.querySelector(`[data-table="${name}"]`).setAttribute("aria-pressed", String(isTable));
    if (isTable) build(name); else byId(name + "-table").replaceChildren();
  }
  function toggle(name) {
    toggled("table", name);
    show(name);
    redraw();
    document.querySelector(`[data-table="${name}"]`).focus();
  }
  function refresh(name) {
    if (listOf("table").includes(name)) build(name);
  }
  // A cell that a spreadsheet would take for a formula stands after an apostrophe.
  function quoted(cell) {
    const text = String(cell), safe = /^[=+@\t\r]|^-./.test(text) ? "'" + text : text;
    return /[",\n\r]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
  }
  function csv(name) {
    const { headers, rows } = VIEWS[name], lines = [headers, ...rows()].map((row) => row.map(quoted).join(","));
    const link = element("a", null, { download: name + ".csv", href: URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" })) });
    link.click();
    URL.revokeObjectURL(link.href);
  }
  document.querySelectorAll("[data-table]").forEach((button) => button.addEventListener("click", () => toggle(button.dataset.table)));
  document.querySelectorAll("[data-csv]").forEach((button) => button.addEventListener("click", () => csv(button.dataset.csv)));
  Object.keys(VIEWS).forEach(show);
  return { toggle, refresh };
})();

redraw();
dark.addEventListener("change", redraw);
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
// Somebody put in another address: what it says is shown.
addEventListener("hashchange", () => { if (location.hash.includes("=")) location.reload(); });
document.documentElement.dataset.drawn = "yes";
