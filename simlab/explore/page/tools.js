// The tools around the panels: the list of questions, the theme, copies, downloads, and results that are opened.

import { THEMES } from "./state.js";
import { byId, element, post } from "./text.js";

const dark = window.matchMedia("(prefers-color-scheme: dark)");

export function buildPresets(select, panels, presets, choose) {
  select.append(element("option", { value: "", text: "choose a question" }));
  for (const panel of panels) {
    const own = Object.entries(presets).filter(([, preset]) => preset.panel === panel.id);
    const options = own.map(([name, preset]) => element("option", { value: name, text: preset.question }));
    select.append(element("optgroup", { label: panel.title }, ...options));
  }
  select.addEventListener("change", () => { if (select.value) choose(select.value); });
}

export function applyTheme(theme) {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
}

export function buildTheme(select, choose) {
  for (const theme of THEMES) select.append(element("option", { value: theme, text: theme }));
  select.addEventListener("change", () => choose(select.value));
  dark.addEventListener("change", () => choose(select.value));
}

// Files made of what is seen

function save(name, text, kind) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const quoted = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export function saveCsv(name, { columns, rows }) {
  save(`${name}.csv`, [columns, ...rows].map((row) => `${row.map(quoted).join(",")}\r\n`).join(""), "text/csv");
}

export async function saveSvg(name, plot, ground) {
  const copy = { data: plot.data, layout: { ...plot.layout, paper_bgcolor: ground, title: undefined } };
  const { width, height } = plot.getBoundingClientRect();
  const address = await window.Plotly.toImage(copy, { format: "svg", width, height });
  const drawing = decodeURIComponent(address.slice(address.indexOf(",") + 1));
  const clear = `.textpoint text { paint-order: stroke; stroke: ${ground}; stroke-width: 3.5px; }`;
  save(`${name}.svg`, drawing.replace(/(<svg[^>]*>)/, `$1<style>${clear}</style>`), "image/svg+xml");
}

export function tableOf(traces) {
  const drawn = traces.filter((trace) => trace.meta !== "band" && trace.hoverinfo !== "skip" && trace.x);
  const rows = drawn.flatMap((trace) =>
    Array.from(trace.x, (x, index) => [String(trace.csv || trace.name).replace(/<[^>]*>/g, ""), x, trace.y[index]]),
  );
  return { columns: ["series", "x", "y"], rows };
}

// Results: the server opens them, and the page begins anew with them

// Listen for files that are dropped on the page or chosen in a dialogue; `say(text)` hears of the progress, `fail(text)` of errors.
export function listenForFiles({ server, say, fail }) {
  const open = async (file, isFolder) => {
    if (!file) return;
    if (!server || isFolder) {
      fail(`${file.name} ${isFolder ? "is a folder" : "needs the server"}; open it with: simlab explore ${file.name}`);
      return;
    }
    say(`opening ${file.name}`);
    try {
      const answer = await post(`open?${new URLSearchParams({ name: file.name })}`, file);
      show((await answer.json()).settings);
    } catch (error) {
      say("");
      fail(error.message);
    }
  };
  byId("open").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", () => {
    open(byId("file").files[0], false);
    byId("file").value = "";
  });
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return; // text may be dropped into a field as ever
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.remove("dropping");
    const [item] = event.dataTransfer.items;
    open(event.dataTransfer.files[0], Boolean(item?.webkitGetAsEntry?.()?.isDirectory));
  });
}

// Load the page anew, with the panel of results; all other panels stay as they are.
function show(settings) {
  const address = new URLSearchParams(window.location.hash.slice(1));
  for (const name of [...address.keys()]) if (name.startsWith("results.") || ["preset", "tour"].includes(name)) address.delete(name);
  address.set("panel", "results");
  for (const [name, value] of Object.entries(settings)) address.set(name, value);
  window.history.replaceState(null, "", `#${address}`);
  window.location.reload();
}
