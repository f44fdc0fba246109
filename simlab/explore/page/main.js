// The page: tabs, controls and chart of the panel that is seen, and an address that holds every setting.

import { clear, show } from "./chart.js";
import { controlOf, pinsControl, stopsBeside, symbolsOf } from "./controls.js";
import { fitLegend, inks, Look } from "./look.js";
import bank from "./panel_bank.js";
import interference from "./panel_interference.js";
import map from "./panel_map.js";
import masses from "./panel_masses.js";
import miss from "./panel_miss.js";
import ownResults from "./panel_results.js";
import run from "./panel_run.js";
import step from "./panel_step.js";
import tree from "./panel_tree.js";
import { Reader } from "./reader.js";
import { controlsOf, describeFormulas, missingFormulas } from "./settings.js";
import { Simulations } from "./simulations.js";
import { State, Undo } from "./state.js";
import { byId, element } from "./text.js";
import { applyTheme, buildPresets, buildTheme, listenForFiles, saveCsv, saveSvg, tableOf } from "./tools.js";
import { TourBox } from "./tour.js";

const ALL_PANELS = [map, miss, masses, step, run, bank, interference, tree];
const BESIDE_TAB = 48; // pixels of the tabs before the chosen one that are seen, where not all have room
const SETTLED = 150; // milliseconds after a drag
const BETWEEN = " · "; // two notes
const TURNS = new Map([["ArrowRight", 1], ["ArrowLeft", -1]]); // of the tabs, by key

const description = JSON.parse(document.getElementById("description").textContent);
const PANELS = description.results.length ? [...ALL_PANELS, ownResults] : ALL_PANELS;
const state = new State(description, PANELS.map((panel) => panel.id));

const undo = new Undo();
let parts = []; // the controls that are seen: {name, show}
let shape = ""; // of the controls: what their bounds depend on
let drawn = null; // what was drawn last
let noted = ""; // the notes on it
let waiting = false; // for the next frame
let moved = 0; // when the change was made that is to be drawn
let dragged = ""; // the setting that was changed last
let writing = 0; // the timer of the address, which is written when a drag has ended: the browser takes long for it
let unanswered = ""; // the error of a question; other errors stay when answers come
const reader = new Reader(description, () => {
  if (byId("error").textContent === unanswered) say("error", []);
  drawChart(panelSeen());
}, (message) => {
  unanswered = message;
  say("error", [message]);
});

const panelSeen = () => PANELS.find((panel) => panel.id === state.panel);
const simulations = new Simulations(description, { isSeen: (panel) => panelSeen() === panel, draw: (panel) => drawChart(panel), say });

