// Questions of a panel: slices of open results, masses, banks. The server answers them, and the latest settings win; a page
// without a server looks them up among those that were answered in advance.

import { post } from "./server.js";
import { readWeight, writeWeight } from "./settings.js";

const MOST_ANSWERS = 128;

export class Reader {
  // `onAnswers()` hears that the last questions are answered, `onError(text)` of what is wrong with them.
  constructor(description, onAnswers, onError) {
    Object.assign(this, { description, onAnswers, onError });
    this.latest = "";
    this.answers = new Map();
  }

  // The answers to some questions at a path, null while they have not come; they are asked for then.
  ask(path, questions) {
    const keys = questions.map((question) => JSON.stringify([path, question]));
    this.latest = keys.join();
    if (!this.description.server) return questions.map((question) => IN_ADVANCE[path](question, this.description));
    if (keys.every((key) => this.answers.has(key))) return keys.map((key) => this.answers.get(key));
    this.fetchAll(path, questions, keys);
    return null;
  }

  async fetchAll(path, questions, keys) {
    const latest = keys.join();
    if (this.pending === latest) return;
    this.pending = latest;
    try {
      await Promise.all(questions.map(async (question, i) => {
        if (!this.answers.has(keys[i])) this.answers.set(keys[i], await (await post(path, question)).json());
      }));
      for (const key of [...this.answers.keys()].slice(0, -MOST_ANSWERS)) if (!keys.includes(key)) this.answers.delete(key);
      if (latest === this.latest) this.onAnswers();
    } catch (error) {
      if (latest === this.latest) this.onError(error.message);
    } finally {
      if (this.pending === latest) this.pending = "";
    }
  }
}

// Answers in advance

const IN_ADVANCE = {
  result: () => null, // without a server there are no results
  // The nearest table of an estimator: `shown` and `group_size` say of which weight and groups it is.
  masses({ weight, group_size: size }, { estimators, answers }) {
    const { name, parameters } = readWeight(weight, estimators);
    const distanceTo = (table) => Object.entries(estimators[name].parameters).reduce((sum, [key, known]) =>
      sum + apart(known, parameters[key] ?? known.default, table.parameters[key]), 0);
    const table = least(answers.masses[name], distanceTo);
    const groupSize = least(Object.keys(table.groups).map(Number), (other) => Math.abs(Math.log(other / size)));
    const group = table.groups[groupSize];
    const sides = ({ success, failure, rates, ...more }) =>
      ({ ...more, success, failure: failure ?? success, rates: rates ?? success.map((_, i) => i / (success.length - 1)) });
    const known = Object.fromEntries(Object.entries(table.parameters).filter(([key]) => key in parameters));
    const differing = Object.entries(table.parameters).filter(([key, value]) => value !== (parameters[key] ?? estimators[name].parameters[key].default));
    return { ...sides(group), limit: table.limit && sides(table.limit), group_size: groupSize,
      shown: writeWeight({ name, parameters: { ...known, ...Object.fromEntries(differing) } }) };
  },
  bank(question, { answers }) {
    const text = JSON.stringify(question);
    return answers.bank.find((known) => JSON.stringify(known.question) === text)?.answer ?? null;
  },
};

// The distance of two values of a parameter: a share of its slider, and far for choices.
function apart({ choices, low, high, scale }, value, other) {
  if (value === other) return 0;
  if (choices.length) return 10;
  return scale === "log" ? Math.abs(Math.log(value / other) / Math.log(high / low)) : Math.abs(value - other) / (high - low);
}

// The item with the least distance, the first of these.
const least = (items, distanceTo) => items.reduce((best, item) => (distanceTo(item) < distanceTo(best) ? item : best));
