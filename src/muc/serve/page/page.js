// The data owner's page. Everything random is drawn here, by the browser, and never told to the server: which images are
// held back until the verdict is asked for, and which pieces of them are compared.

import { compare, look, queries } from "./comparison.js";
import { figures } from "./figures.js";
import { USUAL_VIEWS } from "./pieces.js";
import { saveJson, saveReport } from "./report.js";
import { Server } from "./server.js";
import { check, draw, hex, read, words } from "./split.js";

const FEWEST = 6, MOST = 60;  // images; as the server's plan and verdict take
const MOST_PAIRS = 8;         // of pieces of each image; more make less noise and cost more of the budget
const $ = (id) => document.getElementById(id);
const state = { server: null, images: [], plan: null, split: null, outcome: null };

// --- images -----------------------------------------------------------------------------------------------------------

async function readImage(file) {
  const digest = hex(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`'${file.name}' is not a picture that this browser can read; nothing was added. Leave it out.`);
  });
  return { name: file.name, digest, bitmap };
}

function changeImages(images) {  // a draw is of exactly the images there were
  if (state.split) $("status").textContent = "The draw was of other images: draw again, or choose the same as then and load its file.";
  Object.assign(state, { images, split: null, outcome: null });
}

async function addFiles(files) {
  const found = new Map(state.images.map((image) => [image.digest, image]));
  for (const file of files) {
    const image = await readImage(file);
    if (!found.has(image.digest)) found.set(image.digest, image);
  }
  if (found.size > state.images.length) changeImages([...found.values()]);
}

function thumbnail(image, at) {
  const item = document.createElement("li"), canvas = document.createElement("canvas");
  const name = document.createElement("span"), remove = document.createElement("button");
  const { width, height } = image.bitmap, side = Math.min(width, height);
  canvas.width = canvas.height = 64;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", image.name);
  canvas.getContext("2d").drawImage(image.bitmap, (width - side) / 2, (height - side) / 2, side, side, 0, 0, 64, 64);
  const asked = state.split?.images.find(({ sha256 }) => sha256 === image.digest).forget;
  if (asked) item.className = "forget";
  name.textContent = state.split ? `${asked ? "delete" : "keep"}: ${image.name}` : image.name;
  remove.type = "button";
  remove.textContent = "×";
  remove.setAttribute("aria-label", `Remove ${image.name}`);
  remove.addEventListener("click", inTurn(() => changeImages(state.images.filter((other) => other !== image)),
    () => {}, () => ($("thumbnails").querySelectorAll("button")[at] ?? $("files")).focus()));
  item.append(canvas, remove, name);
  return item;
}

// --- what there is to say ---------------------------------------------------------------------------------------------

const possible = () => state.server && state.images.length >= FEWEST && state.images.length <= MOST;

async function plan() {  // for so many images, with what is left of the budget
  const n = state.images.length;
  if (!possible()) state.plan = null;
  else if (state.plan?.images !== n) state.plan = { images: n, ...await state.server.ask(`v1/plan?images=${n}`) };
}

const affordable = (n) => Math.min(MOST_PAIRS, Math.floor(state.server.about.budget.left / (2 * queries(n, 1))));

function planned() {
  const { images: n, n_forget, n_control, reference, power } = state.plan, { left } = state.server.about.budget;
  const pairs = affordable(n), needed = 2 * queries(n, Math.max(pairs, 1));
  const chance = `With ${n} images: ${n_forget} to delete, ${n_control} to hold back. A change as large as ${reference} would be found with probability ${Math.round(100 * power)} %.`;
  if (pairs < 1) return `${chance} But that takes at least ${needed} queries, and ${left} are left; take fewer images, or ask the model owner for more.`;
  const cost = `It takes ${needed} queries: ${pairs} pairs of pieces of each image, half of them now and half after the deletion.`;
  return pairs === MOST_PAIRS ? `${chance} ${cost}` : `${chance} ${cost} Better were ${MOST_PAIRS} pairs, but only ${left} queries are left and ${2 * queries(n, MOST_PAIRS)} needed; chance disturbs the comparison more.`;
}

