// Panel 5: pass@k of a bank of prompts of mixed difficulty.

import { bankPassAtK, MARGIN, rareShare, solveRates } from "./bank.js";
import { compared, DIFFERENCE, EQUAL_MASS, gainAt, pairable, readAt } from "./compare.js";
import { axes, rangeOf } from "./look.js";
import { controlsOf, namesOf, runsOf } from "./pins.js";
import { joined } from "./simulate.js";
import { escaped, exact, short } from "./text.js";
import { commandWeight } from "./weight_text.js";

const KS = Array.from({ length: 61 }, (_, i) => Math.round(2 ** (i / 3)));
const BINS = 20;
const MASS = "pass_at_1"; // the mean correct mass of all prompts

const OF_RATES = ["prompts", "beta_a", "beta_b", "second_share", "second_a", "second_b"];
const SIMULATED = [...OF_RATES, "modes", "rare_modes", "rare_ratio", "weight", "group_size", "learning_rate", "optimizer", "steps", "seed"];
const MOST_KEPT = 32;

const colourOf = (place) => (place ? place + 2 : 0); // the first three are taken by the lines of the sliders' bank
const SYMBOLS = ["circle", "square", "diamond"]; // of pinned banks, by the turn of their colour
const DASHES = [1, 3, 2]; // over the training, likewise

const ask = (values) => Object.fromEntries(SIMULATED.map((name) => [name, values[name]]));

const kept = new Map(); // solve rates by their settings

// The solve rates, computed anew only when the bank is another one.
function ratesOf(values) {
  const key = OF_RATES.map((name) => values[name]).join(" ");
  if (!kept.has(key)) kept.set(key, solveRates(values));
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return kept.get(key);
}

// pass@k of any correct answer and of a rare mode, as functions of k.
function curvesOf(values) {
  const rates = ratesOf(values);
  const share = rareShare({ ...values, rare_modes: Math.min(values.rare_modes, values.modes - 1) });
  const rare = rates.map((rate) => rate * share);
  return [rates, rare].map((list) => (k) => bankPassAtK(list, k));
}

// Where runs are read: at the chosen record, or where each seed first has the correct mass of the sliders' bank there.
function placeOf(values, results) {
  const [result] = results;
  if (!result) return { record: 0, level: null };
  const record = Math.round(values.at * (result.step.length - 1));
  const byMass = values.compare.endsWith(EQUAL_MASS) && results.length > 1 && pairable(results);
  return { record, level: byMass ? result.metrics[MASS].mean[record] : null };
}

