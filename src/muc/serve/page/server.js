// The model owner's server, asked with the key that it gave out.

const RETRIES = 5;  // over half a minute

export class Server {
  constructor(key) {
    this.key = key;
    this.about = null;  // what it says of itself, as last heard
  }

  async refresh() {
    if (!/^[!-~]+$/.test(this.key)) throw new Error("The key holds characters that no key has; copy it as you got it.");
    this.about = await this.ask("v1/about");
    return this.about;
  }

  async ask(path, options = {}) {
    for (let attempt = 0; ; attempt++) {
      let response = null;
      try {
        response = await fetch(path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${this.key}` } });
      } catch {  // a connection can come back while much is asked
        if (!options.body || attempt >= RETRIES) throw new Error("The server cannot be reached; check the connection and try again.");
      }
      const wait = Number(response?.headers.get("Retry-After")) || 2 ** attempt;
      if (!response || (response.status === 429 && attempt < 10) || ([502, 503, 504].includes(response.status) && attempt < RETRIES)) {
        await new Promise((resume) => setTimeout(resume, 1000 * wait));
        continue;
      }
      const answer = await response.json().catch(() => ({}));
      if (!response.ok) throw new Error(answer.error || `The server answered ${response.status}.`);
      return answer;
    }
  }

  async embed(model, pieces, order, progress) {  // one vector for each piece, asked for in the given order
    const vectors = new Array(pieces.length), most = this.about.limits.images_per_request;
    for (let start = 0; start < order.length; start += most) {
      progress(start);
      const part = order.slice(start, start + most), form = new FormData();
      part.forEach((at, i) => form.append("images", pieces[at], `${i}.png`));
      const answer = await this.ask(`v1/embed?model=${model}`, { method: "POST", body: form });
      if (answer.model_sha256 !== this.about.models[model]) throw new Error(`The model ${model} was exchanged meanwhile; ask the model owner why.`);
      part.forEach((at, i) => { vectors[at] = answer.vectors[i]; });
    }
    progress(order.length);
    return vectors;
  }
}