function render() {
  const n = state.images.length, { about } = state.server ?? {}, ready = state.plan?.images === n && possible();
  const wrong = n < FEWEST ? `; at least ${FEWEST} are needed` : n > MOST ? `; at most ${MOST} are possible` : "";
  $("about").textContent = about ? `Connected. ${about.budget.left} of ${about.budget.total} queries are left.` : "";
  $("chosen").textContent = n ? `${n} images${wrong}` : "";
  $("thumbnails").replaceChildren(...state.images.map(thumbnail));
  $("plan").textContent = ready && !state.split ? planned() : "";
  $("draw").disabled = !ready || Boolean(state.split) || affordable(n) < 1;
  $("drawn").textContent = state.split ? words(state.split) : "";
  $("run").disabled = !(possible() && state.split);
  $("progress").hidden = true;
  $("result").hidden = !state.outcome;
}

function progress(what, done, all) {
  $("progress").hidden = false;
  $("progress").value = done / all;
  $("status").textContent = `${what} ${done} of ${all} pieces`;
}

function show(outcome) {
  $("verdict").textContent = outcome.verdict[0].toUpperCase() + outcome.verdict.slice(1);
  $("words").textContent = outcome.words;
  $("figures").replaceChildren(...figures(outcome));
}

// --- actions ----------------------------------------------------------------------------------------------------------

let turn = Promise.resolve();

// One action after another, since each reads what the one before has left; one sentence for whatever goes wrong, and the
// page shows what there is in either case. `take` runs at once: the files of a drop are gone by the time that its turn
// comes. `then` runs when the page shows what came of it.
function inTurn(work, take = () => {}, then = () => {}) {
  return (event) => {
    event.preventDefault();
    const taken = take(event);
    turn = turn.then(async () => {
      $("error").textContent = $("status").textContent = "";
      try {
        await work(taken);
        await plan();
      } catch (error) {
        $("status").textContent = "";
        $("error").textContent = error.message;
      } finally {
        render();
      }
      then();
    });
  };
}

async function connect(key) {
  state.server = state.plan = null;  // until the key proves good
  const server = new Server(key);
  await server.refresh();
  state.server = server;
}

async function drawSplit() {
  const { server, images } = state, { models, views } = await server.refresh();
  const pairs = affordable(images.length);
  const split = draw(images, state.plan.n_forget, { pairs, views: views ?? USUAL_VIEWS, models });
  split.before = await look("before", split, images, server, progress);
  saveJson("audit-split.json", split);
  Object.assign(state, { split, outcome: null });
  await server.refresh();
  $("status").textContent = "Drawn. The file is among your downloads.";
}

async function loadSplit(file) {
  if (!file) return;
  if (!state.server) throw new Error("First connect with your key, then load the file.");
  const split = await read(file);
  check(split, state.images, await state.server.refresh());
  Object.assign(state, { split, outcome: null });
}

async function compareNow() {
  state.outcome = await compare(state.split, state.images, state.server, progress);
  show(state.outcome);
  await state.server.refresh();
  $("status").textContent = "Done.";
}

const disable = () => { $("draw").disabled = $("run").disabled = true; };

function begin() {
  $("connect").addEventListener("submit", inTurn(connect, () => $("key").value.trim()));
  $("files").addEventListener("change", inTurn(addFiles, () => [...$("files").files]));
  for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
    $("drop").addEventListener(name, (event) => {
      event.preventDefault();
      $("drop").classList.toggle("over", name === "dragenter" || name === "dragover");
    });
  }
  $("drop").addEventListener("drop", inTurn(addFiles, (event) => [...event.dataTransfer.files]));
  $("draw").addEventListener("click", inTurn(drawSplit, disable));
  $("split").addEventListener("change", inTurn(loadSplit, () => $("split").files[0]));
  $("run").addEventListener("click", inTurn(compareNow, disable, () => state.outcome && $("result").scrollIntoView()));
  $("save-report").addEventListener("click", inTurn(() => saveReport(state.outcome, $("result"))));
  $("save-numbers").addEventListener("click", inTurn(() => saveJson("audit-numbers.json", state.outcome)));
}

if (isSecureContext) {
  begin();
} else {  // browsers then have no hashes for it
  document.querySelectorAll("input, button").forEach((control) => { control.disabled = true; });
  $("error").textContent = "This page works only at an address that begins with https://, or on localhost: ask the model owner for one.";
}
