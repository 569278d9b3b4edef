import { Router } from "express";
import type { Request, RequestHandler } from "express";
import type { Pool } from "../../database/database.ts";
import { findOutgoingEndpoint } from "../../health/endpoints.sql.ts";
import type { OutgoingEndpoint } from "../../health/endpoints.sql.ts";
import { readStandings } from "../../health/standing.sql.ts";
import { renderForbidden, renderHidden } from "../../html/parts.ts";
import { reviveDead, setEndpointPaused } from "../../outgoing/outgoingPlan.sql.ts";
import { readGaps } from "../../poll/ledger/coverage.sql.ts";
import { requestPeriod } from "../../poll/ledger/periodRequests.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { isPaused, readSource, setPaused } from "../../sources/sources.sql.ts";
import { mayAct, viewerOf } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderPage } from "../html/page.ts";
import { parseForm, readField, readForm, refuse, sendPage } from "../html/requests.ts";
import { carryOut } from "../lists/audit.sql.ts";
import { describeCount, describeMinute, endpointAddress } from "../overview/phrases.ts";

export interface Plan {
  readonly lines: readonly string[];
  /** Exactly how much there is. */
  readonly count: number;
}

/** A remedy that an operator can apply to a source, or to an endpoint of outgoing webhooks, from these pages. */
export interface Remedy {
  readonly title: string;
  readonly action: string;
  /** What it would affect, the first lines of it; nothing to do while it is empty. */
  readonly plan: (pool: Pool, name: string) => Promise<Plan>;
  readonly button: (count: number) => string;
  readonly effect: string;
  /** Resolves with the number of things affected. */
  readonly apply: (pool: Pool, name: string) => Promise<number>;
}

const makePlan = (lines: readonly string[]): Plan => ({ lines, count: lines.length });

/** Orders that a proof excludes until a single read has shown them, the longest known first. */
async function readExcepted(
  pool: Pool,
  { sourceId, limit }: { sourceId: string; limit: number },
): Promise<{ readonly references: readonly string[]; readonly count: number }> {
  const { rows } = await pool.query<{ reference: string; count: number }>(
    `select e.reference, count(*) over ()::int as count
     from mirror.exceptions e join mirror.refetches r using (source_id, reference)
     where source_id = $1 order by e.found_at, e.reference limit $2`,
    [sourceId, limit],
  );
  return { references: rows.map(({ reference }) => reference), count: rows[0]?.count ?? 0 };
}

/** Makes the single reads of these orders due now; returns their number. What they are read for stays recorded. */
async function hastenExcepted(pool: Pool, sourceId: string): Promise<number> {
  const { rowCount } = await pool.query(
    `update mirror.refetches r set next_attempt_at = clock_timestamp()
     from mirror.exceptions e
     where r.source_id = $1 and e.source_id = r.source_id and e.reference = r.reference`,
    [sourceId],
  );
  return rowCount ?? 0;
}

/** More gaps than anybody reads; the next press reads the rest. */
const GAPS_MAX = 50;
const ORDERS_SHOWN = 20;

const SOURCE_REMEDIES: Readonly<Record<string, Remedy>> = {
  "/pause": {
    title: "Pause polling",
    action: "pause",
    plan: async (pool, sourceId) => {
      const isKnown = (await readSource(pool, sourceId)) !== undefined;
      return makePlan(isKnown && !(await isPaused(pool, sourceId)) ? ["Polling runs."] : []);
    },
    button: () => "Pause polling",
    effect:
      "Nothing is read from the provider until somebody resumes; webhooks are still applied. Nothing is lost: the poller then reads what it has missed.",
    apply: async (pool, sourceId) => Number(await setPaused(pool, { sourceId, paused: true })),
  },
  "/resume": {
    title: "Resume polling",
    action: "resume",
    plan: async (pool, sourceId) => makePlan((await isPaused(pool, sourceId)) ? ["Polling is paused."] : []),
    button: () => "Resume polling",
    effect: "The poller continues where it stopped, within its next cycle.",
    apply: async (pool, sourceId) => Number(await setPaused(pool, { sourceId, paused: false })),
  },
  "/gap": {
    title: "Read gaps",
    action: "read_gaps",
    plan: async (pool, sourceId) =>
      makePlan(
        (await findGaps(pool, sourceId)).map(
          ({ since, until }) => `${describeMinute(since)} to ${describeMinute(until)}`,
        ),
      ),
    button: (count) => `Read ${describeCount(count)} ${count === 1 ? "gap" : "gaps"} now`,
    effect: "Each becomes a backfill, which runs next to current polling and within the same request rate.",
    apply: async (pool, sourceId) => {
      const gaps = await findGaps(pool, sourceId);
      for (const gap of gaps) await requestPeriod(pool, { kind: "backfill", sourceId, ...gap });
      return gaps.length;
    },
  },
  "/reread": {
    title: "Read orders again",
    action: "reread",
    plan: async (pool, sourceId) => {
      const { references, count } = await readExcepted(pool, { sourceId, limit: ORDERS_SHOWN });
      return { lines: references, count };
    },
    button: (count) => `Read ${describeCount(count)} ${count === 1 ? "order" : "orders"} again now`,
    effect:
      "The poller reads them one by one, next to current polling, without waiting for their next attempt.",
    apply: hastenExcepted,
  },
};

