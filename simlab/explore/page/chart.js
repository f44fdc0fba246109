// The chart: built anew where its axes, legend or looks change, else only its lines are moved, which is quicker. A chart
// with a heat map is always built anew, for plotly takes the cells away where it moves lines.

const SETTINGS = { displayModeBar: false, displaylogo: false, responsive: false };
const AT_ONCE = { mode: "immediate", frame: { redraw: false, duration: 0 }, transition: { duration: 0 } };

let seen = { looks: "", frame: {}, traces: [] };

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

const isSame = (one, other) => one.length === other.length && one.every((value, i) => value === other[i]);

export async function show(chart, all, layout) {
  const traces = all.filter(({ visible }) => visible !== false);
  const [before, now] = [seen, { looks: looksOf(traces, layout), frame: frameOf(layout), traces }];
  seen = now;
  if (now.looks !== before.looks || !isFixed(layout) || traces.some(({ type }) => type === "heatmap")) {
    await window.Plotly.react(chart, traces, layout, SETTINGS);
    return;
  }
  const moved = traces.map((_, i) => i).filter((i) => ["x", "y"].some((axis) => !isSame(traces[i][axis], before.traces[i][axis])) ||
    traces[i].name !== before.traces[i].name || traces[i].csv !== before.traces[i].csv);
  const data = moved.map((i) => ({ x: traces[i].x, y: traces[i].y, name: traces[i].name, csv: traces[i].csv }));
  if (moved.length) await window.Plotly.animate(chart, { data, traces: moved }, AT_ONCE);
  const changed = Object.entries(now.frame).filter(([name, text]) => text !== before.frame[name]);
  if (!changed.length) return;
  await window.Plotly.relayout(chart, Object.fromEntries(changed.map(([name, text]) => [name, JSON.parse(text)])));
}

export function clear(chart) {
  seen = { looks: "", frame: {}, traces: [] };
  window.Plotly.purge(chart);
}
