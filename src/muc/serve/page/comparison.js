// What the two models make of the same pieces of images. The model before is asked at the draw, when nobody can know yet
// which images will be listed, and the model after at the comparison.

import { chances, cut } from "./pieces.js";
import { check, checkNew } from "./split.js";

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

function alike(vectors, pairs, i, j) {  // mean cosine between a view of image i and a view of image j
  let sum = 0;
  for (let v = 0; v < pairs; v++) {
    const first = (image) => vectors[(image * pairs + v) * 2], second = (image) => vectors[(image * pairs + v) * 2 + 1];
    sum += (dot(first(i), second(j)) + dot(first(j), second(i))) / 2;
  }
  return sum / pairs;
}

const alignment = (vectors, n, pairs) =>
  Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => alike(vectors, pairs, i, j)));

export const queries = (n, pairs) => 2 * n * pairs;  // for one model

function cutter() {  // on a thread of its own where the browser has such
  if (typeof OffscreenCanvas === "undefined") return { cut, close() {} };
  const worker = new Worker("cutter.js", { type: "module" });
  const cutThere = (work) => new Promise((done, fail) => {
    worker.onmessage = ({ data }) => (data.error ? fail(new Error(data.error)) : done(data.pieces));
    worker.onerror = () => fail(new Error("This browser cannot cut pictures; use a newer one."));
    worker.postMessage(work);
  });
  return { cut: cutThere, close: () => worker.terminate() };
}

function inOrder(split, images) {
  const byDigest = new Map(images.map((image) => [image.digest, image]));
  return split.images.map(({ sha256 }) => byDigest.get(sha256));
}

async function cutAll(split, images, size, progress) {
  const { cut, close } = cutter(), pieces = [];
  try {
    for (const { bitmap, digest } of images) {
      progress(pieces.length);
      pieces.push(...await cut({ bitmap, digest, seed: split.seed, views: split.views, size, count: 2 * split.view_pairs }));
    }
  } finally {
    close();
  }
  return pieces;
}

// The vectors of all pieces of the images, by one of the models; progress(what, done, all).
async function look(model, split, images, server, progress) {
  const all = queries(images.length, split.view_pairs), left = server.about.budget.left;
  if (left < all) throw new Error(`This takes ${all} queries, and ${left} are left; ask the model owner for more.`);
  const pieces = await cutAll(split, images, server.about.input.size, (done) => progress("cutting", done, all));
  // In an order of its own for either model: which pieces belong together is not to be read off it.
  const places = await Promise.all(pieces.map((_, at) => chances(split.seed, "order", model, at)));
  const order = [...pieces.keys()].sort((a, b) => places[a][0] - places[b][0] || a - b);
  return server.embed(model, pieces, order, (done) => progress("compared", done, all));
}

// The split with what the model before makes of its images and, if there are any, of the withheld ones, among them.
export async function lookBefore(split, images, withheld, server, progress) {
  const n = images.length, pairs = split.view_pairs;
  const vectors = await look("before", split, [...inOrder(split, images), ...withheld], server, progress);
  const before = alignment(vectors, n, pairs);
  return withheld.length ? { ...split, before, withheld: withheld.map((_, i) => alike(vectors, pairs, n + i, n + i)) } : { ...split, before };
}

const cosine = (value) => Math.min(1, Math.max(-1, value));  // rounding can lead out of it

const memory = ({ before, withheld }) => withheld && { published: before.map((row, i) => cosine(row[i])), withheld: withheld.map(cosine) };

export async function compare(split, images, server, progress) {
  const { models } = await server.refresh();
  check(split, images, server.about);
  checkNew(split, server.about);
  const { before, withheld } = split, n = split.images.length;
  const after = alignment(await look("after", split, inOrder(split, images), server, progress), n, split.view_pairs);
  const gap = before.map((row, i) => row.map((value, j) => value - after[i][j]));
  const judged = await server.ask("v1/verdict", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ gap, forget: split.images.map((image) => image.forget), memory: memory(split) }),
  });
  return {
    format: "muc-page-outcome", version: 2, date: new Date().toISOString(), drawn: split.drawn, models,
    view_pairs: split.view_pairs, views: split.views, images: split.images, before, withheld, after, gap, ...judged,
  };
}
