import type { KeyObject } from "node:crypto";
import type { AlgorithmName } from "../algorithms.ts";
import { parseScheme, SECRET_FORMATS } from "../scheme.ts";
import type { SecretFormat } from "../scheme.ts";
import { readSecrets } from "../secrets.ts";
import { attempt } from "./prove.ts";

interface TrialKey {
  readonly algorithm: AlgorithmName;
  readonly format: SecretFormat;
  readonly key: KeyObject;
}

/** Every key that the secret can encode for one of the algorithms; a key that two formats share occurs once. */
export function listKeys(secret: string, algorithms: readonly AlgorithmName[]): TrialKey[] {
  const formats = secret.startsWith("whsec_") ? (["whsec", ...SECRET_FORMATS] as const) : SECRET_FORMATS;
  const keys: TrialKey[] = [];
  for (const algorithm of algorithms) {
    for (const format of new Set(formats)) {
      // A format that cannot hold keys of an algorithm is skipped for it.
      const scheme = attempt(() => parseScheme({ header: "x-any", algorithm, secretFormat: format }));
      const key = scheme && readSecrets([secret], scheme).keys[0];
      if (key && !keys.some((other) => other.algorithm === algorithm && other.key.equals(key)))
        keys.push({ algorithm, format, key });
    }
  }
  // Text that is a whole public key is not a shared secret.
  return keys.some(({ format }) => format === "spki") ? keys.filter(({ format }) => format === "spki") : keys;
}
