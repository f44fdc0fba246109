// The pinned runs of a panel, each with a button that takes it away, and one that pins the present run.

import { inks, paletteOn } from "./look.js";
import { controlsOf, namesOf, pinOf, readPins, runsOf, writePins } from "./pins.js";
import { element } from "./text.js";

export function pinsControl(panel, { state, change, description }) {
  const { names, colourOf } = panel.pinned;
  const own = controlsOf(panel.id, description.controls);
  const setting = `${panel.id}.pinned`;
  const list = element("ul", { class: "pins", "aria-label": "pinned runs" });
  const pin = element("button", { type: "button", text: "Pin this run to compare", onclick: () => {
    const values = state.of(panel.id);
    change(setting, writePins([...readPins(values.pinned), pinOf(values, names, own)]));
  } });
  const node = element("div", { class: "control" }, pin, list);

  function show(values) {
    const pins = readPins(values.pinned);
    const present = writePins([pinOf(values, names, own)]);
    pin.disabled = pins.length >= description.most_runs || pins.some((pairs) => writePins([pairs]) === present);
    const called = namesOf([values, ...runsOf(values, names, own)], names, own).slice(1);
    const colours = paletteOn(description.palette, inks());
    list.replaceChildren(...called.map((name, index) => {
      const swatch = element("span", colourOf ? { class: "swatch" } : {});
      if (colourOf) swatch.style.background = colours[colourOf(index + 1) % colours.length];
      const remove = element("button", { type: "button", class: "remove", "aria-label": `remove ${name}`, text: "×",
        onclick: () => change(setting, writePins(pins.filter((_, other) => other !== index))) });
      return element("li", {}, swatch, element("span", { text: name }), remove);
    }));
  }
  return { node, show };
}
