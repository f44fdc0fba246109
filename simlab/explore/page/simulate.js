// Simulations of the server: the latest settings win, and the picture is refined, block of seeds by block, while idle.
// Several runs are simulated in turns, that of the sliders first; results are kept.

import { pairable } from "./compare.js";
import { GONE, post } from "./server.js";

const MOST_OTHERS = 32; // results that are kept beside those that are seen, so that the memory of the page is bounded

// One text for the same run, whatever order its settings have.
export const keyOf = ({ panel, settings }) => JSON.stringify([panel, Object.entries(settings).sort()]);

// The results of runs, null where there is none, and whose they are.
export const resultsOf = (runs, results) => Object.assign(results, { runs: JSON.stringify(runs) });

// The run with the fewest seeds, the first of these; -1 if all have enough.
function fewest(counts, seeds) {
  const least = Math.min(...counts);
  return least < seeds ? counts.indexOf(least) : -1;
}

export class Simulator {
  // `join(old, fresh)` makes one result of two. `on.results(results)` hears of what comes, one for each run and null where
  // there is none yet, `on.status(text)` of how far it is, `on.error(text)` of what was refused, and `on.held(notes)` of
  // settings that the server held. `known` holds results by the keys of their runs that need not be simulated.
  constructor(join, known, on) {
    Object.assign(this, { join, known, on });
    this.latest = "";
    this.abort = new AbortController();
    this.results = new Map();
  }

  // Simulate runs {panel, settings} up to so many seeds; what was asked before is given up. `order(counts, seeds)` chooses
  // the run whose turn it is by the seeds that each has, -1 if all have enough. `paired` runs are compared seed by seed, so
  // that one that was computed in advance without its seeds is only shown until it is simulated.
  async ask(runs, seeds, { order = fewest, paired = false } = {}) {
    Object.assign(this, { order, paired });
    const latest = JSON.stringify([runs, seeds]);
    if (latest === this.latest) return;
    this.latest = latest;
    this.abort.abort();
    const { signal } = this.abort = new AbortController();
    this.showProgress("simulating"); // the chart is still that of the settings before
    const keys = runs.map(keyOf);
    try {
      if (keys.some((key) => this.result(key))) this.tell(runs, keys, seeds);
      for (let next = this.next(keys, seeds); next >= 0; next = this.next(keys, seeds)) {
        const before = this.results.get(keys[next]); // a result in advance is no block that others could be joined to
        const first = runs[next].settings.seed + (before ? before.seeds : 0);
        const block = await this.events(await post("simulate", { ...runs[next], first }, signal));
        if (signal.aborted) return;
        this.keep(keys[next], before ? this.join(before, block) : block, keys);
        this.tell(runs, keys, seeds);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.latest = "";
      this.on.error(error.message);
    }
  }

  result(key) {
    return this.results.get(key) || this.known.get(key) || null;
  }

  seedsOf(key) {
    const result = this.result(key);
    return result && (!this.paired || pairable([result])) ? result.seeds : 0;
  }

  next(keys, seeds) {
    return this.order(keys.map((key) => this.seedsOf(key)), seeds);
  }

  tell(runs, keys, seeds) {
    this.on.results(resultsOf(runs, keys.map((key) => this.result(key))));
    const least = Math.min(...keys.map((key) => this.seedsOf(key)));
    this.showProgress(`${keys.length > 1 ? `${keys.length} runs: ` : ""}${least} of ${Math.max(seeds, least)} seeds`);
  }

  // Keep a result; of those that are not seen, only the latest.
  keep(key, result, seen) {
    this.results.delete(key);
    this.results.set(key, result);
    const others = [...this.results.keys()].filter((other) => !seen.includes(other));
    others.slice(0, Math.max(others.length - MOST_OTHERS, 0)).forEach((old) => this.results.delete(old));
  }

  showProgress(text) {
    this.progress = text;
    this.on.status(text);
  }

  stop() {
    this.latest = "";
    this.abort.abort();
  }

  // The result at the end of a stream of events, a line each.
  async events(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let unfinished = "";
    for (;;) {
      const { value, done } = await reader.read().catch(() => { throw new Error(GONE); });
      if (done) throw new Error("the server ended before it had a result");
      const lines = (unfinished + value).split("\n");
      unfinished = lines.pop();
      for (const line of lines) {
        const event = JSON.parse(line);
        if (event.event === "result") return event.result;
        if (event.event === "error") throw new Error(event.error);
        if (event.event === "waiting") this.on.status(`waiting: ${event.ahead} simulation${event.ahead === 1 ? " is" : "s are"} ahead of yours`);
        if (event.event === "compiling") this.on.status("compiling: this is a program of its own");
        if (event.event === "simulating") this.on.status(this.progress);
        if (event.event === "accepted" && event.held.length) this.on.held(event.held);
      }
    }
  }
}
