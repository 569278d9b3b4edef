import { Router, type Request } from "express";
import { VERDICT_SENTENCES } from "../../apply/verdicts.ts";
import { runAudited } from "../auditLog.ts";
import type { Pool } from "../../database/database.ts";
import { describeException, describeWaitingRead } from "../../orders/openQuestions.ts";
import { describeDelay, secondsSince } from "../../domain/duration.ts";
import { tryParseInstant } from "../../domain/order/instant.ts";
import type { HealthReader } from "../../health/health.ts";
import { orderAddress } from "../../health/pageAddresses.ts";
import { html, type Html } from "../../html/html.ts";
import { renderAction, renderAlert, renderFields, renderInstant, renderName } from "../../html/parts.ts";
import {
  readDelivery,
  readOrderSurroundings,
  readTimeline,
  type Delivery,
  type OrderSurroundings,
  type TimelineEntry,
  type UnannouncedChange,
} from "../../orders/orderStory.sql.ts";
import { mayAct, readField, sendRefusal, sendPage, viewerOf, type Page, type Viewer } from "../page.ts";
import { countOf, linkEvent, renderFreshness } from "../phrases.ts";
import { requestRefetches } from "../../poll/refetches.sql.ts";
import { readMoment, renderDelivery, type Moment } from "./delivery.ts";
import { diffSnapshots, redactDocument, type FieldChange } from "./snapshotDiff.ts";

const ENTRIES_MAX = 200;

/** The page of one order, and the request for a single read. */
export function makeOrderRoutes({ pool, health }: { pool: Pool; health: HealthReader }): Router {
  const router = Router();
  router.get("/orders/:source{/:reference}", async (request, response, next) => {
    const { sourceId, reference } = readOrderName(request);
    if (reference === "") return next();
    const [{ facts }, delivery, timeline, around] = await Promise.all([
      health.read(),
      readDelivery(pool, { sourceId, reference }),
      readTimeline(pool, { sourceId, reference, limit: ENTRIES_MAX }),
      readOrderSurroundings(pool, { sourceId, reference }),
    ]);
    const known = delivery !== undefined || timeline.length > 0;
    const story = {
      sourceId,
      reference,
      delivery,
      timeline,
      around,
      moment: readMoment(facts),
      freshness: renderFreshness(facts.sources.filter((source) => source.sourceId === sourceId)),
      viewer: viewerOf(response),
    };
    sendPage(response.status(known ? 200 : 404), renderOrder(story));
  });
  router.post("/orders/:source{/:reference}/refetch", async (request, response, next) => {
    const { sourceId, reference } = readOrderName(request);
    if (reference === "") return next();
    const { sourceKnown } = await readOrderSurroundings(pool, { sourceId, reference });
    // Nobody polls an unknown source, so a request for it would wait forever.
    if (!sourceKnown) return sendRefusal(response, 404, "This source does not exist.");
    const read = { sourceId, references: [reference], reason: "requested by a person" };
    const action = { action: "refetch", sourceId, target: reference };
    const run = () => requestRefetches(pool, read).then(() => 1);
    await runAudited(pool, response, action, run, { otherwise: orderAddress({ sourceId, reference }) });
  });
  return router;
}

/** Reads the name of an order as orderAddress writes it. */
function readOrderName({ params, query }: Request): { sourceId: string; reference: string } {
  return {
    sourceId: readField(params["source"]),
    reference: readField(params["reference"] ?? query["reference"]),
  };
}

interface OrderStory {
  readonly sourceId: string;
  readonly reference: string;
  /** Undefined if the mirror has no state of it. */
  readonly delivery: Delivery | undefined;
  readonly timeline: readonly TimelineEntry[];
  readonly around: OrderSurroundings;
  readonly moment: Moment;
  /** Reach of the source's data, as the page says it. */
  readonly freshness: Html;
  readonly viewer: Viewer;
}

