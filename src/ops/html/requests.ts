import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { urlencoded } from "express";
import type { Request, RequestHandler, Response } from "express";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderPage, withoutTime } from "./page.ts";

/** A parameter's text; empty if it is absent or given twice. NUL, which Postgres refuses, is removed. */
export function readField(value: unknown): string {
  return typeof value === "string" ? value.replaceAll("\0", "") : "";
}

/** Parses the form of a request, for readForm. */
export const parseForm: RequestHandler = urlencoded({ extended: false, limit: "8kb" });

/** The fields of a form; none if there was no form. */
export function readForm(request: Request): Readonly<Record<string, unknown>> {
  return (request.body ?? {}) as Record<string, unknown>;
}

/** The value of a cookie; empty where there is none. */
export function readCookie({ headers }: IncomingMessage, name: string): string {
  const cookies = (headers.cookie ?? "").split(";").map((pair) => pair.trim().split("=", 2));
  return cookies.find(([each]) => each === name)?.[1] ?? "";
}

/** Sends a page, or 304 if it shows what the browser has already. */
export function sendPage(response: Response, markup: string): void {
  const tag = createHash("sha256").update(withoutTime(markup)).digest("base64url");
  // Weak: the same page may be sent compressed.
  response.set("ETag", `W/"${tag}"`).type("html");
  if (response.req.get("If-None-Match")?.includes(tag) === true && response.statusCode === 200)
    response.status(304).end();
  else response.send(markup);
}

/** Answers with one sentence: as a page to people, as text to programs. */
export function refuse(response: Response, status: number, sentence: string): void {
  response.status(status);
  const viewer = response.locals["viewer"] as Viewer | undefined;
  if (!(response.req.headers.accept ?? "").includes("text/html")) {
    response.type("text/plain").send(`${sentence}\n`);
    return;
  }
  const title = TITLES[status] ?? "This did not work";
  const body = html`<h1>${title}</h1>
    <p>${sentence}</p>
    <p><a class="button" href="/ops/start">Back to the first page</a></p>`;
  response.type("html").send(renderPage({ title, body, ...(viewer && { viewer }) }));
}

const TITLES: Readonly<Record<number, string>> = {
  403: "Not allowed",
  404: "Not found",
  409: "Nothing to do",
  429: "Too many attempts",
  503: "Not available now",
};

/**
 * A labelled list of words to choose from in a form. Unless `any` is null, none of them may be chosen as well. A link may
 * have chosen another word, such as a value that no order has now: it is shown, too.
 */
export function renderChoice(choice: {
  label: string;
  name: string;
  words: readonly string[];
  /** Null or empty: none. */
  chosen: string | null;
  /** What the choice of none is called; default: any. */
  any?: string | null;
  /** A word as people read it; default: as it is. */
  describe?: ((word: string) => string) | undefined;
}): Html {
  const { label, name, words, chosen, any = "any", describe = (word) => word } = choice;
  const all = chosen === null || chosen === "" || words.includes(chosen) ? words : [...words, chosen];
  return html`<label
    >${label}
    <select name="${name}">
      ${any !== null && html`<option value="">${any}</option>`}
      ${all.map((word) => html`<option value="${word}" ${word === chosen && html`selected`}>${describe(word)}</option>`)}
    </select></label
  >`;
}
