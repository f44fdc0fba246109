// Names and values that a person or an address wrote, which may be anything.

const LONGEST = 60; // characters of a text in a message

// What an object holds under a name. Every object answers to names that nobody gave it, such as constructor: these
// are undefined here.
export const entry = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined);

// A text as a message names it: only its beginning, if it is long.
export function cited(text) {
  const whole = String(text);
  return whole.length <= LONGEST ? `'${whole}'` : `'${whole.slice(0, LONGEST)}…' (${whole.length} characters)`;
}
