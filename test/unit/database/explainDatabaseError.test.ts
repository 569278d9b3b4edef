import { expect, it } from "vitest";
import { explainDatabaseError } from "../../../src/database/explainDatabaseError.ts";

const URL = "postgres://u:p@db.internal:5432/m";
const explain = (code: string, url?: string) =>
  explainDatabaseError(Object.assign(new Error("tls"), { code }), url);

it.each([
  ["CERT_HAS_EXPIRED", "has expired"],
  ["CERT_NOT_YET_VALID", "is not valid yet"],
])(
  "a certificate that is not accepted for its time (%s) is explained by that, or by a wrong clock",
  (code, words) => {
    expect(explain(code, URL)).toMatchObject({
      message: `Postgres at db.internal:5432 presents a certificate that ${words} by this machine's clock (${code}).`,
      fix: "Renew the certificate; if its time is right, correct this machine's clock.",
    });
  },
);

it("a certificate that is not accepted for its issuer is explained by that", () => {
  expect(explain("SELF_SIGNED_CERT_IN_CHAIN", URL)?.fix).toContain("NODE_EXTRA_CA_CERTS");
});

it("Postgres' refusal for a full disk is explained, also where its address is not known", () => {
  expect(explain("53100")).toMatchObject({
    message: "The disk of Postgres is full.",
    fix: "Free space there. The mirror then continues by itself.",
    retry: "later",
  });
});
