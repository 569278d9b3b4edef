import { ConfigurationError } from "../../domain/errors.ts";
import { VERSION } from "../../runtime/version.ts";
import { InvalidReferenceError } from "../errors.ts";
import type { ProviderRequest } from "./request.ts";

/** The arguments for `fetch`. */
export interface PreparedRequest {
  readonly url: URL;
  readonly init: RequestInit;
}

/** Visible ASCII: any other character makes `fetch` throw an error that quotes the whole header. */
const SENDABLE_KEY = /^[\x21-\x7e]+$/;

/**
 * Makes the function that prepares requests, always for the one address that the key belongs to; it throws
 * InvalidReferenceError if the reference cannot be part of a path. Throws ConfigurationError for an unusable base
 * address or key; the message shows neither.
 */
export function makePrepare(options: {
  baseUrl: string;
  /** Null: nothing authorizes the requests; for a mirror that trusts its own machine. */
  apiKey: string | null;
  headers?: Readonly<Record<string, string>> | undefined;
}): (request: ProviderRequest) => PreparedRequest {
  const { baseUrl, apiKey } = options;
  if (apiKey !== null && !SENDABLE_KEY.test(apiKey)) {
    throw new ConfigurationError("the API key is empty or holds characters that no key has", {
      fix: "look for spaces or a line break in the value of the key",
    });
  }
  const base = parseBaseUrl(baseUrl);
  const prefix = base.origin + base.pathname.replace(/\/+$/, "");
  return ({ method, route, reference, path, query, body, bytes }) => {
    const own = reference === undefined ? route : route.replace("{reference}", encodeReference(reference));
    const url = new URL(prefix + (path ?? own));
    // Dot segments, even encoded, would let a foreign path leave the API.
    if (!url.href.startsWith(`${prefix}/v1/`)) {
      throw new InvalidReferenceError("this path leads out of the provider's interface");
    }
    if (query !== undefined) url.search = query.toString();
    const headers = {
      ...options.headers,
      ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
      accept: "application/json",
      "user-agent": `order-mirror/${VERSION}`,
    };
    // The key must never follow a redirect to another address, so redirects are not followed.
    const init = { method, headers, redirect: "manual" } as const;
    const text = body === undefined ? undefined : JSON.stringify(body);
    const sent = (bytes as Uint8Array<ArrayBuffer> | undefined) ?? text;
    if (sent === undefined) return { url, init };
    const typed = { ...headers, "content-type": "application/json" };
    return { url, init: { ...init, headers: typed, body: sent } };
  };
}

function parseBaseUrl(baseUrl: string): URL {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : null;
  const isHttp = url !== null && (url.protocol === "http:" || url.protocol === "https:");
  if (!isHttp || url.username + url.password + url.search + url.hash !== "") {
    throw new ConfigurationError("the base address is not a plain http or https address", {
      fix: "write it like https://api.example.com; the provider's is in DELIVERY_BASE_URL",
    });
  }
  return url;
}

/** `.` and `..` survive encoding and would select another endpoint; half a surrogate pair cannot be encoded. */
function encodeReference(reference: string): string {
  if (reference === "" || reference === "." || reference === ".." || /\p{Surrogate}/u.test(reference)) {
    throw new InvalidReferenceError("this reference cannot be part of an address");
  }
  return encodeURIComponent(reference);
}
