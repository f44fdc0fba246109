// Results that are dropped on the page or chosen in a dialogue: the server opens them, and the page begins anew with them.

const byId = (id) => document.getElementById(id);

// Listen for files; `say(text)` hears of what goes on, `fail(text)` of what was wrong.
export function listenForFiles({ server, say, fail }) {
  const open = async (file, isFolder) => {
    if (!file) return;
    if (!server || isFolder) {
      fail(`${file.name} ${isFolder ? "is a folder" : "needs the server"}; open it with: simlab explore ${file.name}`);
      return;
    }
    say(`opening ${file.name}`);
    try {
      show(await settingsOf(file));
    } catch (error) {
      say("");
      fail(error.message);
    }
  };
  byId("open").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", () => {
    open(byId("file").files[0], false);
    byId("file").value = "";
  });
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return; // text may be dropped into a field as ever
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.remove("dropping");
    const [item] = event.dataTransfer.items;
    open(event.dataTransfer.files[0], Boolean(item?.webkitGetAsEntry?.()?.isDirectory));
  });
}

// The settings that show a file, which the server has opened then.
async function settingsOf(file) {
  const headers = { "Content-Type": "application/octet-stream" };
  const answer = await fetch(`open?${new URLSearchParams({ name: file.name })}`, { method: "POST", headers, body: file })
    .catch(() => { throw new Error("the server cannot be reached; is it still running?"); });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found.settings;
}

// Load the page anew, with the panel of results; all other panels stay as they are.
function show(settings) {
  const address = new URLSearchParams(window.location.hash.slice(1));
  for (const name of [...address.keys()]) if (name.startsWith("results.") || ["preset", "tour"].includes(name)) address.delete(name);
  address.set("panel", "results");
  for (const [name, value] of Object.entries(settings)) address.set(name, value);
  window.history.replaceState(null, "", `#${address}`);
  window.location.reload();
}
