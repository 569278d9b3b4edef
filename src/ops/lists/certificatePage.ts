import type { RequestHandler } from "express";
import { findCertificate } from "../../certificates/certificates.sql.ts";
import type { StoredCertificate } from "../../certificates/certificates.sql.ts";
import { readCertified } from "../../certificates/statement.ts";
import type { Pool } from "../../database/database.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { viewerOf } from "../auth/viewer.ts";
import { renderFacts } from "../../html/fieldList.ts";
import { renderPage } from "../html/page.ts";
import { readField, refuse } from "../html/requests.ts";
import { describeCount, linkOrder } from "../overview/phrases.ts";
import { renderAlert, renderGood } from "../../html/marks.ts";

export function certificateAddress({ sourceId, serial }: { sourceId: string; serial: number }): string {
  return `/ops/certificates/${encodeURIComponent(sourceId)}/${serial}`;
}

/** A certificate in words, for reading and printing; 404 if there is no such one. */
export function makeCertificatePage(pool: Pool): RequestHandler {
  return async ({ params }, response) => {
    const serial = /^\d{1,9}$/.test(readField(params["serial"])) ? Number(params["serial"]) : 0;
    const found = await findCertificate(pool, { sourceId: readField(params["sourceId"]), serial });
    if (found === undefined) {
      refuse(response, 404, "There is no such certificate.");
      return;
    }
    const { title, body } = renderCertificate(found);
    response.type("html").send(renderPage({ title, body, viewer: viewerOf(response) }));
  };
}

function renderCertificate(found: StoredCertificate): { title: string; body: Html } {
  const { sourceId, serial, orders, digest, envelope, disprovedAt, revokedBy } = found;
  const [since, until] = [formatInstant(found.since), formatInstant(found.until)];
  const title = `Certificate ${serial} of ${sourceId}`;
  const certified = readCertified(found);
  const { predicate } = certified ?? {};
  const state =
    disprovedAt === null
      ? renderGood("No change is known that it missed.")
      : renderAlert(
          `Disproved: a change that it had missed was found at ${formatInstant(BigInt(disprovedAt), 0)}.${revokedBy === null ? "" : ` Revoked by statement ${revokedBy}.`}`,
        );
  const body = html`<h1>${title}</h1>
    <p>
      From ${since} to ${until} (exclusive), the mirror had every order of ${sourceId} that the provider
      showed with an updatedAt in this period: ${describeCount(orders)} orders, each in its last such state,
      except for the exceptions below.
    </p>
    <p>${state}</p>
    ${predicate !== undefined && renderDetails(sourceId, predicate)}
    ${renderFacts({ "Hash of the states": mono(certified?.subject ?? "–"), "Hash of the statement": mono(digest) })}
    <h2>Signed text</h2>
    <p>Save it as a file and run <code>order-mirror certificate check</code>.</p>
    <pre>${envelope}</pre>`;
  return { title, body };
}

function renderDetails(
  sourceId: string,
  predicate: NonNullable<ReturnType<typeof readCertified>>["predicate"],
): Html {
  const { proof, exceptions, breaches } = predicate;
  return html`${renderFacts({
    Issued: predicate.issuedAt,
    Provider: proof.provider,
    "Proved up to": proof.safeThrough,
    "Margin after the period": `${proof.marginSeconds} s`,
    "Gone orders": describeCount(predicate.gone),
    "Only claimed by events": describeCount(predicate.claimed),
    "Previous statement": mono(predicate.previous ?? "none"),
  })}
  ${renderPart("Windows", {
    none: "The ledger no longer had them.",
    some: "What was read from the provider; windows with the same circumstances are joined.",
    lines: proof.windows.map(
      (run) =>
        html`${run.since} to ${run.until}: ${describeCount(run.windows)} windows of the ${run.sweep} sweep,
        fence ${run.fence}, settle time ${run.settleSeconds} s, overlap ${run.overlapSeconds} s, from
        ${run.provider} into ${run.database}`,
    ),
  })}
  ${renderPart("Exceptions", {
    none: "None.",
    some: "These orders could not be read when the certificate was issued.",
    lines: exceptions.map(
      ({ reference, kind }) =>
        html`${reference === null ? "unknown" : linkOrder({ sourceId, reference })}: ${kind}`,
    ),
  })}
  ${renderPart("Earlier breaches", {
    none: "None.",
    some: "Proofs of this period that were withdrawn; it was read again since.",
    lines: breaches.map(
      ({ reference, updatedAt, foundAt }) => html`${reference}, changed ${updatedAt}, found ${foundAt}`,
    ),
  })}`;
}

function renderPart(title: string, part: { none: string; some: string; lines: readonly Html[] }): Html {
  const { none, some, lines } = part;
  return html`<h2>${title}</h2>
    <p>${lines.length === 0 ? none : some}</p>
    <ul>
      ${lines.map((line) => html`<li>${line}</li>`)}
    </ul>`;
}

function mono(text: string): Html {
  return html`<span class="mono">${text}</span>`;
}
