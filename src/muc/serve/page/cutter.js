// A thread for `cut`: browsers encode pictures on the page's own thread only when it has nothing else to do, about one a
// second in a tab that is busy or hidden, whichever way they are asked.

import { cut } from "./pieces.js";

addEventListener("message", async ({ data }) => {
  try {
    postMessage({ pieces: await cut(data) });
  } catch (error) {
    postMessage({ error: error.message });
  }
});
