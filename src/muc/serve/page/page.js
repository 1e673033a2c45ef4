// The data owner's page. Everything random is drawn here, by the browser, and never told to the server: which images are
// held back until the verdict is asked for, and which pieces of them are compared.

const MOST_PAIRS = 8;       // of views of each image; more make less noise and cost more of the budget
const SMALLEST_CROP = 0.3;  // of an image's area
const FORMAT = "muc-page-split";
const $ = (id) => document.getElementById(id);
const state = { key: "", about: null, images: [], forget: null, outcome: null };

// --- chance -----------------------------------------------------------------------------------------------------------

function random() {  // in [0, 1), from the operating system
  return crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32;
}

function shuffled(items) {
  const result = [...items];
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [result[i], result[j]] = [result[j], result[i]];
  }
  return result;
}

// --- the server -------------------------------------------------------------------------------------------------------

async function ask(path, options = {}) {
  for (let attempt = 0; ; attempt++) {
    let response;
    try {
      response = await fetch(path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${state.key}` } });
    } catch {
      throw new Error("The server cannot be reached; check the connection and try again.");
    }
    const wait = Number(response.headers.get("Retry-After"));
    if (response.status === 429 && wait && attempt < 10) {
      await new Promise((resume) => setTimeout(resume, 1000 * wait));
      continue;
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.error || `The server answered ${response.status}.`);
    return answer;
  }
}

async function embed(model, pieces, progress) {
  // In an order of its own for either model: which pieces belong together is not to be read off it.
  const order = shuffled(pieces.keys()), vectors = new Array(pieces.length), most = state.about.limits.images_per_request;
  for (let start = 0; start < order.length; start += most) {
    const part = order.slice(start, start + most), form = new FormData();
    part.forEach((at, i) => form.append("images", pieces[at], `${i}.png`));
    const answer = await ask(`v1/embed?model=${model}`, { method: "POST", body: form });
    part.forEach((at, i) => { vectors[at] = answer.vectors[i]; });
    progress(part.length);
  }
  return vectors;
}

// --- images -----------------------------------------------------------------------------------------------------------

async function read(file) {
  const bytes = await file.arrayBuffer();
  const digest = [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))];
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`'${file.name}' is not a picture that this browser can read; leave it out.`);
  });
  return { name: file.name, digest: digest.map((b) => b.toString(16).padStart(2, "0")).join(""), bitmap };
}

async function addFiles(files) {
  for (const file of files) {
    const image = await read(file);
    if (!state.images.some((known) => known.digest === image.digest)) state.images.push(image);
  }
  state.forget = null;
  await refresh();
}

function piece(bitmap, size) {  // a random crop, maybe mirrored, in slightly other light
  const side = Math.min(bitmap.width, bitmap.height);
  const area = SMALLEST_CROP + (1 - SMALLEST_CROP) * random(), ratio = Math.exp((random() - 0.5) * 2 * Math.log(4 / 3));
  const w = Math.min(side, side * Math.sqrt(area * ratio)), h = Math.min(side, side * Math.sqrt(area / ratio));
  const x = (bitmap.width - side) / 2 + random() * (side - w), y = (bitmap.height - side) / 2 + random() * (side - h);
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
  canvas.width = canvas.height = size;
  context.filter = `brightness(${0.7 + 0.6 * random()}) contrast(${0.7 + 0.6 * random()}) saturate(${0.7 + 0.6 * random()})`;
  if (random() < 0.5) {
    context.translate(size, 0);
    context.scale(-1, 1);
  }
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, x, y, w, h, 0, 0, size, size);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

// --- the comparison ---------------------------------------------------------------------------------------------------

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

function alignment(vectors, n, pairs) {  // mean cosine between a view of image i and a view of image j
  return Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => {
    let sum = 0;
    for (let v = 0; v < pairs; v++) {
      const first = (image) => vectors[(image * pairs + v) * 2], second = (image) => vectors[(image * pairs + v) * 2 + 1];
      sum += (dot(first(i), second(j)) + dot(first(j), second(i))) / 2;
    }
    return sum / pairs;
  }));
}

async function compare() {
  // The deleted first, so that the figures have blocks.
  const images = [...state.images].sort((a, b) => state.forget.has(b.digest) - state.forget.has(a.digest));
  const n = images.length;
  state.about = await ask("v1/about");
  const pairs = Math.min(MOST_PAIRS, Math.floor(state.about.budget.left / (4 * n)));
  if (pairs < 1) throw new Error(`Comparing ${n} images takes ${4 * n} queries, and ${state.about.budget.left} are left; ask the model owner for more.`);
  const total = 4 * n * pairs;
  let done = 0;
  const progress = (count) => {
    done += count;
    $("progress").value = done / total;
    $("status").textContent = `${done} of ${total} pieces compared`;
  };
  $("progress").hidden = false;
  progress(0);
  const pieces = [];
  for (const image of images) {
    for (let v = 0; v < 2 * pairs; v++) pieces.push(await piece(image.bitmap, state.about.input.size));
  }
  const before = alignment(await embed("before", pieces, progress), n, pairs);
  const after = alignment(await embed("after", pieces, progress), n, pairs);
  const gap = before.map((row, i) => row.map((value, j) => value - after[i][j]));
  const forget = images.map((image) => state.forget.has(image.digest));
  const judged = await ask("v1/verdict", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ gap, forget }),
  });
  return {
    format: "muc-page-outcome", version: 1, date: new Date().toISOString(), models: state.about.models, view_pairs: pairs,
    images: images.map(({ name, digest }, i) => ({ name, sha256: digest, forget: forget[i] })), before, after, gap, ...judged,
  };
}

// --- figures ----------------------------------------------------------------------------------------------------------

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function figure(caption, picture) {
  const element = document.createElement("figure"), text = document.createElement("figcaption");
  text.textContent = caption;
  element.append(picture, text);
  return element;
}

function shade(share, negative) {  // darker is more, in print too; the two signs also differ in hue
  const from = [255, 255, 255], to = negative ? [8, 69, 148] : [127, 39, 4];
  return `rgb(${from.map((c, i) => Math.round(c + (to[i] - c) * share)).join(",")})`;
}

function heatmap(matrix, forget, label) {
  const n = matrix.length, cell = 300 / n, asked = forget.filter(Boolean).length;
  const largest = Math.max(...matrix.flat().map(Math.abs), 1e-9);
  const picture = svg("svg", { viewBox: "0 0 310 348", role: "img", "aria-label": label });
  matrix.forEach((row, i) => row.forEach((value, j) => {
    const x = 5 + j * cell, y = 5 + i * cell;
    picture.append(svg("rect", { x, y, width: cell, height: cell, fill: shade(Math.abs(value) / largest, value < 0) },
      svg("title", {}, value.toFixed(3))));
    if (value < -0.2 * largest) picture.append(svg("circle", { cx: x + cell / 2, cy: y + cell / 2, r: cell / 8, fill: "#fff", stroke: "#000", "stroke-width": 0.4 }));
  }));
  const outline = (start, count, dashes) => svg("rect", {
    x: 5 + start * cell, y: 5 + start * cell, width: count * cell, height: count * cell, fill: "none", stroke: "#000",
    "stroke-width": 2, "stroke-dasharray": dashes,
  });
  picture.append(outline(0, asked, "6 4"), outline(asked, n - asked, "none"));
  picture.append(svg("text", { x: 5, y: 324, "font-size": 13 }, "dashed: deleted · solid: held back"));
  picture.append(svg("text", { x: 5, y: 342, "font-size": 13 }, `darkest: ${largest.toFixed(2)} · with a dot: below zero`));
  return picture;
}

function histogram({ edges, counts, observed }, label) {
  const low = Math.min(edges[0], observed), high = Math.max(edges.at(-1), observed), span = high - low || 1;
  const x = (value) => 10 + 290 * (value - low) / span, most = Math.max(...counts);
  const picture = svg("svg", { viewBox: "0 0 310 190", role: "img", "aria-label": label });
  counts.forEach((count, i) => picture.append(svg("rect", {
    x: x(edges[i]), y: 150 - 130 * count / most, width: Math.max(x(edges[i + 1]) - x(edges[i]), 0.5), height: 130 * count / most,
    fill: "#b0b0b0", stroke: "#606060", "stroke-width": 0.4,
  })));
  const at = x(observed);
  picture.append(
    svg("line", { x1: at, x2: at, y1: 8, y2: 150, stroke: "#000", "stroke-width": 2.5 }),
    svg("text", { x: at, y: 166, "font-size": 13, "text-anchor": at > 155 ? "end" : "start" }, `yours: ${observed.toFixed(3)}`),
    svg("text", { x: 5, y: 185, "font-size": 13 }, "grey: what chance could have drawn"),
  );
  return picture;
}

function show(outcome) {
  const forget = outcome.images.map((image) => image.forget);
  $("verdict").textContent = outcome.verdict[0].toUpperCase() + outcome.verdict.slice(1);
  $("words").textContent = outcome.words;
  $("figures").replaceChildren(
    figure("How alike pieces of your images look to the model before. Darker: more alike.",
      heatmap(outcome.before, forget, "Alignment of your images before")),
    figure("The same after.", heatmap(outcome.after, forget, "Alignment of your images after")),
    figure("Before minus after. On the diagonal: pieces of one image. Brown: less alike than before; blue with a dot: more alike.",
      heatmap(outcome.gap, forget, "Change of the alignment of your images")),
    figure("How much more the deleted images lost likeness to themselves than those held back.",
      histogram(outcome.null.FS, `Forgetting score: ${outcome.contrasts.FS.value.toFixed(3)}`)),
    figure("How much more the deleted images came to look alike than those held back.",
      histogram(outcome.null.negative_alignment, `Negative alignment: ${outcome.contrasts.negative_alignment.value.toFixed(3)}`)),
  );
  $("result").hidden = false;
  $("result").scrollIntoView();
}

// --- files ------------------------------------------------------------------------------------------------------------

function save(name, text, kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);  // a busy machine takes its time
}

async function saveReport() {
  const style = await (await fetch("page.css")).text(), copy = $("result").cloneNode(true);
  copy.querySelectorAll("button").forEach((button) => button.remove());
  const numbers = document.createElement("pre");
  const { before, after, gap, null: _, ...rest } = state.outcome;
  numbers.textContent = JSON.stringify(rest, null, 1);
  copy.append(numbers);
  save("audit-report.html", `<!doctype html><html lang="en"><meta charset="utf-8"><title>Audit report</title><style>${style}</style><main><h1>Did the model change how it treats these images?</h1>${copy.outerHTML}</main></html>`, "text/html");
}

function saveSplit() {
  const images = state.images.map(({ name, digest }) => ({ name, sha256: digest, forget: state.forget.has(digest) }));
  const text = { format: FORMAT, version: 1, drawn: new Date().toISOString(), models: state.about.models, images };
  save("audit-split.json", JSON.stringify(text, null, 1), "application/json");
}

async function loadSplit(file) {
  let saved;
  try {
    saved = JSON.parse(await file.text());
  } catch {
    saved = null;
  }
  if (saved?.format !== FORMAT || saved.version !== 1 || !Array.isArray(saved.images)) {
    throw new Error(`'${file.name}' is not a file that this page has saved; choose audit-split.json.`);
  }
  const known = new Set(saved.images.map((image) => image.sha256)), here = new Set(state.images.map((image) => image.digest));
  const missing = saved.images.filter((image) => !here.has(image.sha256)).length, extra = [...here].filter((d) => !known.has(d)).length;
  if (missing || extra) throw new Error(`The file is about other images: ${missing} of its images are not here, ${extra} here are not in it. Choose the same images as then.`);
  state.forget = new Set(saved.images.filter((image) => image.forget).map((image) => image.sha256));
  return `Drawn on ${saved.drawn}: ${state.forget.size} to delete, ${saved.images.length - state.forget.size} held back.`;
}

// --- the page ---------------------------------------------------------------------------------------------------------

function thumbnail(image) {
  const item = document.createElement("li"), canvas = document.createElement("canvas"), name = document.createElement("span");
  const side = Math.min(image.bitmap.width, image.bitmap.height);
  canvas.width = canvas.height = 64;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", image.name);
  canvas.getContext("2d").drawImage(image.bitmap, 0, 0, side, side, 0, 0, 64, 64);
  const asked = state.forget?.has(image.digest);
  if (asked) item.className = "forget";
  name.textContent = state.forget ? `${asked ? "delete" : "keep"}: ${image.name}` : image.name;
  item.append(canvas, name);
  return item;
}

async function refresh() {
  const n = state.images.length, ready = state.about && n >= 6;
  $("chosen").textContent = n ? `${n} images${n < 6 ? "; at least 6 are needed" : ""}` : "";
  $("thumbnails").replaceChildren(...state.images.map(thumbnail));
  $("draw").disabled = true;  // until there is a plan for so many images
  $("run").disabled = !(ready && state.forget);
  if (!state.forget) $("drawn").textContent = "";
  if (!ready) return;
  const plan = await ask(`v1/plan?images=${n}`);
  $("plan").textContent = `With ${n} images: ${plan.n_forget} to delete, ${plan.n_control} to hold back. A change as large as ${plan.reference} would be found with probability ${Math.round(100 * plan.power)} %.`;
  state.plan = plan;
  $("draw").disabled = false;
}

let turn = Promise.resolve();

// One action after another, since each reads what the one before has left; one sentence for whatever goes wrong.
// `take` runs at once: the files of a drop are gone by the time that its turn comes.
function inTurn(work, take = () => {}) {
  return (event) => {
    event.preventDefault();
    const taken = take(event);
    turn = turn.then(async () => {
      $("error").textContent = "";
      try {
        await work(taken);
      } catch (error) {
        $("error").textContent = error.message;
      }
    });
  };
}

$("connect").addEventListener("submit", inTurn(async () => {
  state.key = $("key").value.trim();
  state.about = null;
  state.about = await ask("v1/about");
  $("about").textContent = `Connected. ${state.about.budget.left} of ${state.about.budget.total} queries are left.`;
  await refresh();
}));
$("files").addEventListener("change", inTurn(addFiles, () => [...$("files").files]));
for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
  $("drop").addEventListener(name, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", name === "dragenter" || name === "dragover");
  });
}
$("drop").addEventListener("drop", inTurn(addFiles, (event) => [...event.dataTransfer.files]));
$("draw").addEventListener("click", inTurn(async () => {
  const chosen = shuffled(state.images).slice(0, state.plan.n_forget);
  state.forget = new Set(chosen.map((image) => image.digest));
  saveSplit();
  await refresh();
  $("drawn").textContent = `${state.forget.size} images are to be deleted, ${state.images.length - state.forget.size} held back: see above. Ask for exactly these to be deleted, and keep the file.`;
}));
$("split").addEventListener("change", inTurn(async (file) => {
  const words = file ? await loadSplit(file) : "";
  await refresh();
  $("drawn").textContent = words;
}, () => $("split").files[0]));
$("run").addEventListener("click", inTurn(async () => {
  try {
    state.outcome = await compare();
    $("status").textContent = "Done.";
    show(state.outcome);
  } finally {
    $("run").disabled = false;
  }
}, () => { $("run").disabled = true; }));
$("save-report").addEventListener("click", inTurn(saveReport));
$("save-numbers").addEventListener("click", inTurn(() => save("audit-numbers.json", JSON.stringify(state.outcome, null, 1), "application/json")));
