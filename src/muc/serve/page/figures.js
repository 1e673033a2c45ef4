// What a comparison shows, as pictures that also say it in words and without colour.

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
  picture.append(outline(0, asked, "none"), outline(asked, n - asked, "6 4"));
  picture.append(svg("text", { x: 5, y: 324, "font-size": 13 }, "solid: deleted · dashed: held back"));
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

export function figures(outcome) {
  const forget = outcome.images.map((image) => image.forget);
  return [
    figure("How alike pieces of your images look to the model before. Darker: more alike.",
      heatmap(outcome.before, forget, "Alignment of your images before")),
    figure("The same after.", heatmap(outcome.after, forget, "Alignment of your images after")),
    figure("Before minus after. On the diagonal: pieces of one image. Brown: less alike than before; blue with a dot: more alike.",
      heatmap(outcome.gap, forget, "Change of the alignment of your images")),
    figure("How much more the deleted images lost likeness to themselves than those held back.",
      histogram(outcome.null.FS, `Forgetting score: ${outcome.contrasts.FS.value.toFixed(3)}`)),
    figure("How much more the deleted images came to look alike than those held back.",
      histogram(outcome.null.negative_alignment, `Negative alignment: ${outcome.contrasts.negative_alignment.value.toFixed(3)}`)),
  ];
}
