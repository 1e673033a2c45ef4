// The owner's draw: which images to have deleted and which to hold back, and the seed that all pieces follow from. The file
// it is kept in is the owner's own, and nothing of it but the pieces goes to the server before the verdict is asked for.

const FORMAT = "muc-page-split", VERSION = 3;
export const FEWEST_WITHHELD = 3, MOST = 60;  // images; as the server's verdict takes

export const fits = (nWithheld) => nWithheld >= FEWEST_WITHHELD && nWithheld <= MOST;

function shuffled(items) {  // by the operating system's chance
  const result = [...items];
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32 * (i + 1));
    [result[i], result[j]] = [result[j], result[i]];
  }
  return result;
}

export const hex = (bytes) => Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, "0")).join("");

export function draw(images, nForget, { pairs, views, models }) {
  const chosen = new Set(shuffled(images).slice(0, nForget));
  const listed = images.map((image) => ({ name: image.name, sha256: image.digest, forget: chosen.has(image) }));
  return {
    format: FORMAT, version: VERSION, drawn: new Date().toISOString(), models: { before: models.before, after: models.after },
    seed: hex(crypto.getRandomValues(new Uint8Array(32))), view_pairs: pairs, views,
    images: listed.sort((a, b) => b.forget - a.forget),  // the deleted first, so that the figures have blocks
  };
}

export async function read(file) {
  let saved;
  try {
    saved = JSON.parse(await file.text());
  } catch {
    saved = null;
  }
  if (saved?.format !== FORMAT) throw new Error(`'${file.name}' is not a file that this page has saved; choose audit-split.json.`);
  if (saved.version < VERSION) throw new Error(`'${file.name}' is of an earlier version of this page; draw again, before you ask for anything to be deleted.`);
  const { seal, ...split } = saved;
  if (saved.version !== VERSION || seal !== await digest(split)) {
    throw new Error(`'${file.name}' was changed or damaged, or is of a newer version of this page; take an unchanged copy.`);
  }
  return split;
}

const digest = async (split) => hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(split))));

export const sealed = async (split) => ({ ...split, seal: await digest(split) });  // so that damage is found before anything is asked

export function check(split, images, about) {  // that it is about these images and this model
  const known = new Set(split.images.map((image) => image.sha256)), here = new Set(images.map((image) => image.digest));
  const missing = [...known].filter((d) => !here.has(d)).length, extra = [...here].filter((d) => !known.has(d)).length;
  if (missing || extra) throw new Error(`The file is about other images: ${missing} of its images are not here, ${extra} here are not in it. Choose the same images as then.`);
  if (split.models?.before !== about.models.before) throw new Error("The model before is not the one of your draw: its hash is another one. Ask the model owner to serve the same one again.");
}

export function checkNew(split, about) {  // that there is a model that came after the draw
  if (about.models.after === about.models.before) throw new Error("The deletion is not done yet: the server still has one model, the one before. Nothing was asked. If the model owner says that it is done, this is your answer: the model is the same.");
  if (about.models.after === split.models.after) throw new Error("The model after is the one that was there when you drew, so it cannot be the answer to your request. Nothing was asked. Come back when the model owner serves a newer one.");
}

export const words = ({ images, drawn, withheld }) => {
  const asked = images.filter((image) => image.forget).length;
  return `Drawn on ${new Date(drawn).toLocaleString()}: ${asked} to delete, ${images.length - asked} held back; see above. ${withheld
    ? `The model was also asked about ${withheld.length} images that you never gave away; they are not needed again.`
    : "No images that you never gave away are part of it."}`;
};
