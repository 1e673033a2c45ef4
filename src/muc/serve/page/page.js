// The data owner's page. Everything random is drawn here, by the browser, and never told to the server: which images are
// held back until the verdict is asked for, and which pieces of them are compared.

import { compare, lookBefore, queries } from "./comparison.js";
import { figures } from "./figures.js";
import { USUAL_VIEWS } from "./pieces.js";
import { remembered, save, saveJson, saveReport } from "./report.js";
import { Server } from "./server.js";
import { FEWEST_WITHHELD, MOST, check, draw, fits, hex, read, sealed, words } from "./split.js";

const FEWEST = 6;       // images; as the server's plan and verdict take
const MOST_PAIRS = 8;   // of pieces of each image; more make less noise and cost more of the budget
const $ = (id) => document.getElementById(id);
const state = { server: null, images: [], withheld: [], plan: null, split: null, outcome: null };
const GROUPS = {  // of images, by their name in the state; no image is in both
  images: { input: "files", drop: "drop", list: "thumbnails", other: "withheld", called: "your images to compare",
    back: "choose the same as then and load its file" },
  withheld: { input: "withheld", drop: "drop-withheld", list: "thumbnails-withheld", other: "images", called: "the images that you never gave away",
    back: "if you have asked for the deletion, load its file again, which takes none of these" },
};

// --- images -----------------------------------------------------------------------------------------------------------

async function readImage(file) {
  const digest = hex(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`'${file.name}' is not a picture that this browser can read; nothing was added. Leave it out.`);
  });
  return { name: file.name, digest, bitmap };
}

function changeImages(group, images) {  // a draw is of exactly the images there were
  if (state.split) $("status").textContent = `The draw was of other images: draw again, or ${GROUPS[group].back}.`;
  Object.assign(state, { [group]: images, split: null, outcome: null });
}

async function addFiles(group, files) {
  const { other } = GROUPS[group], found = new Map(state[group].map((image) => [image.digest, image]));
  for (const file of files) {
    const image = await readImage(file);
    if (state[other].some(({ digest }) => digest === image.digest)) {
      throw new Error(`'${file.name}' is among ${GROUPS[other].called} already, and cannot be both; nothing was added. Leave it out.`);
    }
    if ([...found.values()].some(({ name, digest }) => name === image.name && digest !== image.digest)) {
      throw new Error(`Two of your images are called '${image.name}'; rename one, so that your request can tell them apart. Nothing was added.`);
    }
    if (!found.has(image.digest)) found.set(image.digest, image);
  }
  if (found.size > state[group].length) changeImages(group, [...found.values()]);
}

