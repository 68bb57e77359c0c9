// SPDX-License-Identifier: Apache-2.0
// The style sheet and the script of every page.
#include "pictures/page.h"

namespace tessera::pictures {

std::string_view style() {
  return R"css(
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #fff; --ink: #1d2430; --muted: #66707f; --line: #dde1e7; --lane: #f2f4f7;
  --mark: #2563c9; --less: #1d7a3e; --more: #b3372b;
  --all_gather: #3b82d6; --all_reduce: #d9653b; --reduce_scatter: #e0a52e; --all_to_all: #8a5fd1; --collective_permute: #2fa07a;
  --halo_exchange: #c2528b; --other: #7a8594; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181f; --card: #1c222c; --ink: #e5e9f0; --muted: #97a1b1; --line: #323a48; --lane: #222936;
  --mark: #7cb1ff; --less: #6fcf8f; --more: #ff8f80; } figure svg { background: #e9ecf1; border-radius: 6px; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.45 system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 28px 24px 80px; }
h1 { font-size: 26px; margin: 0 0 18px; } h2 { font-size: 17px; margin: 0 0 12px; } h3 { font-size: 15px; margin: 0 0 6px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px; margin: 18px 0; }
.muted { color: var(--muted); fill: var(--muted); }
.cards { display: flex; flex-wrap: wrap; gap: 12px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 18px; min-width: 120px; }
.card b { display: block; font-size: 22px; } .card span { color: var(--muted); font-size: 13px; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 24px; }
.drawings { display: flex; flex-wrap: wrap; gap: 18px 28px; align-items: flex-end; }
figure { margin: 0; max-width: 100%; overflow-x: auto; } figcaption { color: var(--muted); font-size: 13px; padding-top: 4px; }
.scroll { overflow-x: auto; }
.switches { display: flex; flex-wrap: wrap; gap: 8px; margin: 18px 0 0; }
.switch { font: inherit; font-size: 13px; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 16px; padding: 4px 12px; cursor: pointer; }
.switch[aria-pressed=false] { opacity: .45; text-decoration: line-through; }
i[class^=op-] { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; background: var(--other); }
.block { fill: var(--other); cursor: pointer; } .block:hover { opacity: .8; }
.timeline text { font-size: 12px; fill: var(--ink); } .timeline text.muted { fill: var(--muted); } .timeline .where { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.lane { fill: var(--lane); }
.block.on { stroke: var(--ink); stroke-width: 2.5; } tr.on td { background: color-mix(in srgb, var(--mark) 16%, transparent); }
i.op-all_gather { background: var(--all_gather); } .block.op-all_gather { fill: var(--all_gather); }
i.op-all_reduce { background: var(--all_reduce); } .block.op-all_reduce { fill: var(--all_reduce); }
i.op-reduce_scatter { background: var(--reduce_scatter); } .block.op-reduce_scatter { fill: var(--reduce_scatter); }
i.op-all_to_all { background: var(--all_to_all); } .block.op-all_to_all { fill: var(--all_to_all); }
i.op-collective_permute { background: var(--collective_permute); } .block.op-collective_permute { fill: var(--collective_permute); }
i.op-halo_exchange { background: var(--halo_exchange); } .block.op-halo_exchange { fill: var(--halo_exchange); }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: var(--muted); font-weight: 600; cursor: pointer; user-select: none; white-space: nowrap; }
th[aria-sort=ascending]::after { content: " ▲"; font-size: 10px; } th[aria-sort=descending]::after { content: " ▼"; font-size: 10px; }
th, td { padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr[data-step] { cursor: pointer; } tr[data-step]:hover td { background: var(--lane); } tfoot td { font-weight: 600; }
code, pre { font: 12.5px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; } code { white-space: pre; }
.bar { display: inline-block; width: 110px; height: 9px; border-radius: 5px; background: var(--lane); overflow: hidden; vertical-align: middle; }
.bar i { display: block; height: 100%; background: var(--mark); }
.details { margin-top: 14px; border-top: 1px solid var(--line); padding-top: 12px; min-height: 44px; }
.detail { display: none; } .detail.on { display: block; } .detail p { margin: 3px 0; } .detail p > .muted { display: inline-block; min-width: 108px; }
.detail pre { background: var(--lane); border-radius: 8px; padding: 8px 12px; overflow-x: auto; margin: 8px 0 0; }
.detail pre .this { color: var(--mark); font-weight: 700; }
.less { color: var(--less); } .more { color: var(--more); }
@media (max-width: 760px) { .pair { grid-template-columns: 1fr; } main { padding: 16px 10px 60px; } }
@media print { .detail { display: block; } .hint { display: none; } }
)css";
}

std::string_view script() {
  return R"js(
"use strict";
const all = (selector) => document.querySelectorAll(selector);
function select(step) {
  for (const e of all("[data-step], [data-detail]")) e.classList.toggle("on", (e.dataset.step ?? e.dataset.detail) === step);
  for (const hint of all(".hint")) hint.hidden = true;
}
for (const e of all("[data-step]")) {
  e.addEventListener("click", () => select(e.dataset.step));
  e.addEventListener("keydown", (event) => { if (event.key === "Enter") select(e.dataset.step); });
}
for (const b of all("[data-switch]")) b.addEventListener("click", () => {
  const on = b.getAttribute("aria-pressed") !== "true";
  b.setAttribute("aria-pressed", on);
  for (const e of all("[data-op]")) if (e.dataset.op === b.dataset.switch) e.style.display = on ? "" : "none";
});
for (const th of all("th")) th.addEventListener("click", () => {
  const down = th.getAttribute("aria-sort") !== "descending";
  for (const other of th.parentNode.children) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = th.closest("table").tBodies[0], column = th.cellIndex;
  const key = (row) => { const c = row.cells[column]; return c.dataset.sort === undefined ? c.textContent.trim() : Number(c.dataset.sort); };
  const rows = [...body.rows].sort((a, b) => { const x = key(a), y = key(b); return x < y ? -1 : x > y ? 1 : 0; });
  if (down) rows.reverse();
  body.append(...rows);
});
)js";
}

}  // namespace tessera::pictures
