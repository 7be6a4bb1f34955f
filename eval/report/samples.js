// Filters, sorts, searches and pages the packed samples. Foreign text enters the page as text only.
// The state of the page is in its address, after the #: links keep filters and order.
const PAGE = 50, MOST_VALUES = 12, MOST_MORE_VALUES = 300, OPEN_FACETS = 6;
const SHOWN_FACETS = ["pattern", "difficulty", "functionality", "target", "implicit"];

const byId = (id) => document.getElementById(id);
const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const format = (number) => (number === null || number === undefined ? "–" : number.toLocaleString("en", { maximumFractionDigits: 6 }));
const unpack = async (packed) => {
  const bytes = Uint8Array.from(atob(packed.trim()), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
};

const constants = await unpack(byId("constants").textContent);
const facetNames = Object.keys(constants.titles), kindNames = Object.keys(constants.kinds);
const packedRuns = [...document.querySelectorAll("script.run")], runs = [];
let query, first, second, partners = [];

async function loadRun(number) {
  if (!runs[number]) {
    const run = await unpack(packedRuns[number].textContent);
    run.size = run.post.length;
    run.searched = run.post.map((post, row) => [post, ...(run.beginnings ? run.beginnings[row] : [])].join(" ").toLowerCase());
    runs[number] = run;
  }
  return runs[number];
}
function useScheme(run, scheme) {
  Object.assign(run, run.labels[scheme]);
  run.facets.kind = { codes: run.kind, sets: kindNames.map((name) => [name]) };
}
const isRight = (run, row) => ["true-positive", "true-negative"].includes(kindNames[run.kind[row]]);
const valuesOf = (run, facet, row) => run.facets[facet].sets[run.facets[facet].codes[row]];
const wordsOf = (run, facet, row) => valuesOf(run, facet, row).join(", ");

// Two runs: samples are matched by post and repeat.
function matchSamples() {
  const rows = new Map();
  for (let row = 0; row < second.size; row++) rows.set(`${second.repeat[row]} ${second.post[row]}`, row);
  partners = first.post.map((post, row) => rows.get(`${first.repeat[row]} ${post}`));
}
function isChosenPair(row) {
  const partner = partners[row], choice = query.get("pairs") || "differ";
  if (partner === undefined) return false;
  if (choice === "all") return true;
  const differ = first.outcome[row] !== second.outcome[partner] || first.verdict[row] !== second.verdict[partner];
  if (!differ || choice === "differ") return differ;
  if (first.gold[row] < 0) return false;
  const firstRight = isRight(first, row), secondRight = isRight(second, partner);
  if (choice === "first") return firstRight && !secondRight;
  return choice === "second" ? secondRight && !firstRight : !firstRight && !secondRight;
}
function whoIsRight(row) {
  if (first.gold[row] < 0) return "unknown";
  const firstRight = isRight(first, row), secondRight = isRight(second, partners[row]);
  if (firstRight && secondRight) return "both";
  return firstRight ? first.name : secondRight ? second.name : "neither";
}

// Count for each row the failed filters, and which facet failed, if it is the only one: a facet's counts ignore its own filter.
function applyFilters() {
  const failed = new Uint8Array(first.size), failedFacet = new Array(first.size);
  for (const facet of facetNames) {
    const chosen = query.getAll(facet);
    if (!chosen.length) continue;
    const { sets, codes } = first.facets[facet];
    const passing = sets.map((values) => values.some((value) => chosen.includes(value)));
    for (let row = 0; row < first.size; row++) {
      if (!passing[codes[row]]) {
        failed[row] += 1;
        failedFacet[row] = facet;
      }
    }
  }
  const require = (test) => {
    for (let row = 0; row < first.size; row++) if (!test(row)) failed[row] += 2;
  };
  for (const name of Object.keys(constants.numbers)) {
    const [low, high] = ["from", "to"].map((end) => parseFloat(query.get(`${name}_${end}`)));
    if (!Number.isNaN(low)) require((row) => first[name][row] !== null && first[name][row] >= low);
    if (!Number.isNaN(high)) require((row) => first[name][row] !== null && first[name][row] <= high);
  }
  const terms = (query.get("words") || "").toLowerCase().split(/\s+/).filter(Boolean);
  for (const term of terms) require((row) => first.searched[row].includes(term) || (second && second.searched[partners[row]]?.includes(term)));
  if (second) require(isChosenPair);
  return { failed, failedFacet };
}
function sortRows(rows) {
  const name = query.get("sort"), sign = query.get("order") === "down" ? -1 : 1;
  if (!name) return sign === 1 ? rows : rows.reverse();
  const keys = first[name], isMissing = (key) => key === null || key === undefined;
  return rows.sort((a, b) => {
    if (isMissing(keys[a]) || isMissing(keys[b])) return isMissing(keys[a]) - isMissing(keys[b]) || a - b;
    return (keys[a] < keys[b] ? -sign : keys[a] > keys[b] ? sign : 0) || a - b;
  });
}

function link(change, ...children) {
  const next = new URLSearchParams(query);
  next.delete("page");
  change(next);
  return element("a", { href: `#${next}` }, ...children);
}
function drawFacet(facet, { failed, failedFacet }) {
  const { sets, codes } = first.facets[facet], counts = new Map(), chosen = query.getAll(facet);
  for (let row = 0; row < first.size; row++) {
    if (failed[row] && !(failed[row] === 1 && failedFacet[row] === facet)) continue;
    for (const value of sets[codes[row]]) counts.set(value, (counts.get(value) || 0) + 1);
  }
  for (const value of chosen) if (!counts.has(value)) counts.set(value, 0);
  if (counts.size < 2 && !chosen.length) return null;
  const rank = facet === "kind" ? ([value]) => kindNames.indexOf(value) : ([, count]) => -count;
  const entries = [...counts].sort((a, b) => rank(a) - rank(b) || (a[0] < b[0] ? -1 : 1));
  const items = (shown) => element("ul", {}, ...shown.map(([value, count]) => {
    const isChosen = chosen.includes(value);
    const toggle = (next) => {
      next.delete(facet);
      for (const other of chosen) if (other !== value) next.append(facet, other);
      if (!isChosen) next.append(facet, value);
    };
    const item = link(toggle,
      element("span", { ariaHidden: "true" }, isChosen ? "☑" : "☐"),
      element("span", { className: "value" }, facet === "kind" ? constants.kinds[value] : value),
      element("span", { className: "count" }, format(count)));
    if (isChosen) item.setAttribute("aria-current", "true");
    return element("li", { className: isChosen ? "chosen" : "" }, item);
  }));
  const box = element("details", {},
    element("summary", {}, constants.titles[facet]), items(entries.slice(0, MOST_VALUES)));
  const more = entries.slice(MOST_VALUES, MOST_MORE_VALUES);
  if (more.length) box.append(element("details", {}, element("summary", {}, `${entries.length - MOST_VALUES} more`), items(more)));
  return box;
}

function drawCell(title, className, ...children) {
  const cell = element("td", { className }, ...children);
  cell.dataset.title = title;
  cell.setAttribute("role", "cell");
  return cell;
}
function drawRow(row) {
  const post = element("a", { href: "#" }, first.post[row]);
  post.addEventListener("click", (event) => {
    event.preventDefault();
    showCase(row);
  });
  const facets = SHOWN_FACETS.filter((name) => valuesOf(first, name, row).length);
  const head = element("th", { scope: "row", className: "post" }, post, first.repeat[row] ? ` repeat ${first.repeat[row]}` : "",
    element("div", { className: "facets-of-post" }, ...facets.map((name) =>
      element("span", {}, element("span", { className: "soft" }, `${constants.titles[name]} `), wordsOf(first, name, row)))));
  if (query.get("read") && first.beginnings) {
    for (const words of first.beginnings[row].filter(Boolean)) head.append(element("p", { className: "words", dir: "auto" }, words));
  }
  const kind = kindNames[first.kind[row]];
  const cells = [drawCell("Gold", "", wordsOf(first, "gold", row) || "none")];
  if (second) {
    cells.push(drawCell(first.name, "", wordsOf(first, "verdict", row)),
      drawCell(second.name, "", wordsOf(second, "verdict", partners[row])), drawCell("Right", "", whoIsRight(row)));
  } else {
    cells.push(drawCell("Verdict", "", wordsOf(first, "verdict", row)),
      drawCell(constants.titles.kind, "", element("span", { className: `chip ${kind}` }, constants.kinds[kind])));
  }
  for (const name of numberColumns()) cells.push(drawCell(constants.numbers[name], "number", format(first[name][row])));
  return element("tr", {}, head, ...cells);
}
const numberColumns = () => Object.keys(constants.numbers).filter((name) => name !== "money" || first.priced);
function drawHeader(title, sort, className = "") {
  const isSorted = sort && query.get("sort") === sort, isDown = query.get("order") === "down";
  const sorted = (next) => {
    next.set("sort", sort);
    if (isSorted && !isDown) next.set("order", "down");
    else next.delete("order");
  };
  const header = element("th", { scope: "col", className }, sort ? link(sorted, title, isSorted ? (isDown ? " ▼" : " ▲") : "") : title);
  if (isSorted) header.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  return header;
}

async function drawCase(run, row, title) {
  const [chunk, place] = run.cases[row] || [], box = element("section", { className: "case" }, element("h3", {}, title));
  if (chunk !== undefined) {
    const template = document.createElement("template");
    template.innerHTML = (await unpack(run.chunks[chunk]))[place]; // from the templates of explanations, which escape
    box.append(template.content.cloneNode(true));
    return box;
  }
  const words = run.beginnings ? run.beginnings[row].filter(Boolean) : [];
  box.append(...words.map((each) => element("p", { dir: "auto" }, each)), element("p", { className: "note" },
    "This file doesn't hold the whole case. tribunal export --to inspect has every case of a run."));
  return box;
}
async function showCase(row) {
  const close = element("button", { type: "button" }, "Close"), box = byId("case");
  close.addEventListener("click", () => box.replaceChildren());
  const cases = [await drawCase(first, row, second ? `${first.post[row]}: ${first.name}` : first.post[row])];
  if (second) cases.push(await drawCase(second, partners[row], `${second.post[partners[row]]}: ${second.name}`));
  box.replaceChildren(close, element("div", { className: second ? "both" : "" }, ...cases), element("hr"));
  box.scrollIntoView();
  close.focus({ preventScroll: true });
}

async function draw() {
  query = new URLSearchParams(location.hash.slice(1));
  const number = Math.min(Number(query.get("run")) || 0, packedRuns.length - 1), other = query.get("with");
  first = await loadRun(number);
  second = other && Number(other) !== number && packedRuns[other] ? await loadRun(Number(other)) : null;
  const scheme = [first, second].some((run) => run && run.scheme === "binary") ? "binary" : "fine";
  for (const run of [first, second]) if (run) useScheme(run, scheme);
  if (second) matchSamples();
  for (const field of byId("form").elements) {
    if (field.type === "checkbox") field.checked = query.get(field.name) === field.value;
    else if (field.name && document.activeElement !== field) field.value = query.get(field.name) || (field.name === "run" ? "0" : "");
  }
  if (byId("pairs")) byId("pairs").hidden = !second;
  byId("about").textContent = `${first.name}: ${first.about}`;
  byId("state").hidden = first.beginnings !== null;
  byId("state").textContent = "This file holds no words of posts: they were left out, or are too many.";
  const filters = applyFilters(), rows = [];
  for (let row = 0; row < first.size; row++) if (!filters.failed[row]) rows.push(row);
  sortRows(rows);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE)), page = Math.min(pages, Math.max(1, Number(query.get("page")) || 1));
  byId("count").textContent = `${format(rows.length)} of ${format(first.size)} samples`;
  const facets = facetNames.map((facet) => drawFacet(facet, filters)).filter(Boolean);
  facets.forEach((box, number) => { box.open = number < OPEN_FACETS || box.querySelector(".chosen") !== null; });
  byId("facets").replaceChildren(...facets);
  const headers = [drawHeader("Post", "post"), drawHeader("Gold", "gold"), drawHeader(second ? first.name : "Verdict", "verdict")];
  if (second) headers.push(drawHeader(second.name), drawHeader("Right"));
  else headers.push(drawHeader(constants.titles.kind, "kind"));
  for (const name of numberColumns()) headers.push(drawHeader(constants.numbers[name], name, "number"));
  byId("table").replaceChildren(element("table", { className: "samples" }, element("thead", {}, element("tr", {}, ...headers)),
    element("tbody", {}, ...rows.slice((page - 1) * PAGE, page * PAGE).map(drawRow))));
  const to = (target, title) => link((next) => next.set("page", target), title);
  byId("pager").replaceChildren(...(page > 1 ? [to(1, "First"), to(page - 1, "Previous page")] : []),
    element("span", {}, `Page ${format(page)} of ${format(pages)}`), ...(page < pages ? [to(page + 1, "Next page"), to(pages, "Last")] : []));
}

let timer;
byId("form").addEventListener("submit", (event) => event.preventDefault());
byId("form").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const next = new URLSearchParams(query);
    next.delete("page");
    for (const field of byId("form").elements) {
      if (!field.name) continue;
      const value = field.type === "checkbox" && !field.checked ? "" : field.value;
      if (value && !(field.name === "run" && value === "0")) next.set(field.name, value);
      else next.delete(field.name);
    }
    location.hash = next;
  }, 200);
});
byId("clear").addEventListener("click", () => {
  const next = new URLSearchParams();
  for (const name of ["run", "with", "pairs", "sort", "order", "read"]) if (query.get(name)) next.set(name, query.get(name));
  location.hash = next;
});
addEventListener("hashchange", draw);
await draw();
document.body.dataset.ready = "yes";