function thumbnail(group, image, at) {
  const item = document.createElement("li"), canvas = document.createElement("canvas");
  const name = document.createElement("span"), remove = document.createElement("button");
  const { width, height } = image.bitmap, side = Math.min(width, height);
  canvas.width = canvas.height = 64;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", image.name);
  canvas.getContext("2d").drawImage(image.bitmap, (width - side) / 2, (height - side) / 2, side, side, 0, 0, 64, 64);
  const drawn = state.split?.images.find(({ sha256 }) => sha256 === image.digest);
  if (drawn?.forget) item.className = "forget";
  name.textContent = drawn ? `${drawn.forget ? "delete" : "keep"}: ${image.name}` : image.name;
  remove.type = "button";
  remove.textContent = "×";
  remove.setAttribute("aria-label", `Remove ${image.name}`);
  remove.addEventListener("click", inTurn(() => changeImages(group, state[group].filter((other) => other !== image)),
    () => {}, () => ($(GROUPS[group].list).querySelectorAll("button")[at] ?? $(GROUPS[group].input)).focus()));
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

// How many queries so many pairs take: now, of all images, and after the deletion, of those that were given away.
const cost = (pairs) => [queries(state.images.length + state.withheld.length, pairs), queries(state.images.length, pairs)];
const total = (pairs) => cost(pairs).reduce((sum, part) => sum + part);
const affordable = () => Math.min(MOST_PAIRS, Math.floor(state.server.about.budget.left / total(1)));

function planned() {
  const { images: n, n_forget, n_control, reference, power } = state.plan, { left } = state.server.about.budget;
  const pairs = affordable(), [now, later] = cost(pairs);
  const chance = `With ${n} images: ${n_forget} to delete, ${n_control} to hold back. A change as large as ${reference} would be found with probability ${Math.round(100 * power)} %.`;
  if (pairs < 1) return `${chance} But that takes at least ${total(1)} queries, and ${left} are left; take fewer images, or ask the model owner for more.`;
  const takes = `It takes ${total(pairs)} queries: ${pairs} pairs of pieces of each image, in ${now} queries now and ${later} after the deletion.`;
  return pairs === MOST_PAIRS ? `${chance} ${takes}` : `${chance} ${takes} Better were ${MOST_PAIRS} pairs, but only ${left} queries are left and ${total(MOST_PAIRS)} needed; chance disturbs the comparison more.`;
}

function render() {
  const n = state.images.length, m = state.withheld.length, { about } = state.server ?? {};
  const ready = state.plan?.images === n && possible() && (!m || fits(m));
  const wrong = (count, fewest) => count < fewest ? `; at least ${fewest} are needed` : count > MOST ? `; at most ${MOST} are possible` : "";
  $("about").textContent = about ? `Connected. ${about.budget.left} of ${about.budget.total} queries are left.` : "";
  $("chosen").textContent = n ? `${n} images${wrong(n, FEWEST)}` : "";
  $("chosen-withheld").textContent = m ? `${m} images${wrong(m, FEWEST_WITHHELD)}${m < FEWEST_WITHHELD ? ", or none" : ""}` : "";
  for (const [group, { list }] of Object.entries(GROUPS)) {
    $(list).replaceChildren(...state[group].map((image, at) => thumbnail(group, image, at)));
  }
  $("plan").textContent = ready && !state.split ? planned() : "";
  $("draw").disabled = !ready || Boolean(state.split) || affordable() < 1;
  $("drawn").textContent = state.split ? words(state.split) : "";
  $("request").hidden = !state.split;
  $("list").value = state.split ? listed() : "";
  $("run").disabled = !(possible() && state.split);
  $("progress").hidden = true;
  $("result").hidden = !state.outcome;
}

const listed = () => state.split.images.filter(({ forget }) => forget).map(({ name }) => `${name}\n`).join("");

function progress(what, done, all) {
  $("progress").hidden = false;
  $("progress").value = done / all;
  $("status").textContent = `${what} ${done} of ${all} pieces`;
}

function show(outcome) {
  $("verdict").textContent = outcome.verdict[0].toUpperCase() + outcome.verdict.slice(1);
  $("words").textContent = outcome.words;
  $("memory").textContent = outcome.memory ? remembered(outcome) : "";
  $("memory").hidden = !outcome.memory;
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
        await state.server?.refresh().catch(() => {});  // something may have been spent
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
  const { server, images, withheld } = state, { models, views } = await server.refresh();
  const drawn = draw(images, state.plan.n_forget, { pairs: affordable(), views: views ?? USUAL_VIEWS, models });
  const split = await lookBefore(drawn, images, withheld, server, progress);
  Object.assign(state, { split, outcome: null });
  await saveSplit();
  await server.refresh();
  $("status").textContent = "Drawn. Look whether audit-split.json is among your downloads, and send the list of images to delete.";
}

const saveSplit = async () => saveJson("audit-split.json", await sealed(state.split));

async function loadSplit(file) {
  if (!file) return;
  if (!state.server) throw new Error("First connect with your key, then load the file.");
  const split = await read(file);
  check(split, state.images, await state.server.refresh());
  Object.assign(state, { split, withheld: [], outcome: null });  // what the file knows of such counts, and is all it takes
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
  for (const [group, { input, drop }] of Object.entries(GROUPS)) {
    const add = (files) => addFiles(group, files);
    $(input).addEventListener("change", inTurn(add, () => [...$(input).files]));
    for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
      $(drop).addEventListener(name, (event) => {
        event.preventDefault();
        $(drop).classList.toggle("over", name === "dragenter" || name === "dragover");
      });
    }
    $(drop).addEventListener("drop", inTurn(add, (event) => [...event.dataTransfer.files]));
  }
  for (const input of document.querySelectorAll("input[type=file]")) {
    input.addEventListener("click", () => { input.value = ""; });  // or the same file could not be chosen once more
  }
  $("save-split").addEventListener("click", inTurn(saveSplit));
  $("save-list").addEventListener("click", inTurn(() => save("delete-these.txt", listed(), "text/plain")));
  $("draw").addEventListener("click", inTurn(drawSplit, disable));
  $("split").addEventListener("change", inTurn(loadSplit, () => $("split").files[0]));
  $("run").addEventListener("click", inTurn(compareNow, disable, () => state.outcome && $("h-result").focus()));
  $("save-report").addEventListener("click", inTurn(() => saveReport(state.outcome, $("result"))));
  $("save-numbers").addEventListener("click", inTurn(() => saveJson("audit-numbers.json", state.outcome)));
}

if (isSecureContext) {
  begin();
} else {  // browsers then have no hashes for it
  document.querySelectorAll("input, button").forEach((control) => { control.disabled = true; });
  $("error").textContent = "This page works only at an address that begins with https://, or on localhost: ask the model owner for one.";
}
