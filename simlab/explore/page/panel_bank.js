// The panel of pass@k: a bank of prompts of mixed difficulty.

import { interpolate, placeOn } from "./closed_forms.js";
import { compared, DIFFERENCE, EQUAL_MASS, gainAt, joined, pairable, readAt, toPin } from "./compare.js";
import { axes, rangeOf, SHARES } from "./look.js";
import { commandsOf, namesOf, runsOf, sweepCommand } from "./settings.js";
import { escaped, short, signed } from "./text.js";

const MASS = "pass_at_1"; // the mean correct mass of all prompts
const OF_RATES = ["prompts", "beta_a", "beta_b", "second_share", "second_a", "second_b", "modes", "rare_ratio", "rare_modes"];

const colourOf = (place) => (place ? place + 2 : 0); // the first three are taken by the lines of the sliders' bank
const SYMBOLS = ["circle", "square", "diamond"]; // of pinned banks, by the turn of their colour
const DASHES = [1, 3, 2]; // over the training, likewise

const questions = (values) => [Object.fromEntries(OF_RATES.map((name) => [name, values[name]]))];

// A curve of the base model at any k, linear in log k between those of the answer.
function atK({ k: ks }, curve, k) {
  return interpolate(curve, placeOn(ks.map(Math.log), Math.min(Math.log(k), Math.log(ks.at(-1)))));
}

// The record at which runs are read, and the level of correct mass, if each seed is read where it first has that of the sliders' bank.
function placeOf(values, results) {
  const [result] = results;
  if (!result) return { record: 0, level: null };
  const record = Math.round(values.at * (result.step.length - 1));
  const byMass = values.compare.endsWith(EQUAL_MASS) && results.length > 1 && pairable(results);
  return { record, level: byMass ? result.metrics[MASS].mean[record] : null };
}

function trainedTraces({ record, level }, results, names, look) {
  return results.flatMap((result, place) => {
    if (!result) return [];
    const colour = colourOf(place);
    return ["pass", "rare"].flatMap((which, i) => {
      const read = result.k.map((k) => readAt(result, `${which}_at_${k}`, Math.min(record, result.step.length - 1), level, MASS));
      const [mean, half] = [read.map((one) => one.mean), read.map((one) => one.half)];
      return look.meanLines(`${i ? "a rare mode" : "any answer"}, trained: ${place ? names[place] : "the sliders' bank"}`, result.k, mean, half,
        { colour: place ? colour : i, dash: 2 * look.turn(colour) + (place && i ? 1 : 0), width: 2.6, high: 1, mode: "lines+markers",
          marker: { size: 6, symbol: SYMBOLS[look.turn(colour)] } });
    });
  });
}

// pass@1, pass@k of rare modes, and the share of prompts that have lost theirs, over steps or over pass@1; of pinned banks the second
// alone. Differences are to the first pinned bank.
function courseTraces(way, results, names, look) {
  const all = results.map((result, place) => ({ result, place })).filter(({ result }) => result);
  if (!all.length) return [look.line("", [0], [null], { panel: 2, showlegend: false })];
  const runs = [...all.slice(1), all[0]];
  const [first] = runs;
  const largest = all[0].result.k.at(-1);
  const rare = [`a rare mode in ${largest} samples`, `rare_at_${largest}`, 1];
  const lines = [["pass@1", MASS, 0], rare, ["prompts that lost their rare modes", "lost", 2]];
  const shown = way.startsWith(DIFFERENCE) ? runs.slice(1) : runs;
  return shown.flatMap(({ result, place }) => (place ? [rare] : lines).filter(([, metric]) => metric !== MASS || !way.endsWith(EQUAL_MASS))
    .flatMap(([name, metric, own]) => {
      const { x, mean, half } = compared(way, metric, result, first.result, MASS);
      const colour = place ? colourOf(place) : own;
      return look.meanLines(place ? `${name}: ${names[place]}` : name, x, mean, half,
        { panel: 2, high: way.startsWith(DIFFERENCE) ? null : 1, colour, dash: place ? DASHES[look.turn(colour)] : own, width: 2.2 });
    }));
}

function pinnedInWords({ record, level }, results, names) {
  const [present, ...others] = results;
  return others.map((other, index) => {
    if (!pairable([present, other])) return "";
    const { mean, half } = gainAt(present, other, "rare_at_256", record, level, MASS);
    if (mean === null) return ` ${escaped(names[index + 1])} does not come to this pass@1.`;
    return ` Against ${escaped(names[index + 1])}${level === null ? "" : ` at pass@1 of ${short(level, 3)}`}: a rare mode in 256 samples ` +
      `<b>${signed(mean, 2)}</b> ± ${short(half, 1)}.`;
  }).join("");
}

function histograms({ shares }, result, at, look) {
  const place = result ? Math.round(at * (result.step.length - 1)) : 0;
  const trained = result ? shares.map((_, bin) => result.metrics[`share_${bin}`].mean[place]) : null;
  const bars = (name, y, colour) => ({ type: "bar", name, x: y.map((_, i) => (i + 0.5) / y.length), y, ...axes(1), showlegend: false,
    marker: { color: colour }, hovertemplate: "%{y:.3f}" });
  return [bars("base model", shares, look.ink.faint), ...(trained ? [bars("trained", trained, look.colour(0))] : [])];
}

