// What each panel simulates, from the server, or computed in advance where there is none.

import { inAdvance, nearestInAdvance } from "./in_advance.js";
import { controlsOf, namesOf, runsOf } from "./pins.js";
import { keyOf, resultsOf, Simulator } from "./simulate.js";

export class Simulations {
  // `isSeen(panel)` says whether a panel is shown, `draw(panel)` draws its chart, `say(id, lines)` says something below it.
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

  // The settings of every run that a panel shows: of the sliders, then of what is pinned.
  runs({ id, simulated }, values) {
    if (simulated.runs) return simulated.runs(values, this.description);
    const own = controlsOf(id, this.description.controls);
    const pinned = values.pinned ? runsOf(values, simulated.names, own) : [];
    return [values, ...pinned].map((run) => ({ panel: id, settings: simulated.ask(run) }));
  }

  // Without a server: what was computed in advance. Of the sliders' run it may be the nearest one, which is said; a run that is
  // pinned and a cell of a map are drawn only if they are there themselves.
  showInAdvance(panel, runs) {
    const all = inAdvance(this.description);
    const found = runs.map((run) => all.get(keyOf(run)) || null);
    if (!panel.simulated.runs) found[0] = nearestInAdvance(runs[0], this.description);
    this.results[panel.id] = resultsOf(runs, found);
    this.say("status", runs.length ? [this.toldOf(panel, runs, found)] : []);
  }

  // What is said of runs that were computed in advance, and of those that were not.
  toldOf(panel, runs, found) {
    const [first] = found;
    if (panel.simulated.runs) {
      const any = found.find(Boolean);
      return any ? `computed in advance, ${any.seeds} seeds` : "this map was not computed in advance: simlab explore";
    }
    const shown = keyOf(first) === keyOf(runs[0]) ? "" : `; shown: ${this.differences(first, runs[0])}`;
    const own = controlsOf(panel.id, this.description.controls);
    const names = namesOf(runs.map(({ settings }) => settings), panel.simulated.names, own);
    const missing = names.filter((_, place) => place && !found[place]);
    const left = missing.length ? `; not computed in advance: ${missing.join(" · ")} (simlab explore)` : "";
    return `computed in advance, ${first.seeds} seeds${shown}${left}`;
  }

  // The settings that are drawn: without a server those of the run that is shown, which may be another one.
  valuesShown(panel, values) {
    const [result] = this.of(panel);
    return this.description.server || !result || panel.simulated?.runs ? values : { ...values, ...result.settings };
  }

  // In which settings a run that is shown differs from the one that is asked for.
  differences({ settings }, asked) {
    const own = controlsOf(asked.panel, this.description.controls);
    const names = Object.keys(asked.settings).filter((name) => settings[name] !== asked.settings[name]);
    return names.map((name) => `${own.get(name).label} ${settings[name]}`).join(", ");
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
    let failed = false; // what settings were refused stays to be read
    return new Simulator(
      panel.simulated.join,
      (found) => {
        this.results[panel.id] = found;
        performance.mark("simulated");
        if (this.isSeen(panel)) this.drawSoon(panel);
      },
      (text, isError) => {
        if (!this.isSeen(panel)) return;
        this.say("status", isError ? [] : [text]);
        if (isError || failed) this.say("error", isError ? [text] : []);
        failed = isError;
      },
      (held) => { if (this.isSeen(panel)) this.say("said", held); },
      inAdvance(this.description),
    );
  }
}
