// What is saved: a page that stands for itself, on a phone and on paper, and files of numbers.

export function save(name, text, kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);  // a busy machine takes its time
}

export const saveJson = (name, value) => save(name, JSON.stringify(value, null, 1), "application/json");

function element(kind, ...children) {
  const made = document.createElement(kind);
  made.append(...children);
  return made;
}

function table(heads, rows) {
  return element("table",
    element("thead", element("tr", ...heads.map((text) => element("th", text)))),
    element("tbody", ...rows.map((row) => element("tr", ...row.map((text) => element("td", String(text)))))));
}

const range = ({ value, low, high, p }) => `${value.toFixed(3)}, interval ${low.toFixed(3)} to ${high.toFixed(3)}, p = ${p.toPrecision(2)}`;

export const remembered = ({ memory: { value, low, high }, withheld }) =>
  `Before the deletion, pieces of one of your images looked more alike to the model than pieces of one that you never gave away, by ${value.toFixed(3)} in cosine (interval ${low.toFixed(3)} to ${high.toFixed(3)}, ${withheld.length} images never given away): ${low > 0
    ? "this is what the model remembered of them, and what forgetting could undo."
    : "that the model remembered anything of them is not shown."}`;

export async function saveReport(outcome, result) {  // `result`: the part of the page that shows the outcome
  const style = await (await fetch("page.css")).text(), shown = result.cloneNode(true);
  shown.querySelectorAll("button").forEach((button) => button.remove());
  shown.querySelector("h2").textContent = "What it shows";
  shown.append(
    element("h3", "The numbers"),
    table(["what", "value"], [
      ["p", outcome.p.toPrecision(2)],
      ["power", `${Math.round(100 * outcome.power)} % for a change as large as ${outcome.reference}`],
      ["loss of likeness to themselves, deleted beyond held back (cosine)", range(outcome.contrasts.FS)],
      ["gain of likeness among each other, the same", range(outcome.contrasts.negative_alignment)],
      ["pairs of pieces of each image", outcome.view_pairs],
      ["split drawn, and model before asked", outcome.drawn],
      ["model after asked", outcome.date],
      ["SHA-256 of the model before", outcome.models.before],
      ["SHA-256 of the model after", outcome.models.after],
    ]),
    element("h3", "The images"),
    table(["drawn to be", "image, SHA-256 of its file"],
      outcome.images.map(({ name, forget, sha256 }) => [forget ? "deleted" : "held back", `${name}\n${sha256}`])),
  );
  const main = element("main", element("h1", "Audit report: did the model change how it treats these images?"), shown);
  const head = `<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Audit report</title><style>${style}</style>`;
  save("audit-report.html", `<!doctype html>\n<html lang="en"><head>${head}</head><body>${main.outerHTML}</body></html>`, "text/html");
}
