// Simulations of the server: the latest settings win, and the picture is refined, block of seeds by block, while idle.
// Several runs are simulated in turns, that of the sliders first; what was simulated is kept.

import { pairable } from "./compare.js";

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
  for (const [name, { mean, m2, values }] of Object.entries(fresh)) {
    const before = old[name];
    metrics[name] = {
      values: [...before.values, ...values],
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

// One text for the same run, whatever order its settings have.
export const keyOf = ({ panel, settings }) => JSON.stringify([panel, Object.entries(settings).sort()]);

// The results of runs, null where there is none, and whose they are.
export const resultsOf = (runs, found) => Object.assign(found, { runs: JSON.stringify(runs) });

// The run with the fewest seeds, the first of these; -1 if all have enough.
function fewest(counts, seeds) {
  const least = Math.min(...counts);
  return least < seeds ? counts.indexOf(least) : -1;
}

const MOST_OTHERS = 32; // results that are kept beside those that are asked for, so that the memory of the page is bounded

export class Simulator {
  // `join(old, fresh)` makes one result of two; `onResults(results)` hears of what comes, one for each run and null where
  // there is none yet, `onStatus(text, isError)` of how far it is, `onHeld(lines)` of settings that the server held.
  // `known` holds results by the keys of their runs that need not be simulated.
  constructor(join, onResults, onStatus, onHeld, known) {
    Object.assign(this, { join, onResults, onStatus, onHeld, known });
    this.asked = "";
    this.abort = new AbortController();
    this.kept = new Map();
  }

  // Simulate runs {panel, settings} up to so many seeds; what was asked before is given up. `order(counts, seeds)` chooses
  // the run whose turn it is by the seeds that each has, -1 if all have enough. `paired` runs are compared seed by seed, so that
  // what was computed in advance without its seeds is only shown until it is simulated.
  async ask(runs, seeds, { order = fewest, paired = false } = {}) {
    Object.assign(this, { order, paired });
    const asked = JSON.stringify([runs, seeds]);
    if (asked === this.asked) return;
    this.asked = asked;
    this.abort.abort();
    const own = new AbortController();
    this.abort = own;
    this.showProgress("simulating"); // what is drawn is of the settings before
    const keys = runs.map(keyOf);
    try {
      if (keys.some((key) => this.result(key))) this.tell(runs, keys, seeds);
      for (let next = this.next(keys, seeds); next >= 0; next = this.next(keys, seeds)) {
        const before = this.kept.get(keys[next]); // what is known in advance is no block that others could be joined to
        const first = runs[next].settings.seed + (before ? before.seeds : 0);
        const block = await this.block({ ...runs[next], first, page: PAGE }, own.signal);
        if (own.signal.aborted) return;
        this.keep(keys[next], before ? this.join(before, block) : block, keys);
        this.tell(runs, keys, seeds);
      }
    } catch (error) {
      if (own.signal.aborted) return;
      this.asked = "";
      this.onStatus(error.message, true);
    }
  }

  result(key) {
    return this.kept.get(key) || this.known.get(key) || null;
  }

  seedsOf(key) {
    const known = this.result(key);
    return known && (!this.paired || pairable([known])) ? known.seeds : 0;
  }

  next(keys, seeds) {
    return this.order(keys.map((key) => this.seedsOf(key)), seeds);
  }

  tell(runs, keys, seeds) {
    this.onResults(resultsOf(runs, keys.map((key) => this.result(key))));
    const least = Math.min(...keys.map((key) => this.seedsOf(key)));
    const many = keys.length > 1 ? `${keys.length} runs: ` : "";
    this.showProgress(`${many}${least} of ${Math.max(seeds, least)} seeds`);
  }

  // Keep a result; of those that are not asked for, only the latest.
  keep(key, result, asked) {
    this.kept.delete(key);
    this.kept.set(key, result);
    const others = [...this.kept.keys()].filter((one) => !asked.includes(one));
    others.slice(0, Math.max(others.length - MOST_OTHERS, 0)).forEach((old) => this.kept.delete(old));
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
