// The settings of the page, which all live in its address: #panel=miss&miss.group_size=16&...

import { entry, hold, unknown } from "./settings.js";
import { cited, written } from "./text.js";
import { TOUR } from "./tour.js";

export const THEMES = ["auto", "light", "dark"];
const STEPS = TOUR.map((_, place) => String(place + 1));
const DRAG = 600; // milliseconds within which changes are one to undo
const MOST_UNDONE = 100;

export class State {
  constructor(description, panels) {
    this.description = description;
    this.panels = panels;
    this.controls = new Map(description.controls.map((control) => [control.name, control]));
    this.reset();
  }

  reset() {
    this.panel = this.panels[0];
    this.preset = "";
    this.theme = "auto";
    this.tour = 0;
    this.values = {};
    for (const control of this.description.controls) this.values[control.name] = control.default;
  }

  of(panel) {
    const start = `${panel}.`;
    const own = Object.entries(this.values).filter(([name]) => name.startsWith(start));
    return Object.fromEntries(own.map(([name, value]) => [name.slice(start.length), value]));
  }

  // Take the address as it is; returns notes on values that were held, and errors of those that could not be read.
  read(address) {
    this.reset();
    const [notes, errors] = [[], []];
    const settings = new URLSearchParams([address.search.slice(1), address.hash.slice(1)].filter(Boolean).join("&"));
    const takes = new Map([
      ["preset", (name) => this.usePreset(name)],
      ["panel", (name) => this.choose("panel", name, this.panels)],
      ["tour", (step) => { this.choose("tour", step, STEPS); this.tour = Number(step); }],
      ["theme", (name) => this.choose("theme", name, THEMES)],
    ]);
    const first = [...takes.keys()].filter((name) => settings.has(name)).map((name) => [name, settings.get(name)]);
    for (const [name, text] of [...first, ...[...settings].filter(([other]) => !takes.has(other))]) {
      try {
        const note = takes.has(name) ? takes.get(name)(text) : this.hold(name, text);
        if (note) notes.push(note);
      } catch (error) {
        const shown = this.values[name];
        errors.push(shown === undefined || shown === "" ? error.message : `${error.message}. Shown instead: ${shown}`);
      }
    }
    return { notes, errors };
  }

  choose(name, value, allowed) {
    if (!allowed.includes(value)) throw unknown(name, value, allowed);
    this[name] = value;
  }

  usePreset(name) {
    const preset = entry(this.description.presets, name);
    if (!preset) throw unknown("preset", name, Object.keys(this.description.presets));
    this.panel = preset.panel;
    this.preset = name;
    for (const control of this.description.controls) {
      const [panel, setting] = control.name.split(".");
      if (panel !== preset.panel) continue;
      this.values[control.name] = entry(preset.settings, setting) ?? control.default;
    }
  }

  // Set a control, held to its range; returns a note if the value is another one.
  hold(name, text) {
    const control = this.controls.get(name);
    if (!control) throw new Error(`setting ${cited(name)} is unknown; allowed: a panel and its setting, such as miss.group_size`);
    const [value, note] = hold(control, text, this.description);
    this.values[name] = value;
    return note;
  }

  // Take what goes with a choice: the usual learning rate of a representation or an optimiser, no cell of other axes,
  // and what another result has of the view.
  follow(name) {
    const { representation, optimizer } = this.of("interference");
    if (["interference.representation", "interference.optimizer"].includes(name)) {
      this.values["interference.learning_rate"] = this.description.paths.rates[representation][optimizer];
    }
    if (["map.across", "map.down"].includes(name)) {
      this.values["map.pinned"] = "";
      this.values["map.cell"] = ["across", "down"].map((axis) => this.description.axes[this.values[`map.${axis}`]].values[0]).join(",");
    }
    if (name !== "results.file") return;
    const { controls } = this.description.results[Number(this.values[name].split(":")[0]) - 1];
    for (const [setting, { choices, high, default: usual }] of Object.entries(controls)) {
      const value = this.values[`results.${setting}`];
      if (!["file", "second"].includes(setting) && !(value <= high || choices.includes(value))) this.values[`results.${setting}`] = usual;
    }
  }

  holdWeightEverywhere(text) {
    const refused = [];
    for (const { name, kind } of this.controls.values()) {
      if (kind !== "weight" || name.endsWith(".second")) continue;
      try {
        this.hold(name, text);
      } catch {
        refused.push(name.split(".")[0]);
      }
    }
    if (!refused.includes("step") && this.values["step.rewards"] === "the sliders") this.hold("step.rewards", "the estimator");
    return refused;
  }

  // All settings of the panel that is seen, and those of the others that were changed.
  address() {
    const { panel, preset, tour, theme } = this;
    const parts = Object.entries({ panel, preset, tour, theme: theme === "auto" ? "" : theme }).filter(([, value]) => value);
    const shown = this.description.controls.filter(({ name, default: usual }) => name.startsWith(`${panel}.`) || this.values[name] !== usual);
    return `#${new URLSearchParams([...parts, ...shown.map(({ name }) => [name, written(this.values[name])])])}`;
  }
}

export class Undo {
  addresses = [];
  last = -Infinity;

  keep(address) {
    const now = performance.now();
    if (now - this.last > DRAG && this.addresses.at(-1) !== address) this.addresses.push(address);
    if (this.addresses.length > MOST_UNDONE) this.addresses.shift();
    this.last = now;
  }

  // The address to go back to; undefined if there is none.
  back() {
    this.last = -Infinity;
    return this.addresses.pop();
  }

  get isEmpty() {
    return this.addresses.length === 0;
  }
}