/** Renders the delivery, and below it every observation with both clocks, the decision, and the reason. */
function renderOrder(story: OrderStory): Page {
  const { sourceId, reference, delivery, timeline, moment, freshness } = story;
  const cut =
    timeline.length >= ENTRIES_MAX &&
    html`<p class="dim">Only the newest ${ENTRIES_MAX} observations are shown.</p>`;
  const body = html`<h1>Order ${renderName(reference)}</h1>
    <div id="order" data-live>
      ${freshness}
      ${delivery === undefined ? html`<p>The mirror has no state of this order in source ${sourceId}.</p>` : renderDelivery({ delivery, timeline, moment })}
      ${renderMarks(story)} ${renderRefetch(story)}
      <h2>Evidence, newest first</h2>
      ${cut} ${timeline.length === 0 ? html`<p class="empty">No observations.</p>` : renderTimeline(story)}
      ${delivery !== undefined && renderSnapshot(delivery)}
    </div>
    <p class="dim">
      Changes and events carry the provider's time; receipts and decisions carry the database's. A read that
      changed nothing adds no line. Fields that may hold personal data are hidden.
    </p>`;
  return { title: `${reference} (${sourceId})`, body, section: "orders", live: true };
}

/** Points that need attention, each with an action. */
function renderMarks({ timeline, around }: OrderStory): Html {
  const conflicts = timeline.filter(({ conflict }) => conflict).length;
  const lost = around.unannounced.filter(({ state }) => state === "lost").length;
  const quarantined = around.quarantineIds;
  return html`${
    around.exception !== null &&
    html`<p>
      ${renderAlert("Exception")}: “complete up to” excludes this order, because
      ${describeException(around.exception)}. A good read ends that.
    </p>`
  }
  ${
    conflicts > 0 &&
    html`<p>
      ${renderAlert(`${conflicts} in conflict`)}: the same updatedAt came with different content. Read it
      again to see which is right.
    </p>`
  }
  ${lost > 0 && html`<p><span class="warn">${countOf(lost, "event")} lost</span>: never arrived; reads repaired the order.</p>`}
  ${
    quarantined.length > 0 &&
    html`<p>
      ${renderAlert(`${quarantined.length} in quarantine`)}: look at
      ${quarantined.map((id) => html` <a href="/ops/quarantine/${id}">number ${id}</a>`)}
    </p>`
  }`;
}

function renderRefetch(story: OrderStory): Html {
  const { sourceId, reference, around, viewer } = story;
  const { waitingRead, sourceKnown } = around;
  const waiting = waitingRead !== null && html`<p role="status">${describeWaitingRead(waitingRead)}</p>`;
  const address = orderAddress({ sourceId, reference }, "/refetch");
  const isOffered = sourceKnown && mayAct(viewer);
  return html`${waiting}${isOffered && renderAction(address, "Read again from the provider")}`;
}

function renderTimeline({ timeline, around }: OrderStory): Html {
  let known: string | null = null;
  const lines = timeline.map((entry) => {
    const { verdict, raw } = entry;
    const before = known;
    if (raw !== null && CHANGING.has(verdict)) known = raw;
    return html`<li>${renderClocks(entry)}${renderDecision(entry, around)}${renderDiff(entry, before)}</li> `;
  });
  return html`<ol class="timeline">
    <li class="heading" aria-hidden="true">
      <div>Provider's clock</div>
      <div>Our clock</div>
      <div class="decision">Input, decision, and reason</div>
    </li>
    ${lines.toReversed()}
  </ol>`;
}

/** After these the mirror has the observed state. */
const CHANGING = new Set<TimelineEntry["verdict"]>(["applied", "corrected"]);

function renderClocks({ version, observedAt, receivedAt, seenAt, via }: TimelineEntry): Html {
  const observed = via === "webhook" ? "event" : "read";
  const received =
    receivedAt !== null && html`<p>${renderInstant(receivedAt)} <span class="dim">received</span></p>`;
  return html`<div class="clock">
      <span class="hidden-text">Provider's clock:</span>
      ${version !== null && html`<p>${renderInstant(version)} <span class="dim">changed</span></p>`}
      ${observedAt !== null && html`<p>${renderInstant(observedAt)} <span class="dim">${observed}</span></p>`}
    </div>
    <div class="clock">
      <span class="hidden-text">Our clock:</span>
      ${received}
      <p>${renderInstant(seenAt)} <span class="dim">decided</span></p>
      ${version !== null && html`<p class="dim">${renderLag(secondsSince(seenAt, version))}</p>`}
    </div>`;
}

