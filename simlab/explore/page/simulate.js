// Simulations of the server: the latest settings win, and the picture is refined, block of seeds by block, while idle.

// The name of this page: the server lets its newest request take the place of an older one that waits.
const PAGE = Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16)).join("-");

// Means and sums of squares of two blocks of seeds as those of both.
export function joined(old, fresh) {
  const [n, m] = [old.seeds, fresh.seeds];
  return { ...fresh, seeds: n + m, metrics: joinedMetrics(old.metrics, fresh.metrics, n, m) };
}

// The same of each metric, of n seeds and of m.
export function joinedMetrics(old, fresh, n, m) {
  const metrics = {};
  for (const [name, { mean, m2 }] of Object.entries(fresh)) {
    const before = old[name];
    metrics[name] = {
      mean: mean.map((value, i) => (value === null ? null : before.mean[i] + ((value - before.mean[i]) * m) / (n + m))),
      m2: m2.map((value, i) =>
        value === null ? null : before.m2[i] + value + ((mean[i] - before.mean[i]) ** 2 * n * m) / (n + m)),
    };
  }
  return metrics;
}

// The half-width of the 95 % band of a mean over seeds: 1.96 standard errors.
export function halfWidth({ m2 }, seeds) {
  return m2.map((value) => (value === null ? null : 1.96 * Math.sqrt(value / (seeds - 1) / seeds)));
}

// How many are ahead in the server's line.
const placeOf = (ahead) =>
  `waiting: ${ahead === 1 ? "1 simulation is" : `${ahead} simulations are`} ahead of yours`;

// What the network brings.
async function reached(promise) {
  try {
    return await promise;
  } catch {
    throw new Error("the server cannot be reached; is it still running?");
  }
}

export class Simulator {
  // `join(old, fresh)` makes one result of two; `onResult(result)` and `onStatus(text, isError)` hear of what comes.
  constructor(panel, join, onResult, onStatus, onHeld) {
    Object.assign(this, { panel, join, onResult, onStatus, onHeld });
    this.asked = "";
    this.abort = new AbortController();
  }

  // Simulate these settings up to so many seeds; what was asked before is given up.
  async ask(settings, seeds) {
    const asked = JSON.stringify([settings, seeds]);
    if (asked === this.asked) return;
    this.asked = asked;
    this.abort.abort();
    const own = new AbortController();
    this.abort = own;
    this.showProgress("simulating"); // what is drawn is of the settings before
    try {
      let result = null;
      while (!result || result.seeds < seeds) {
        const first = settings.seed + (result ? result.seeds : 0);
        const block = await this.block({ panel: this.panel, settings, first, page: PAGE }, own.signal);
        if (own.signal.aborted) return;
        result = result ? this.join(result, block) : block;
        this.onResult(result, asked);
        this.showProgress(`${result.seeds} of ${Math.max(seeds, result.seeds)} seeds`);
      }
    } catch (error) {
      if (own.signal.aborted) return;
      this.asked = "";
      this.onStatus(error.message, true);
    }
  }

  showProgress(text) {
    this.progress = text;
    this.onStatus(text, false);
  }

  stop() {
    this.asked = "";
    this.abort.abort();
  }

  // One block of seeds.
  async block(body, signal) {
    const answer = await reached(fetch("simulate", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
    }));
    if (!answer.ok) throw new Error((await reached(answer.json())).error);
    return this.events(answer);
  }

  // The result at the end of a stream of events, a line each.
  async events(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reached(reader.read());
      if (done) throw new Error("the server ended before it had a result");
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const event = JSON.parse(line);
        if (event.event === "result") return event.result;
        if (event.event === "error") throw new Error(event.error);
        if (event.event === "waiting") this.onStatus(placeOf(event.ahead), false);
        if (event.event === "compiling") this.onStatus("compiling: this is a program of its own", false);
        if (event.event === "simulating") this.onStatus(this.progress, false);
        if (event.event === "accepted" && event.held.length) this.onHeld(event.held);
      }
    }
  }
}
