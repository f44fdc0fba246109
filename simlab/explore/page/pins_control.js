// The pinned runs of a panel, each with a button that takes it away, and one that pins the present run.

import { inks, paletteOn } from "./look.js";
import { controlsOf, namesOf, pinOf, readPins, runsOf, writePins } from "./pins.js";
import { element } from "./text.js";

const STROKES = ["solid", "dashed", "dotted"]; // by how many times the colours were all taken before

// A sample of a pinned line, in its colour.
export function swatchOf(colour, { palette }) {
  const swatch = element("span", { class: "swatch" });
  const colours = paletteOn(palette, inks());
  swatch.style.borderTop = `4px ${STROKES[Math.floor(colour / colours.length)]} ${colours[colour % colours.length]}`;
  return swatch;
}

// What is said where no more can be pinned; "" before.
export const fullInWords = (count, most, what) => (count < most ? "" : `${count} ${what} are pinned, as many as are compared: remove one to pin another.`);

export function pinsControl(panel, { state, change, description }) {
  const { names, colourOf } = panel.pinned;
  const own = controlsOf(panel.id, description.controls);
  const setting = `${panel.id}.pinned`;
  const list = element("ul", { class: "pins", "aria-label": "pinned runs" });
  const pin = element("button", { type: "button", text: "Pin this run to compare", onclick: () => {
    const values = state.of(panel.id);
    change(setting, writePins([...readPins(values.pinned), pinOf(values, names, own)]));
  } });
  const full = element("p", { class: "full" });
  const node = element("div", { class: "control" }, pin, full, list);

  function show(values) {
    const pins = readPins(values.pinned);
    const present = writePins([pinOf(values, names, own)]);
    pin.disabled = pins.length >= description.most_runs || pins.some((pairs) => writePins([pairs]) === present);
    const called = namesOf([values, ...runsOf(values, names, own)], names, own).slice(1);
    full.textContent = fullInWords(pins.length, description.most_runs, "runs");
    list.replaceChildren(...called.map((name, index) => {
      const swatch = colourOf ? swatchOf(colourOf(index + 1), description) : element("span");
      const remove = element("button", { type: "button", class: "remove", "aria-label": `remove ${name}`, text: "×",
        onclick: () => change(setting, writePins(pins.filter((_, other) => other !== index))) });
      return element("li", {}, swatch, element("span", { text: name }), remove);
    }));
  }
  return { node, show };
}
