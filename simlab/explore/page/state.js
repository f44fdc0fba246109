// The settings of the page, which all live in its address: #panel=miss&miss.group_size=16&...

import { hold } from "./hold.js";
import { entry, cited } from "./names.js";
import { unknown } from "./nearest.js";
import { exact } from "./text.js";
import { TOUR } from "./tour.js";

export const THEMES = ["auto", "light", "dark"];
const MOST_READ = 200; // settings of an address, of which there are fewer
const STEPS = TOUR.map((_, place) => String(place + 1));
const MOST_SAID = 5; // messages about them

export class State {
  constructor(description, panels) {
    this.description = description;
    this.panels = panels;
    this.controls = new Map(description.controls.map((control) => [control.name, control]));
    this.listeners = [];
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

  // The settings of a panel, by their names without it.
  of(panel) {
    const start = `${panel}.`;
    const own = Object.entries(this.values).filter(([name]) => name.startsWith(start));
    return Object.fromEntries(own.map(([name, value]) => [name.slice(start.length), value]));
  }

  // Take the address as it is; returns what had to be held, and what could not be read.
  read(address) {
    this.reset();
    const said = [];
    const wrong = [];
    const query = [address.search.slice(1), address.hash.slice(1)].filter(Boolean).join("&");
    const all = [...new URLSearchParams(query)];
    const given = new URLSearchParams(all.slice(0, MOST_READ));
    if (all.length > MOST_READ) said.push(`${all.length} settings are given; the first ${MOST_READ} are read`);
    const attempt = (take) => {
      try {
        take();
      } catch (error) {
        wrong.push(error.message);
      }
    };
    if (given.has("preset")) attempt(() => this.usePreset(given.get("preset")));
    if (given.has("panel")) attempt(() => this.choose("panel", given.get("panel"), this.panels));
    if (given.has("tour")) attempt(() => this.chooseTour(given.get("tour")));
    if (given.has("theme")) attempt(() => this.choose("theme", given.get("theme"), THEMES));
    for (const [name, text] of given) {
      if (["preset", "panel", "theme", "tour"].includes(name)) continue;
      try {
        const note = this.hold(name, text);
        if (note) said.push(note);
      } catch (error) {
        const known = this.values[name];
        wrong.push(known === undefined || known === "" ? error.message : `${error.message}. Shown instead: ${known}`);
      }
    }
    return { said: few(said), wrong: few(wrong) };
  }

  chooseTour(text) {
    if (!STEPS.includes(text)) throw unknown("tour", text, STEPS);
    this.tour = Number(text);
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

  // Set a control, held to its range; returns what is to be said of that.
  hold(name, text) {
    const control = this.controls.get(name);
    if (!control) throw new Error(`setting ${cited(name)} is unknown; allowed: ${this.settingsLike(name).join(", ")}`);
    const [value, note] = hold(control, text, this.description);
    this.values[name] = value;
    return note;
  }

  // Set the estimator of every panel that takes it; returns the panels that do not.
  holdWeightEverywhere(text) {
    const left = [];
    for (const { name, kind } of this.controls.values()) {
      if (kind !== "weight") continue;
      try {
        this.hold(name, text);
      } catch {
        left.push(name.split(".")[0]);
      }
    }
    if (!left.includes("step")) this.hold("step.rewards", "the estimator");
    return left;
  }

  // The settings of the panel that a name names; of a name without one, the panels.
  settingsLike(name) {
    const names = [...this.controls.keys()];
    const alike = names.filter((known) => known.startsWith(`${name.split(".")[0]}.`));
    return alike.length > 0 ? alike : [...new Set(names.map((known) => `${known.split(".")[0]}.*`))];
  }

  // All settings of the panel that is seen, and those of the others that were changed.
  address() {
    const parts = [["panel", this.panel]];
    if (this.preset) parts.push(["preset", this.preset]);
    if (this.tour) parts.push(["tour", String(this.tour)]);
    if (this.theme !== "auto") parts.push(["theme", this.theme]);
    for (const control of this.description.controls) {
      const value = this.values[control.name];
      if (control.name.startsWith(`${this.panel}.`) || value !== control.default) {
        parts.push([control.name, typeof value === "number" ? exact(value) : value]);
      }
    }
    return `#${new URLSearchParams(parts)}`;
  }
}

// The first of many messages, and how many more there are.
function few(messages) {
  const more = messages.length - MOST_SAID;
  return more > 0 ? [...messages.slice(0, MOST_SAID), `and ${more} more`] : messages;
}