/** Unproved periods that proved time follows, oldest first; none for an unknown source. */
async function findGaps(pool: Pool, sourceId: string) {
  const [standing] = await readStandings(pool, sourceId);
  const { oldestGap = null, provedUntil = null } = standing ?? {};
  if (oldestGap === null || provedUntil === null) return [];
  const within = { since: oldestGap.since, until: provedUntil };
  return readGaps(pool, { sourceId, within, limit: GAPS_MAX });
}

/** What a remedy is applied to. */
type Kind = "source" | "endpoint";

const SECTIONS = { source: "overview", endpoint: "outgoing" } as const;

/** For each remedy a page that says exactly what would happen, and the action. */
export function makeRemedyRoutes(pool: Pool): Router {
  const router = Router();
  function add(kind: Kind, remedies: Readonly<Record<string, Remedy>>): void {
    for (const [path, remedy] of Object.entries(remedies)) {
      router.get(path, async (request, response) => {
        const name = readField(request.query[kind]);
        const plan = await remedy.plan(pool, name);
        const page = { kind, remedy, path, name, plan };
        sendPage(response, renderPlan(page, viewerOf(response)));
      });
      router.post(path, parseForm, applyRemedy(pool, kind, remedy));
    }
  }
  add("source", SOURCE_REMEDIES);
  add("endpoint", ENDPOINT_REMEDIES);
  return router;
}

function applyRemedy(pool: Pool, kind: Kind, { action, plan, apply }: Remedy): RequestHandler {
  return async (request: Request, response) => {
    const name = readField(readForm(request)[kind]);
    if ((await plan(pool, name)).count === 0) return refuse(response, 409, "There is nothing left to do.");
    const target = `${kind} ${name}`;
    const sourceId = kind === "source" ? name : null;
    await carryOut(pool, response, { action, sourceId, target }, () => apply(pool, name));
  };
}

function renderPlan(
  page: { kind: Kind; remedy: Remedy; path: string; name: string; plan: Plan },
  viewer: Viewer,
): string {
  const { kind, remedy, path, name, plan } = page;
  const { title, button, effect } = remedy;
  const label = button(plan.count);
  const act: Html = mayAct(viewer)
    ? html`<form method="post" action="/ops${path}" class="row">
        ${renderHidden({ [kind]: name })}<button class="main">${label}</button>
      </form>`
    : renderForbidden(label, "Only operators may do this.");
  const body = html`<h1>${title} <span class="dim">${kind} ${name}</span></h1>
    ${
      plan.count === 0
        ? html`<p class="empty">There is nothing to do.</p>`
        : html`<ul>
              ${plan.lines.map((each) => html`<li>${each}</li>`)}
              ${plan.lines.length < plan.count && html`<li>and ${describeCount(plan.count - plan.lines.length)} more</li>`}
            </ul>
            <p>${effect}</p>
            ${act}`
    }
    <p><a href="${kind === "source" ? "/ops" : endpointAddress(name)}">Cancel</a></p>`;
  return renderPage({ title, body, viewer, section: SECTIONS[kind] });
}

/** What an operator can do about an endpoint of outgoing webhooks, by address. */
const ENDPOINT_REMEDIES: Readonly<Record<string, Remedy>> = {
  "/outgoing-pause": {
    title: "Pause the endpoint",
    action: "pause_endpoint",
    plan: planFor(({ pausedAt, pending }) =>
      pausedAt === null ? `${describeMessages(pending)} would wait, and all new ones.` : null,
    ),
    button: () => "Pause",
    effect: "Attempts under way end. Changes are kept until they are sent, within the limits of retention.",
    apply: async (pool, endpointId) => Number(await setEndpointPaused(pool, { endpointId, paused: true })),
  },
  "/outgoing-resume": {
    title: "Resume the endpoint",
    action: "resume_endpoint",
    plan: planFor(({ pausedAt, pending }) =>
      pausedAt === null ? null : `${describeMessages(pending)} would be sent when due.`,
    ),
    button: () => "Resume",
    effect: "Sending continues within ten seconds.",
    apply: async (pool, endpointId) => Number(await setEndpointPaused(pool, { endpointId, paused: false })),
  },
  "/outgoing-retry": {
    title: "Send messages again",
    action: "retry_endpoint",
    plan: planFor(({ dead }) =>
      dead === 0 ? null : `${describeMessages(dead)} that were given up would be sent again.`,
    ),
    button: () => "Send again",
    effect: "They keep their ids, so the receiver can detect repetitions.",
    apply: reviveDead,
  },
};

function planFor(say: (endpoint: OutgoingEndpoint) => string | null): Remedy["plan"] {
  return async (pool: Pool, endpointId) => {
    const endpoint = await findOutgoingEndpoint(pool, endpointId);
    const sentence = endpoint === undefined ? null : say(endpoint);
    return makePlan(sentence === null ? [] : [sentence]);
  };
}

function describeMessages(count: number): string {
  return `Exactly ${describeCount(count)} ${count === 1 ? "message" : "messages"}`;
}
