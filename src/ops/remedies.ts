import { Router, type RequestHandler } from "express";
import type { Pool } from "../database/database.ts";
import type { Button } from "../health/conditions/condition.ts";
import { readStandings } from "../health/conditions/standing.ts";
import type { Holding } from "../health/judge.ts";
import { html, type Html } from "../html/html.ts";
import { renderAction, renderGood } from "../html/parts.ts";
import { planTest, removeEndpoint, sendNow, setEndpointPaused } from "../outgoing/outgoingEndpoints.sql.ts";
import { readGaps } from "../poll/coverage.sql.ts";
import { readOpenRequests, requestPeriod } from "../poll/periodRequests.sql.ts";
import { retryExceptionsNow } from "../poll/refetches.sql.ts";
import { setPaused } from "../sources/sources.sql.ts";
import { runAudited } from "./auditLog.ts";
import { announce, mayAct, parseForm, readField, readFormField, viewerOf, type Viewer } from "./page.ts";

/** Action that takes an operator one press: each can be undone, only reads again, or says what it removes. */
interface Remedy {
  /** Kind of thing that it is applied to. */
  readonly of: "source" | "endpoint";
  readonly button: string;
  /** Name in the audit log. */
  readonly action: string;
  /** Sentence of the page once it is done. */
  readonly done: string;
  /** Warning of one that nothing takes back: the button appears once it was unfolded. */
  readonly warning?: string;
  /** Remedy that takes it back. */
  readonly undo?: "pause" | "resume" | "outgoing-pause" | "outgoing-resume";
  /** Resolves with the number of things affected. */
  readonly apply: (pool: Pool, name: string) => Promise<number>;
}

/** More gaps than anybody reads; the next press reads the rest. */
const GAPS_MAX = 50;

const REMEDIES = {
  pause: {
    of: "source",
    button: "Pause polling",
    action: "pause",
    done: "Polling is paused; events are still received.",
    undo: "resume",
    apply: async (pool, sourceId) => Number(await setPaused(pool, { sourceId, paused: true })),
  },
  resume: {
    of: "source",
    button: "Resume polling",
    action: "resume",
    done: "Polling is no longer paused; the poller goes on with its next cycle.",
    undo: "pause",
    apply: async (pool, sourceId) => Number(await setPaused(pool, { sourceId, paused: false })),
  },
  gap: {
    of: "source",
    button: "Read the gaps now",
    action: "read_gaps",
    done: "The gaps are requested; the poller reads them next, or once polling is resumed.",
    apply: requestGaps,
  },
  reread: {
    of: "source",
    button: "Read these orders again now",
    action: "reread",
    done: "These orders are due now; the poller reads them next, or once polling is resumed.",
    apply: retryExceptionsNow,
  },
  "outgoing-pause": {
    of: "endpoint",
    button: "Pause this endpoint",
    action: "pause_endpoint",
    done: "The endpoint is paused; its messages are kept.",
    undo: "outgoing-resume",
    apply: async (pool, endpointId) => Number(await setEndpointPaused(pool, { endpointId, paused: true })),
  },
  "outgoing-resume": {
    of: "endpoint",
    button: "Resume this endpoint",
    action: "resume_endpoint",
    done: "The endpoint is no longer paused; what waits is due now.",
    undo: "outgoing-pause",
    apply: async (pool, endpointId) => Number(await setEndpointPaused(pool, { endpointId, paused: false })),
  },
  "outgoing-retry": {
    of: "endpoint",
    button: "Send these messages again",
    action: "retry_endpoint",
    done: "The messages that were given up wait again; a worker that lists the endpoint sends them now, or once it is resumed.",
    apply: (pool, endpointId) => sendNow(pool, endpointId, "dead"),
  },
  "outgoing-now": {
    of: "endpoint",
    button: "Send what waits now",
    action: "hasten_endpoint",
    done: "What waits is due now.",
    apply: (pool, endpointId) => sendNow(pool, endpointId, "pending"),
  },
  "outgoing-test": {
    of: "endpoint",
    button: "Send a test",
    action: "test_endpoint",
    done: "A test waits; a worker that lists the endpoint sends it now, or once it is resumed, and its message shows how it ends.",
    apply: async (pool, endpointId) => Number(await planTest(pool, endpointId)),
  },
  "outgoing-remove": {
    of: "endpoint",
    button: "Forget this endpoint and its messages",
    action: "remove_endpoint",
    warning:
      "Its messages and its place in the feed are deleted for good; a worker that lists it begins anew.",
    done: "The endpoint and its messages are forgotten.",
    apply: async (pool, endpointId) => Number(await removeEndpoint(pool, endpointId)),
  },
} as const satisfies Readonly<Record<Button, Remedy> & Record<string, Remedy>>;

