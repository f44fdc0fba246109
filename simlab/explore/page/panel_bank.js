// Panel 5: pass@k of a bank of prompts of mixed difficulty.

import { bankPassAtK, MARGIN, passAtK, rareShare, solveRates } from "./bank.js";
import { axes, rangeOf } from "./look.js";
import { exact, short } from "./text.js";

const KS = Array.from({ length: 61 }, (_, i) => Math.round(2 ** (i / 3)));
const BINS = 20;

let kept = { key: "", rates: [] };

// The solve rates, computed anew only when the bank is another one.
function ratesOf(values) {
  const { prompts, beta_a, beta_b, second_a, second_b, second_share } = values;
  const key = [prompts, beta_a, beta_b, second_a, second_b, second_share].join(" ");
  if (key !== kept.key) kept = { key, rates: solveRates(values) };
  return kept.rates;
}

function histogram(rates) {
  const shares = Array(BINS).fill(0);
  for (const rate of rates) shares[Math.min(Math.floor(rate * BINS), BINS - 1)] += 1 / rates.length;
  return shares;
}

function compute({ values, look }) {
  const rareModes = Math.min(values.rare_modes, values.modes - 1);
  const said = rareModes < values.rare_modes ? [`rare modes are fewer than the ${values.modes} modes; held at ${rareModes}`] : [];
  const rates = ratesOf(values);
  const share = rareShare({ ...values, rare_modes: rareModes });
  const rare = rates.map((rate) => rate * share);
  const [any, tail] = [rates, rare].map((list) => (k) => bankPassAtK(list, k));
  const spread = [0.1, 0.5, 0.9].map((at) => rates[Math.min(Math.floor(at * rates.length), rates.length - 1)]);
  const ks = [...new Set(KS)];
  const line = (name, of, options) => look.line(name, ks, ks.map(of), { hovertemplate: "%{y:.4f}", ...options });
  const shares = histogram(rates);
  const traces = [
    line("any correct answer, mean over prompts", any, { colour: 0, width: 3 }),
    line("a rare mode, mean over prompts", tail, { colour: 1, dash: 1, width: 2.4 }),
    ...spread.map((rate, index) =>
      line(`the ${["hard (10 %)", "median", "easy (90 %)"][index]} prompt`, (k) => passAtK(rate, k),
        { colour: 2 + index, dash: 2 + (index % 2), width: 1.4 })),
    look.marker([values.k], [any(values.k)], { colour: 0 }),
    look.marker([values.k], [tail(values.k)], { colour: 1 }),
    { type: "bar", name: "share of prompts", x: shares.map((_, i) => (i + 0.5) / BINS), y: shares,
      ...axes(1), showlegend: false, marker: { color: look.colour(0) }, hovertemplate: "%{y:.3f}" },
  ];
  const layout = look.layout([
    { title: "pass@k", x: { title: "samples k", type: "log", range: [0, Math.log10(KS.at(-1))],
      tickvals: [1, 16, 256, 4096, 65536, 2 ** 20],
      ticktext: ["1", "16", "256", "4096", "65 536", "2<sup>20</sup>"] },
      y: { title: "", range: [-0.02, 1.03] } },
    { title: "solve rates: share of prompts", x: { title: "solve rate", range: [0, 1] },
      y: { title: "", range: rangeOf([shares]) } },
  ], { height: 480 });
  layout.bargap = 0.08;
  layout.shapes = [look.hair(values.k, 0)];
  const readout =
    `${values.prompts} prompts: pass@1 <b>${short(any(1), 3)}</b>, pass@${values.k} <b>${short(any(values.k), 3)}</b>; ` +
    `of rare modes <b>${short(tail(values.k), 3)}</b> at ${values.k} samples.`;
  return { traces, layout, readout, command: command(values, rareModes), said };
}

function command(values, rareModes) {
  const names = ["prompts", "beta_a", "beta_b", "second_share", "second_a", "second_b", "modes"];
  const given = names.map((name) => `--param ${name}=${exact(values[name])}`);
  const ks = [...new Set([1, 4, 16, 64, 256, 1024, values.k])].sort((left, right) => left - right);
  return `simlab sweep --problem prompt_bank --estimator grpo --steps 1 --seeds 1 --pass-at-k ${ks.join(",")} ` +
    `${given.join(" ")} --param rare_modes=${rareModes} --param rare_ratio=${exact(values.rare_ratio)} ` +
    `--param margin=${MARGIN} --param learning_rate=0`;
}

export default {
  id: "bank",
  title: "pass@k",
  question: "What does pass@k say of many prompts, and of their rare modes?",
  note: "Each prompt has a solve rate, quantiles of one Beta or two, and some correct modes of which a few are rare. " +
    "Exact: 1 − (1 − p)<sup>k</sup>, averaged over prompts.",
  compute,
};
