// Numbers and words as the page writes them, elements, and requests to the server.

export const byId = (id) => document.getElementById(id);

const LONGEST_CITED = 60; // characters of a text in a message

export function short(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "undefined";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(digits)));
  return value.toExponential(Math.max(digits - 2, 0)).replace("e+", "e").replace(/\.?0+e/, "e");
}

// A whole number as a power of two, if it is one.
export const power = (value) => (Number.isInteger(Math.log2(value)) ? `2<sup>${Math.log2(value)}</sup>` : short(value, 6));

export const exact = (value) => String(Number(value.toPrecision(12)));
export const written = (value) => (typeof value === "number" ? exact(value) : value); // a setting, as an address or a command has it

export const signed = (value, digits) => `${value < 0 ? "−" : "+"}${short(Math.abs(value), digits)}`;

// A text as a message names it: only its beginning, if it is long.
export function cited(value) {
  const text = String(value);
  return text.length <= LONGEST_CITED ? `'${text}'` : `'${text.slice(0, LONGEST_CITED)}…' (${text.length} characters)`;
}

export const escaped = (text) =>
  text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name === "html") node.innerHTML = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const GONE = "the server cannot be reached; is it still running?";

// Ask the server at a path, or give it a file; throws what is wrong with the question.
export async function post(path, question, signal) {
  const [body, type] = question instanceof File ? [question, "octet-stream"] : [JSON.stringify(question), "json"];
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": `application/${type}` }, body, signal })
    .catch((error) => { throw error.name === "AbortError" ? error : new Error(GONE); });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer;
}
