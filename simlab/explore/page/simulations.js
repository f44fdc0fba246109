// The runs of each panel, simulated by the server, or computed in advance where there is none. The latest settings win, and the
// picture is refined, block of seeds by block, while idle. Several runs are simulated in turns, that of the sliders first.

import { least } from "./closed_forms.js";
import { pairable } from "./compare.js";
import { controlsOf, namesOf, runOf, runsOf } from "./settings.js";
import { GONE, post } from "./text.js";

let stored = null; // results in advance by the key of their run, all settings included

export function inAdvance(description) {
  stored ??= new Map(description.in_advance.map(({ panel, settings, result }) => {
    const controls = controlsOf(panel, description.controls);
    const all = Object.fromEntries(description.simulated[panel].map((name) => [name, settings[name] ?? controls.get(name).default]));
    return [keyOf({ panel, settings: all }), { ...result, settings: all, panel }];
  }));
  return stored;
}

const gammaOf = ({ weight = "" }) => Number(/gamma=([0-9.]+)/.exec(weight)?.[1] ?? 0);

// The distance of the settings of two runs: those that differ, then the group size, then gamma.
function distance(settings, other) {
  const differing = Object.keys(settings).filter((name) => settings[name] !== other[name] && !["weight", "group_size"].includes(name));
  const size = Math.abs(Math.log2((settings.group_size ?? 1) / (other.group_size ?? 1)));
  return 100 * differing.length + size + Math.abs(gammaOf(settings) - gammaOf(other));
}

// The result of a run, or of the nearest run of its panel that was computed in advance.
export function nearestInAdvance(run, description) {
  const all = inAdvance(description);
  const same = all.get(keyOf(run));
  if (same) return same;
  const others = [...all.values()].filter(({ panel }) => panel === run.panel);
  return least(others, ({ settings }) => distance(run.settings, settings));
}

export class Simulations {
  // `isSeen(panel)` is true if a panel is shown, `draw(panel)` draws its chart, `say(id, lines)` says something below it.
  constructor(description, { isSeen, draw, say }) {
    Object.assign(this, { description, isSeen, draw, say });
    this.results = {}; // by panel: one of each run, the sliders' first
    this.simulators = {};
    this.pending = 0; // the timer of a drawing of what came in
  }

  of(panel) {
    return this.results[panel.id] || [];
  }

  ask(panel, values) {
    if (!panel.simulated) return;
    const runs = this.runs(panel, values);
    if (!this.description.server) {
      if (panel.simulated.inAdvance) this.say("status", [`computed in advance, ${panel.simulated.inAdvance(this.description)} seeds`]);
      else this.showInAdvance(panel, runs);
      return;
    }
    if (!this.simulators[panel.id]) this.simulators[panel.id] = this.simulatorOf(panel);
    const order = panel.simulated.order?.(values, this.description);
    const paired = !order && runs.length > 1;
    this.simulators[panel.id].ask(runs, panel.simulated.seeds(values), { order, paired });
  }

  stop() {
    Object.values(this.simulators).forEach((simulator) => simulator.stop());
  }

  // The settings of every run that a panel shows: of the sliders, then of the pins.
  runs({ id, simulated }, values) {
    if (simulated.runs) return simulated.runs(values, this.description);
    return runsOf(id, values, this.description).map((run) => runOf(id, run, this.description));
  }

  // Without a server: what was computed in advance. Of the sliders' run it may be the nearest one, which is said; a run that is
  // pinned and a cell of a map are drawn only if they are there themselves.
  showInAdvance(panel, runs) {
    const all = inAdvance(this.description);
    const results = runs.map((run) => all.get(keyOf(run)) || null);
    if (!panel.simulated.runs) results[0] = nearestInAdvance(runs[0], this.description);
    this.results[panel.id] = resultsOf(runs, results);
    this.say("status", runs.length ? [this.describe(panel, runs, results)] : []);
  }

  describe(panel, runs, results) {
    if (panel.simulated.runs) {
      const any = results.find(Boolean);
      return any ? `computed in advance, ${any.seeds} seeds` : "this map was not computed in advance: simlab explore";
    }
    const [first] = results;
    const controls = controlsOf(panel.id, this.description.controls);
    const differing = Object.keys(first.settings).filter((name) => first.settings[name] !== runs[0].settings[name]);
    const shown = differing.map((name) => `${controls.get(name).label} ${first.settings[name]}`).join(", ");
    const names = namesOf(panel.id, runs.map(({ settings }) => settings), this.description);
    const missing = names.filter((_, place) => place && !results[place]);
    return `computed in advance, ${first.seeds} seeds${shown && `; shown: ${shown}`}` +
      (missing.length ? `; not computed in advance: ${missing.join(" · ")} (simlab explore)` : "");
  }

  // The settings that are drawn: without a server those of the run that is shown, which may be another one.
  valuesShown(panel, values) {
    const [result] = this.of(panel);
    return this.description.server || !result || panel.simulated?.runs ? values : { ...values, ...result.settings };
  }

  // Draw what came in, at most once in the time that the panel says.
  drawSoon(panel) {
    if (!panel.simulated.every) {
      this.draw(panel);
    } else if (!this.pending) {
      this.pending = window.setTimeout(() => {
        this.pending = 0;
        if (this.isSeen(panel)) this.draw(panel);
      }, panel.simulated.every);
    }
  }

  simulatorOf(panel) {
    let failed = false; // an error stays to be read until something works
    const ifSeen = (hear) => (...given) => { if (this.isSeen(panel)) hear(...given); };
    return new Simulator(panel.simulated.join, inAdvance(this.description), {
      results: (results) => {
        this.results[panel.id] = results;
        performance.mark("simulated");
        if (this.isSeen(panel)) this.drawSoon(panel);
      },
      status: ifSeen((text) => {
        this.say("status", [text]);
        if (failed) this.say("error", []);
        failed = false;
      }),
      error: ifSeen((text) => {
        this.say("status", []);
        this.say("error", [text]);
        failed = true;
      }),
      held: ifSeen((notes) => this.say("said", notes)),
    });
  }
}

const MOST_OTHERS = 32; // results that are kept beside those that are seen, so that the memory of the page is bounded

// One text for the same run, whatever order its settings have.
const keyOf = ({ panel, settings }) => JSON.stringify([panel, Object.entries(settings).sort()]);

// The results of runs, null where there is none, and whose they are.
const resultsOf = (runs, results) => Object.assign(results, { runs: JSON.stringify(runs) });

// The run with the fewest seeds, the first of these; -1 if all have enough.
function fewest(counts, seeds) {
  const least = Math.min(...counts);
  return least < seeds ? counts.indexOf(least) : -1;
}

class Simulator {
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
