// Questions of a panel: slices of open results, masses, banks. The server answers them, and the latest settings win; a page
// without a server looks them up among those that were answered in advance.

import { least } from "./closed_forms.js";
import { readWeight, writeWeight } from "./settings.js";
import { post } from "./text.js";

const MOST_ANSWERS = 256;

const keyOf = (path, question) => JSON.stringify([path, question]);

export class Reader {
  // `onAnswers()` hears that the last questions are answered, `onError(text)` of what is wrong with them.
  constructor(description, onAnswers, onError) {
    Object.assign(this, { description, onAnswers, onError });
    this.latest = "";
    this.answers = new Map(); // by question: an answer, or a promise that it comes
  }

  // The answers to some questions at a path, null while they have not come; they are asked for then. Those to the questions that a
  // drag would ask `next` are fetched ahead, so that a drag seldom waits.
  ask(path, questions, next = []) {
    if (!this.description.server) return questions.map((question) => IN_ADVANCE[path](question, this.description));
    const keys = questions.map((question) => keyOf(path, question));
    this.latest = keys.join();
    const answers = keys.map((key) => this.answers.get(key));
    const isKnown = answers.every((answer) => answer && !(answer instanceof Promise));
    const ifLatest = (hear) => (error) => { if (keys.join() === this.latest) hear(error?.message); };
    if (!isKnown) this.fetchMissing(path, questions).then(ifLatest(this.onAnswers), ifLatest(this.onError));
    this.fetchMissing(path, next).catch(() => {}); // what is wrong with one is said when it is asked
    return isKnown ? answers : null;
  }

  // Have the answers to all questions, by one request for those that are neither here nor on their way.
  async fetchMissing(path, questions) {
    const missing = questions.filter((question) => !this.answers.has(keyOf(path, question)));
    if (missing.length) {
      const answers = post(path, missing).then((answer) => answer.json());
      missing.forEach((question, i) => {
        const key = keyOf(path, question);
        this.answers.set(key, answers.then((all) => { this.answers.set(key, all[i]); }, (error) => {
          this.answers.delete(key);
          throw error;
        }));
      });
      for (const key of [...this.answers.keys()].slice(0, -MOST_ANSWERS)) this.answers.delete(key);
    }
    await Promise.all(questions.map((question) => this.answers.get(keyOf(path, question))));
  }
}

// Answers in advance

const IN_ADVANCE = {
  result: () => null, // without a server there are no results
  advantages: () => ({ refused: "graded rewards need the server: simlab explore" }),
  // The nearest table of an estimator: `shown` and `group_size` say of which weight and groups it is.
  masses({ weight, group_size: size }, { estimators, answers }) {
    const { name, parameters } = readWeight(weight, estimators);
    const table = least(answers.masses[name], (other) => distance(estimators[name].parameters, parameters, other.parameters));
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

// The distance of two sets of an estimator's parameters, each at its default where it is not named.
export const distance = (known, one, other) => Object.entries(known).reduce((sum, [key, parameter]) =>
  sum + apart(parameter, one[key] ?? parameter.default, other[key] ?? parameter.default), 0);
