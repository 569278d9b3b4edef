import type { SearchHit } from "./opsSearch.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { renderPage } from "../html/page.ts";
import type { Viewer } from "../auth/viewer.ts";
import { orderAddress } from "../overview/phrases.ts";

/** The page that a search goes to directly, if there is only one result. */
export function soleAddress(hits: readonly SearchHit[]): string | undefined {
  const addresses = new Set(hits.map(addressOf));
  const [only] = addresses;
  return addresses.size === 1 ? only : undefined;
}

export function renderSearch({
  query,
  hits,
  viewer,
}: {
  query: string;
  hits: readonly SearchHit[];
  viewer: Viewer;
}): string {
  const list =
    hits.length === 0
      ? html`<p>No results.</p>
          <p class="dim">
            Enter a complete name: an order's reference, its externalOrderId, or an event's id. The
            <a href="/ops">overview</a> shows up to when the mirror is complete.
          </p>`
      : html`<ul>
          ${hits.map(renderHit)}
        </ul>`;
  const body = html`<h1>Search: <span class="mono">${query}</span></h1>
    ${list}`;
  return renderPage({ title: "Search", body, viewer, query });
}

function renderHit(hit: SearchHit): Html {
  const address = addressOf(hit);
  const event = hit.eventId === null ? "" : `event ${hit.eventId}`;
  const name = hit.reference === null ? event : `order ${hit.reference}`;
  const about = [
    `source ${hit.sourceId}`,
    hit.status,
    hit.externalOrderId === null ? null : `external id ${hit.externalOrderId}`,
    hit.reference === null ? "names no readable order" : event,
    hit.quarantineId === null ? null : `in quarantine, number ${hit.quarantineId}`,
  ].filter((part) => part !== null && part !== "");
  return html`<li>
    ${address === undefined ? name : html`<a href="${address}">${name}</a>`} · ${about.join(" · ")}
  </li> `;
}

function addressOf({ sourceId, reference, quarantineId }: SearchHit): string | undefined {
  if (reference !== null) return orderAddress({ sourceId, reference });
  return quarantineId === null ? undefined : `/ops/quarantine/${quarantineId}`;
}
