// Methods as text, f_grpo(gamma=0.5)+clip_higher@token_mean: the language of simlab.grammar, read by the same rules.

import { cited } from "./names.js";

const LONGEST_ARM = 1000; // characters
const LONGEST_NUMBER = 32;
const WORD_SIGN = "[\\p{L}\\p{N}_]";
const FIRST_SIGN = "[\\p{L}\\p{Nl}\\p{No}_]"; // a word sign that is no digit
const NAME = new RegExp(`(?:(?:${WORD_SIGN}|[./-])+:${FIRST_SIGN}${WORD_SIGN}*|[a-z0-9_]+)`, "uy");
const AGGREGATION = /[a-z_]+/uy;
const PARAMETER = new RegExp(`^${FIRST_SIGN}${WORD_SIGN}*$`, "u");
const WORD = new RegExp(`^(?:${WORD_SIGN}|[.+/:-])+$`, "u");
const INSIDE = /[^()]*/uy;
const NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
const WORDS = ["none", "true", "false"]; // in any letters

// {base, added, aggregation} of a text, each part {name, parameters}, and those pairs of name and value; throws what is
// wrong with it.
export function read(text) {
  if ([...text].length > LONGEST_ARM) {
    throw new Error(`estimator ${cited(text)} is too long; allowed: up to ${LONGEST_ARM} characters`);
  }
  const reader = new Reader(text);
  const base = reader.part();
  const added = [];
  while (reader.takes("+")) added.push(reader.part());
  const aggregation = reader.takes("@") ? reader.take(AGGREGATION, "an aggregation") : null;
  reader.end();
  return { base, added, aggregation };
}

class Reader {
  constructor(text) {
    this.text = text;
    this.place = 0;
  }

  skipSpaces() {
    while (this.text[this.place] === " ") this.place += 1;
  }

  takes(sign) {
    this.skipSpaces();
    const found = this.text[this.place] === sign;
    if (found) this.place += 1;
    return found;
  }

  take(pattern, due) {
    this.skipSpaces();
    pattern.lastIndex = this.place;
    const found = pattern.exec(this.text);
    if (!found) this.refuse(due);
    this.place = pattern.lastIndex;
    return found[0];
  }

  end() {
    this.skipSpaces();
    if (this.place < this.text.length) this.refuse("( + @ or the end");
  }

  part() {
    const name = this.take(NAME, "a name");
    if (!this.takes("(")) return { name, parameters: [] };
    const inside = this.take(INSIDE, "parameters");
    if (!this.takes(")")) this.refuse(")");
    return { name, parameters: parametersOf(inside, name) };
  }

  refuse(due) {
    const where = this.place < this.text.length ? `character ${this.place + 1}` : "its end";
    throw new Error(`estimator ${cited(this.text)} cannot be read at ${where}, where ${due} is due; ` +
      "allowed: such as grpo, asym_grpo(delta=0.5)");
  }
}

const trimmed = (text) => text.replace(/^ +| +$/g, "");

function parametersOf(inside, part) {
  const found = new Map();
  for (const pair of trimmed(inside) ? inside.split(",") : []) {
    const equals = pair.indexOf("=");
    const [name, value] = [pair.slice(0, equals), pair.slice(equals + 1)].map(trimmed);
    if (equals < 0 || !PARAMETER.test(name) || !WORD.test(value)) {
      throw new Error(`estimator ${cited(part)}: ${cited(trimmed(pair))} cannot be read; allowed: NAME=VALUE`);
    }
    if (found.has(name)) throw new Error(`estimator ${cited(part)}: ${cited(name)} stands twice; allowed: once`);
    found.set(name, valueOf(value));
  }
  return [...found];
}

// A number, or a word.
function valueOf(text) {
  if (!NUMBER.test(text)) return WORDS.includes(text.toLowerCase()) ? text.toLowerCase() : text;
  if (text.length > LONGEST_NUMBER) {
    throw new Error(`the number ${cited(text)} is too long; allowed: up to ${LONGEST_NUMBER} characters`);
  }
  if (!Number.isFinite(Number(text))) throw new Error(`the number ${text} is too large; allowed: up to 1.7e308`);
  return Number(text);
}