const NONE = { k: [1, 2 ** 20], any: [null, null], rare: [null, null], shares: [0] }; // before the server has answered

function compute({ values, description, look, results, answers }) {
  const base = answers?.[0] ?? NONE;
  const notes = base.rare_modes < values.rare_modes ? [`rare modes are fewer than the ${values.modes} modes; held at ${base.rare_modes}`] : [];
  const [any, tail] = [base.any, base.rare].map((curve) => (k) => atK(base, curve, k));
  const line = (name, curve, options) => look.line(name, base.k, curve, { hovertemplate: "%{y:.4f}", ...options });
  const names = namesOf("bank", runsOf("bank", values, description), description);
  const [result] = results;
  const place = placeOf(values, results);
  const traces = [
    look.hair(values.k),
    line("any answer, base model", base.any, { colour: 0, width: 1.8, dash: 2 }),
    line("a rare mode, base model", base.rare, { colour: 1, dash: 2, width: 1.8 }),
    ...trainedTraces(place, results, names, look),
    look.marker([values.k], [any(values.k)], { colour: 0 }),
    look.marker([values.k], [tail(values.k)], { colour: 1 }),
    ...histograms(base, result, values.at, look),
    ...courseTraces(values.compare, results, names, look),
  ];
  const bars = traces.filter(({ type }) => type === "bar").map(({ y }) => y);
  const layout = look.layout([
    { title: "pass@k", x: { title: "samples k", type: "log", range: [0, Math.log10(base.k.at(-1))],
      tickvals: [1, 16, 256, 4096, 65536, 2 ** 20],
      ticktext: ["1", "16", "256", "4096", "65 536", "2<sup>20</sup>"] },
      y: { title: "", range: SHARES } },
    { title: "solve rates: share of prompts, grey: base model", x: { title: "solve rate", range: [0, 1] },
      y: { title: "", range: rangeOf(bars) } },
    courseAxes(values),
  ], { columns: 2, height: 520 });
  if (!look.narrow) layout.xaxis3.domain = [0, 1];
  layout.bargap = 0.08;
  return { traces, layout, readout: answers ? readout(values, any, tail, result) + pinnedInWords(place, results, names) : "",
    command: commandsOf("bank", values, description, command), notes: [...notes, ...toPin(values.compare, values.pinned, "bank")] };
}

function courseAxes({ compare: way, steps }) {
  const byMass = way.endsWith(EQUAL_MASS);
  const isDifference = way.startsWith(DIFFERENCE);
  return {
    title: `${isDifference ? "difference from the first" : "over the training"}${byMass ? ", at equal pass@1" : ""}`,
    x: byMass ? { title: "pass@1", range: [0, 1] } : { title: "step", range: [0, steps] },
    y: { title: "", ...(isDifference ? {} : { range: SHARES }) },
  };
}

function readout(values, any, tail, result) {
  const base = `${values.prompts} prompts: pass@1 <b>${short(any(1), 3)}</b>, pass@${values.k} <b>${short(any(values.k), 3)}</b>; ` +
    `of rare modes <b>${short(tail(values.k), 3)}</b> at ${values.k} samples.`;
  if (!result) return base;
  const at = Math.round(values.at * (result.step.length - 1));
  const of = (metric) => short(result.metrics[metric].mean[at], 3);
  return `${base} After ${result.step[at]} steps pass@1 is <b>${of("pass_at_1")}</b> and pass@256 <b>${of("pass_at_256")}</b>, but a rare mode is in 256 ` +
    `samples with probability <b>${of("rare_at_256")}</b>, and ${short(100 * result.metrics.lost.mean[at], 2)} % of the prompts have lost theirs.`;
}

function command(values, description) {
  const ks = [...new Set([1, 4, 16, 64, 256, 1024, values.k])].sort((left, right) => left - right);
  const settings = Object.fromEntries(OF_RATES.map((name) => [`problem.${name}`, values[name]]));
  const parameters = { ...settings, "problem.rare_modes": Math.min(values.rare_modes, values.modes - 1), "problem.margin": "1e-6" };
  return sweepCommand("prompt_bank", values, description, { records: 20, options: [`--pass-at-k ${ks.join(",")}`], parameters });
}

export default {
  id: "bank",
  title: "pass@k",
  question: "What does training do to pass@k of many prompts, and to their rare modes?",
  note: "Each prompt has a solve rate, quantiles of one Beta or two, and some correct modes of which a few are rare. " +
    "The base model's curves are exact, 1 − (1 − p)<sup>k</sup> averaged over prompts; the trained ones are simulated. A prompt has lost its rare " +
    "modes when they have less than a tenth of what they had.",
  symbols: ["pass@k", "k", "p", "G"],
  compute,
  pinned: { colourOf },
  locked: (setting) => !["at", "k"].includes(setting),
  questions: { path: () => "bank", of: questions },
  simulated: { join: joined, seeds: (values) => values.seeds },
};
