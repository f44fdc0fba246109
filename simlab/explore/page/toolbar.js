// The tools above the panels: the list of questions, the theme, and what is copied.

import { THEMES } from "./state.js";
import { element } from "./text.js";

const dark = window.matchMedia("(prefers-color-scheme: dark)");

// Fill the list of questions, panel by panel; `choose(name)` hears of a choice.
export function buildPresets(select, panels, presets, choose) {
  select.append(element("option", { value: "", text: "choose a question" }));
  for (const panel of panels) {
    const own = Object.entries(presets).filter(([, preset]) => preset.panel === panel.id);
    const options = own.map(([name, preset]) => element("option", { value: name, text: preset.question }));
    select.append(element("optgroup", { label: panel.title }, ...options));
  }
  select.addEventListener("change", () => { if (select.value) choose(select.value); });
}

// Show a theme; "auto" is the system's.
export function applyTheme(theme) {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
}

// Fill the list of themes; `choose(theme)` hears of a choice, and of the system's change.
export function buildTheme(select, choose) {
  for (const theme of THEMES) select.append(element("option", { value: theme, text: theme }));
  select.addEventListener("change", () => choose(select.value));
  dark.addEventListener("change", () => choose(select.value));
}

// Copy a text, also where the browser allows no clipboard.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { class: "skip" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