function renderLag(seconds: number): string {
  return seconds < 0 ? "before it changed, by the clocks" : `${describeDelay(seconds)} after the change`;
}

/** The colour of a verdict that has one. */
const VERDICT_CLASS: Partial<Record<TimelineEntry["verdict"], string>> = {
  applied: "good",
  confirmed: "good",
  quarantined: "alert",
};

function renderDecision(entry: TimelineEntry, around: OrderSurroundings): Html {
  const { via, verdict, conflict, eventType, eventId, status } = entry;
  const found = verdict === "applied" && around.unannounced.find(({ version }) => version === entry.version);
  return html`<div class="decision">
    <p>
      <strong>${via}</strong> ${eventType ?? ""} ${eventId !== null && linkEvent(entry.sourceId, eventId)}
      ${status === null || status === "" ? "" : `· ${status}`} ·
      <span class="verdict ${VERDICT_CLASS[verdict] ?? ""}">${verdict.toUpperCase()}</span>
      ${conflict && html` <span class="alert"><span aria-hidden="true">✖</span> CONFLICT</span>`}
    </p>
    ${!isUsual(entry) && html`<p>${explainVerdict(entry)}</p>`}
    ${found && html`<p>${found.state === "lost" && html`<span class="warn">LOST</span> `}${ANNOUNCEMENTS[found.state]}</p>`}
  </div>`;
}

/** Whether a decision needs no words: a newer state, or the same one seen again. */
function isUsual({ verdict, reason, conflict }: TimelineEntry): boolean {
  return (verdict === "applied" || verdict === "confirmed") && reason === null && !conflict;
}

/**
 * The fields that differ from the state that the mirror had before. Without it, because this is the first state or the
 * ones before it are not shown, only their number.
 */
function renderDiff({ raw, verdict, previousStatus }: TimelineEntry, before: string | null): Html {
  const changes = raw === null ? [] : diffSnapshots(before, raw);
  if (changes.length === 0) return html``;
  const many = countOf(changes.length, "field");
  const isFirst = verdict === "applied" && previousStatus === null;
  const alone = isFirst ? "the first known state" : "the state before it is not shown";
  return html`<details class="decision">
    <summary>${before === null ? `${many}, ${alone}` : `${many} changed from the previous state`}</summary>
    <ul class="diff">
      ${changes.map(renderChange)}
    </ul>
  </details>`;
}

function renderChange({ path, before, after, hidden }: FieldChange): Html {
  if (hidden)
    return html`<li>
      <span class="mono">${path}</span> <span class="dim">changed, value not shown</span>
    </li> `;
  return html`<li>
    <span class="mono">${path}</span>: <del class="mono">${renderValue(before)}</del> →
    <ins class="mono">${renderValue(after)}</ins>
  </li> `;
}

/** Times as everywhere on the page, whatever offset the provider wrote them with. */
function renderValue(value: string | null): Html | string {
  const instant = tryParseInstant(value?.slice(1, -1));
  return instant === undefined ? (value ?? "∅") : renderInstant(instant);
}

/** Renders what the read API serves, and not what the last event claimed. */
function renderSnapshot({ raw }: Delivery): Html {
  return html`<details>
    <summary>The order object, redacted</summary>
    ${renderFields(redactDocument(raw, "order"))}
  </details>`;
}

/** Explains the decision on an observation in one sentence. */
function explainVerdict({ verdict, reason, conflict }: TimelineEntry): string {
  const because = reason === null || verdict === "confirmed" ? "" : `: ${reason}`;
  const clash = conflict ? " The same updatedAt was already known with different content." : "";
  return `${VERDICT_SENTENCES[verdict]}${because}.${clash}`;
}

/** Sentences of how a change that a read found first relates to events. */
const ANNOUNCEMENTS: Readonly<Record<UnannouncedChange["state"], string>> = {
  waiting: "No event has announced it yet; one may still arrive.",
  late: "Its event arrived after this read: late, not lost.",
  lost: "Its event never arrived: lost, and repaired by this read.",
  not_announced: "The provider does not announce changes to this status.",
};
