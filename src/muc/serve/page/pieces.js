// Pieces of an image: random crops, maybe mirrored, in other light, as the model saw them in training. All chance in them
// follows from the split's secret seed: who compares again asks the same, and cannot go on until the outcome pleases.

export const USUAL_VIEWS = {  // where the server does not say what the model was trained with
  min_scale: 0.3, flip: 0.5, jitter: 1, brightness: 0.3, contrast: 0.3, saturation: 0.3, hue: 0, grayscale: 0,
};

export async function chances(...purpose) {  // 16 numbers in [0, 1)
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(purpose.join("/")));
  return Array.from(new Uint16Array(bytes), (value) => value / 2 ** 16);
}

export function cut({ bitmap, digest, seed, views, size, count }) {
  return Promise.all(Array.from({ length: count }, async (_, number) =>
    piece(bitmap, size, views, await chances(seed, digest, number))));
}

function piece(bitmap, size, views, [area, shape, left, top, mirrored, lit, light, contrast, colour, hue, grey]) {
  const side = Math.min(bitmap.width, bitmap.height);
  const share = views.min_scale + (1 - views.min_scale) * area, ratio = Math.exp((2 * shape - 1) * Math.log(4 / 3));
  const w = Math.min(side, side * Math.sqrt(share * ratio)), h = Math.min(side, side * Math.sqrt(share / ratio));
  const x = (bitmap.width - side) / 2 + left * (side - w), y = (bitmap.height - side) / 2 + top * (side - h);
  const offscreen = typeof OffscreenCanvas !== "undefined";
  const canvas = offscreen ? new OffscreenCanvas(size, size) : Object.assign(document.createElement("canvas"), { width: size, height: size });
  const context = canvas.getContext("2d"), around = (centre, strength, chance) => centre + strength * (2 * chance - 1);
  const filters = [];
  if (lit < views.jitter) {
    filters.push(`brightness(${around(1, views.brightness, light)})`, `contrast(${around(1, views.contrast, contrast)})`,
      `saturate(${around(1, views.saturation, colour)})`, `hue-rotate(${around(0, views.hue, hue)}turn)`);
  }
  if (grey < views.grayscale) filters.push("grayscale(1)");
  if (filters.length) context.filter = filters.join(" ");
  if (mirrored < views.flip) {
    context.translate(size, 0);
    context.scale(-1, 1);
  }
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, x, y, w, h, 0, 0, size, size);
  return offscreen ? canvas.convertToBlob() : new Promise((done) => canvas.toBlob(done));
}
