// The runs of each panel, simulated by the server, or computed in advance where there is none.

import { controlsOf, namesOf, runOf, runsOf } from "./pins.js";
import { keyOf, resultsOf, Simulator } from "./simulate.js";

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
  const far = others.map(({ settings }) => distance(run.settings, settings));
  return others[far.indexOf(Math.min(...far))];
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

  // Simulate what a panel shows with some values.
  ask(panel, values) {
    if (!panel.simulated) return;
    const runs = this.runs(panel, values);
    if (!this.description.server) {
      this.showInAdvance(panel, runs);
      return;
    }
    if (!this.simulators[panel.id]) this.simulators[panel.id] = this.simulatorOf(panel);
    const order = panel.simulated.order?.(values, this.description);
    const paired = Boolean(panel.pinned) && runs.length > 1;
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

  // The status line: runs that were computed in advance, and those that were not.
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
