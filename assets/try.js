// The script of `/docs`, which is complete without it: it sends a GET request with what a person filled in, and shows
// the answer. The token stays in its field: it is neither stored nor part of an address, and it goes only to this
// origin. An answer is untrusted text, so it becomes text content and never markup.
"use strict";
(() => {
  const BODY_MAX = 20000;
  /* Longer than an answer may wait; a stream of changes has no end. */
  const TIME_MAX_MS = 40000;
  const SHOWN =
    /^(content-type|etag|link|retry-after|www-authenticate|ratelimit.*|x-(safe-through.*|mirrored|waited|stale-seconds|source|branches-as-of|request-id))$/;
  const token = document.getElementById("token");
  token.form.addEventListener("submit", (event) => event.preventDefault());
  /* A page that the browser restores would still have it. */
  addEventListener("pagehide", () => {
    token.value = "";
  });

  const addressOf = (form) => {
    let path = form.dataset.path;
    const query = new URLSearchParams();
    for (const { name, value, dataset } of form.elements) {
      if ("pathPart" in dataset) path = path.replace("{" + name + "}", () => encodeURIComponent(value));
      else if (name && value) query.set(name, value);
    }
    return query.size === 0 ? path : path + "?" + query;
  };

  /* Passes what has arrived so far to show; returns how the body ended. */
  const read = async (response, show) => {
    if (!response.body) return "no body";
    if (!/json|text/.test(response.headers.get("content-type") || ""))
      return "the body is not text and is not shown";
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let left = BODY_MAX;
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "";
      text += decoder.decode(value.subarray(0, Math.max(0, left)), { stream: true });
      left -= value.length;
      show(text);
      if (left < 0) return "only the first 20 kB are shown";
    }
  };

  const send = async (form, ending) => {
    const status = form.parentElement.querySelector("[role=status]");
    const answer = form.parentElement.querySelector("pre");
    status.textContent = "Waiting for the answer…";
    answer.hidden = true;
    const begun = performance.now();
    let line = "";
    try {
      const given = token.value.trim();
      const response = await fetch(addressOf(form), {
        headers: given === "" ? {} : { Authorization: "Bearer " + given },
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        referrerPolicy: "no-referrer",
        signal: ending.signal,
      });
      line = [
        response.status,
        response.statusText,
        "after " + Math.round(performance.now() - begun) + " ms",
      ].join(" ");
      status.textContent = line;
      const head = [...response.headers]
        .filter(([name]) => SHOWN.test(name))
        .map((pair) => pair.join(": "))
        .join("\n");
      const show = (text) => {
        answer.textContent = head + "\n\n" + text;
      };
      show("");
      answer.hidden = false;
      const end = await read(response, show);
      if (end) status.textContent = line + "; " + end;
    } catch (error) {
      const why = ending.signal.aborted ? "stopped" : error.message;
      status.textContent = line ? line + "; " + why : "No answer: " + why;
    }
  };

  const running = new WeakMap();
  const sendOrStop = async (form) => {
    if (running.has(form)) return running.get(form).abort();
    const button = form.querySelector("button");
    const ending = new AbortController();
    running.set(form, ending);
    button.textContent = "Stop";
    const timer = setTimeout(() => ending.abort(), TIME_MAX_MS);
    await send(form, ending);
    clearTimeout(timer);
    ending.abort();
    running.delete(form);
    button.textContent = "Send";
  };
  for (const form of document.querySelectorAll(".try form")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void sendOrStop(form);
    });
  }
  document.querySelectorAll("[data-scripted]").forEach((part) => {
    part.hidden = false;
  });
})();
