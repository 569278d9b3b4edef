import { describe, expect, it } from "vitest";
import { explainDatabaseError } from "../../../src/database/explainDatabaseError.ts";

const explain = (code: string) =>
  explainDatabaseError(Object.assign(new Error("tls"), { code }), "postgres://u:p@db.internal:5432/m");

describe("a certificate of Postgres that is not accepted", () => {
  it.each([
    ["CERT_HAS_EXPIRED", "has expired"],
    ["CERT_NOT_YET_VALID", "is not valid yet"],
  ])("because of its time (%s) is explained by its time, or by a wrong clock", (code, words) => {
    const explained = explain(code);
    expect(explained?.message).toBe(
      `Postgres at db.internal:5432 presents a certificate that ${words} by this machine's clock (${code}).`,
    );
    expect(explained?.fix).toBe("Renew the certificate; if its time is right, correct this machine's clock.");
  });

  it("because of its issuer is explained by its issuer", () => {
    expect(explain("SELF_SIGNED_CERT_IN_CHAIN")?.fix).toContain("NODE_EXTRA_CA_CERTS");
  });
});