function say(id, lines) {
  const text = lines.join(BETWEEN);
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

function sayOnce(notes = [], errors = []) {
  say("said", notes);
  say("error", errors);
}

function showPreset(name) {
  state.preset = name;
  byId("preset").value = name;
  say("about", name ? [description.presets[name].title] : []);
}

function remember() {
  undo.keep(state.address());
  byId("undo").disabled = undo.isEmpty;
}

// Change a setting, and draw at the next frame; the server reads a new formula first.
function change(name, text) {
  const missing = missingFormulas([text], description);
  if (missing.length) {
    describeFormulas(missing, description).then(() => change(name, text));
    return;
  }
  moved = performance.now();
  dragged = name;
  remember();
  try {
    const note = state.hold(name, text);
    state.follow(name);
    sayOnce(note ? [note] : []);
    if (state.preset) showPreset("");
  } catch (error) {
    sayOnce([], [error.message]);
  }
  refresh();
}

function goBack() {
  const address = undo.back();
  byId("undo").disabled = undo.isEmpty;
  if (address === undefined) return;
  window.history.replaceState(null, "", address);
  readAddress();
}

// Take an estimator to all panels; one of them may need masses that it has not.
function useEverywhere(weight) {
  remember();
  const refused = state.holdWeightEverywhere(weight);
  const titles = PANELS.filter(({ id }) => refused.includes(id)).map(({ title }) => title);
  sayOnce([`${weight} is in all panels now${titles.length ? ` but ${titles.join(" and ")}, which need its masses` : ""}`]);
  if (state.preset) showPreset("");
  refresh();
}

// Choose what is looked at, such as a cell that is pointed at: this is in the link, but nothing to undo.
function look(name, text) {
  state.hold(name, text);
  refresh();
}

const tools = { state, change, look, description, open: (panel) => open(panel) };

function refresh() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

function draw() {
  const panel = panelSeen();
  const values = state.of(panel.id);
  if (panel.shape && panel.shape(values) !== shape) buildControls(panel);
  parts.forEach((part) => {
    part.show(part.name ? (panel.shownAs?.(values, description) ?? values)[part.name] : values);
    if (panel.isIdle) part.node.hidden = panel.isIdle(part.name, values, description);
  });
  simulations.ask(panel, values);
  drawChart(panel);
  window.clearTimeout(writing);
  writing = window.setTimeout(writeAddress, SETTLED);
}

function writeAddress() {
  window.history.replaceState(null, "", state.address());
}

// The answers to the questions of a panel, null while they have not come; those at the next stops of the slider are fetched too.
function answersOf({ id, questions: { path, of } }, values) {
  const control = state.controls.get(dragged);
  const [panel, setting] = dragged.split(".");
  const stops = panel === id && values[setting] !== undefined ? stopsBeside(control, values[setting]) : [];
  const next = stops.flatMap((stop) => of({ ...values, [setting]: stop }, description));
  return reader.ask(path(values), of(values, description), next);
}

// Draw the chart of a panel. While answers to its questions have not come, the chart before stays.
function drawChart(panel) {
  const chart = byId("chart");
  const results = simulations.of(panel);
  const values = simulations.valuesShown(panel, state.of(panel.id));
  const answers = panel.questions ? answersOf(panel, values) : null;
  if (panel.questions && !answers && drawn?.panel === panel) return;
  const look = new Look(description, chart.clientWidth);
  drawn = { panel, ...panel.compute({ values, description, look, result: results[0], results, answers }) };
  drawn.layout.width = chart.clientWidth;
  fitLegend(drawn.traces, drawn.layout, chart.clientWidth);
  const began = moved;
  moved = 0;
  show(chart, drawn.traces, drawn.layout).then(() => {
    // From the change to the picture: the benchmark reads this.
    if (began) performance.measure("redraw", { start: began, end: performance.now() });
  });
  byId("readout").innerHTML = drawn.readout;
  byId("command").textContent = drawn.command;
  if (drawn.notes.length || byId("said").textContent === noted) say("said", drawn.notes);
  noted = drawn.notes.join(BETWEEN);
}

// Panels and what surrounds them

function showPanel() {
  const panel = panelSeen();
  for (const tab of byId("tabs").children) {
    const selected = tab.id === `tab-${panel.id}`;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    if (selected) byId("tabs").scrollLeft = tab.offsetLeft - byId("tabs").offsetLeft - BESIDE_TAB;
  }
  byId("panel").setAttribute("aria-labelledby", `tab-${panel.id}`);
  byId("question").textContent = panel.question;
  byId("chart").setAttribute("aria-label", panel.question);
  byId("note").innerHTML = panel.note;
  byId("symbols").replaceChildren(...symbolsOf(panel.symbols));
  say("status", []);
  simulations.stop();
  drawn = null;
  buildControls(panel);
  clear(byId("chart"));
  draw();
  if (panel.click) byId("chart").on("plotly_click", ({ points }) => panel.click(points[0], tools));
  if (panel.hover) byId("chart").on("plotly_hover", ({ points }) => panel.hover(points[0], tools));
}

// The controls of a panel, which may shape them by its values, or leave one out. The focus stays where it is.
function buildControls(panel) {
  const [values, focus] = [state.of(panel.id), document.activeElement.id];
  shape = panel.shape?.(values);
  parts = [];
  for (const [setting, control] of controlsOf(panel.id, description.controls)) {
    const shaped = panel.shaped ? panel.shaped(setting, control, values, description) : control;
    const part = shaped && controlOf(shaped, description, (text) => change(control.name, text), useEverywhere);
    if (part && !description.server && panel.locked?.(setting)) lock(part);
    if (part) parts.push({ ...part, name: setting });
  }
  if (panel.extra) parts.push({ ...panel.extra(tools), name: "" });
  if (panel.pinned) parts.push({ ...pinsControl(panel, tools), name: "" });
  byId("controls").replaceChildren(...parts.map((part) => part.node));
  byId(focus)?.focus();
}

// A control that can change nothing: the page has no server, and no run with other values.
function lock({ node }) {
  node.classList.add("locked");
  node.title = "needs the server: simlab explore";
  for (const field of node.querySelectorAll("input, select")) field.disabled = true;
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
  remember();
  state.panel = panel;
  state.tour = 0;
  tour.show(state.tour);
  showPreset("");
  sayOnce();
  showPanel();
}

function choosePreset(name) {
  remember();
  state.usePreset(name);
  showPreset(name);
  sayOnce();
  showPanel();
}

function chooseTheme(theme) {
  state.theme = theme;
  applyTheme(theme);
  draw();
}

function visit(view) {
  undo.keep(state.address());
  const theme = state.theme === "auto" ? "" : `&theme=${state.theme}`;
  window.history.replaceState(null, "", `#${new URLSearchParams(view + theme)}`);
  readAddress();
}

const tour = new TourBox({ visit, change, place: () => state.tour, onEnd: () => {
  state.tour = 0;
  draw();
} });

async function copied(text, label) {
  await navigator.clipboard.writeText(text);
  say("said", [`${label} copied`]);
}

function buildActions() {
  const name = () => `simlab-${state.panel}`;
  byId("undo").addEventListener("click", goBack);
  byId("paste").addEventListener("change", () => {
    const view = byId("paste").value.split(/[#?]/).slice(1).join("&");
    byId("paste").value = "";
    window.clearTimeout(writing);
    window.location.hash = view;
  });
  byId("link").addEventListener("click", () => {
    writeAddress();
    copied(window.location.href, "link");
  });
  byId("copy").addEventListener("click", () => copied(byId("command").textContent, "command"));
  byId("csv").addEventListener("click", () => saveCsv(name(), drawn.table || tableOf(drawn.traces)));
  byId("svg").addEventListener("click", () => saveSvg(name(), byId("chart"), inks().card));
}

function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !event.target.type?.startsWith("text")) {
      event.preventDefault();
      goBack();
    }
  });
  byId("chart").addEventListener("keydown", (event) => {
    if (panelSeen().keys?.(event.key, tools)) event.preventDefault();
  });
}

// Show what the address says; the server reads its formulas first.
function readAddress() {
  const texts = [...new URLSearchParams(`${window.location.search.slice(1)}&${window.location.hash.slice(1)}`).values()];
  const missing = missingFormulas(texts, description);
  if (missing.length) return describeFormulas(missing, description).then(readAddress);
  const { notes, errors } = state.read(window.location);
  showPreset(state.preset);
  byId("theme").value = state.theme;
  applyTheme(state.theme);
  sayOnce(notes, errors);
  tour.show(state.tour);
  showPanel();
  return undefined;
}

buildTabs();
buildPresets(byId("preset"), PANELS, description.presets, choosePreset);
buildTheme(byId("theme"), chooseTheme);
buildActions();
listenToKeys();
listenForFiles({ server: description.server, say: (text) => say("said", [text]), fail: (text) => say("error", [text]) });
await readAddress();
window.addEventListener("hashchange", readAddress);
new ResizeObserver(() => {
  if (drawn && byId("chart").clientWidth !== drawn.layout.width) refresh();
}).observe(byId("chart"));
document.documentElement.dataset.ready = "true";
