// Numbers and words as the page writes them.

// A number with a few digits, as a person would write it.
export function short(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "undefined";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(digits)));
  return value.toExponential(Math.max(digits - 2, 0)).replace("e+", "e").replace(/\.?0+e/, "e");
}

// A number that reads back as it is.
export function exact(value) {
  return String(Number(value.toPrecision(12)));
}

// A text that stands in HTML as it is.
export function escaped(text) {
  return text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
}

// An element with attributes and children; `text` is its text.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") made.textContent = value;
    else if (name === "html") made.innerHTML = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
