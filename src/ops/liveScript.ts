/**
 * What keeps the overview current in a browser: plain JavaScript as it is sent. The page is whole without it.
 *
 * The server renders everything; the script only puts it in its place. While the tab is hidden it does not listen.
 */
export const LIVE_SCRIPT = `
const KEPT_LINES = 100;
const state = document.getElementById("state");
const tail = document.getElementById("tail");
const word = document.getElementById("live-word");
const pause = document.getElementById("pause");
const address = tail?.dataset.live;
let source;
let paused = false;
let waiting = [];

function say(text) {
  word.textContent = text;
}

function show(lines) {
  tail.insertAdjacentHTML("afterbegin", lines.toReversed().join(""));
  while (tail.children.length > KEPT_LINES) tail.lastElementChild.remove();
}

function listen() {
  if (source !== undefined || document.hidden) return;
  source = new EventSource(address);
  source.addEventListener("open", () => say("listening"));
  source.addEventListener("error", () => {
    say(source.readyState === EventSource.CLOSED ? "not listening: reload the page" : "connection lost, trying again");
  });
  source.addEventListener("state", (event) => {
    // Replaced under the keyboard's focus, a link would lose it.
    if (!state.contains(document.activeElement)) state.innerHTML = event.data;
  });
  source.addEventListener("entry", (event) => {
    if (!paused) return show([event.data]);
    waiting = [...waiting, event.data].slice(-KEPT_LINES);
    pause.textContent = "Go on (" + waiting.length + " waiting)";
  });
}

function stop() {
  source?.close();
  source = undefined;
}

if (address) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (!paused) show(waiting.splice(0));
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", listen);
  listen();
}
`;
