// Requests to the server.

export const GONE = "the server cannot be reached; is it still running?";

// Ask the server at a path; throws what is wrong with the question.
export async function post(path, body, signal) {
  const text = JSON.stringify(body);
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: text, signal })
    .catch((error) => { throw error.name === "AbortError" ? error : new Error(GONE); });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer;
}