type RemedyName = keyof typeof REMEDIES;

/** The actions, which lead to their entry in the audit log. */
export function makeRemedyRoutes(pool: Pool): Router {
  const router = Router();
  for (const [name, { of, action, apply }] of Object.entries<Remedy>(REMEDIES))
    router.post(`/${name}`, parseForm, async (request, response) => {
      const subject = readFormField(request, of);
      const target = `${of} ${subject}`;
      const sourceId = of === "source" ? subject : null;
      await runAudited(pool, response, { action, sourceId, target }, () => apply(pool, subject));
    });
  return router;
}

/** Sentences of what other pages do: processing again, dismissing, and reading one order. */
const OTHER_DEEDS: Readonly<Record<string, string>> = {
  retry: "To be processed again; what still fails returns under a new number.",
  dismiss: "Dismissed: no more alerts; what it says is still missing in the mirror.",
  refetch: "The order is read next, or once polling is resumed.",
};

/**
 * Says on the page where an action was pressed what it has done, with a button that takes it back where there is one.
 */
export const sayDone: RequestHandler = ({ query }, response, next) => {
  const [did, on, many] = ["did", "on", "many"].map((name) => readField(query[name]));
  const remedy = Object.values<Remedy>(REMEDIES).find(({ action }) => action === did);
  const sentence = remedy?.done ?? OTHER_DEEDS[did ?? ""];
  if (sentence !== undefined) {
    const [, subject = ""] = /^\w+ (.*)$/.exec(on ?? "") ?? [];
    const viewer = viewerOf(response);
    const undo =
      remedy?.undo !== undefined
        ? renderRemedyButton(remedy.undo, subject, viewer)
        : did === "dismiss" && mayAct(viewer) && renderDismissed(subject);
    const said = Number(many) === 0 ? "Nothing was left to do: somebody else was faster." : sentence;
    announce(
      response,
      html`<div class="done row" role="status">${renderGood(`${on}: ${said}`)} ${undo}</div>`,
    );
  }
  next();
};

/** The way to take a dismissal back: of one entry its button, of many their list. */
function renderDismissed(subject: string): Html {
  if (!/^\d+$/.test(subject)) return html`<a href="/ops/quarantine?state=dismissed">See them</a>`;
  return renderAction("/ops/quarantine/retry", "Process again", { id: subject, through: subject });
}

/**
 * Unproved periods that proved time follows become backfills, oldest first, unless they are requested already; none for
 * an unknown source.
 */
async function requestGaps(pool: Pool, sourceId: string): Promise<number> {
  const [standing] = await readStandings(pool, sourceId);
  const { oldestGap = null, provedUntil = null } = standing ?? {};
  if (oldestGap === null || provedUntil === null) return 0;
  const within = { since: oldestGap.since, until: provedUntil };
  const requests = await readOpenRequests(pool, sourceId);
  const resting = requests.filter(({ kind }) => kind === "backfill");
  const gaps = await readGaps(pool, { sourceId, within, limit: GAPS_MAX, resting });
  for (const gap of gaps) await requestPeriod(pool, { kind: "backfill", sourceId, ...gap });
  return gaps.length;
}

/** The button of a remedy, for those who may press it. */
export function renderRemedyButton(name: RemedyName, subject: string, viewer: Viewer): Html {
  const { of, button, warning }: Remedy = REMEDIES[name];
  if (!mayAct(viewer)) return html``;
  const action = renderAction(`/ops/${name}`, button, { [of]: subject });
  if (warning === undefined) return action;
  return html`<details>
    <summary>${button} …</summary>
    <p class="warn">${warning}</p>
    ${action}
  </details>`;
}

/** Renders the button of a condition; nothing if a person has to look first, here or elsewhere. */
export function renderRemedy({ condition, subject }: Holding, viewer: Viewer): Html {
  const { button } = condition;
  return button === undefined ? html`` : renderRemedyButton(button, subject, viewer);
}
