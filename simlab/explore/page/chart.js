// The chart: built anew where its axes, legend or looks change, else only its lines are moved, which is quicker. A chart
// with a heat map is always built anew, for plotly takes the cells away where it moves lines.

const SETTINGS = { displayModeBar: false, displaylogo: false, responsive: false };
const AT_ONCE = { mode: "immediate", frame: { redraw: false, duration: 0 }, transition: { duration: 0 } };

let seen = { looks: "", frame: {} };

// Return true if every axis has a range of its own, so that none follows from the data.
function isFixed(layout) {
  const axes = Object.entries(layout).filter(([name]) => /^[xy]axis/.test(name));
  return axes.every(([, axis]) => axis.range || axis.type === "category");
}

// The looks of a chart as a text: all that moving its lines cannot change. Categories are among them, names without a legend are not.
function looksOf(traces, { shapes, ...layout }) {
  const own = traces.map(({ x, y, csv, name, ...look }) =>
    [look, look.showlegend === false ? "" : name, typeof x[0] === "string" ? x : ""]);
  return JSON.stringify([own, layout, shapes.length], (key, value) => (key === "range" ? 0 : value));
}

// The axes' ranges and the hairlines, which can be changed by themselves, as texts by name.
function frameOf({ shapes, ...layout }) {
  const ranged = Object.entries(layout).filter(([, part]) => part?.range);
  return { ...Object.fromEntries(ranged.map(([name, { range }]) => [`${name}.range`, JSON.stringify(range)])),
    shapes: JSON.stringify(shapes) };
}

// Draw traces; the promise is kept when they are seen.
export async function show(chart, traces, layout) {
  const [before, now] = [seen, { looks: looksOf(traces, layout), frame: frameOf(layout) }];
  seen = now;
  if (now.looks !== before.looks || !isFixed(layout) || traces.some(({ type }) => type === "heatmap")) {
    await window.Plotly.react(chart, traces, layout, SETTINGS);
    return;
  }
  const moved = traces.map(({ x, y, name, csv }) => ({ x, y, name, csv }));
  await window.Plotly.animate(chart, { data: moved, traces: moved.map((_, index) => index) }, AT_ONCE);
  const changed = Object.entries(now.frame).filter(([name, text]) => text !== before.frame[name]);
  if (!changed.length) return;
  await window.Plotly.relayout(chart, Object.fromEntries(changed.map(([name, text]) => [name, JSON.parse(text)])));
}

// Take away what is seen.
export function clear(chart) {
  seen = { looks: "", frame: {} };
  window.Plotly.purge(chart);
}