// What training makes of the pass@k of the sliders' bank, with bands, and of the pinned ones.
function trainedTraces({ record, level }, results, names, look) {
  return results.flatMap((result, place) => {
    if (!result) return [];
    const colour = colourOf(place);
    return ["pass", "rare"].flatMap((which, i) => {
      const read = result.k.map((k) => readAt(result, `${which}_at_${k}`, Math.min(record, result.step.length - 1), level, MASS));
      const [mean, half] = [read.map((one) => one.mean), read.map((one) => one.half)];
      return [
        ...look.band(result.k, shift(mean, half, -1), shift(mean, half, 1), look.colour(place ? colour : i), 0),
        look.line(`${i ? "a rare mode" : "any answer"}, trained: ${place ? names[place] : "the sliders' bank"}`, result.k, mean,
          { colour: place ? colour : i, dash: 2 * look.turn(colour) + (place && i ? 1 : 0), width: 2.6, mode: "lines+markers",
            marker: { size: 6, symbol: SYMBOLS[look.turn(colour)] }, hovertemplate: "%{y:.4f}" }),
      ];
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
      return [...look.band(x, shift(mean, half, -1), shift(mean, half, 1), look.colour(colour), 2),
        look.line(place ? `${name}: ${names[place]}` : name, x, mean, { panel: 2, colour, dash: place ? DASHES[look.turn(colour)] : own, width: 2.2, hovertemplate: "%{y:.4f}" })];
    }));
}

const shift = (mean, half, sign) => mean.map((one, i) => (one === null || half[i] === null ? one : one + sign * half[i]));

// What the sliders' bank has more or less of than each pinned one, at the same record or the same pass@1, paired by seed.
function pinnedInWords({ record, level }, results, names) {
  const [present, ...others] = results;
  return others.map((other, index) => {
    if (!pairable([present, other])) return "";
    const { mean, half } = gainAt(present, other, "rare_at_256", record, level, MASS);
    if (mean === null) return ` ${escaped(names[index + 1])} does not come to this pass@1.`;
    return ` Against ${escaped(names[index + 1])}${level === null ? "" : ` at pass@1 of ${short(level, 3)}`}: a rare mode in 256 samples ` +
      `<b>${mean < 0 ? "−" : "+"}${short(Math.abs(mean), 2)}</b> ± ${short(half, 1)}.`;
  }).join("");
}

function histogram(rates) {
  const shares = Array(BINS).fill(0);
  for (const rate of rates) shares[Math.min(Math.floor(rate * BINS), BINS - 1)] += 1 / rates.length;
  return shares;
}

// The solve rates as a histogram: the base model's, and those after training.
function histograms(rates, result, at, look) {
  const base = histogram(rates);
  const place = result ? Math.round(at * (result.step.length - 1)) : 0;
  const now = result ? base.map((_, bin) => result.metrics[`share_${bin}`].mean[place]) : null;
  const bars = (name, y, colour) => ({ type: "bar", name, x: y.map((_, i) => (i + 0.5) / BINS), y, ...axes(1), showlegend: false,
    marker: { color: colour }, hovertemplate: "%{y:.3f}" });
  return [bars("base model", base, look.ink.faint), ...(now ? [bars("trained", now, look.colour(0))] : [])];
}

function compute({ values, description, look, results }) {
  const rareModes = Math.min(values.rare_modes, values.modes - 1);
  const said = rareModes < values.rare_modes ? [`rare modes are fewer than the ${values.modes} modes; held at ${rareModes}`] : [];
  const rates = ratesOf(values);
  const [any, tail] = curvesOf(values);
  const ks = [...new Set(KS)];
  const line = (name, of, options) => look.line(name, ks, ks.map(of), { hovertemplate: "%{y:.4f}", ...options });
  const own = controlsOf("bank", description.controls);
  const names = namesOf([values, ...runsOf(values, SIMULATED, own)], SIMULATED, own);
  const [result] = results;
  const place = placeOf(values, results);
  const traces = [
    line("any answer, base model", any, { colour: 0, width: 1.8, dash: 2 }),
    line("a rare mode, base model", tail, { colour: 1, dash: 2, width: 1.8 }),
    ...trainedTraces(place, results, names, look),
    look.marker([values.k], [any(values.k)], { colour: 0 }),
    look.marker([values.k], [tail(values.k)], { colour: 1 }),
    ...histograms(rates, result, values.at, look),
    ...courseTraces(values.compare, results, names, look),
  ];
  const bars = traces.filter(({ type }) => type === "bar").map(({ y }) => y);
  const layout = look.layout([
    { title: "pass@k", x: { title: "samples k", type: "log", range: [0, Math.log10(KS.at(-1))],
      tickvals: [1, 16, 256, 4096, 65536, 2 ** 20],
      ticktext: ["1", "16", "256", "4096", "65 536", "2<sup>20</sup>"] },
      y: { title: "", range: [-0.02, 1.03] } },
    { title: "solve rates: share of prompts, grey: base model", x: { title: "solve rate", range: [0, 1] },
      y: { title: "", range: rangeOf(bars) } },
    courseAxes(values),
  ], { columns: 2, height: 520 });
  if (!look.narrow) layout.xaxis3.domain = [0, 1];
  layout.bargap = 0.08;
  layout.shapes = [look.hair(values.k, 0)];
  return { traces, layout, readout: readout(values, any, tail, result) + pinnedInWords(place, results, names), command: commands(values, description), said };
}

function courseAxes({ compare: way, steps }) {
  const byMass = way.endsWith(EQUAL_MASS);
  const isDifference = way.startsWith(DIFFERENCE);
  return {
    title: `${isDifference ? "difference from the first" : "over the training"}${byMass ? ", at equal pass@1" : ""}`,
    x: byMass ? { title: "pass@1", range: [0, 1] } : { title: "step", range: [0, steps] },
    y: { title: "", ...(isDifference ? {} : { range: [-0.02, 1.03] }) },
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

// A sweep for each bank that is seen.
const commands = (values, description) =>
  [values, ...runsOf(values, SIMULATED, controlsOf("bank", description.controls))].map((run) => command(run, description)).join(" && ");

function command(values, description) {
  const rareModes = Math.min(values.rare_modes, values.modes - 1);
  const { name: estimator, parameters } = commandWeight(values.weight, description.estimators);
  const own = Object.entries(parameters).map(([key, value]) => `--param estimator.${key}=${value} `).join("");
  const names = ["prompts", "beta_a", "beta_b", "second_share", "second_a", "second_b", "modes"];
  const given = names.map((name) => `--param ${name}=${exact(values[name])}`);
  const ks = [...new Set([1, 4, 16, 64, 256, 1024, values.k])].sort((left, right) => left - right);
  return `simlab sweep --problem prompt_bank --estimator ${estimator} --surrogate reinforce --optimizer ${values.optimizer} ` +
    `--group-size ${values.group_size} --steps ${values.steps} --record-every ${Math.max(Math.round(values.steps / 20), 1)} --seeds ${values.seed + values.seeds} ${own}--pass-at-k ${ks.join(",")} ` +
    `${given.join(" ")} --param rare_modes=${rareModes} --param rare_ratio=${exact(values.rare_ratio)} ` +
    `--param margin=${MARGIN} --param learning_rate=${exact(values.learning_rate)}`;
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
  pinned: { names: SIMULATED, colourOf },
  locked: (setting) => !["at", "k"].includes(setting),
  simulated: { ask, names: SIMULATED, join: joined, seeds: (values) => values.seeds },
};
