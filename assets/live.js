// The script of our pages. They are complete without it; it keeps them up to date, and shows their times in local time
// to readers who do not prefer UTC.
//
// A page is loaded again every few seconds, and its parts with `data-live` are replaced. A stream of changes was
// rejected: it needs a second way to render each part, limits, and care for every way in which it ends, while any
// answer of a server or proxy is only one missed load here.
"use strict";
(() => {
  const INTERVAL_MS = 4000;
  const HIDDEN_INTERVAL_MS = 20000;
  const was = new WeakMap();
  for (const element of document.querySelectorAll("[data-live]")) was.set(element, element.innerHTML);
  const word = document.getElementById("updates-word");
  const pause = document.getElementById("pause");
  const zone = document.getElementById("zone");
  const isLive = document.body.hasAttribute("data-updates");

  /* Times: local ones unless the reader prefers UTC. The address and the forms always use UTC. */
  const readZone = () => {
    try {
      return localStorage.getItem("zone");
    } catch {
      return null;
    }
  };
  let isLocal = readZone() !== "utc";
  const MINUTES = "2026-11-22 14:32".length;
  const toLocal = (at) =>
    new Date(at - new Date(at).getTimezoneOffset() * 60000).toISOString().replace("T", " ");
  const shift = (time) => {
    if (!time.dataset.utc) time.dataset.utc = time.textContent;
    const { utc, at = time.dateTime } = time.dataset;
    const instant = Date.parse(at);
    if (Number.isNaN(instant)) return;
    /* The text is the instant from its year, its month or its hour on: as many characters of the local one are shown. */
    const from = /^\d{4}-/.test(utc) ? 0 : /^\d\d-/.test(utc) ? 5 : 11;
    const text = isLocal ? toLocal(instant).slice(from, from + utc.length) : utc;
    const today = (isLocal ? toLocal(Date.now()) : new Date().toISOString()).slice(0, 10);
    /* To the minute, today's date says nothing. */
    time.textContent = utc.length === MINUTES && text.startsWith(today) ? text.slice(11) : text;
  };
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  const showZone = (root) => {
    document.documentElement.dataset.zone = isLocal ? "local" : "utc";
    root.querySelectorAll("time, [data-at]").forEach(shift);
    root.querySelectorAll("[data-zone]").forEach((each) => {
      if (each !== document.documentElement) each.textContent = isLocal ? here : "UTC";
    });
    root.querySelectorAll("[data-copy]").forEach(addCopyButton);
  };
  const COPY = `<svg width="16" height="16" viewBox="0 0 16 16" fill="none" stroke="currentColor" aria-hidden="true">
    <rect x="5.5" y="5.5" width="9" height="9" rx="1.5" /><path d="M10.5 2.5h-7a1 1 0 0 0-1 1v7" /></svg>`;
  const addCopyButton = (name) => {
    if (name.nextElementSibling?.matches(".copy")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.innerHTML = COPY;
    button.title = "Copy " + name.dataset.copy;
    button.setAttribute("aria-label", button.title);
    button.addEventListener("click", () => {
      const copying = navigator.clipboard?.writeText(name.dataset.copy);
      copying?.then(
        () => {
          button.textContent = "✓";
        },
        () => undefined,
      );
    });
    name.after(button);
  };
  const move = (field, sign) => {
    if (!field.value || !isLocal) return;
    const at = Date.parse(field.value + "Z");
    field.value = new Date(at - sign * new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  };
  const minutes = [...document.querySelectorAll("input[type=datetime-local]")];
  const nameZone = () => {
    zone.textContent = isLocal ? "Use UTC" : "Use local time";
  };
  zone.hidden = false;
  zone.addEventListener("click", () => {
    minutes.forEach((field) => move(field, -1));
    isLocal = !isLocal;
    minutes.forEach((field) => move(field, 1));
    try {
      localStorage.setItem("zone", isLocal ? "local" : "utc");
    } catch {
      /* Not kept. */
    }
    nameZone();
    showZone(document);
    dispatchEvent(new Event("zone"));
  });
  nameZone();
  showZone(document);
  minutes.forEach((field) => {
    move(field, 1);
    field.form.addEventListener("formdata", (event) => {
      const at = Date.parse(field.value);
      if (isLocal && !Number.isNaN(at))
        event.formData.set(field.name, new Date(at).toISOString().slice(0, 16));
    });
  });
  /* Empty fields would only lengthen the address. */
  document.querySelectorAll("form.filter").forEach((form) =>
    form.addEventListener("formdata", ({ formData }) => {
      const empty = [...formData].filter(([, value]) => value === "");
      for (const [name] of empty) formData.delete(name);
    }),
  );
  /* On a phone the names of the pages are wider than the window. */
  document.querySelector(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) return;
    event.preventDefault();
    document.querySelector("input[type=search]")?.focus();
  });
  /* What an action has done is said once: a page that is loaded again, or sent to somebody, does not repeat it. */
  const own = new URL(location.href);
  if (own.searchParams.has("did")) {
    for (const name of ["did", "on", "many"]) own.searchParams.delete(name);
    history.replaceState(null, "", own);
  }
  if (!isLive) return;

  /* Replaces the content of an element and keeps the focus and what is unfolded. */
  const STOPS = "a, summary, button, [tabindex]";
  const nameOf = (element) => element.getAttribute("href") || element.textContent;
  const replace = (element, fresh) => {
    if (element.hasAttribute("data-calm") && !isAsked && announce(element, fresh)) return;
    if (was.get(element) === fresh.innerHTML) return;
    const active = element.contains(document.activeElement) ? document.activeElement : null;
    const open = [...element.querySelectorAll("details")].map((details) => details.open);
    const left = element.querySelector(".wide")?.scrollLeft;
    if (element.hasAttribute("data-calm")) pill.hidden = true;
    was.set(element, fresh.innerHTML);
    element.innerHTML = fresh.innerHTML;
    showZone(element);
    element.querySelectorAll("details").forEach((details, index) => {
      details.open = open[index] ?? details.open;
    });
    if (left) element.querySelector(".wide")?.scrollTo({ left });
    if (active) {
      /* Several links may lead to the same page. */
      const same = [...element.querySelectorAll(STOPS)].filter((stop) => nameOf(stop) === nameOf(active));
      const one = same.find((stop) => stop.textContent === active.textContent) ?? same[0];
      one?.focus({ preventScroll: true });
    }
    element.dispatchEvent(new Event("live"));
  };
  /*
   * Rows of a calm list do not move under the pointer: those that stay are renewed where they stand, those that have left
   * are marked, and a button counts both and shows the list as it is.
   */
  let isAsked = false;
  const keyOf = (row) => row.dataset.key;
  const pill = document.createElement("button");
  pill.type = "button";
  pill.id = "pill";
  pill.className = "main";
  pill.hidden = true;
  pill.addEventListener("click", () => {
    isAsked = true;
    pill.disabled = true;
    load()
      .catch(note)
      .finally(() => {
        isAsked = false;
        pill.disabled = false;
      });
  });
  document.querySelector("[data-calm]")?.before(pill);
  const announce = (element, fresh) => {
    const rows = [...element.querySelectorAll("tbody tr")];
    const others = new Map([...fresh.querySelectorAll("tbody tr")].map((row) => [keyOf(row), row]));
    const known = new Set(rows.map(keyOf));
    const isSame = [...others.keys()].join() === rows.map(keyOf).join();
    pill.hidden = isSame || rows.length === 0;
    if (pill.hidden) return false;
    /* What stands here is no answer of the server any more. */
    was.delete(element);
    for (const row of rows) {
      const other = others.get(keyOf(row));
      row.classList.toggle("left", !other);
      if (other && !row.contains(document.activeElement)) row.innerHTML = other.innerHTML;
    }
    showZone(element);
    const added = [...others.keys()].filter((key) => !known.has(key)).length;
    const left = rows.filter((row) => row.matches(".left")).length;
    const said = [added && added + " new", left && left + " left this list"].filter(Boolean);
    pill.textContent = (said.join(", ") || "Order changed") + ": show";
    return true;
  };
  const isSelecting = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && selection.anchorNode?.parentElement?.closest("[data-live]");
  };

  let updatedAt = Date.now();
  let trouble = "";
  let isPaused = false;
  const tell = () => {
    const seconds = Math.round((Date.now() - updatedAt) / 1000);
    const why = isPaused ? "paused by you" : isSelecting() ? "paused while text is selected" : trouble;
    word.className = trouble && !isPaused ? "alert" : "";
    word.textContent = why
      ? "Not updating: " + why + "; as of " + seconds + " s ago"
      : "\u25cf Updated " + seconds + " s ago";
  };
  let version = "";
  const load = async () => {
    const response = await fetch(location.href, {
      headers: { Accept: "text/html", ...(version && !isAsked && { "If-None-Match": version }) },
      cache: "no-store",
      signal: AbortSignal.timeout(15000),
    });
    if (new URL(response.url).pathname.endsWith("/ops/login"))
      throw new Error("your login has ended: reload the page");
    if (response.status === 304) {
      updatedAt = Date.now();
      trouble = "";
      return;
    }
    if (!response.ok && response.status !== 404)
      throw new Error("the server answers " + response.status + ", trying again");
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (isPaused || isSelecting()) return;
    version = response.headers.get("ETag") ?? "";
    for (const element of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(element.id);
      if (other) replace(element, other);
    }
    document.title = fresh.title;
    const icon = fresh.querySelector("link[rel=icon]");
    if (icon) document.querySelector("link[rel=icon]").href = icon.href;
    updatedAt = Date.now();
    trouble = "";
  };
  const note = (error) => {
    trouble =
      error instanceof TypeError || error.name === "TimeoutError"
        ? "the server cannot be reached, trying again"
        : error.message;
  };
  const run = async () => {
    const begun = Date.now();
    if (!isPaused && !isSelecting()) await load().catch(note);
    /* A page that is slow to make is loaded less often, and so is one that nobody sees: its title and icon still tell. */
    const interval = document.hidden ? HIDDEN_INTERVAL_MS : INTERVAL_MS;
    setTimeout(() => void run(), Math.max(interval, 10 * (Date.now() - begun)));
  };
  pause.hidden = false;
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    tell();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !isPaused) load().catch(() => undefined);
  });
  setInterval(tell, 1000);
  setTimeout(() => void run(), INTERVAL_MS);
})();
