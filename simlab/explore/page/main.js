// The page: tabs, controls and chart of the panel that is seen, and an address that holds every setting.

import { clear, show } from "./chart.js";
import { controlOf } from "./controls.js";
import { saveCsv, saveSvg, tableOf } from "./download.js";
import { inks, Look } from "./look.js";
import bank from "./panel_bank.js";
import interference from "./panel_interference.js";
import masses from "./panel_masses.js";
import miss from "./panel_miss.js";
import run from "./panel_run.js";
import step from "./panel_step.js";
import tree from "./panel_tree.js";
import { Simulator } from "./simulate.js";
import { State, THEMES } from "./state.js";
import { element } from "./text.js";

const PANELS = [miss, masses, step, run, bank, interference, tree];
const TURNS = new Map([["ArrowRight", 1], ["ArrowLeft", -1]]); // of the tabs, by key
const NARROW = 760; // pixels of a chart below which its panels stand one above the other

const description = JSON.parse(document.getElementById("description").textContent);
const byId = (id) => document.getElementById(id);
const state = new State(description, PANELS.map((panel) => panel.id));
const dark = window.matchMedia("(prefers-color-scheme: dark)");

let parts = []; // the controls that are seen: {name, show}
let results = {}; // of simulations, by panel: {asked, result}
let drawn = null; // what was drawn last
let waiting = false; // for the next frame
let moved = 0; // when the change was made that is to be drawn
let simulators = {};

const panelSeen = () => PANELS.find((panel) => panel.id === state.panel);

