// The owner's draw: which images to have deleted and which to hold back, and the seed that all pieces follow from. The file
// it is kept in is the owner's own, and nothing of it but the pieces goes to the server before the verdict is asked for.

const FORMAT = "muc-page-split";
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
    format: FORMAT, version: 2, drawn: new Date().toISOString(), models: { before: models.before },
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
  if (saved.version === 1) throw new Error(`'${file.name}' is of an earlier version of this page, which drew other pieces at every comparison; draw again, before you ask for anything to be deleted.`);
  const n = saved.images?.length;
  if (saved.version !== 2 || !n || !saved.seed || !saved.views || !saved.view_pairs || saved.before?.length !== n) {
    throw new Error(`'${file.name}' is damaged, or of a newer version of this page; take an unchanged copy.`);
  }
  const { withheld } = saved;  // left out where there are none
  if (withheld !== undefined && !(Array.isArray(withheld) && fits(withheld.length) && withheld.every(Number.isFinite))) {
    throw new Error(`'${file.name}' is damaged; take an unchanged copy.`);
  }
  return saved;
}

export function check(split, images, about) {  // that it is about these images and this model
  const known = new Set(split.images.map((image) => image.sha256)), here = new Set(images.map((image) => image.digest));
  const missing = [...known].filter((d) => !here.has(d)).length, extra = [...here].filter((d) => !known.has(d)).length;
  if (missing || extra) throw new Error(`The file is about other images: ${missing} of its images are not here, ${extra} here are not in it. Choose the same images as then.`);
  if (split.models?.before !== about.models.before) throw new Error("The model before is not the one of your draw: its hash is another one. Ask the model owner to serve the same one again.");
}

export const words = ({ images, drawn, withheld }) => {
  const asked = images.filter((image) => image.forget).length;
  return `Drawn on ${new Date(drawn).toLocaleString()}: ${asked} to delete, ${images.length - asked} held back; see above. Ask for exactly these to be deleted, and keep the file. ${withheld
    ? `The model was also asked about ${withheld.length} images that you never gave away; they are not needed again.`
    : "No images that you never gave away are part of it."}`;
};
