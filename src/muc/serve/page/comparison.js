// What the two models make of the same pieces of images. The model before is asked at the draw, when nobody can know yet
// which images will be listed, and the model after at the comparison.

import { chances, cut } from "./pieces.js";
import { check } from "./split.js";

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

async function cutAll(split, images, size, progress) {
  const { cut, close } = cutter(), byDigest = new Map(images.map((image) => [image.digest, image])), pieces = [];
  try {
    for (const { sha256 } of split.images) {
      progress(pieces.length);
      const { bitmap, digest } = byDigest.get(sha256);
      pieces.push(...await cut({ bitmap, digest, seed: split.seed, views: split.views, size, count: 2 * split.view_pairs }));
    }
  } finally {
    close();
  }
  return pieces;
}

// The alignment matrix of the split's images in one of the models; progress(what, done, all).
export async function look(model, split, images, server, progress) {
  const n = split.images.length, all = queries(n, split.view_pairs), left = server.about.budget.left;
  if (left < all) throw new Error(`This takes ${all} queries, and ${left} are left; ask the model owner for more.`);
  const pieces = await cutAll(split, images, server.about.input.size, (done) => progress("cutting", done, all));
  // In an order of its own for either model: which pieces belong together is not to be read off it.
  const places = await Promise.all(pieces.map((_, at) => chances(split.seed, "order", model, at)));
  const order = [...pieces.keys()].sort((a, b) => places[a][0] - places[b][0] || a - b);
  return alignment(await server.embed(model, pieces, order, (done) => progress("compared", done, all)), n, split.view_pairs);
}

export async function compare(split, images, server, progress) {
  const { models } = await server.refresh();
  check(split, images, server.about);
  const { before } = split, after = await look("after", split, images, server, progress);
  const gap = before.map((row, i) => row.map((value, j) => value - after[i][j]));
  const judged = await server.ask("v1/verdict", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ gap, forget: split.images.map((image) => image.forget) }),
  });
  return {
    format: "muc-page-outcome", version: 2, date: new Date().toISOString(), drawn: split.drawn, models,
    view_pairs: split.view_pairs, views: split.views, images: split.images, before, after, gap, ...judged,
  };
}