function say(id, lines) {
  const text = lines.join(" · ");
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

// Change a setting, and draw at the next frame.
function change(name, text) {
  moved = performance.now();
  try {
    const note = state.hold(name, text);
    say("said", note ? [note] : []);
    say("error", []);
    if (state.preset) {
      state.preset = "";
      byId("preset").value = "";
    }
  } catch (error) {
    say("error", [error.message]);
  }
  refresh();
}

const tools = { state, change, description };

function refresh() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

// Show every control's value, and draw the chart of the panel.
function draw() {
  const panel = panelSeen();
  const values = state.of(panel.id);
  parts.forEach((part) => part.show(part.name ? values[part.name] : values));
  simulate(panel, values);
  drawChart(panel, values);
  window.history.replaceState(null, "", state.address());
}

function drawChart(panel, values) {
  const chart = byId("chart");
  const look = new Look(description, chart.clientWidth < NARROW);
  const { result } = results[panel.id] || {};
  drawn = panel.compute({ values, description, look, result });
  drawn.layout.width = chart.clientWidth;
  const began = moved;
  moved = 0;
  show(chart, drawn.traces, drawn.layout).then(() => {
    // How long it took from the change to the picture: seen by the benchmark.
    if (began) performance.measure("redraw", { start: began, end: performance.now() });
  });
  byId("readout").innerHTML = drawn.readout;
  byId("command").textContent = drawn.command;
  if (drawn.said.length) say("said", drawn.said);
}

// Simulations

function simulate(panel, values) {
  if (!panel.simulated || !description.server) return;
  if (!simulators[panel.id]) simulators[panel.id] = simulatorOf(panel);
  simulators[panel.id].ask(panel.simulated.ask(values), panel.simulated.seeds(values));
}

function simulatorOf(panel) {
  const seen = () => panelSeen() === panel;
  let failed = false; // what settings were refused stays to be read
  return new Simulator(
    panel.id,
    panel.simulated.join,
    (result) => {
      results[panel.id] = { result };
      performance.mark("simulated");
      if (seen()) drawChart(panel, state.of(panel.id));
    },
    (text, isError) => {
      if (!seen()) return;
      say("status", isError ? [] : [text]);
      if (isError || failed) say("error", isError ? [text] : []);
      failed = isError;
    },
    (held) => { if (seen()) say("said", held); },
  );
}

// Panels and what surrounds them

function showPanel() {
  const panel = panelSeen();
  for (const tab of byId("tabs").children) {
    const selected = tab.id === `tab-${panel.id}`;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
  }
  byId("panel").setAttribute("aria-labelledby", `tab-${panel.id}`);
  byId("question").textContent = panel.question;
  byId("chart").setAttribute("aria-label", panel.question);
  byId("note").innerHTML = panel.note;
  say("status", []);
  Object.values(simulators).forEach((simulator) => simulator.stop());
  buildControls(panel);
  clear(byId("chart"));
  draw();
  if (panel.click) {
    byId("chart").on("plotly_click", ({ points }) => panel.click(points[0], tools));
  }
}

function buildControls(panel) {
  parts = [];
  for (const control of description.controls) {
    const [own, setting] = control.name.split(".");
    const part = own === panel.id ? controlOf(control, description, (text) => change(control.name, text)) : null;
    if (part) parts.push({ ...part, name: setting });
  }
  if (panel.extra) parts.push({ ...panel.extra(tools), name: "" });
  byId("controls").replaceChildren(...parts.map((part) => part.node));
}

function buildTabs() {
  const tabs = PANELS.map((panel) => element("button", {
    type: "button", role: "tab", id: `tab-${panel.id}`, "aria-controls": "panel", text: panel.title,
    onclick: () => open(panel.id),
  }));
  byId("tabs").replaceChildren(...tabs);
  byId("tabs").addEventListener("keydown", (event) => {
    const turn = TURNS.get(event.key);
    if (!turn) return;
    const place = PANELS.findIndex((panel) => panel.id === state.panel);
    open(PANELS[(place + turn + PANELS.length) % PANELS.length].id);
    byId(`tab-${state.panel}`).focus();
  });
}

function open(panel) {
  state.panel = panel;
  state.preset = "";
  byId("preset").value = "";
  say("said", []);
  say("error", []);
  showPanel();
}

function buildPresets() {
  const select = byId("preset");
  select.append(element("option", { value: "", text: "(own settings)" }));
  for (const panel of PANELS) {
    const own = Object.entries(description.presets).filter(([, preset]) => preset.panel === panel.id);
    const options = own.map(([name, preset]) => element("option", { value: name, text: name, title: preset.title }));
    select.append(element("optgroup", { label: panel.title }, ...options));
  }
  select.addEventListener("change", () => {
    if (!select.value) return;
    state.usePreset(select.value);
    say("said", [description.presets[select.value].title]);
    say("error", []);
    showPanel();
  });
}

function applyTheme() {
  const theme = state.theme === "auto" ? (dark.matches ? "dark" : "light") : state.theme;
  document.documentElement.dataset.theme = theme;
}

function buildTheme() {
  const select = byId("theme");
  for (const theme of THEMES) select.append(element("option", { value: theme, text: theme }));
  select.addEventListener("change", () => {
    state.theme = select.value;
    applyTheme();
    draw();
  });
  dark.addEventListener("change", () => {
    applyTheme();
    draw();
  });
}

async function copy(text, what) {
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
  say("said", [`${what} copied`]);
}

function buildActions() {
  const name = () => `simlab-${state.panel}`;
  byId("link").addEventListener("click", () => copy(window.location.href, "link"));
  byId("copy").addEventListener("click", () => copy(byId("command").textContent, "command"));
  byId("csv").addEventListener("click", () => saveCsv(name(), drawn.table || tableOf(drawn.traces)));
  byId("svg").addEventListener("click", () => saveSvg(name(), byId("chart"), inks().card));
}

function readAddress() {
  const { said, wrong } = state.read(window.location);
  byId("preset").value = state.preset;
  byId("theme").value = state.theme;
  applyTheme();
  if (state.preset && !said.length) said.push(description.presets[state.preset].title);
  say("said", said);
  say("error", wrong);
  showPanel();
}

buildTabs();
buildPresets();
buildTheme();
buildActions();
readAddress();
window.addEventListener("hashchange", readAddress);
new ResizeObserver(() => {
  if (drawn && byId("chart").clientWidth !== drawn.layout.width) refresh();
}).observe(byId("chart"));
document.documentElement.dataset.ready = "true";
