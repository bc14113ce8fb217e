// The page of `fedsuper serve`. Talks to /api only; every text is set as text, never as markup.
const at = (id) => document.getElementById(id);
const MARK = { "X-FedSuper": "page" };
const state = { model: null, image: null, answer: null, busy: false };

async function ask(path, options = {}) {
  const reply = await fetch(path, { ...options, headers: { ...MARK, ...(options.headers || {}) } });
  let content = {};
  try { content = await reply.json(); } catch { /* not JSON: the status says enough */ }
  if (!reply.ok) throw new Error(content.problem || `the server answered ${reply.status}`);
  return content;
}

function tell(text) { at("status").textContent = text; }
function complain(text) { at("problem").textContent = text; at("problem").hidden = !text; }

async function work(what, doing) {
  if (state.busy) return;
  state.busy = true;
  complain("");
  tell(what);
  document.body.setAttribute("aria-busy", "true");
  try { await doing(); tell(""); } catch (error) { tell(""); complain(error.message); } finally {
    state.busy = false;
    document.body.removeAttribute("aria-busy");
  }
}

function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text;
    option.selected = value === chosen;
    return option;
  }));
}

async function start() {
  await work("Loading the super model…", async () => {
    state.model = await ask("api/model");
    const model = state.model;
    at("about").textContent = model.about;
    options(at("mode"), model.modes.map((mode) => [mode.name, mode.title]), model.mode);
  });
}

async function upload(files) {
  if (!files.length) return;
  const total = [...files].reduce((sum, file) => sum + file.size, 0);
  await work(`Reading ${files[0].name}…`, async () => {
    if (total > state.model.upload_mb * 1e6) {
      throw new Error(`${files[0].name} is larger than ${state.model.upload_mb} MB; use fedsuper predict for such files`);
    }
    const form = new FormData();
    for (const file of files) form.append("files", file, file.name);
    const mode = at("mode").value;
    const answer = await ask(`api/images?mode=${encodeURIComponent(mode)}`, { method: "POST", body: form });
    state.image = answer.image;
    at("number").max = answer.slices - 1;
    at("number").value = answer.shown_slice;
    at("slices").hidden = answer.slices < 2;
    show(answer);
    at("verdict").focus();
  });
  at("file").value = "";
}

async function predict(mode) {
  if (!state.image) return;
  await work(`Predicting by ${mode}…`, async () => {
    show(await ask(`api/images/${state.image}/answers?mode=${encodeURIComponent(mode)}`, { method: "POST" }));
  });
  if (state.answer) at("mode").value = state.answer.mode;
}

function show(answer) {
  state.answer = answer;
  at("result").hidden = false;
  at("verdict").textContent = answer.verdict;
  at("why").textContent = answer.why;
  at("review").hidden = !answer.review;
  at("review").textContent = answer.review || "";
  document.querySelector(".stage").classList.toggle("review-border", Boolean(answer.review));
  const known = [["", "nothing"], ...answer.known.filter((mode) => mode !== answer.mode).map((mode) => [mode, title(mode)])];
  const before = at("against").value;
  options(at("against"), known, known.some(([name]) => name === before) ? before : "");
  bars(answer);
  legend(answer);
  facts(answer);
  at("download").href = `api/images/${state.image}/file?mode=${encodeURIComponent(answer.mode)}`;
  draw();
}

function title(name) {
  const found = state.model.modes.find((mode) => mode.name === name);
  return found ? found.title : name;
}

function bars(answer) {
  at("selector").hidden = !answer.probabilities.length;
  at("bars").replaceChildren(...answer.probabilities.map(({ name, probability }) => {
    const row = document.createElement("tr");
    if (answer.models.includes(name)) row.className = "chosen";
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    const track = document.createElement("td");
    track.className = "track";
    const ground = document.createElement("div");
    const bar = document.createElement("span");
    bar.style.width = `${(100 * probability).toFixed(1)}%`;
    ground.append(bar);
    track.append(ground);
    const value = document.createElement("td");
    value.textContent = probability.toFixed(3);
    row.append(head, track, value);
    return row;
  }));
  at("gamma").textContent = answer.gamma === null ? "" :
    `A hospital's own model answers above ${answer.gamma}; below, the global model does.`;
}

function legend(answer) {
  at("legend").replaceChildren(...answer.regions.map(({ name, color }) => {
    const entry = document.createElement("span");
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = color;
    entry.append(swatch, name);
    return entry;
  }));
}

function facts(answer) {
  at("facts").replaceChildren(...answer.facts.flatMap(([name, value]) => {
    const term = document.createElement("dt");
    const text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value;
    return [term, text];
  }));
}

async function draw() {
  const { image, answer } = state;
  if (!image || !answer) return;
  const number = at("number").value;
  const other = at("against").value;
  const mode = encodeURIComponent(answer.mode);
  at("number-value").textContent = `${Number(number) + 1} of ${answer.slices}`;
  at("slice").src = `api/images/${image}/slices/${number}.png`;
  at("slice").alt = `${answer.name}, slice ${Number(number) + 1} of ${answer.slices}`;
  at("mask").src = `api/images/${image}/masks/${number}.png?mode=${mode}`;
  at("mask").alt = `Mask of ${answer.regions.map((region) => region.name).join(" and ")} by ${answer.verdict}`;
  at("difference").hidden = !other;
  at("agreement").textContent = "";
  if (other) {
    const query = `mode=${mode}&other=${encodeURIComponent(other)}`;
    at("difference").src = `api/images/${image}/differences/${number}.png?${query}`;
    at("difference").alt = `Where the masks of the two modes differ`;
    const { dice } = await ask(`api/images/${image}/agreement?${query}`);
    at("agreement").textContent = `Red: where the two differ. Their masks agree with Dice ${dice.toFixed(3)}.`;
  } else {
    at("difference").removeAttribute("src");
  }
}

function fade() {
  at("opacity-value").textContent = `${at("opacity").value} %`;
  at("mask").style.opacity = at("opacity").value / 100;
}

const drop = at("drop");
for (const name of ["dragenter", "dragover"]) {
  document.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
}
for (const name of ["dragleave", "drop"]) document.addEventListener(name, () => drop.classList.remove("over"));
document.addEventListener("drop", (event) => { event.preventDefault(); upload(event.dataTransfer.files); });
at("file").addEventListener("change", (event) => upload(event.target.files));
at("mode").addEventListener("change", (event) => predict(event.target.value));
at("against").addEventListener("change", draw);
at("opacity").addEventListener("input", fade);
at("number").addEventListener("input", draw);
at("controls").addEventListener("submit", (event) => event.preventDefault());
fade();
start();
