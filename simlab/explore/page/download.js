// Files made of what is seen: the numbers of a chart as CSV, the chart as SVG.

import { element } from "./text.js";

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

// A table of columns and rows as CSV.
export function csvOf({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

export function saveCsv(name, table) {
  save(`${name}.csv`, csvOf(table), "text/csv");
}

// The chart as it stands, on a ground of its own.
export async function saveSvg(name, plot, ground) {
  const copy = { data: plot.data, layout: { ...plot.layout, paper_bgcolor: ground, title: undefined } };
  const { width, height } = plot.getBoundingClientRect();
  const address = await window.Plotly.toImage(copy, { format: "svg", width, height });
  const drawing = decodeURIComponent(address.slice(address.indexOf(",") + 1));
  const clear = `.textpoint text { paint-order: stroke; stroke: ${ground}; stroke-width: 3.5px; }`;
  save(`${name}.svg`, drawing.replace(/(<svg[^>]*>)/, `$1<style>${clear}</style>`), "image/svg+xml");
}

// The drawn lines as a table: a row for each point of each.
export function tableOf(traces) {
  const drawn = traces.filter((trace) => trace.meta !== "band" && trace.hoverinfo !== "skip" && trace.x);
  const rows = drawn.flatMap((trace) =>
    Array.from(trace.x, (x, index) => [String(trace.csv || trace.name).replace(/<[^>]*>/g, ""), x, trace.y[index]]),
  );
  return { columns: ["series", "x", "y"], rows };
}
